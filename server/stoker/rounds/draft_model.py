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
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.core.prefix import common_prefix
from stoker.core.request import Sampling
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.models.target import Target, Verification
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.chain import Chain
from stoker.rounds.evidence import Acceptance
from stoker.rounds.session import NetworkSession

LONGEST_DEBT = 64
"""Owed tokens that a drafting forward may run; more are run down before it."""
CHUNK = 512
"""Columns of one forward that runs down a debt or reads a prompt."""


@dataclass(slots=True)
class ModelSession(NetworkSession):
    """One request: all its tokens, and how many of them the draft model's slot holds."""

    model: Target
    slot: int
    tokens: list[int]
    draws: Draws
    most: int
    held: int
    """Columns of the slot that hold the sequence's tokens, from the first on."""
    acceptance: Acceptance
    left: dict[int, tuple[int, ...]]
    """What each slot of the draft model holds between requests."""
    chained: int = 0
    """Columns behind them that hold proposals."""

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
        self.learn(verdict, proposed)
        right = min(verdict.accepted, self.chained)
        if right < self.chained:
            self.model.truncate(self.slot, self.held + right)
        self.held, self.chained = self.held + right, 0

    def close(self, keep: int) -> None:
        keep = min(keep, self.held)
        self.model.truncate(self.slot, keep)
        self.left[self.slot] = tuple(self.tokens[:keep])

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
        self._left: dict[int, tuple[int, ...]] = {}
        self.acceptance = Acceptance.of_all()
        """Shared by all requests: how the pair agrees in general is where each request begins."""

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
        # The target's slot may have served undrafted requests meanwhile: only what agrees is reused.
        left = self._left.pop(opening.slot, ())
        held = min(common_prefix(left, opening.prompt), len(opening.prompt) - 1)
        self._model.truncate(opening.slot, held)
        draws = self._sampler.open(drafting(opening.sampling), opening.prompt)
        tokens = list(opening.prompt)
        own = Acceptance(general=self.acceptance)
        return ModelSession(self._model, opening.slot, tokens, draws, opening.most, held, own, self._left)

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        sessions = [_mine(ask) for ask in asks]
        for session in sessions:
            session.run_down()
        counts = [min(ask.limit, session.most) for ask, session in zip(asks, sessions, strict=True)]
        chain = Chain(self._sampler, asks, [session.draws for session in sessions], counts)
        chain.draw(self._first(sessions))
        for _ in range(max(counts) - 1):
            chain.draw(self._run(sessions, chain.last, [1] * len(sessions)))
            for session in sessions:
                session.chained += 1
        return chain.proposals(self._least_p)

    def _first(self, sessions: Sequence[ModelSession]) -> mx.array:
        """Runs what the rows owe, ragged; the logits behind each row's anchor, [B, 1, V]."""
        owed = [session.owed for session in sessions]
        counts = list(map(len, owed))
        width = max(counts)
        ids = mx.array([[*row, *[0] * (width - len(row))] for row in owed], mx.int32)
        logits = self._run(sessions, ids, counts)
        for session, row in zip(sessions, owed, strict=True):
            session.held += len(row)
        return mx.take_along_axis(logits, mx.array(counts)[:, None, None] - 1, axis=1)

    def _run(self, sessions: Sequence[ModelSession], ids: mx.array, counts: Sequence[int]) -> mx.array:
        seen: Verification = self._model.verify([session.slot for session in sessions], ids)
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
