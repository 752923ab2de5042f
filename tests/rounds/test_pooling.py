"""Embeddings on the real loop: what the model's own hidden states give, however the prompt is cut, in any company."""

import mlx.core as mx
import numpy as np
import pytest

from models import tiny
from rounds.harness import GREEDY
from stoker.core.request import Pooling, Sampling, Speculation
from stoker.core.work import Join, Plan, PrefillWork, Release, StepWork, Vector
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.engine import Engine

pytestmark = pytest.mark.mlx

PROMPT = (3, 14, 15, 92, 65, 35, 89)
FAMILIES = [tiny.llama, tiny.gemma3_text, tiny.lfm2]
OFF = Speculation(kind="none")


def join(id: int, prompt: tuple[int, ...], pooling: Pooling | None) -> Join:
    return Join(id, id, prompt, 0, Sampling() if pooling else GREEDY, speculation=OFF, pooling=pooling)


def embed(engine: Engine, id: int, prompt: tuple[int, ...], pooling: Pooling, cuts: tuple[int, ...]) -> list[Vector]:
    engine.tick(Plan(join=(join(id, prompt, pooling),)))
    for stop in cuts:
        assert [outcome.vectors for outcome in engine.tick(Plan(prefill=(PrefillWork(id, stop),)))] == [()]
    (outcome,) = engine.tick(Plan(prefill=(PrefillWork(id, len(prompt)),)))
    engine.tick(Plan(release=(Release(id, len(prompt)),)))
    return list(outcome.vectors)


@pytest.mark.parametrize("make", FAMILIES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("pooling", Pooling)
def test_an_embedding_is_made_of_the_models_own_hidden_states(make, pooling: Pooling) -> None:  # pyright: ignore
    model = make()
    hidden = np.array(model.model(mx.array([PROMPT]))[0])
    expected = {
        Pooling.NONE: hidden,
        Pooling.MEAN: hidden.mean(axis=0, keepdims=True),
        Pooling.CLS: hidden[:1],
        Pooling.LAST: hidden[-1:],
    }[pooling]
    target = Target(model, 3, 64)
    engine = Engine(target, Sampler(target.vocab, []))
    for cuts in ((), (1, 4), (6,)):
        made = embed(engine, 1, PROMPT, pooling, cuts)
        np.testing.assert_allclose(np.array(made), expected, atol=2e-3)
        assert target.lengths[1] == len(PROMPT)


def test_one_token_is_enough() -> None:
    target = Target(tiny.llama(), 1, 64)
    assert len(embed(Engine(target, Sampler(target.vocab, [])), 0, (5,), Pooling.MEAN, ())[0]) == tiny.WIDTH


def test_embeddings_and_answers_share_forwards() -> None:
    target = Target(tiny.llama(), 3, 64)
    engine = Engine(target, Sampler(target.vocab, []))
    (alone,) = embed(engine, 0, PROMPT, Pooling.MEAN, ())
    answers: dict[int, list[int]] = {}
    for company in (False, True):
        engine.tick(Plan(join=(join(1, (8, 9, 10), None), *([join(2, PROMPT, Pooling.MEAN)] if company else []))))
        work = (PrefillWork(1, 2), *([PrefillWork(2, len(PROMPT))] if company else []))
        outcomes = engine.tick(Plan(prefill=work, step=(StepWork(1, 9),)))
        tokens = [token for outcome in outcomes for token in outcome.tokens]
        for _ in range(5):
            tokens += [token for outcome in engine.tick(Plan(step=(StepWork(1, 9),))) for token in outcome.tokens]
        answers[company] = tokens
        if company:
            (made,) = [outcome.vectors[0] for outcome in outcomes if outcome.vectors]
            np.testing.assert_allclose(np.array(made), np.array(alone), atol=1e-4)
        engine.tick(Plan(release=(Release(1, 0), Release(2, 0))))
    assert answers[True] == answers[False]
