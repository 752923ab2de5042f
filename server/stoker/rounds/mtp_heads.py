"""MTP heads as a drafter: Qwen3.5's own, in slot caches of their own, fed with the target's hidden states.

Column i of the own cache belongs to token i + 1 and the target's hidden state of position i; behind the
column of the anchor stands the first proposal (the seed), and every further one costs one more column, fed
with the heads' own output. One call drafts for all its rows: a ragged forward of what each row has
pending, whose last column gives the seed and its q, then one column a proposal.

When the verdict is known, the columns of accepted proposals stay as they are (the reference's choice),
those of rejected ones are cut, and the rest of the round is pending, with the target's hidden states.
Columns are counted from the first position whose hidden state was seen: attention sees distances only,
so a prefix that was adopted without its hidden states costs acceptance, never correctness.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import mlx.core as mx

from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.core.prefix import common_prefix
from stoker.models.nets.columns import Columns
from stoker.models.nets.lender import Lender
from stoker.models.nets.qwen3_5_mtp import Qwen35Mtp
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.models.snapshot import Snapshot
from stoker.models.target import Target
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.budget import Acceptance
from stoker.rounds.chain import Chain
from stoker.rounds.draft_model import drafting

LONGEST_DEBT = 32
"""Pending columns that a drafting forward may run; more are run down as they come."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a slot of the own cache holds between requests."""

    start: int
    """The position of the target that its first column belongs to."""
    tokens: tuple[int, ...]
    """Of the sequence, up to the token of the last column."""


NOTHING_LEFT = Left(0, ())


@dataclass(slots=True)
class HeadsSession:
    """One request: its tokens, and how far the heads have followed them."""

    heads: "MtpHeads"
    slot: int
    tokens: list[int]
    read_to: int
    """Positions of the target whose hidden states were seen or are held in columns."""
    draws: Draws
    most: int
    acceptance: Acceptance
    start: int
    held: int
    """Columns of the own cache that follow the sequence."""
    chained: int = 0
    """Columns behind them that follow proposals."""
    pending: list[mx.array] = field(default_factory=list[mx.array])
    """Residual streams [n, H] whose columns are still to be run; the newest is that of the anchor's column."""

    @property
    def wants_round(self) -> bool:
        return self.most > 0 and bool(self.pending)

    @property
    def off(self) -> DraftOff | None:
        return None

    def reach(self, limit: int) -> Sequence[float]:
        return self.acceptance.reach(min(limit, self.most))

    def read(self, stop: int, features: Features) -> None:
        """Runs along with the prompt, up to the anchor's column."""
        stream = features[self.heads.layer]
        first = stop - stream.shape[0]
        if first != self.read_to:
            self._restart(first)
        self._pend(stream)
        self.run_down(1)

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        if proposed:
            self.acceptance.observe(verdict.tested, verdict.accepted)
        right = min(verdict.accepted, len(verdict.emitted) - 1, self.chained)
        if self.chained:
            self.held += right
            self.heads.columns.cut(self.slot, self.held)
            self.chained = 0
        self.tokens += verdict.emitted
        self.read_to += right
        self._pend(features[self.heads.layer][right : len(verdict.emitted)])
        self.run_down(LONGEST_DEBT)

    def close(self, keep: int) -> None:
        """Of `keep` tokens that stay, the last has no successor yet, and so no column."""
        self.held, self.chained = max(0, min(self.held, keep - 1 - self.start)), 0
        self.heads.columns.cut(self.slot, self.held)
        self.heads.closed(self)

    @property
    def left(self) -> Left:
        return Left(self.start, tuple(self.tokens[: self.start + self.held + 1]) if self.held else ())

    @property
    def owed(self) -> list[int]:
        """The tokens of the pending columns."""
        first = self.start + self.held + 1
        return self.tokens[first : first + sum(part.shape[0] for part in self.pending)]

    def run_down(self, most: int) -> None:
        """Runs pending columns until only the newest is left, if there are more than `most`."""
        if len(self.owed) <= most:
            return
        stream, tokens = mx.concatenate(self.pending), self.owed
        self.pending = [stream[-1:]]
        self.heads.run([self], [tokens[:-1]], [stream[:-1]])
        mx.async_eval(self.heads.columns.marker())

    def _pend(self, stream: mx.array) -> None:
        self.pending.append(stream)
        self.read_to += stream.shape[0]

    def _restart(self, position: int) -> None:
        """Hidden states are missing: the columns begin anew behind the gap."""
        self.heads.columns.cut(self.slot, 0)
        self.start, self.held, self.read_to, self.pending = position, 0, position, []


