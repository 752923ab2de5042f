"""Plays the scheduler for an engine: joins, prefills, steps and releases; collects tokens by request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import mlx.core as mx
from mlx import nn

from stoker.core.clock import Clock, now
from stoker.core.counters import DraftCounters
from stoker.core.request import Grammar, Sampling, Speculation
from stoker.core.work import Join, Outcome, Plan, PrefillWork, Release, StepWork
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.engine import Engine
from stoker.rounds.speculator import Speculation as How
from stoker.rounds.speculator import Speculator
from stoker.text.grammar import Grammars

GREEDY = Sampling(temperature=0)
WARM = Sampling(seed=7, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
PROMPTS = ((1, 2, 3, 4, 5), (7, 8), (9, 10, 11, 12, 13, 14, 15), (30,))


@dataclass
class Wanted:
    prompt: tuple[int, ...]
    count: int
    sampling: Sampling = GREEDY
    probs: int = 0
    join_at: int = 0
    """The tick in which it joins."""
    leave_at: int = 999
    """The tick before which it is cancelled."""
    speculation: Speculation = field(default_factory=Speculation)
    grammar: Grammar = field(default_factory=Grammar)
    post: bool = False
    adapters: tuple[float, ...] = ()

    def join(self, id: int) -> Join:
        """The order for its row, which stands in the slot of the same number."""
        return Join(
            id,
            id,
            self.prompt,
            0,
            self.sampling,
            self.probs,
            self.post,
            speculation=self.speculation,
            grammar=self.grammar,
            adapters=self.adapters,
        )


class Harness:
    def __init__(
        self,
        target: Target,
        how: How | None = None,
        ends: frozenset[int] = frozenset(),
        grammars: Grammars | None = None,
        clock: Clock = now,
    ) -> None:
        self.target, self.ends = target, ends
        speculator = Speculator(how, target.context, clock)
        self.engine = Engine(target, Sampler(target.vocab, []), ends, speculator, grammars)
        self.tokens: dict[int, list[int]] = {}
        self.outcomes: list[Outcome] = []
        self.errors: dict[int, Exception] = {}
        self.counters: dict[int, DraftCounters] = {}
        self.ticks = 0

    def run(self, wanted: Sequence[Wanted], ticks: int = 2000) -> dict[int, list[int]]:
        self.tokens = {id: [] for id in range(len(wanted))}
        self.counters = {id: DraftCounters() for id in range(len(wanted))}
        done: set[int] = set()
        running: dict[int, Wanted] = {}
        for tick in range(ticks):
            release = tuple(
                Release(id, len(want.prompt) + max(len(self.tokens[id]), 1) - 1)
                for id, want in running.items()
                if self._over(id, want) or tick >= want.leave_at
            )
            for item in release:
                del running[item.id]
                done.add(item.id)
            joining = [(id, want) for id, want in enumerate(wanted) if want.join_at == tick and id not in done]
            running.update(joining)
            plan = Plan(
                release,
                tuple(want.join(id) for id, want in joining),
                tuple(PrefillWork(id, len(want.prompt) - 1) for id, want in joining if len(want.prompt) > 1),
                tuple(StepWork(id, want.count - len(self.tokens[id])) for id, want in running.items()),
            )
            self._take(self.engine.tick(plan))
            self.ticks += 1
            if len(done) == len(wanted):
                break
        return self.tokens

    def _over(self, id: int, want: Wanted) -> bool:
        tokens = self.tokens[id]
        return len(tokens) >= want.count or id in self.errors or (bool(tokens) and tokens[-1] in self.ends)

    def _take(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes += outcomes
        for outcome in outcomes:
            if outcome.error is not None:
                self.errors[outcome.id] = outcome.error
            self.tokens[outcome.id] += outcome.tokens
            if outcome.round is not None:
                self.counters[outcome.id].add(outcome.round, len(outcome.tokens))


def alone(
    make: Callable[[], nn.Module],
    want: Wanted,
    ends: frozenset[int] = frozenset(),
    grammars: Grammars | None = None,
) -> list[int]:
    """What a request emits by itself, undrafted."""
    plain = replace(want, join_at=0, leave_at=999, speculation=Speculation())
    return Harness(Target(make(), 1, 512), ends=ends, grammars=grammars).run([plain])[0]


def best(logits: mx.array) -> int:
    """The argmax of logits [V]."""
    return cast("list[int]", mx.argmax(logits[None], axis=-1).tolist())[0]


def greedy(model: nn.Module, prompt: Sequence[int], count: int) -> list[int]:
    """Greedy tokens by fresh forwards of the whole sequence: no cache, no loop of ours."""
    history = list(prompt)
    for _ in range(count):
        history.append(best(model(mx.array([history]))[0, -1]))
    return history[len(prompt) :]
