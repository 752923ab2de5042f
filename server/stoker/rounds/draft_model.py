"""Draft model: a smaller model with the same vocabulary, in slot caches of its own.

One call drafts for all its rows: a first, ragged forward runs what each row owes (its anchor, a last
proposal that was accepted without ever having been run, tokens of plain rounds), then one column a
proposal. Everything is built lazily; the engine's one read brings the proposals in.

Invariant, in every acceptance regime: cached columns + owed tokens = the sequence's tokens. The
columns of proposals are committed while drafting and cut again when the verdict is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import mlx.core as mx

from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.core.errors import StartError
from stoker.core.request import Sampling
from stoker.models.noise import Purpose
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.models.target import Target, Verification
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.budget import Acceptance

LONGEST_DEBT = 64
"""Owed tokens that a drafting forward may run; more are run down before it."""
CHUNK = 512
"""Columns of one forward that runs down a debt or reads a prompt."""


@dataclass(slots=True)
class ModelSession:
    """One request: all its tokens, and how many of them the draft model's slot holds."""

    model: Target
    slot: int
    tokens: list[int]
    draws: Draws
    most: int
    held: int
    """Columns of the slot that hold the sequence's tokens, from the first on."""
    acceptance: Acceptance
    chained: int = 0
    """Columns behind them that hold proposals."""

    @property
    def wants_round(self) -> bool:
        return self.most > 0

    @property
    def off(self) -> DraftOff | None:
        return None

    def reach(self, limit: int) -> Sequence[float]:
        return self.acceptance.reach(min(limit, self.most))

    @property
    def owed(self) -> list[int]:
        """Known tokens that were never run through the draft model; the last of them is the anchor."""
        return self.tokens[self.held :]

    def read(self, stop: int, features: Features) -> None:
        """Runs along with the prompt, so that the first round owes one token only."""
        while self.held < stop:
            self._run(self.tokens[self.held : min(stop, self.held + CHUNK)])

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        self.tokens += verdict.emitted
        if proposed:
            self.acceptance.observe(verdict.tested, verdict.accepted)
        right = min(verdict.accepted, self.chained)
        if right < self.chained:
            self.model.truncate(self.slot, self.held + right)
        self.held, self.chained = self.held + right, 0

    def close(self, keep: int) -> None:
        self.model.truncate(self.slot, min(keep, self.held))

    def run_down(self) -> None:
        """Brings a long debt down to the anchor."""
        if len(self.owed) > LONGEST_DEBT:
            self.read(len(self.tokens) - 1, {})

    def _run(self, tokens: Sequence[int]) -> None:
        with self.model.verify([self.slot], mx.array([tokens], mx.int32)) as seen:
            seen.keep([len(tokens)])
            mx.eval(seen.state)
        self.held += len(tokens)


class DraftModel:
    """The drafter. Its slots have the numbers of the target's."""

    def __init__(self, model: Target, target: Target, *, most: int = 3, least_p: float = 0.0) -> None:
        """`most` proposals a round; a chain ends before a token that the draft model gives less than `least_p`.

        Raises StartError where the two models cannot work together, naming both sides.
        """
        if model.vocab != target.vocab:
            raise StartError(
                f"the draft model has {model.vocab} tokens and the target {target.vocab}: "
                "a draft model must share the target's vocabulary"
            )
        if model.recurrent:
            raise StartError("the draft model keeps a recurrent state, which cannot be cut: choose an attention model")
        self._model, self._most, self._least_p = model, most, least_p
        self._sampler = Sampler(model.vocab, [])
        self._acceptance = Acceptance()
        """Shared by all requests: how a pair of models agrees is the budget's memory."""

    @property
    def kind(self) -> Kind:
        return Kind.DRAFT_MODEL

    @property
    def needs(self) -> Needs:
        return Needs(forwards=True)

    @property
    def width(self) -> int:
        return self._most

    @property
    def has_q(self) -> bool:
        return True

    def open(self, opening: Opening) -> ModelSession:
        have = self._model.lengths[opening.slot]
        held = 0 if opening.foreign else min(have, opening.cached)
        if held < have:
            self._model.truncate(opening.slot, held)
        draws = self._sampler.open(drafting(opening.sampling), opening.prompt)
        tokens = list(opening.prompt)
        return ModelSession(self._model, opening.slot, tokens, draws, opening.most, held, self._acceptance)

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        sessions = [_mine(ask) for ask in asks]
        for session in sessions:
            session.run_down()
        chain = _Chain(self._model, self._sampler, asks, sessions)
        for _ in range(max(chain.counts)):
            chain.step()
        return chain.proposals(self._least_p)


