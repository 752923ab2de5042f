"""The draft model as a drafter: its own caches, its chain, its refusals."""

import mlx.core as mx
import numpy as np
import pytest

from models import tiny
from rounds.harness import best
from rounds.table import TableTarget, constant
from stoker.acceptance.verdict import Verdict
from stoker.core.errors import StartError
from stoker.core.request import Sampling
from stoker.models.target import Target
from stoker.rounds.base import Ask, Drawing, Opening
from stoker.rounds.draft_model import LONGEST_DEBT, DraftModel, drafting

pytestmark = pytest.mark.mlx

GREEDY = Sampling(temperature=0)
WARM = Sampling(seed=3, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def opening(id: int, prompt: tuple[int, ...], sampling: Sampling = GREEDY, cached: int = 0, most: int = 4) -> Opening:
    return Opening(id, id, prompt, cached, sampling, most)


def pair(slots: int = 3, **more: float) -> tuple[Target, DraftModel]:
    model = Target(tiny.llama(), slots, 256)
    return model, DraftModel(model, Target(tiny.llama(), slots, 256), most=4, **more)  # type: ignore[arg-type]


def test_a_model_with_another_vocabulary_is_refused_by_both_sizes() -> None:
    with pytest.raises(StartError, match=r"96 tokens.*128"):
        DraftModel(Target(tiny.llama(vocab_size=96), 1, 64), Target(tiny.llama(), 1, 64))


def test_a_recurrent_draft_model_is_refused() -> None:
    with pytest.raises(StartError, match="recurrent"):
        DraftModel(Target(tiny.lfm2(), 1, 64), Target(tiny.lfm2(), 1, 64))


def test_a_greedy_chain_is_the_models_own_greedy_continuation_for_ragged_rows_in_one_call() -> None:
    _, drafter = pair()
    prompts = ((1, 2, 3, 4, 5, 6), (7, 8), (30,))
    sessions = [drafter.open(opening(n, prompt)) for n, prompt in enumerate(prompts)]
    sessions[0].read(5, {})
    asks = [Ask(s, p[-1], len(p) - 1, limit) for s, p, limit in zip(sessions, prompts, (4, 2, 3), strict=True)]
    made = drafter.propose(asks)
    for prompt, proposal, limit in zip(prompts, made, (4, 2, 3), strict=True):
        history = list(prompt)
        for token in np.array(proposal.tokens).tolist():
            assert token == best(tiny.llama()(mx.array([history]))[0, -1])
            history.append(token)
        assert len(history) - len(prompt) == limit


def test_rejected_proposals_leave_the_cache_and_the_next_chain_is_right_again() -> None:
    model, drafter = pair(1)
    session = drafter.open(opening(0, (1, 2, 3)))
    drafter.propose([Ask(session, 3, 2, 4)])
    assert model.lengths[0] == 6
    session.observe(Verdict((50,), 0, 1), 4, {})
    assert model.lengths[0] == 3
    (again,) = drafter.propose([Ask(session, 50, 3, 1)])
    assert np.array(again.tokens).tolist() == [best(tiny.llama()(mx.array([[1, 2, 3, 50]]))[0, -1])]


def test_tokens_of_plain_rounds_are_owed_and_a_long_debt_is_run_down() -> None:
    model, drafter = pair(1)
    session = drafter.open(opening(0, (1, 2, 3)))
    for n in range(LONGEST_DEBT + 20):
        session.observe(Verdict((n % 9,), 0, 0), 0, {})
    assert len(session.owed) == LONGEST_DEBT + 23
    drafter.propose([Ask(session, session.tokens[-1], len(session.tokens) - 1, 1)])
    assert model.lengths[0] == len(session.tokens)


def test_what_a_slot_held_before_is_reused_as_far_as_the_target_reuses_it() -> None:
    model, drafter = pair(1)
    first = drafter.open(opening(0, (1, 2, 3, 4, 5)))
    first.read(4, {})
    first.close(4)
    second = drafter.open(opening(0, (1, 2, 3, 9), cached=3))
    assert second.held == 3
    assert model.lengths[0] == 3
    second.close(0)
    third = drafter.open(opening(0, (1, 2, 3, 9), cached=3))
    assert third.held == 0, "what an undrafted request left in the target's slot is not in the draft model's"


def test_the_proposal_distribution_is_the_one_that_was_drawn_from() -> None:
    logits = (2.0, 1.0, 0.0, -1.0)
    model, target = TableTarget(constant(logits), 1), TableTarget(constant(logits), 1)
    drafter = DraftModel(model, target, most=2)
    session = drafter.open(opening(0, (1,), WARM))
    (made,) = drafter.propose([Ask(session, 1, 0, 2, Drawing(coupled=False, with_q=True))])
    assert made.q is not None
    expected = np.exp(np.array(logits)) / np.exp(np.array(logits)).sum()
    assert np.allclose(np.array(made.q), np.stack([expected] * 2), atol=1e-6)


def test_coupled_and_independent_proposals_differ_and_both_repeat_themselves() -> None:
    def draw(coupled: bool, seed: int) -> list[int]:
        model, target = TableTarget(constant([0.0] * 64), 1), TableTarget(constant([0.0] * 64), 1)
        drafter = DraftModel(model, target, most=8)
        session = drafter.open(opening(0, (1,), Sampling(seed=seed, temperature=1.0, top_k=0, min_p=0.0), most=8))
        (made,) = drafter.propose([Ask(session, 1, 0, 8, Drawing(coupled=coupled))])
        return np.array(made.tokens).tolist()

    assert draw(True, 1) == draw(True, 1)
    assert draw(False, 1) == draw(False, 1)
    assert len({tuple(draw(c, s)) for c in (True, False) for s in (1, 2)}) == 4


@pytest.mark.parametrize(("least_p", "count"), [(0.0, 4), (0.5, 4), (0.9, 0)])
def test_a_chain_ends_before_a_token_that_the_model_doubts(least_p: float, count: int) -> None:
    table = constant([2.0, 0.0, 0.0, -1.0])
    drafter = DraftModel(TableTarget(table, 1), TableTarget(table, 1), most=4, least_p=least_p)
    (made,) = drafter.propose([Ask(drafter.open(opening(0, (1,))), 1, 0, 4)])
    assert len(made) == count


def test_a_drafter_applies_temperature_and_filters_but_no_penalties() -> None:
    asked = Sampling(temperature=0.5, top_k=7, repeat_penalty=1.3, dry_multiplier=1.0, mirostat=2, xtc_probability=0.5)
    used = drafting(asked)
    assert (used.temperature, used.top_k) == (0.5, 7)
    assert not used.feedback
    assert used.xtc_probability == 0
