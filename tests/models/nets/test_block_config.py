"""A block drafter's configuration: nested values win, defaults are the published ones, nonsense is named."""

from typing import Any

import pytest

from stoker.core.errors import StartError
from stoker.models.nets.block_config import Sight, read

LFM2: dict[str, Any] = {
    "hidden_size": 2048,
    "num_hidden_layers": 5,
    "block_size": 9,
    "rms_norm_eps": 1e-5,
    "rope_is_neox_style": False,
    "dflash_config": {"mask_token_id": 125017, "target_layer_ids": [2, 9, 17, 21, 27], "num_target_layers": 30},
}


def test_the_defaults_are_those_of_the_published_four_billion() -> None:
    config = read({}, "DIR")
    assert (config.hidden, config.intermediate, config.layers, config.heads, config.kv_heads) == (2560, 9728, 5, 32, 8)
    assert (config.head_dim, config.eps, config.rope_theta, config.block, config.mask) == (128, 1e-6, 1e7, 16, 248070)
    assert (config.vocab, config.target_layers, config.softcap, config.embed_scale, config.run) == (None,) * 5
    assert not config.interleaved
    assert config.sights == (Sight(),) * 5


def test_nested_values_win() -> None:
    config = read(LFM2, "DIR")
    assert (config.mask, config.taps, config.target_layers) == (125017, (2, 9, 17, 21, 27), 30)
    assert config.interleaved
    assert read({"block_size": 16, "dflash_config": {"block_size": 8}}, "DIR").block == 8
    assert read({"block_size": 16, "dflash_config": "yes"}, "DIR").block == 16


@pytest.mark.parametrize(
    ("layers", "depth", "taps"), [(5, 36, (1, 9, 17, 25, 33)), (1, 30, (15,)), (3, 30, (1, 14, 27))]
)
def test_taps_that_are_not_said_are_spread_evenly(layers: int, depth: int, taps: tuple[int, ...]) -> None:
    assert read({"num_hidden_layers": layers, "num_target_layers": depth}, "DIR").taps == taps


def test_rope_parameters_win_over_the_outer_base() -> None:
    linear = read({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2}}, "D")
    assert (linear.rope_theta, linear.rope_scaling) == (5e5, {"rope_type": "linear", "factor": 2})
    plain = read({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}, "DIR")
    assert (plain.rope_theta, plain.rope_scaling) == (5e5, None)
    assert read({"rope_theta": 1e4}, "DIR").rope_theta == 1e4


def test_a_sliding_layer_is_causal_unless_the_configuration_says_otherwise() -> None:
    kinds = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}
    assert read(kinds, "DIR").sights == (Sight(64, causal=True), Sight())
    assert read({**kinds, "dflash_config": {"causal": False}}, "DIR").sights == (Sight(64), Sight())
    assert read({**kinds, "is_causal": True}, "DIR").sights == (Sight(64, causal=True), Sight(causal=True))
    assert read({**kinds, "dflash_config": {"swa_window_size": 32}}, "DIR").sights[0].window == 32


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"hidden_size": "wide"}, "DIR: hidden_size is 'wide', not a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"block_size": 33}, "block_size is 33, not at most 32"),
        ({"rms_norm_eps": True}, "rms_norm_eps is True, not a number"),
        ({"attention_bias": 1}, "attention_bias is 1, not true or false"),
        ({"target_layer_ids": []}, "target_layer_ids is"),
        ({"target_layer_ids": [1, -2]}, "a list of layer numbers"),
        ({"target_layer_ids": [1, 1]}, "a list of different layers"),
        ({"num_attention_heads": 6, "num_key_value_heads": 4}, "6 attention heads do not divide among 4"),
        ({"num_hidden_layers": 2, "layer_types": ["full_attention"]}, "layer_types is"),
        ({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}, "sliding layers and no sliding_window"),
        ({"rope_scaling": {"type": "magic"}}, "rope scaling 'magic' is unknown"),
    ],
)
def test_nonsense_is_refused_by_name(config: dict[str, Any], said: str) -> None:
    with pytest.raises(StartError) as raised:
        read(config, "DIR")
    assert said in str(raised.value)
