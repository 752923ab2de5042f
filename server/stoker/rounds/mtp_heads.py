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
from stoker.core.counters import Kind
from stoker.models.nets.columns import Columns
from stoker.models.nets.lender import Lender
from stoker.models.nets.qwen3_5_mtp import Qwen35Mtp
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.chain import Chain
from stoker.rounds.draft_model import drafting
from stoker.rounds.evidence import Acceptance
from stoker.rounds.leftovers import Left, Leftovers
from stoker.rounds.session import NetworkSession

LONGEST_DEBT = 32
"""Pending columns that a drafting forward may run; more are run down as they come."""


@dataclass(slots=True)
class HeadsSession(NetworkSession):
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

    def read(self, stop: int, features: Features) -> None:
        """Runs along with the prompt, up to the anchor's column."""
        stream = features[self.heads.layer]
        first = stop - stream.shape[0]
        if first != self.read_to:
            self._restart(first)
        self._pend(stream)
        self.run_down(1)

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        self.learn(verdict, proposed)
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
        """Columns up to the last of `keep` positions stay, and that one's stream: its token is yet to come."""
        self.chained = 0
        stream, tokens, ahead = self.pending, self.owed, keep - 1 - self.start - self.held
        self.pending = []
        if stream and 0 <= ahead < len(tokens):
            whole = mx.concatenate(stream)
            if ahead:
                self.heads.columns.cut(self.slot, self.held)
                self.heads.run([self], [tokens[:ahead]], [whole[:ahead]])
            self.pending = [whole[ahead : ahead + 1]]
            mx.async_eval(self.pending, self.heads.columns.marker())
        self.held = max(0, min(self.held, keep - 1 - self.start))
        self.heads.columns.cut(self.slot, self.held)
        self.heads.leftovers.leave(self.slot, self)

    @property
    def left(self) -> Left:
        tokens = tuple(self.tokens[: self.start + self.held + 1]) if self.held else ()
        return Left(self.start, tokens, self.pending[0][:1] if self.pending else None)

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
        self.acceptance = Acceptance.of_all()
        """Shared by all requests: how the pair agrees in general is where each request begins."""
        self._sampler = Sampler(target.vocab, [])
        self.leftovers = Leftovers(self.columns)

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
        slot, cached = opening.slot, opening.cached
        left = self.leftovers.bring(opening)
        stop, stream = left.agree(opening)
        start, held = (left.start, stop - left.start) if stop else (cached, 0)
        self.columns.cut(slot, held)
        draws = self._sampler.open(drafting(opening.sampling), opening.prompt)
        own, most = Acceptance(general=self.acceptance), min(opening.most, self._most)
        session = HeadsSession(self, slot, list(opening.prompt), cached, draws, most, own, start, held)
        session.pending += [] if stream is None else [stream]
        self.leftovers.take(slot, session)
        return session

    def keep(self, slot: int, key: int) -> None:
        self.leftovers.keep(slot, key)

    def drop(self, keys: Iterable[int]) -> None:
        self.leftovers.drop(keys)

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
