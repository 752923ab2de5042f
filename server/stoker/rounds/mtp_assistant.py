"""Gemma 4's assistant as a drafter. It has no cache: it attends to the target's own columns, where they lie.

Of a request it remembers one thing, the residual stream behind the target's last layer at the last
committed column; so it has nothing to rewind, to keep beside a slot, or to catch up with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx

from stoker.acceptance.verdict import Verdict
from stoker.core.counters import Kind
from stoker.models.nets.gemma4_assistant import GemmaAssistant
from stoker.models.nets.lender import Lender
from stoker.models.sampling import Row as Draws
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.models.view import gathered, spread
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.chain import Chain
from stoker.rounds.draft_model import drafting
from stoker.rounds.evidence import Acceptance
from stoker.rounds.session import NetworkSession


@dataclass(slots=True)
class AssistantSession(NetworkSession):
    """One request."""

    slot: int
    draws: Draws
    most: int
    layer: int
    acceptance: Acceptance
    stream: mx.array | None = None
    """The residual stream [1, H] at the last committed column; None while no column of the request was run."""

    @property
    def wants_round(self) -> bool:
        return self.most > 0 and self.stream is not None

    def read(self, stop: int, features: Features) -> None:
        self.stream = features[self.layer][-1:]

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        self.learn(verdict, proposed)
        self.stream = features[self.layer][len(verdict.emitted) - 1 : len(verdict.emitted)]

    def close(self, keep: int) -> None:
        self.stream = None


class MtpAssistant:
    """The drafter."""

    def __init__(self, net: GemmaAssistant, target: Target, lender: Lender, *, most: int = 3) -> None:
        """`most` proposals a round. `net` and `target` must fit together: see `mtp.build`."""
        self.net, self.target, self.lender, self._most = net, target, lender, most
        self.layer = lender.depth - 1
        self.sources = sources(target, net.layer_types)
        self.acceptance = Acceptance.of_all()
        """Shared by all requests: how the pair agrees in general is where each request begins."""
        self._sampler = Sampler(target.vocab, [])

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

    def open(self, opening: Opening) -> AssistantSession:
        draws = self._sampler.open(drafting(opening.sampling), opening.prompt)
        own = Acceptance(general=self.acceptance)
        return AssistantSession(opening.slot, draws, min(opening.most, self._most), self.layer, own)

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        sessions = [cast("AssistantSession", ask.session) for ask in asks]
        counts = [min(ask.limit, session.most) for ask, session in zip(asks, sessions, strict=True)]
        chain = Chain(self._sampler, asks, [session.draws for session in sessions], counts)
        view = self.target.view(self.sources, [session.slot for session in sessions])
        seen, size = self.net.see(view), len(view.lengths)
        offset = mx.array([max(length - 1, 0) for length in view.lengths], mx.int32)
        streams = mx.stack([session.stream for session in sessions if session.stream is not None])
        hidden = spread(view.rows, size, self.lender.final(streams))
        tokens = mx.array([[ask.anchor] for ask in asks], mx.int32)
        for _ in range(max(counts)):
            embedded = spread(view.rows, size, self.lender.embed(tokens))
            logits, hidden = self.net(embedded, hidden, seen, offset)
            tokens = chain.draw(gathered(view.rows, logits))
        return chain.proposals()


def sources(target: Target, kinds: Sequence[str]) -> tuple[int, ...]:
    """For each kind of layer, the place of the cache of the target's last one that has keys and values of its own.

    ValueError if it has none of a kind.
    """
    layers = cast("list[Any]", target.model.layers)
    owners = [layer for layer in layers if layer.self_attn.has_kv]
    last = {layer.layer_type: place for place, layer in enumerate(owners)}
    if missing := [kind for kind in kinds if kind not in last]:
        raise ValueError(f"the target has no {missing[0]} layer with keys of its own")
    return tuple(last[kind] for kind in kinds)
