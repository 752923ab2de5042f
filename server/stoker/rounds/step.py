"""Step: one round for all rows, `propose → verify → accept → keep`. A plain row is one without proposals.

A `Round` is built lazily, started, read once (the one host synchronisation), and settled: each row
keeps as many columns as it emitted tokens. A round in which nobody proposes can be settled before
it is read, since each row keeps exactly its anchor; that is what lets the next one be built early.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from stoker.acceptance.rules import match, modified_rejection
from stoker.acceptance.select import Rule
from stoker.acceptance.verdict import Verdict
from stoker.core.counters import RoundCount
from stoker.core.work import TokenProbs
from stoker.models.masks import masked
from stoker.models.rejection import Terms, terms
from stoker.models.sampling import Choice, Sampler
from stoker.models.target import Target
from stoker.rounds.base import NOTHING, Features, Proposal
from stoker.rounds.diagnostic import Diagnostic, Watched
from stoker.rounds.guard import Fault, guard
from stoker.rounds.report import Reported, ask, ask_rejection
from stoker.rounds.row import Row


@dataclass(frozen=True, slots=True)
class Turn:
    """A row's part in a round. `anchor` None: it is the token that the round before has not read yet."""

    row: Row
    position: int
    """Absolute index of the anchor."""
    anchor: int | None
    proposal: Proposal = NOTHING


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a round emitted for one row."""

    verdict: Verdict
    proposed: int = 0
    probs: tuple[TokenProbs, ...] = ()
    watched: Watched | None = None
    """What the diagnostic looks at, if there is one."""

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.verdict.emitted

    @property
    def count(self) -> RoundCount | None:
        """The verify round for the counters; None for a plain row."""
        return RoundCount(self.proposed, self.verdict.tested, self.verdict.accepted) if self.proposed else None


class Round:
    """One forward [B, w] of anchors and proposals, and the draws of all its columns."""

    def __init__(
        self,
        target: Target,
        sampler: Sampler,
        turns: Sequence[Turn],
        *,
        behind: "Round | None" = None,
        capture: Sequence[int] = (),
        diagnostic: Diagnostic | None = None,
    ) -> None:
        """Builds the forward. `behind`: the plain round whose unread tokens are the anchors of turns without one."""
        self._turns = tuple(turns)
        self.faults: dict[int, Fault] = {}
        """Rows whose grammar can go no further; what the round says of them means nothing."""
        self.ids = tuple(turn.row.id for turn in turns)
        self.width = 1 + max(len(turn.proposal) for turn in turns)
        self._columns = _columns(turns, self.width, behind)
        with ExitStack() as undo:
            slots = [turn.row.slot for turn in turns]
            self._seen = undo.enter_context(target.verify(slots, self._columns, capture, revocable=behind is not None))
            self._logits = self._masked()
            drafts = [_host(turn) for turn in turns]
            starts = [turn.position + 1 for turn in turns]
            self._choice: Choice = sampler.choose(
                self._logits, [turn.row.draws for turn in turns], starts, drafts if self.width > 1 else None
            )
            self._terms = {
                turn.row.id: self._rejection(sampler, n, turn)
                for n, turn in enumerate(turns)
                if turn.row.drafting.rule is Rule.STOCHASTIC and len(turn.proposal)
            }
            self._reports = {
                turn.row.id: self._report(sampler, n, turn) for n, turn in enumerate(turns) if turn.row.probs
            }
            self._watched = {} if diagnostic is None else self._watch(diagnostic, sampler)
            undo.pop_all()  # from here on `settle` decides; until here a fault keeps nothing

    @property
    def plain(self) -> bool:
        """True when nobody proposes."""
        return self.width == 1

    @property
    def tokens(self) -> mx.array:
        """int32 [B, w]: the target's choices, not necessarily computed yet."""
        return self._choice.tokens

    def has(self, id: int) -> bool:
        return id in self.ids

    def start(self) -> None:
        """Queues the computation without waiting for it."""
        self._seen.commit_to()
        mx.async_eval(*self._arrays)

    def wait(self) -> None:
        """Lets the computation end, without reading it."""
        self._seen.commit_to()
        mx.eval(*self._arrays)

    def revoke(self) -> None:
        """As if it had never been built. Only before `start`."""
        self._seen.revoke()

    def settle(self, kept: Mapping[int, int]) -> None:
        """Commits so many columns of each row by its id; rows that are not named keep nothing."""
        self._seen.keep([kept.get(id, 0) for id in self.ids])

    def read(self, ends: Collection[int]) -> dict[int, Emitted]:
        """Waits for the round and judges it, by row id: one host synchronisation."""
        self.wait()
        choices = cast("list[list[int]]", self._choice.tokens.tolist())
        columns = cast("list[list[int]]", self._columns.tolist()) if self.width > 1 else [[0]] * len(self.ids)
        emitted = {
            turn.row.id: self._judge(turn, columns[n][1 : 1 + len(turn.proposal)], choices[n], ends)
            for n, turn in enumerate(self._turns)
        }
        self._choice.settle([emitted[id].tokens for id in self.ids])
        return emitted

    def features(self, id: int, count: int) -> Features:
        """The captured residual streams of a row's first `count` columns."""
        n = self.ids.index(id)
        return {layer: stream[n, :count] for layer, stream in self._seen.features.items()}

    @property
    def _arrays(self) -> tuple[mx.array, ...]:
        terms = (array for term in self._terms.values() for array in term)
        reports = (array for report in self._reports.values() for array in report.arrays)
        drafted = () if self.plain else (self._columns,)
        watched = (array for watched in self._watched.values() for array in watched.arrays)
        return (self._choice.tokens, *self._choice.arrays, *drafted, *terms, *reports, *watched)

    def _masked(self) -> mx.array:
        """The logits as the rows' grammars leave them. The device computes the forward while the masks are made."""
        bound = [(n, turn, turn.row.draws.constraint) for n, turn in enumerate(self._turns)]
        if all(constraint is None for _, _, constraint in bound):
            return self._seen.logits
        self._seen.commit_to()
        mx.async_eval(self._seen.logits)
        masks: dict[int, NDArray[np.uint32]] = {}
        for n, turn, constraint in bound:
            if constraint is not None:
                made = guard(lambda constraint=constraint, turn=turn: constraint.masks(_host(turn)))
                if isinstance(made, Fault):
                    self.faults[turn.row.id] = made
                else:
                    masks[n] = made
        return masked(self._seen.logits, masks)

    def _rejection(self, sampler: Sampler, n: int, turn: Turn) -> Terms:
        count = len(turn.proposal)
        draft = self._columns[n, 1 : 1 + count]
        p = sampler.distribution(self._logits[n, : count + 1], turn.row.draws, turn.position + 1, _host(turn))
        return terms(p, turn.proposal.q, draft, turn.row.seed, turn.position + 1)

    def _report(self, sampler: Sampler, n: int, turn: Turn) -> Reported:
        count, start = len(turn.proposal), turn.position + 1
        logits = (self._logits if turn.row.post_sampling else self._seen.logits)[n, : count + 1]
        judged = self._terms.get(turn.row.id)
        if judged is None:
            return ask(sampler, turn.row, logits, self._choice.tokens[n, : count + 1], start, _host(turn))
        return ask_rejection(sampler, turn.row, logits, judged.choices, self._columns[n, 1 : count + 1], start)

    def _watch(self, diagnostic: Diagnostic, sampler: Sampler) -> dict[int, Watched]:
        watched: dict[int, Watched] = {}
        for n, turn in enumerate(self._turns):
            count = len(turn.proposal)
            logits, draft = self._seen.logits[n, :count], self._columns[n, 1 : 1 + count]
            found = diagnostic.watch(sampler, turn.row, logits, turn.proposal, draft)
            if found is not None:
                watched[turn.row.id] = found
        return watched

    def _judge(self, turn: Turn, draft: Sequence[int], choices: Sequence[int], ends: Collection[int]) -> Emitted:
        id = turn.row.id
        if id in self._terms:
            p, q, u, drawn = (cast("list[float]", array.tolist()) for array in self._terms[id])
            verdict = modified_rejection(draft, p, q, u, [int(token) for token in drawn])
        else:
            verdict = match(draft, choices[: len(draft) + 1])
        verdict = verdict.until(ends)
        reported = self._reports.get(id)
        probs = () if reported is None else reported.read(verdict.accepted, len(verdict.emitted))
        return Emitted(verdict, len(draft), probs, self._watched.get(id))


