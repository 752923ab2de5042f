"""The plan loop of the offline commands, on the fake engine's seam and on the real engine."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from models import tiny
from rounds.harness import GREEDY, PROMPTS, WARM, Wanted, alone
from stoker.commands import offline
from stoker.commands.offline import Wish, play
from stoker.core.errors import StartError
from stoker.core.work import Outcome, Plan
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.engine import Engine

pytestmark = pytest.mark.mlx


@dataclass
class Scripted:
    """Answers every plan: prompts are read as planned, every step emits the next number."""

    error: Exception | None = None
    plans: list[Plan] = field(default_factory=list)

    def tick(self, plan: Plan) -> list[Outcome]:
        self.plans.append(plan)
        read = [Outcome(work.id, 0.0, processed=work.stop) for work in plan.prefill]
        stepped = [Outcome(work.id, 0.0, tokens=(work.remaining,), error=self.error) for work in plan.step]
        return [*read, *stepped]


def test_a_long_prompt_is_read_in_parts_while_a_short_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "CHUNK", 4)
    engine = Scripted()
    answers = play(engine, [Wish(tuple(range(10)), 2), Wish((1, 2), 3), Wish((7,), 1)])
    assert [answer.tokens for answer in answers] == [[2, 1], [3, 2, 1], [1]]
    stops = [[(work.id, work.stop) for work in plan.prefill] for plan in engine.plans]
    assert stops[:4] == [[], [(0, 4), (1, 1)], [(0, 8)], [(0, 9)]]
    assert [(release.id, release.keep) for release in engine.plans[-1].release] == [(0, 0), (1, 0), (2, 0)]


def test_an_end_token_ends_an_answer_and_is_part_of_it() -> None:
    heard: list[tuple[int, tuple[int, ...]]] = []

    def hear(n: int, tokens: Sequence[int]) -> None:
        heard.append((n, tuple(tokens)))

    (answer,) = play(Scripted(), [Wish((1,), 5)], frozenset({3}), hear)
    assert answer.tokens == [5, 4, 3]
    assert heard == [(0, (5,)), (0, (4,)), (0, (3,))]


def test_a_round_that_fails_ends_the_command_and_frees_the_slots() -> None:
    engine = Scripted(RuntimeError("no memory"))
    with pytest.raises(StartError, match="the run failed: no memory"):
        play(engine, [Wish((1,), 5)])
    assert engine.plans[-1].release


def test_the_real_engine_says_what_it_says_to_the_server_and_its_slots_can_be_used_again() -> None:
    target = Target(tiny.qwen3(), 4, 256)
    engine = Engine(target, Sampler(target.vocab, []))
    for sampling in (GREEDY, WARM):
        answers = play(engine, [Wish(prompt, 20, sampling) for prompt in PROMPTS])
        expected = [alone(tiny.qwen3, Wanted(prompt, 20, sampling)) for prompt in PROMPTS]
        assert [answer.tokens for answer in answers] == expected
        assert target.lengths == (0, 0, 0, 0)
