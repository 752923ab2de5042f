"""What a chain of settings consists of; what its stages do is in the tests of each."""

import math
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from models.settings import OFF
from stoker.core.request import Sampling
from stoker.models.candidates import Column
from stoker.models.chain import Chain
from stoker.models.dry import breakers

pytestmark = pytest.mark.mlx

VOCAB = 8
COLUMN = Column(seed=1, position=5)
KNOWN = breakers([], ())


def chain(sampling: Sampling) -> Chain:
    return Chain(sampling, VOCAB, KNOWN)


def test_settings_that_change_nothing_make_no_stage() -> None:
    assert chain(OFF).stages == ()
    assert len(chain(replace(OFF, top_k=4, min_p=0.1)).stages) == 2


def test_only_the_stages_that_samplers_name_run() -> None:
    assert len(chain(replace(OFF, top_k=4, min_p=0.1, samplers=("min_p",))).stages) == 1
    assert chain(replace(OFF, top_k=4, samplers=())).stages == ()


def test_a_greedy_request_runs_what_can_change_its_best_token() -> None:
    assert chain(Sampling(temperature=0)).bare
    assert not chain(Sampling(temperature=0, repeat_penalty=1.2)).bare
    assert len(chain(Sampling(temperature=0, repeat_penalty=1.2, min_p=0.2)).stages) == 1
    assert not chain(Sampling(temperature=0, logit_bias=((1, 2.0),))).bare


def test_mirostat_takes_the_place_of_the_chain() -> None:
    assert len(chain(replace(OFF, mirostat=2, top_k=4, repeat_penalty=1.5)).stages) == 1


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        ({}, 0),
        ({"repeat_penalty": 1.1, "repeat_last_n": 7}, 7),
        ({"repeat_penalty": 1.1, "repeat_last_n": 7, "dry_multiplier": 1.0, "dry_penalty_last_n": 9}, 9),
        ({"dry_multiplier": 1.0, "dry_penalty_last_n": -1}, -1),
        ({"repeat_penalty": 1.1, "mirostat": 1}, 0),
    ],
)
def test_a_chain_knows_how_far_back_it_looks(changes: dict[str, float], window: int) -> None:
    assert chain(replace(OFF, **changes)).window == window  # type: ignore[arg-type]


def test_biases_of_one_token_add_up_and_a_ban_wins_over_all() -> None:
    bias = chain(replace(OFF, logit_bias=((1, 2.0), (1, 0.5), (3, 5.0), (3, -math.inf), (3, 9.0), (99, 1.0)))).bias
    assert bias is not None
    assert np.array(bias).tolist() == [[0, 2.5, 0, -math.inf, 0, 0, 0, 0]]


def test_a_ban_gives_way_where_a_grammar_leaves_nothing_else() -> None:
    banned = chain(replace(OFF, logit_bias=((2, -math.inf),)))
    logits = mx.array([[-math.inf, -math.inf, 1.0, *[-math.inf] * 5]] * 2)
    free, bound = COLUMN, COLUMN._replace(constrained=True)
    kept = np.array(banned.apply(logits, [free, bound]).logits)
    assert np.isinf(kept[0]).all()
    assert kept[1, 2] == 1.0
