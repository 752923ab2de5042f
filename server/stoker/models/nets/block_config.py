"""What a block drafter's config.json says, in one form for all kinds: values in `dflash_config` win over outer ones.

Keys and defaults: specification of the drafters, sections 9 to 11. A value that makes no sense is
refused here, by name; whether the drafter fits its target is `pairing.py`'s question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from stoker.core.errors import StartError

Config = Mapping[str, Any]

FULL, SLIDING = "full_attention", "sliding_attention"
WIDEST = 32
"""Columns that no configuration may exceed."""
ROPE_DEFAULTS = ("default", "linear", "llama3", "yarn", "longrope", "proportional")
SWITCHES = ("causal", "is_causal")


@dataclass(frozen=True, slots=True)
class Sight:
    """What one layer's block rows see. Positions are absolute, k of a key and q of a query."""

    window: int | None = None
    """Keys with q - k < window; None: all."""
    causal: bool = False
    """Inside the block: k <= q only."""
    both: bool = False
    """The window counts forwards too: |q - k| < window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    positions: int
    rope_theta: float
    rope_scaling: dict[str, Any] | None
    interleaved: bool
    """Rotary pairs are neighbours, not halves."""
    vocab: int | None
    """None: not said."""
    draft_vocab: int | None
    """Tokens that it can propose, fewer than there are; None: all."""
    target_layers: int | None
    taps: tuple[int, ...]
    """Decoder layers of the target whose residual streams are read, 0-based."""
    mask: int
    """Token id of a slot that is to be filled."""
    block: int
    """`block_size` as it stands: columns or proposals, by kind."""
    run: int | None
    """`runtime_block_size`: columns of a round."""
    sights: tuple[Sight, ...]
    softcap: float | None
    multiplier: float
    """Of the hidden states before the head."""
    embed_scale: float | None
    """None: the target's own."""
    sinks: bool
    bias: bool


class Reader:
    """Typed access to a configuration whose `dflash_config` overrides it. Raises StartError, naming the file's key."""

    def __init__(self, config: Config, where: str) -> None:
        nested = config.get("dflash_config")
        inner = cast("Config", nested) if isinstance(nested, Mapping) else {}
        self.settings: dict[str, Any] = {**config, **inner}
        self.where = where

    def whole(self, key: str, default: int, least: int = 1) -> int:
        """An integer that is not below `least`."""
        found = self.settings.get(key)
        found = default if found is None else found
        if isinstance(found, bool) or not isinstance(found, int) or found < least:
            raise self.wrong(key, f"a whole number from {least} on")
        return found

    def maybe(self, key: str) -> int | None:
        return None if self.settings.get(key) is None else self.whole(key, 1)

    def real(self, key: str, default: float) -> float:
        found = self.settings.get(key)
        found = default if found is None else found
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.wrong(key, "a number")
        return float(found)

    def maybe_real(self, key: str) -> float | None:
        return None if self.settings.get(key) is None else self.real(key, 0.0)

    def flag(self, *keys: str, default: bool) -> bool:
        """The first of the keys that is there."""
        for key in keys:
            found = self.settings.get(key)
            if isinstance(found, bool):
                return found
            if found is not None:
                raise self.wrong(key, "true or false")
        return default

    def has(self, *keys: str) -> bool:
        return any(self.settings.get(key) is not None for key in keys)

    def wrong(self, key: str, wanted: str) -> StartError:
        return StartError(f"{self.where}: {key} is {self.settings.get(key)!r}, not {wanted}")


def read(config: Config, where: str) -> BlockConfig:
    """`where` names the checkpoint in errors. Raises StartError."""
    reader = Reader(config, where)
    layers = reader.whole("num_hidden_layers", 5)
    theta, scaling = _rope(reader)
    taps = _taps(reader, layers)
    heads, kv_heads = reader.whole("num_attention_heads", 32), reader.whole("num_key_value_heads", 8)
    if heads % kv_heads:
        raise StartError(f"{where}: {heads} attention heads do not divide among {kv_heads} key heads")
    return BlockConfig(
        hidden=reader.whole("hidden_size", 2560),
        intermediate=reader.whole("intermediate_size", 9728),
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=reader.whole("head_dim", 128),
        eps=reader.real("rms_norm_eps", 1e-6),
        positions=reader.whole("max_position_embeddings", 262144),
        rope_theta=theta,
        rope_scaling=scaling,
        interleaved=not reader.flag("rope_is_neox_style", default=True),
        vocab=reader.maybe("vocab_size"),
        draft_vocab=reader.maybe("draft_vocab_size"),
        target_layers=reader.maybe("num_target_layers"),
        taps=taps,
        mask=reader.whole("mask_token_id", 248070, 0),
        block=_capped(reader, "block_size", reader.whole("block_size", 16)),
        run=reader.maybe("runtime_block_size"),
        sights=_sights(reader, layers),
        softcap=reader.maybe_real("final_logit_softcapping"),
        multiplier=reader.real("output_multiplier", 1.0),
        embed_scale=reader.maybe_real("input_embedding_scale"),
        sinks=reader.flag("attention_sink_bias", default=False),
        bias=reader.flag("attention_bias", default=False),
    )


def _capped(reader: Reader, key: str, value: int) -> int:
    if value > WIDEST:
        raise reader.wrong(key, f"at most {WIDEST}")
    return value


def _rope(reader: Reader) -> tuple[float, dict[str, Any] | None]:
    """Base and scaling: `rope_parameters` holds both, and its base wins."""
    parameters = reader.settings.get("rope_parameters")
    scaling = reader.settings.get("rope_scaling")
    theta = reader.real("rope_theta", 1e7)
    if isinstance(parameters, Mapping):
        rest = dict(cast("Config", parameters))
        theta = float(rest.pop("rope_theta", theta))
        scaling = rest
    if not isinstance(scaling, Mapping) or not scaling:
        return theta, None
    found = dict(cast("Config", scaling))
    kind = found.get("type") or found.get("rope_type") or "default"
    if kind not in ROPE_DEFAULTS:
        raise StartError(f"{reader.where}: rope scaling {kind!r} is unknown")
    return theta, None if kind == "default" else found


def _taps(reader: Reader, layers: int) -> tuple[int, ...]:
    found = reader.settings.get("target_layer_ids")
    if found is None:
        depth = reader.whole("num_target_layers", 32)
        if layers == 1:
            return (depth // 2,)
        return tuple(round(1 + i * (depth - 4) / (layers - 1)) for i in range(layers))
    taps = cast("Sequence[Any]", found) if isinstance(found, list) else ()
    if not taps or any(isinstance(tap, bool) or not isinstance(tap, int) or tap < 0 for tap in taps):
        raise reader.wrong("target_layer_ids", "a list of layer numbers")
    if len(set(taps)) != len(taps):
        raise reader.wrong("target_layer_ids", "a list of different layers")
    return tuple(taps)


def _sights(reader: Reader, layers: int) -> tuple[Sight, ...]:
    """A sliding layer is causal unless the configuration says otherwise, a full one is not (z-lab's reading)."""
    kinds = reader.settings.get("layer_types") or [FULL] * layers
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in (FULL, SLIDING) for kind in kinds):
        raise reader.wrong("layer_types", f"{layers} times {FULL} or {SLIDING}")
    window = reader.maybe("swa_window_size") or reader.maybe("sliding_window")
    if SLIDING in kinds and window is None:
        raise StartError(f"{reader.where}: it has sliding layers and no sliding_window")
    return tuple(
        Sight(window if kind == SLIDING else None, reader.flag(*SWITCHES, default=kind == SLIDING)) for kind in kinds
    )
