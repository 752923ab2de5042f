"""Fakes for the two seams: the engine (above the thread boundary) and the clock. No mocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stoker.core.work import Outcome, Plan
from stoker.scheduler.device import Ran

T = TypeVar("T")


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, at: float = 100.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Inline:
    """Runs ticks on the event loop itself, and gives others a turn between them, as a thread would."""

    clock: Callable[[], float]

    async def run(self, call: Callable[[], T]) -> Ran[T]:
        import asyncio

        await asyncio.sleep(0)
        started = self.clock()
        result = call()
        return Ran(result, started, self.clock())


def successor(prompt: Sequence[int], n: int) -> int:
    """A model that counts: the n-th answer token is the prompt's last token plus n + 1."""
    return prompt[-1] + n + 1


@dataclass
class FakeRow:
    prompt: tuple[int, ...]
    slot: int
    processed: int
    emitted: int = 0


@dataclass
class FakeEngine:
    """Answers plans as the real engine does, from a table instead of a model.

    `model(prompt, n)` is the n-th token; `faults` maps a request id to the error its next step
    raises; `step_seconds` and `token_seconds` move the clock.
    """

    clock: FakeClock = field(default_factory=FakeClock)
    model: Callable[[Sequence[int], int], int] = successor
    faults: dict[int, Exception] = field(default_factory=dict[int, Exception])
    step_seconds: float = 0.01
    token_seconds: float = 0.001
    plans: list[Plan] = field(default_factory=list[Plan])
    rows: dict[int, FakeRow] = field(default_factory=dict[int, FakeRow])
    content: dict[int, int] = field(default_factory=dict[int, int])
    """Committed columns by slot."""

    def tick(self, plan: Plan) -> list[Outcome]:
        self.plans.append(plan)
        for release in plan.release:
            row = self.rows.pop(release.id, None)
            if row is not None:
                assert release.keep <= row.processed + max(row.emitted, 1), "a release keeps columns that exist"
                self.content[row.slot] = release.keep
        for join in plan.join:
            assert join.slot not in {row.slot for row in self.rows.values()}, "a slot holds one row"
            assert join.cached <= self.content.get(join.slot, 0), "only columns that exist are reused"
            assert join.cached < len(join.prompt)
            self.rows[join.id] = FakeRow(join.prompt, join.slot, join.cached)
        outcomes: list[Outcome] = []
        if plan.prefill:
            parts = [work.stop - self.rows[work.id].processed for work in plan.prefill]
            self.clock.pass_by(self.token_seconds * len(parts) * max(parts))
            for work in plan.prefill:
                assert self.rows[work.id].processed < work.stop < len(self.rows[work.id].prompt)
                self.rows[work.id].processed = work.stop
                outcomes.append(Outcome(work.id, self.clock(), processed=work.stop))
        if plan.step:
            self.clock.pass_by(self.step_seconds)
        for work in plan.step:
            outcomes.append(self._step(work.id, work.remaining))
        return outcomes

    def _step(self, id: int, remaining: int) -> Outcome:
        row = self.rows[id]
        assert remaining >= 1, "a finished row is not stepped"
        assert row.processed == len(row.prompt) - 1, "a row steps when its prompt is read"
        if id in self.faults:
            del self.rows[id]
            self.content[row.slot] = 0
            return Outcome(id, self.clock(), error=self.faults.pop(id))
        token = self.model(row.prompt, row.emitted)
        row.emitted += 1
        return Outcome(id, self.clock(), tokens=(token,))
