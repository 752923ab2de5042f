"""Fakes for the two seams: the engine (above the thread boundary) and the clock. No mocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stoker.core.counters import DraftOff, Kind, RoundCount
from stoker.core.errors import InvalidRequest
from stoker.core.request import Pooling
from stoker.core.work import Filed, Join, Outcome, Plan, PrefillWork, SlotAction, SlotWork
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
class FakeDrafter:
    """Proposes `width` tokens a round, as far as the budget goes; `accepts` says how many of round n are right.

    A negative number takes a plain step instead. `off` is the reason while a row takes plain steps.
    """

    kind: Kind = Kind.PROMPT_LOOKUP
    width: int = 3
    accepts: Callable[[int], int] = lambda _: 3
    off: DraftOff | None = None


@dataclass
class FakeRow:
    prompt: tuple[int, ...]
    slot: int
    processed: int
    emitted: int = 0
    off: DraftOff | None = None
    """Why the row never drafts."""
    rounds: int = 0
    pooling: Pooling | None = None
    """Not None: it reads its whole prompt, whose embedding is a vector for each token, of the token alone."""


@dataclass
class FakeEngine:
    """Answers plans as the real engine does, from a table instead of a model.

    `model(prompt, n)` is the n-th token; `faults` maps a request id to the error its next step
    raises; `step_seconds` and `token_seconds` move the clock. With a `drafter`, rows emit several
    tokens a step; like the real engine's, its rounds stay inside the budget. It knows no end tokens.
    """

    clock: FakeClock = field(default_factory=FakeClock)
    model: Callable[[Sequence[int], int], int] = successor
    faults: dict[int, Exception] = field(default_factory=dict[int, Exception])
    drafter: FakeDrafter | None = None
    step_seconds: float = 0.01
    token_seconds: float = 0.001
    plans: list[Plan] = field(default_factory=list[Plan])
    rows: dict[int, FakeRow] = field(default_factory=dict[int, FakeRow])
    content: dict[int, int] = field(default_factory=dict[int, int])
    """Committed columns by slot."""
    kept: dict[int, int] = field(default_factory=dict[int, int])
    """Columns of kept contents by key."""
    scales: dict[int, tuple[float, ...]] = field(default_factory=dict[int, tuple[float, ...]])
    """Of the newest row of each slot."""
    files: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Slot files by path."""

    def tick(self, plan: Plan) -> list[Outcome]:
        self.plans.append(plan)
        for release in plan.release:
            row = self.rows.pop(release.id, None)
            if row is not None:
                assert release.keep <= row.processed + max(row.emitted, 1), "a release keeps columns that exist"
                self.content[row.slot] = release.keep
        outcomes = [self._act(work) for work in plan.slots]
        for key in plan.drop:
            del self.kept[key]
        for item in plan.keep:
            assert item.slot not in {row.slot for row in self.rows.values()}, "what is kept stands still"
            self.kept[item.key] = self.content[item.slot]
        for join in plan.join:
            assert join.slot not in {row.slot for row in self.rows.values()}, "a slot holds one row"
            assert join.cached <= self._columns(join), "only columns that exist are reused"
            self.content[join.slot] = join.cached
            assert join.cached < len(join.prompt)
            self.rows[join.id] = FakeRow(join.prompt, join.slot, join.cached, off=self._off(join), pooling=join.pooling)
            self.scales[join.slot] = join.adapters
        if plan.prefill:
            parts = [work.stop - self.rows[work.id].processed for work in plan.prefill]
            self.clock.pass_by(self.token_seconds * len(parts) * max(parts))
            for work in plan.prefill:
                outcomes.append(self._read(work))
        if plan.step:
            self.clock.pass_by(self.step_seconds)
        for work in plan.step:
            outcomes.append(self._step(work.id, work.remaining))
        return outcomes

    def _read(self, work: PrefillWork) -> Outcome:
        row = self.rows[work.id]
        end = len(row.prompt) if row.pooling else len(row.prompt) - 1
        assert row.processed < work.stop <= end
        row.processed = work.stop
        made = tuple((float(token),) for token in row.prompt) if row.pooling and work.stop == end else ()
        return Outcome(work.id, self.clock(), processed=work.stop, vectors=made)

    def _columns(self, join: Join) -> int:
        """How many columns the place has that a join takes its own from."""
        if join.kept >= 0:
            return self.kept[join.kept]
        busy = [row.processed for row in self.rows.values() if row.slot == join.source]
        return busy[0] if busy else self.content.get(join.slot if join.source < 0 else join.source, 0)

    def _act(self, work: SlotWork) -> Outcome:
        assert work.slot not in {row.slot for row in self.rows.values()}, "a busy slot is left alone"
        if work.action is SlotAction.RESTORE and work.path not in self.files:
            return Outcome(work.id, self.clock(), error=InvalidRequest("Unable to restore slot"))
        if work.action is SlotAction.SAVE:
            self.files[work.path] = work.tokens
        tokens = self.files[work.path] if work.action is SlotAction.RESTORE else work.tokens
        self.content[work.slot] = 0 if work.action is SlotAction.ERASE else len(tokens)
        return Outcome(work.id, self.clock(), filed=Filed(tokens, 8 * len(tokens), 0.001))

    def _step(self, id: int, remaining: int) -> Outcome:
        row = self.rows[id]
        assert remaining >= 1, "a finished row is not stepped"
        assert row.processed == len(row.prompt) - 1, "a row steps when its prompt is read"
        if id in self.faults:
            del self.rows[id]
            self.content[row.slot] = 0
            return Outcome(id, self.clock(), error=self.faults.pop(id))
        count = self._propose(row, remaining)
        emitted = 1 + (count.accepted if count else 0)
        tokens = tuple(self.model(row.prompt, row.emitted + n) for n in range(emitted))
        row.emitted += emitted
        if self.drafter is None or row.off is not None:
            return Outcome(id, self.clock(), tokens=tokens, off=row.off)
        off, rule = (None, "greedy-argmax") if count else (self.drafter.off, "")
        return Outcome(id, self.clock(), tokens=tokens, round=count, kind=self.drafter.kind, off=off, rule=rule)

    def _propose(self, row: FakeRow, remaining: int) -> RoundCount | None:
        if self.drafter is None or row.off is not None:
            return None
        proposed = min(self.drafter.width, remaining - 1)
        accepted = min(self.drafter.accepts(row.rounds), proposed)
        row.rounds += 1
        if proposed < 1 or accepted < 0:
            return None
        return RoundCount(proposed, accepted + (accepted < proposed), accepted)

    def _off(self, join: Join) -> DraftOff | None:
        wish = join.speculation
        if wish.disabled:
            return DraftOff.DISABLED
        if self.drafter is None or wish.kind not in ("", self.drafter.kind):
            return DraftOff.NO_DRAFTER
        return DraftOff.SAMPLER if join.sampling.stateful else None
