"""What all block drafters share: sessions, their context beside the target's slots, one forward for all rows.

A block drafter reads the target's residual streams. Its session hands them on to the context
(`models/nets/context.py`) with the next draft, plain ticks' columns included, or before, when many
have come together. So the context is always the target's columns, less what is pending, and nothing
is ever taken back.

Columns that the target's slot holds and nobody read along (a slot file, an earlier request that did
not draft) stay a hole: the drafter sees less, proposes worse and costs nothing; what is read again
fills it. What slots copy or keep of each other, the drafter copies and keeps too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import mlx.core as mx

from stoker.acceptance.verdict import Verdict
from stoker.core.counters import Kind
from stoker.core.prefix import common_prefix
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.context import Context
from stoker.models.nets.place import Hole
from stoker.models.noise import Purpose
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.models.snapshot import Snapshot
from stoker.models.target import Target
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.chain import sure_of
from stoker.rounds.draft_model import drafting
from stoker.rounds.evidence import Acceptance
from stoker.rounds.session import NetworkSession

DEBT = 32
"""Pending columns that are run into the context though nobody drafts."""


@dataclass(slots=True)
class BlockSession(NetworkSession):
    """One request: all its tokens, and the columns whose features still wait to be run into the context."""

    context: Context
    slot: int
    tokens: list[int]
    draws: Draws
    most: int
    acceptance: Acceptance
    pending: list[mx.array] = field(default_factory=list[mx.array])
    """Residual streams of the columns behind the context, [n, T · H] each."""

    @property
    def waiting(self) -> int:
        """Pending columns."""
        return sum(piece.shape[0] for piece in self.pending)

    def read(self, stop: int, features: Features) -> None:
        """Runs along with the prompt. What is read again takes the place of what was there."""
        piece = self._joined(features)
        start = stop - piece.shape[0]
        self._flush()
        if start < self.context.length(self.slot):
            self.context.cut(self.slot, start)
        self.context.skip(self.slot, start)
        self.pending.append(piece)
        mx.eval(self._flush())

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        self.tokens += verdict.emitted
        self.learn(verdict, proposed)
        self.pending.append(self._joined(features))
        if self.waiting >= DEBT:
            mx.async_eval(self._flush())

    def close(self, keep: int) -> None:
        if keep:
            mx.async_eval(self._flush())
        self.pending.clear()
        self.context.cut(self.slot, min(keep, self.context.length(self.slot)))
        del self.tokens[self.context.length(self.slot) :]

    def _flush(self) -> list[mx.array]:
        """Runs what is pending into the context; returns what to evaluate."""
        if not self.pending:
            return []
        made = self.context.extend(self.slot, self.pending)
        self.pending.clear()
        return made

    def _joined(self, features: Features) -> mx.array:
        """The captured streams side by side in the order of the taps, [n, T · H]."""
        return mx.concatenate([features[tap] for tap in self.context.net.config.taps], axis=-1)


@dataclass(frozen=True, slots=True)
class Turns:
    """The rows of one draft, in the order of their asks."""

    asks: Sequence[Ask]
    sessions: Sequence[BlockSession]
    counts: Sequence[int]
    """Proposals that each may make."""
    purpose: Purpose

    @property
    def most(self) -> int:
        return max(self.counts)

    @property
    def draws(self) -> list[Draws]:
        return [session.draws for session in self.sessions]

    def starts(self, depth: int = 0) -> list[int]:
        """Absolute positions of the proposals of that depth."""
        return [ask.position + 1 + depth for ask in self.asks]


@dataclass(frozen=True, slots=True)
class Drafted:
    """Proposals of all rows, lazy."""

    tokens: mx.array
    """int32 [B, n]."""
    logits: mx.array
    """What each was drawn from, before filters and temperature, [B, n, V]."""
    sure: mx.array | None
    """How likely each slot is right, [B, n], not looking at its own token; None: not asked for."""


@dataclass(frozen=True, slots=True)
class _Kept:
    snapshot: Snapshot
    hole: Hole
    tokens: tuple[int, ...]


class BlockDrafter:
    """The base of a kind: it says its `kind` and how proposals are drawn from hidden states (`draw`)."""

    kind: Kind

    def __init__(self, net: BlockNet, target: Target, *, most: int | None = None, least_p: float = 0.0) -> None:
        """`most` proposals a round, at most the checkpoint's own; a row's block ends before a slot that is less
        sure than `least_p` (0: it never does; else it costs one more synchronisation)."""
        own = net.layout.most
        self._net, self._most, self._least_p = net, own if most is None else min(most, own), least_p
        self._sampler = Sampler(target.vocab, [])
        self._context = Context(net, target.slots, target.context)
        self.acceptance = Acceptance.of_all()
        """Shared by all requests: how the pair agrees in general is where each request begins."""
        self._tokens: dict[int, list[int]] = {}
        """By slot, the tokens of its columns, and possibly more."""
        self._kept: dict[int, _Kept] = {}

    @property
    def needs(self) -> Needs:
        return Needs(self._net.config.taps, forwards=True)

    @property
    def width(self) -> int:
        return self._most

    @property
    def has_q(self) -> bool:
        return True

    @property
    def bytes_per_column(self) -> int:
        return self._context.bytes_per_column

    @property
    def context(self) -> Context:
        return self._context

    def open(self, opening: Opening) -> BlockSession:
        self._bring(opening)
        slot, held = opening.slot, self._held(opening.slot)
        common = min(common_prefix(held, opening.prompt), opening.cached)
        self._context.cut(slot, common)
        self._context.skip(slot, opening.cached)
        tokens = self._tokens[slot] = list(opening.prompt)
        draws = self._sampler.open(drafting(opening.sampling), opening.prompt)
        most = min(opening.most, self._most)
        return BlockSession(self._context, slot, tokens, draws, most, Acceptance(general=self.acceptance))

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        sessions = [_mine(ask) for ask in asks]
        for ask, session in zip(asks, sessions, strict=True):
            have = self._context.length(session.slot) + session.waiting
            if have != ask.position:
                raise ValueError(f"slot {session.slot} has {have} columns before position {ask.position}")
        counts = [min(ask.limit, session.most) for ask, session in zip(asks, sessions, strict=True)]
        coupled = all(ask.drawing.coupled for ask in asks)
        turns = Turns(asks, sessions, counts, Purpose.DRAW if coupled else Purpose.PROPOSAL)
        slots, pieces = [session.slot for session in sessions], [session.pending for session in sessions]
        hidden = self._context.draft(slots, pieces, [ask.anchor for ask in asks])
        for session in sessions:
            session.pending.clear()
        return self._proposals(self.draw(hidden[:, : turns.most], turns), turns)

    def draw(self, hidden: mx.array, turns: Turns) -> Drafted:
        """Proposals from hidden states [B, n, H]."""
        raise NotImplementedError

    # beside the target's slots

    def keep(self, slot: int, key: int) -> None:
        snapshot, hole = self._context.snapshot(slot)
        self._kept[key] = _Kept(snapshot, hole, tuple(self._held(slot)))

    def drop(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._kept.pop(key, None)

    def _bring(self, opening: Opening) -> None:
        """Does what the target did to bring the row's columns into its slot."""
        slot, kept = opening.slot, self._kept.get(opening.kept)
        if opening.source >= 0:
            self._tokens[slot] = list(self._held(opening.source))
            self._context.copy(opening.source, slot)
        elif kept is not None:
            self._tokens[slot] = list(kept.tokens)
            self._context.put(slot, kept.snapshot, kept.hole)

    def _held(self, slot: int) -> list[int]:
        """The tokens of a slot's columns."""
        return self._tokens.get(slot, [])[: self._context.length(slot)]

    def _proposals(self, drafted: Drafted, turns: Turns) -> list[Proposal]:
        counts = self._confident(drafted.sure, turns.counts) if self._least_p else turns.counts
        return [
            Proposal(drafted.tokens[n, :count], self._distribution(drafted, turns, n, count))
            for n, count in enumerate(counts)
        ]

    def _distribution(self, drafted: Drafted, turns: Turns, n: int, count: int) -> mx.array | None:
        """What row n's proposals were drawn from, [count, V], if somebody wants to know."""
        if not count or not turns.asks[n].drawing.with_q:
            return None
        return self._sampler.distribution(drafted.logits[n, :count], turns.draws[n], turns.starts()[n])

    def _confident(self, sure: mx.array | None, counts: Sequence[int]) -> list[int]:
        """Proposals of each row before the first doubtful slot. Must be read: the one extra synchronisation."""
        if sure is None:
            return list(counts)
        return sure_of(sure, self._least_p, counts)


def _mine(ask: Ask) -> BlockSession:
    return cast("BlockSession", ask.session)
