"""Muse Glimmer's assistant on the one loop: DFlash's draws, and a width that is measured.

It begins at four columns; whether its full block emits more per second is found out in windows of
rounds (`acceptance/arms.py`), within what the budget allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.acceptance.arms import Arms
from stoker.acceptance.verdict import Verdict
from stoker.core.clock import Clock, now
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.nets import glimmer
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.lender import lend
from stoker.models.target import Target
from stoker.rounds.base import Ask, Features, Opening, Proposal
from stoker.rounds.block import BlockSession
from stoker.rounds.dflash import DFlash

NARROW = 4
"""Columns of the lower arm."""


@dataclass(slots=True)
class Meter:
    """Times the rounds of one drafter, from its draft to the last verdict, and tells the arms."""

    arms: Arms
    clock: Clock
    _width: int = 0
    _rows: int = 0
    _emitted: int = 0
    _began: float = 0.0
    _ended: float = 0.0

    def drafted(self, width: int, rows: int) -> None:
        """A round begins; the one before is over."""
        if self._emitted:
            self.arms.observe(self._width, self._emitted / self._rows, self._ended - self._began)
        self._width, self._rows, self._emitted, self._began = width, rows, 0, self.clock()

    def judged(self, emitted: int) -> None:
        """A row of the round has its verdict."""
        self._emitted, self._ended = self._emitted + emitted, self.clock()


def _no_meter() -> Meter:
    raise TypeError("a Glimmer session belongs to a meter")


@dataclass(slots=True)
class GlimmerSession(BlockSession):
    meter: Meter = field(default_factory=_no_meter)

    def reach(self, limit: int) -> Sequence[float]:
        return BlockSession.reach(self, min(limit, self.meter.arms.width - 1))

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        BlockSession.observe(self, verdict, proposed, features)
        if proposed:
            self.meter.judged(len(verdict.emitted))


class Glimmer(DFlash):
    kind = Kind.GLIMMER

    def __init__(
        self, net: BlockNet, target: Target, *, most: int | None = None, least_p: float = 0.0, clock: Clock = now
    ) -> None:
        super().__init__(net, target, most=most, least_p=least_p)
        ceiling = 1 + self.width
        self.arms = Arms(min(NARROW, ceiling), ceiling)
        self._meter = Meter(self.arms, clock)

    def open(self, opening: Opening) -> GlimmerSession:
        it = super().open(opening)
        return GlimmerSession(it.context, it.slot, it.tokens, it.draws, it.most, it.acceptance, meter=self._meter)

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        made = super().propose(asks)
        self._meter.drafted(1 + max(map(len, made)), len(made))
        return made


def load(path: Path, target: Target, *, most: int | None = None, least_p: float = 0.0) -> Glimmer:
    """Raises StartError, one line, for a checkpoint that is incomplete or made for another target."""
    lender = lend(target)
    if target.model.model_type != glimmer.FAMILY:
        raise StartError(f"the drafter {path} is made for a {glimmer.FAMILY} target, and the target is {lender.name}")
    args: Any = target.model.args
    net = glimmer.load(path, lender, multiplier=args.output_multiplier, softcap=args.final_logit_softcapping)
    return Glimmer(net, target, most=most, least_p=least_p)