class MtpHeads:
    """The drafter. Its slots have the numbers of the target's."""

    def __init__(self, net: Qwen35Mtp, target: Target, lender: Lender, *, most: int = 2) -> None:
        """`most` proposals a round. `net` and `target` must fit together: see `mtp.build`."""
        self.net, self.lender, self._most = net, lender, most
        self.layer = lender.depth - 1
        self.columns = Columns(net, target.slots, target.context)
        self.acceptance = Acceptance()
        """Shared by all requests: how the pair agrees in general is where each request begins."""
        self._sampler = Sampler(target.vocab, [])
        self._rows: dict[int, HeadsSession] = {}
        self._left: dict[int, Left] = {}
        self._kept: dict[int, tuple[Snapshot, Left]] = {}

    @property
    def kind(self) -> Kind:
        return Kind.MTP

    @property
    def needs(self) -> Needs:
        return Needs(capture=(self.layer,), forwards=True)

    @property
    def width(self) -> int:
        return self._most

    @property
    def has_q(self) -> bool:
        return True

    @property
    def bytes_per_column(self) -> int:
        return self.net.column_size * self.net.norm.weight.dtype.size

    def open(self, opening: Opening) -> HeadsSession:
        # Equal tokens up to a column's own give equal columns: only what agrees is reused.
        left = self._brought(opening)
        agreed = min(common_prefix(left.tokens, opening.prompt) - 1, opening.cached)
        whole = agreed == opening.cached and agreed > left.start
        start, held = (left.start, agreed - left.start) if whole else (opening.cached, 0)
        self.columns.cut(opening.slot, held)
        draws = self._sampler.open(drafting(opening.sampling), opening.prompt)
        own, most = Acceptance(general=self.acceptance), min(opening.most, self._most)
        tokens = list(opening.prompt)
        session = HeadsSession(self, opening.slot, tokens, opening.cached, draws, most, own, start, held)
        self._rows[opening.slot] = session
        return session

    def closed(self, session: HeadsSession) -> None:
        """The session's slot holds what is left of it."""
        self._left[session.slot] = session.left
        if self._rows.get(session.slot) is session:
            del self._rows[session.slot]

    # beside the target's slots

    def keep(self, slot: int, key: int) -> None:
        self._kept[key] = (self.columns.snapshot(slot), self._held(slot))

    def drop(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._kept.pop(key, None)

    def _held(self, slot: int) -> Left:
        """What a slot's columns are of, whether its request still runs or not."""
        session = self._rows.get(slot)
        return self._left.get(slot, NOTHING_LEFT) if session is None else session.left

    def _brought(self, opening: Opening) -> Left:
        """Does what the target did to bring the row's columns into its slot; says what it holds then."""
        kept, left = self._kept.get(opening.kept), self._left.pop(opening.slot, NOTHING_LEFT)
        if opening.source >= 0 and opening.source != opening.slot:
            self.columns.copy(opening.source, opening.slot)
            return self._held(opening.source)
        if kept is not None:
            self.columns.put(opening.slot, kept[0])
            return kept[1]
        return left

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        sessions = [_mine(ask) for ask in asks]
        counts = [min(ask.limit, session.most) for ask, session in zip(asks, sessions, strict=True)]
        chain = Chain(self._sampler, asks, [session.draws for session in sessions], counts)
        owed, streams = [s.owed for s in sessions], [mx.concatenate(s.pending) for s in sessions]
        for session in sessions:
            session.pending = []
        hidden = self.run(sessions, owed, streams)
        chain.draw(self.lender.head(hidden))
        ones = [1] * len(sessions)
        for _ in range(max(counts) - 1):
            hidden = self._forward(sessions, ones, self.lender.embed(chain.last), hidden)
            for session in sessions:
                session.chained += 1
            chain.draw(self.lender.head(hidden))
        return chain.proposals()

    def run(
        self, sessions: Sequence[HeadsSession], tokens: Sequence[Sequence[int]], streams: Sequence[mx.array]
    ) -> mx.array:
        """Columns of emitted tokens, ragged: what the heads say behind each row's last one, [B, 1, H]."""
        counts = list(map(len, tokens))
        width = max(counts)
        ids = mx.array([[*row, *[0] * (width - len(row))] for row in tokens], mx.int32)
        stream = mx.stack([_padded(it, width) for it in streams])
        out = self._forward(sessions, counts, self.lender.embed(ids), self.lender.final(stream))
        for session, count in zip(sessions, counts, strict=True):
            session.held += count
        return mx.take_along_axis(out, mx.array(counts)[:, None, None] - 1, axis=1)

    def _forward(
        self, sessions: Sequence[HeadsSession], counts: Sequence[int], embedded: mx.array, hidden: mx.array
    ) -> mx.array:
        slots = [session.slot for session in sessions]
        return self.columns.run(slots, counts, (embedded, hidden), lambda it, cache: self.net(it[0], it[1], cache))


def _padded(stream: mx.array, width: int) -> mx.array:
    missing = width - stream.shape[0]
    return mx.pad(stream, [(0, missing), (0, 0)]) if missing else stream


def _mine(ask: Ask) -> HeadsSession:
    return cast("HeadsSession", ask.session)
