"""Muse Glimmer's assistant: DFlash's block, every layer of which sees a window to both sides.

Layout, tensors and forward: specification of the drafters, section 11. The embedding table and the head
are borrowed raw, without the norm that the target puts on its embeddings. What the target does to its
logits afterwards (a factor and a cap) is applied where proposals are drawn: it changes no argmax, and at
a temperature the two distributions are of one sharpness only with it.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.core.errors import StartError
from stoker.models.nets import block_config
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.block_config import SLIDING, BlockConfig, Reader, Sight
from stoker.models.nets.checkpoint import fill, read
from stoker.models.nets.dflash import layout
from stoker.models.nets.lender import Lender
from stoker.models.nets.pairing import require_fit

FAMILY = "muse_glimmer"
NAMES = {"encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}
"""Its names of what DFlash has too."""
DEFAULTS: Mapping[str, Any] = {
    "hidden_size": 6656,
    "intermediate_size": 19968,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072,
    "sliding_window": 2048,
    "block_size": 16,
    "mask_token_id": 201818,
    "target_layer_ids": [1, 13, 25, 37, 49],
    "rope_parameters": {"rope_theta": 5e5},
}


class GlimmerNet(BlockNet):
    """The assistant's backbone."""


def load(
    path: Path, lender: Lender, *, multiplier: float = 1.0, softcap: float | None = None, packed: bool | None = None
) -> GlimmerNet:
    """The assistant in that directory, bound to its target, whose `multiplier` and `softcap` of logits it takes over.

    `packed`: see `checkpoint.fill`. Raises StartError, one line, for a checkpoint that is incomplete or
    made for another target.
    """
    checkpoint = read(path, NAMES)
    config = replace(configure(checkpoint.config, checkpoint.path), multiplier=multiplier, softcap=softcap)
    require_fit(config, checkpoint, lender)
    net = fill(GlimmerNet(config, layout(config)), checkpoint, packed=packed)
    net.borrow(lender)
    return net


def configure(given: Mapping[str, Any], where: str) -> BlockConfig:
    """Raises StartError, naming the key, for what the published assistants do not have."""
    settings = {**DEFAULTS, **{key: value for key, value in given.items() if value is not None}}
    layers = Reader(settings, where).whole("num_hidden_layers", 5)
    settings.setdefault("layer_types", [SLIDING] * layers)
    config = block_config.read(settings, where)
    if any(sight.window is None for sight in config.sights):
        raise StartError(f"{where}: every layer of a Glimmer assistant is a {SLIDING} one")
    if len(config.taps) != layers or sorted(config.taps) != list(config.taps):
        raise StartError(
            f"{where}: a Glimmer assistant of {layers} layers reads as many layers of its target, in rising order, "
            f"not {list(config.taps)}"
        )
    # |q - k| <= window there, inclusive; ours is exclusive.
    window = Reader(settings, where).whole("sliding_window", 2048) + 1
    return replace(config, sights=(Sight(window, causal=False, both=True),) * layers)
