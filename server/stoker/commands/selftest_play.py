"""Plays the scheduler for an engine: many short requests in a fixed number of rows, a new one for each that ends.

A slot keeps its prompt's columns, and the next request that begins with them joins with `cached`, as in the server.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from stoker.core.counters import DraftCounters
from stoker.core.errors import StartError
from stoker.core.request import Sampling
from stoker.core.work import Join, Outcome, Plan, PrefillWork, Release, StepWork
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.engine import Engine
from stoker.rounds.speculator import Speculation, Speculator

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One request: `count` tokens behind `prompt`. No token ends it early."""

    prompt: Tokens
    sampling: Sampling
    count: int


@dataclass(slots=True)
class Played:
    """What the requests emitted, in their order, and what drafting did in all of them."""

    streams: list[Tokens] = field(default_factory=list[Tokens])
    counters: DraftCounters = field(default_factory=DraftCounters)
    rules: set[str] = field(default_factory=set[str])

    @property
    def tokens(self) -> int:
        return sum(map(len, self.streams))


@dataclass(slots=True)
class _Running:
    job: Job
    slot: int
    cached: int
    tokens: list[int] = field(default_factory=list[int])

    @property
    def held(self) -> int:
        """Columns of its slot: the newest token has none yet."""
        return len(self.job.prompt) + max(len(self.tokens), 1) - 1


class Company:
    """`rows` slots of a target, and the engine that runs them under one way of speculating."""

    def __init__(self, target: Target, how: Speculation | None, rows: int) -> None:
        self._target, self._rows = target, rows
        self._engine = Engine(target, Sampler(target.vocab, []), frozenset(), Speculator(how, target.context))
        self._spare = 0 if how is None else max((drafter.width for drafter in how.drafters.values()), default=0)
        """Tokens that a row may emit beyond its count, so that proposals reach the last one that counts too."""
        self._contents: dict[int, Tokens] = {}
        self._running: dict[int, _Running] = {}

    def play(
        self, jobs: Sequence[Job], done: Callable[[], object] = lambda: None, late: Callable[[], bool] = lambda: False
    ) -> Played:
        """Runs the jobs; `done` hears of each end. Once `late`, no more begin. StartError if the engine fails."""
        played, waiting = Played(), iter(enumerate(jobs))
        finished: dict[int, _Running] = {}
        while True:
            release = self._leave(finished, done)
            joins = () if late() else self._arrive(waiting)
            if not self._running:
                self._engine.tick(Plan(release))
                break
            for outcome in self._engine.tick(self._plan(release, joins)):
                self._take(outcome, played)
        played.streams = [tuple(it.tokens[: it.job.count]) for _, it in sorted(finished.items())]
        return played

    def _plan(self, release: tuple[Release, ...], joins: tuple[Join, ...]) -> Plan:
        unread = [join for join in joins if join.cached < len(join.prompt) - 1]
        return Plan(
            release,
            joins,
            tuple(PrefillWork(join.id, len(join.prompt) - 1) for join in unread),
            tuple(StepWork(id, it.job.count + self._spare - len(it.tokens)) for id, it in self._running.items()),
        )

    def _leave(self, finished: dict[int, _Running], done: Callable[[], object]) -> tuple[Release, ...]:
        over = {id: it for id, it in self._running.items() if len(it.tokens) >= it.job.count}
        for id, it in over.items():
            finished[id] = self._running.pop(id)
            self._contents[it.slot] = (*it.job.prompt, *it.tokens)[: it.held]
            done()
        return tuple(Release(id, it.held) for id, it in over.items())

    def _arrive(self, waiting: Iterator[tuple[int, Job]]) -> tuple[Join, ...]:
        taken = {it.slot for it in self._running.values()}
        joins: list[Join] = []
        for slot in sorted(set(range(self._rows)) - taken):
            arrival = next(waiting, None)
            if arrival is None:
                break
            id, job = arrival
            self._running[id] = _Running(job, slot, self._cached(slot, job.prompt))
            joins.append(Join(id, slot, job.prompt, self._running[id].cached, job.sampling))
        return tuple(joins)

    def _cached(self, slot: int, prompt: Tokens) -> int:
        held = self._contents.get(slot, ())
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(held, prompt, strict=False)))
        cached = min(same, len(prompt) - 1)
        # A recurrent state can be continued, not cut.
        return 0 if self._target.recurrent and cached < len(held) else cached

    def _take(self, outcome: Outcome, played: Played) -> None:
        if outcome.error is not None:
            raise StartError(f"the engine failed: {outcome.error}") from outcome.error
        it = self._running[outcome.id]
        it.tokens += outcome.tokens
        if outcome.round is not None:
            played.counters.add(outcome.round, len(outcome.tokens))
            played.rules.add(outcome.rule)
