"""A drafted round taken apart: how long it drafts, verifies, reads, and keeps the device waiting.

Subclasses of the engine's parts set marks where one thing ends and the next begins. Proposals are waited for by
themselves, so such a round has one synchronisation more than a real one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from benchmarks.gpu_play import Timed
from stoker.core.clock import now
from stoker.core.work import Outcome, Plan
from stoker.models.noise import Purpose
from stoker.models.sampling import Choice, Row, Sampler
from stoker.models.target import Target
from stoker.rounds.base import Proposal
from stoker.rounds.engine import Engine
from stoker.rounds.pace import Flown, Intent, Pace
from stoker.rounds.row import Row as EngineRow
from stoker.rounds.speculator import Speculation as How
from stoker.rounds.speculator import Speculator
from stoker.rounds.step import Round


@dataclass
class Phases:
    """Seconds by what they went to, over all drafted rounds."""

    draft: float = 0.0
    """Building and computing the proposals."""
    verify: float = 0.0
    """From the start of the round's forward to its last choice."""
    sync: float = 0.0
    """Reading what is computed, and judging it."""
    host: float = 0.0
    """Everything else: the device waits."""
    rounds: int = 0


class Split(Timed):
    """Takes every round apart, at the price of one more synchronisation: proposals are waited for by themselves."""

    def __init__(self, target: Target, how: How, step: int) -> None:
        super().__init__(target, how, step)
        self.watch = Watch()
        speculator = _Speculator(self.watch, how, target.context)
        self.engine = _Engine(self.watch, target, _Sampler(self.watch, target.vocab, []), speculator)

    def split(self, rows: int, count: int, most: int) -> Phases:
        self.watch.phases = Phases()
        self.play(rows, count, most=most)
        return self.watch.phases


class Watch:
    """Adds up the time between marks."""

    def __init__(self) -> None:
        self.phases, self.at, self.drafting = Phases(), now(), False

    def mark(self, add: Callable[[Phases, float], None] | None = None) -> None:
        """The time since the last mark goes to a phase, if a drafted round is under way."""
        at = now()
        if add is not None and self.drafting:
            add(self.phases, at - self.at)
        self.at = at


def _draft(phases: Phases, seconds: float) -> None:
    phases.draft += seconds
    phases.rounds += 1


def _verify(phases: Phases, seconds: float) -> None:
    phases.verify += seconds


def _sync(phases: Phases, seconds: float) -> None:
    phases.sync += seconds


def _host(phases: Phases, seconds: float) -> None:
    phases.host += seconds


class _Pace(Pace):
    def __init__(self, watch: Watch, how: How) -> None:
        super().__init__(how.drafters, how.widest, how.budget, how.remember, now)
        self._watch = watch

    def landed(self, rows: Sequence[EngineRow], drafted: Sequence[EngineRow], flown: Flown) -> None:
        self._watch.mark(_sync)
        super().landed(rows, drafted, flown)


class _Speculator(Speculator):
    def __init__(self, watch: Watch, how: How, context: int) -> None:
        super().__init__(how, context)
        self._watch = watch
        self.pace = _Pace(watch, how)

    def propose(self, rows: Sequence[EngineRow], intent: Intent) -> list[Proposal]:
        self._watch.mark(_host)
        made = super().propose(rows, intent)
        mx.eval([it.tokens for it in made if isinstance(it.tokens, mx.array)])
        self._watch.drafting = any(map(len, made))
        self._watch.mark(_draft)
        return made


class _Sampler(Sampler):
    def __init__(self, watch: Watch, vocab: int, pieces: Sequence[bytes]) -> None:
        super().__init__(vocab, pieces)
        self._watch = watch

    def choose(
        self,
        logits: mx.array,
        rows: Sequence[Row],
        starts: Sequence[int],
        drafts: Sequence[Sequence[int]] | None = None,
        purpose: Purpose = Purpose.DRAW,
    ) -> Choice:
        choice = super().choose(logits, rows, starts, drafts, purpose)
        self._watch.mark(_host)
        return choice


class _Engine(Engine):
    def __init__(self, watch: Watch, target: Target, sampler: Sampler, speculator: Speculator) -> None:
        super().__init__(target, sampler, frozenset(), speculator)
        self._watch = watch

    def tick(self, plan: Plan) -> list[Outcome]:
        if isinstance(self._flight, Round):
            self._flight.wait()
        self._watch.mark(_verify)
        return super().tick(plan)