class _Chain:
    """The draft of some rows, a column at a time."""

    def __init__(self, model: Target, sampler: Sampler, asks: Sequence[Ask], sessions: Sequence[ModelSession]) -> None:
        self._model, self._sampler, self._asks, self._sessions = model, sampler, asks, sessions
        self.counts = [min(ask.limit, session.most) for ask, session in zip(asks, sessions, strict=True)]
        self._purpose = Purpose.DRAW if all(ask.drawing.coupled for ask in asks) else Purpose.PROPOSAL
        self._tokens: list[mx.array] = []
        self._logits: list[mx.array] = []

    def step(self) -> None:
        """One more proposal for every row."""
        depth = len(self._tokens)
        if depth:
            logits = self._run(self._tokens[-1], [1] * len(self._asks))
            for session in self._sessions:
                session.chained += 1
        else:
            logits = self._first()
        draws = [session.draws for session in self._sessions]
        starts = [ask.position + 1 + depth for ask in self._asks]
        self._tokens.append(self._sampler.choose(logits, draws, starts, purpose=self._purpose).tokens)
        self._logits.append(logits[:, 0])

    def proposals(self, least_p: float) -> list[Proposal]:
        """Each row's part of the chain."""
        drafted = mx.concatenate(self._tokens, axis=1)
        counts = self._confident(drafted, least_p) if least_p > 0 else self.counts
        return [
            Proposal(drafted[n, :count], self._distribution(n, count) if ask.drawing.with_q and count else None)
            for n, (ask, count) in enumerate(zip(self._asks, counts, strict=True))
        ]

    def _distribution(self, n: int, count: int) -> mx.array:
        """What row n's proposals were drawn from, [count, V]."""
        logits = mx.stack([step[n] for step in self._logits[:count]])
        return self._sampler.distribution(logits, self._sessions[n].draws, self._asks[n].position + 1)

    def _confident(self, drafted: mx.array, least_p: float) -> list[int]:
        """Proposals of each row before the first unlikely one. Must be read: the one extra synchronisation."""
        p = mx.softmax(mx.stack(self._logits, axis=1).astype(mx.float32), axis=-1)
        sure = mx.take_along_axis(p, drafted[..., None], axis=-1)[..., 0] >= least_p
        leading = mx.cumprod(sure.astype(mx.int32), axis=1).sum(axis=1)
        likely = cast("list[int]", leading.tolist())
        return [min(count, n) for count, n in zip(self.counts, likely, strict=True)]

    def _first(self) -> mx.array:
        """Runs what the rows owe, ragged; the logits behind each row's anchor, [B, 1, V]."""
        owed = [session.owed for session in self._sessions]
        width = max(map(len, owed))
        logits = self._run(
            mx.array([[*row, *[0] * (width - len(row))] for row in owed], mx.int32), list(map(len, owed))
        )
        for session, row in zip(self._sessions, owed, strict=True):
            session.held += len(row)
        last = mx.array([len(row) - 1 for row in owed])
        return mx.take_along_axis(logits, last[:, None, None], axis=1)

    def _run(self, ids: mx.array, counts: Sequence[int]) -> mx.array:
        seen: Verification = self._model.verify([session.slot for session in self._sessions], ids)
        seen.keep(counts)
        return seen.logits


def drafting(sampling: Sampling) -> Sampling:
    """What a drafter applies of a request's settings: temperature and the static filters, no penalties, no state.

    A proposal that the target's filters rule out would always be rejected; penalties would need a
    history that is not read yet, and leaving them out costs acceptance only.
    """
    neutral = replace(sampling, repeat_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, dry_multiplier=0.0)
    return replace(neutral, mirostat=0, adaptive_target=-1.0, xtc_probability=0.0)


def _mine(ask: Ask) -> ModelSession:
    return cast("ModelSession", ask.session)
