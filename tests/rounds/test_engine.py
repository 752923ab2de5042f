"""The engine on tiny random targets of every family, driven by plans as the scheduler makes them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from rounds.harness import GREEDY, PROMPTS, WARM, Harness, Wanted, alone
from stoker.core.request import Sampling
from stoker.core.work import Join, Plan, PrefillWork, Release, StepWork
from stoker.models.masks import Constraint
from stoker.models.sampling import Sampler
from stoker.models.target import Target, Verification
from stoker.rounds.engine import Engine

pytestmark = pytest.mark.mlx

FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "llama": tiny.llama,
    "qwen3": tiny.qwen3,
    "muse_glimmer": tiny.muse_glimmer,
    "gemma4": tiny.gemma4_text,
    "lfm2": tiny.lfm2,
    "qwen3_5": tiny.qwen3_5,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_in_ragged_company_emit_what_they_emit_alone(family: str) -> None:
    make = FAMILIES[family]
    wanted = [Wanted(prompt, 20 + 3 * n, GREEDY if n % 2 else WARM, join_at=2 * n) for n, prompt in enumerate(PROMPTS)]
    wanted[2].leave_at = 12
    harness = Harness(Target(make(), 4, 128))
    got = harness.run(wanted)
    for id, want in enumerate(wanted):
        assert got[id] == alone(make, want)[: len(got[id])]
        assert len(got[id]) == (want.count if id != 2 else 7), (
            "a joiner is heard from its second tick on, until it leaves"
        )


def test_greedy_tokens_equal_a_fresh_forward_of_the_whole_sequence() -> None:
    model = tiny.llama()
    tokens = Harness(Target(model, 2, 128)).run([Wanted(PROMPTS[0], 12)])[0]
    history = list(PROMPTS[0])
    for token in tokens:
        assert token == int(mx.argmax(model(mx.array([history]))[0, -1]))
        history.append(token)


def test_between_ticks_a_slot_holds_every_token_but_the_newest() -> None:
    harness = Harness(Target(tiny.llama(), 2, 128))
    harness.run([Wanted(PROMPTS[0], 6), Wanted(PROMPTS[1], 9)])
    assert harness.target.lengths == (5 + 6 - 1, 2 + 9 - 1)


@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_a_released_slot_continues_a_longer_prompt_as_if_it_were_fresh(family: str) -> None:
    make = FAMILIES[family]
    harness = Harness(Target(make(), 1, 128))
    first = harness.run([Wanted(PROMPTS[0], 6)])[0]
    longer = (*PROMPTS[0], *first, 3, 4)
    held = harness.target.lengths[0]
    assert held == len(PROMPTS[0]) + 5
    got: list[int] = []
    plan = Plan(
        join=(Join(9, 0, longer, held, GREEDY),), prefill=(PrefillWork(9, len(longer) - 1),), step=(StepWork(9, 8),)
    )
    for left in range(8, 0, -1):
        got += [token for outcome in harness.engine.tick(plan) for token in outcome.tokens]
        plan = Plan(step=(StepWork(9, left - 1),)) if left > 1 else Plan(release=(Release(9, 0),))
    assert got == alone(make, Wanted(longer, 8))


def test_a_prompt_read_in_chunks_equals_one_read_at_once() -> None:
    harness = Harness(Target(tiny.qwen3_5(), 1, 128))
    prompt = tuple(range(1, 40))
    outcomes = harness.engine.tick(Plan(join=(Join(0, 0, prompt, 0, GREEDY),), prefill=(PrefillWork(0, 10),)))
    assert [outcome.processed for outcome in outcomes] == [10]
    harness.engine.tick(Plan(prefill=(PrefillWork(0, 25),)))
    last = harness.engine.tick(Plan(prefill=(PrefillWork(0, 38),), step=(StepWork(0, 1),)))
    assert [outcome.tokens for outcome in last][-1] == tuple(alone(tiny.qwen3_5, Wanted(prompt, 1)))


def test_penalties_see_every_token_before_the_draw() -> None:
    penalised = replace(GREEDY, repeat_penalty=5.0, repeat_last_n=64)
    tokens = Harness(Target(tiny.llama(), 2, 128)).run([Wanted(PROMPTS[0], 20, penalised), Wanted(PROMPTS[1], 20)])
    assert len(set(tokens[0])) == len(tokens[0]), "a strong penalty repeats nothing"
    assert len(set(tokens[1])) < len(tokens[1]), "and the neighbour without one does"
    assert tokens[1] == alone(tiny.llama, Wanted(PROMPTS[1], 20))


def test_probabilities_are_reported_only_where_asked_for() -> None:
    harness = Harness(Target(tiny.llama(), 2, 128))
    harness.run([Wanted(PROMPTS[0], 3, probs=4), Wanted(PROMPTS[1], 3)])
    asked = [outcome for outcome in harness.outcomes if outcome.id == 0 and outcome.tokens]
    for outcome in asked:
        (probs,) = outcome.probs
        assert len(probs.top) == 4
        assert probs.top[0] == (outcome.tokens[0], pytest.approx(probs.logprob))
        assert probs.logprob <= 0
    assert not any(outcome.probs for outcome in harness.outcomes if outcome.id == 1)


class FaultyTarget(Target):
    """Fails every forward in which a certain slot takes part once it holds enough columns."""

    def __init__(self, model: nn.Module, slots: int, context: int, *, slot: int, columns: int) -> None:
        super().__init__(model, slots, context)
        self.bad, self.columns = slot, columns

    def verify(
        self, slots: Sequence[int], ids: mx.array, capture: Sequence[int] = (), *, revocable: bool = False
    ) -> Verification:
        if self.bad in slots and self.lengths[self.bad] >= self.columns:
            raise RuntimeError("bad slot")
        return super().verify(slots, ids, capture, revocable=revocable)


@pytest.mark.parametrize("columns", [0, 12])
@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_a_fault_in_a_shared_forward_ends_only_the_guilty_row(family: str, columns: int) -> None:
    make = FAMILIES[family]
    target = FaultyTarget(make(), 4, 128, slot=2, columns=columns)
    harness = Harness(target)
    wanted = [Wanted(prompt, 16) for prompt in PROMPTS]
    got = harness.run(wanted)
    assert set(harness.errors) == {2}
    assert harness.target.lengths[2] == 0, "nothing of a failed row is offered to the next prompt"
    for id in (0, 1, 3):
        assert got[id] == alone(make, wanted[id])


def test_a_join_that_fails_ends_that_request_only() -> None:
    class PickySampler(Sampler):
        def open(self, sampling: Sampling, prompt: Sequence[int], constraint: Constraint | None = None):
            if sampling.seed == 13:
                raise ValueError("unlucky")
            return super().open(sampling, prompt, constraint)

    harness = Harness(Target(tiny.llama(), 4, 128))
    harness.engine = Engine(harness.target, PickySampler(harness.target.vocab, []))
    got = harness.run([Wanted(PROMPTS[0], 4), Wanted(PROMPTS[1], 4, replace(GREEDY, seed=13))])
    assert isinstance(harness.errors[1], ValueError)
    assert len(got[0]) == 4


def test_work_for_an_unknown_request_is_ignored() -> None:
    harness = Harness(Target(tiny.llama(), 1, 128))
    assert harness.engine.tick(Plan((Release(5, 0),), (), (PrefillWork(5, 3),), (StepWork(5, 1),))) == []
