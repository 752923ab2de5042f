"""Diagnostic: holds what was accepted against the closed forms of p and q, at every tested position.

Given to the engine's speculator or not at all: absent, it costs nothing. Present, a round with
proposals also computes p and q over the whole vocabulary, and each tested position a sort on the
host. What is emitted does not change. Device thread only.
"""

import logging
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from stoker.acceptance.closed_forms import Averages
from stoker.acceptance.proposals import proposals
from stoker.acceptance.select import Rule
from stoker.acceptance.summary import Run, diagnostic
from stoker.acceptance.verdict import Verdict
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.rounds.agreement import closed_forms
from stoker.rounds.base import Proposal
from stoker.rounds.row import Row

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """One row's proposals: what they were up against and drawn from, float32 [n, V] each, not evaluated."""

    p: mx.array
    q: mx.array

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        return self.p, self.q


class Diagnostic:
    """`total` covers all rows since the start; each row's own figures are logged when it leaves."""

    def __init__(self, *, coupled: bool = True) -> None:
        """`coupled`: the setting of the proposals' noise."""
        self.total = Averages()
        self._coupled = coupled
        self._rows: dict[int, Averages] = {}
        self._fair: dict[int, Draws] = {}
        """Of rows under the argmax rule: draws from the request's p, with which nothing is drawn."""

    def watch(
        self, sampler: Sampler, row: Row, logits: mx.array, proposal: Proposal, draft: mx.array
    ) -> Watched | None:
        """p and q of a row's proposals `draft` int32 [n], of which `logits` [n, V] are the target's columns.

        None where nothing was proposed, or nobody knows what it was drawn from.
        """
        draws = self._draws(sampler, row)
        if not len(proposal) or (proposal.q is None and not proposal.one_hot):
            return None
        host = () if isinstance(proposal.tokens, mx.array) else proposal.tokens
        p = sampler.distribution(logits, draws, row.position + 1, host)
        certain = (mx.arange(logits.shape[-1])[None] == draft[:, None]).astype(mx.float32)
        return Watched(p, certain if proposal.q is None else proposal.q)

    def observe(self, row: Row, watched: Watched | None, verdict: Verdict) -> None:
        """A round of the row ended; `watched` has been evaluated."""
        if row.id in self._fair:
            self._fair[row.id].remember(verdict.emitted)
        if watched is None:
            return
        averages = self._rows.setdefault(row.id, Averages())
        p, q = (np.array(array[: verdict.tested]) for array in watched.arrays)
        for n in range(verdict.tested):
            forms, accepted = closed_forms(p[n], q[n]), n < verdict.accepted
            averages.add(forms, accepted=accepted)
            self.total.add(forms, accepted=accepted)

    def close(self, row: Row) -> None:
        """The row leaves."""
        self._fair.pop(row.id, None)
        averages = self._rows.pop(row.id, None)
        if averages is not None:
            run = Run(row.drafting.rule, proposals(row.drafting.kind, row.drafting.rule, coupled=self._coupled))
            log.info("request %d: %s", row.id, diagnostic(run, averages))

    def _draws(self, sampler: Sampler, row: Row) -> Draws:
        """With which to ask for the request's p. The argmax rule's own choices know its argmax only."""
        if row.drafting.rule is not Rule.ARGMAX:
            return row.draws
        if row.id not in self._fair:
            self._fair[row.id] = sampler.open(row.sampling, row.prompt)
        return self._fair[row.id]