def _host(turn: Turn) -> Sequence[int]:
    """The proposals as host ids, as far as they are ones: only histories of penalties need them."""
    tokens = turn.proposal.tokens
    return () if isinstance(tokens, mx.array) else tokens


def _columns(turns: Sequence[Turn], width: int, behind: Round | None) -> mx.array:
    """Anchors and proposals, int32 [B, w], padded at the right."""
    if behind is not None and all(turn.anchor is None for turn in turns):
        ids = tuple(turn.row.id for turn in turns)
        return behind.tokens if ids == behind.ids else behind.tokens[mx.array([behind.ids.index(id) for id in ids])]
    if not any(isinstance(turn.proposal.tokens, mx.array) for turn in turns):
        rows = [[turn.anchor, *cast("Sequence[int]", turn.proposal.tokens)] for turn in turns]
        return mx.array([[*row, *[0] * (width - len(row))] for row in rows], mx.int32)
    return mx.stack([_padded(turn, width) for turn in turns])


def _padded(turn: Turn, width: int) -> mx.array:
    """One row's columns, int32 [w]."""
    tokens = turn.proposal.tokens
    drafted = tokens if isinstance(tokens, mx.array) else mx.array(list(tokens), mx.int32)
    parts = [mx.array([turn.anchor], mx.int32), drafted.astype(mx.int32)]
    pad = width - 1 - len(turn.proposal)
    return mx.concatenate([*parts, mx.zeros((pad,), mx.int32)] if pad else parts)
