"""LoRA adapters on our own instance of a model, each scaled row by row: rows with different adapters share a forward.

An MLX adapter is a folder with `adapter_config.json` and `adapters.safetensors`, as mlx-lm's training writes it: for
each layer it changes a pair `lora_a`, `lora_b`, and one scale. The layers of the model are wrapped, never changed;
a row whose scales are zero gets what the model itself says.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_unflatten

from stoker.core.errors import StartError
from stoker.models import directory

CONFIG, WEIGHTS = "adapter_config.json", "adapters.safetensors"


@dataclass(frozen=True, slots=True)
class Low:
    """What one adapter adds to one layer: x → scale · (x·a)·b, or for an embedding a[ids]·b."""

    adapter: int
    a: mx.array
    b: mx.array
    scale: float


class Scales:
    """Shared by all wrapped layers of a model: how much of each adapter each row of the forward gets."""

    def __init__(self) -> None:
        self.rows: dict[int, mx.array] = {}
        """By adapter, float32 [B, 1, 1]; an adapter that no row uses is left out."""


class Adapted(nn.Module):
    """Stands for a linear layer or an embedding; what it has not got itself is the layer's."""

    def __init__(self, base: nn.Module, lows: Sequence[Low], scales: Scales) -> None:
        super().__init__()
        self.base: Any = base
        self.lows, self.scales = tuple(lows), scales
        self.embeds = isinstance(base, nn.Embedding | nn.QuantizedEmbedding)

    def __call__(self, x: mx.array) -> mx.array:
        out = self.base(x)
        for low in self._wanted():
            out = self._add(out, low, (low.a[x] if self.embeds else x @ low.a) @ low.b)
        return out

    def as_linear(self, x: mx.array) -> mx.array:
        """An embedding as the head."""
        out = self.base.as_linear(x)
        for low in self._wanted():
            out = self._add(out, low, (x @ low.b.T) @ low.a.T)
        return out

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        if "base" in self:
            return getattr(self["base"], key)
        raise AttributeError(key)

    def _wanted(self) -> Iterator[Low]:
        return (low for low in self.lows if low.adapter in self.scales.rows)

    def _add(self, out: mx.array, low: Low, change: mx.array) -> mx.array:
        rows = self.scales.rows[low.adapter]
        if out.ndim != 3 or out.shape[0] != rows.shape[0]:
            raise ValueError(f"a layer with an adapter gets {out.shape} in a forward of {rows.shape[0]} rows")
        return out + (rows * low.scale * change).astype(out.dtype)


class Adapters:
    """The adapters of one model. Without any, nothing is wrapped."""

    def __init__(self, model: nn.Module, paths: Sequence[str] = ()) -> None:
        """Raises StartError for a folder that is none, or an adapter of another model or kind."""
        self._scales = Scales()
        self.count = len(paths)
        digest = hashlib.sha256()
        lows: dict[str, list[Low]] = {}
        modules = dict(model.named_modules())
        dtype = next((p.dtype for p in directory.arrays(model) if mx.issubdtype(p.dtype, mx.floating)), mx.float32)
        for number, named in enumerate(paths):
            for place, a, b, scale in _read(Path(named).expanduser(), digest):
                _check(named, place, modules.get(place), a, b)
                lows.setdefault(place, []).append(Low(number, a.astype(dtype), b.astype(dtype), scale))
        wrapped = [(place, Adapted(modules[place], parts, self._scales)) for place, parts in lows.items()]
        if wrapped:
            model.update_modules(cast("dict[str, Any]", tree_unflatten(cast("Any", wrapped))))
        mx.eval([array for parts in lows.values() for low in parts for array in (low.a, low.b)])
        self.identity = digest.hexdigest()[:32] if paths else ""
        """Of the adapters' files, in their order; empty without any."""

    @contextmanager
    def scaled(self, rows: Sequence[tuple[float, ...]]) -> Iterator[None]:
        """A forward is built in here whose row r has these scales, `()` standing for zeros."""
        for n in range(self.count):
            column = [scales[n] if scales else 0.0 for scales in rows]
            if any(column):
                self._scales.rows[n] = mx.array(column, mx.float32)[:, None, None]
        try:
            yield
        finally:
            self._scales.rows = {}


def _read(place: Path, digest: "hashlib._Hash") -> Iterator[tuple[str, mx.array, mx.array, float]]:
    """Name of the layer, `lora_a`, `lora_b` and the scale of each pair."""
    try:
        settings = (place / CONFIG).read_bytes()
        config = json.loads(settings)
        kind, scale = str(config.get("fine_tune_type", "lora")), float(config["lora_parameters"]["scale"])
        digest.update(settings + (place / WEIGHTS).read_bytes())
        weights = cast("dict[str, mx.array]", mx.load(str(place / WEIGHTS)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        what = f"{CONFIG} and {WEIGHTS}"
        raise StartError(f"{place} is no MLX adapter (a folder with {what}): {error!r}") from None
    if kind != "lora":
        raise StartError(
            f"{place} is an adapter of type {kind}: only lora ones can be scaled; fuse it with mlx_lm.fuse"
        )
    names = {name.rpartition(".")[0] for name in weights}
    for name in sorted(names):
        pair = weights.get(f"{name}.lora_a"), weights.get(f"{name}.lora_b")
        if pair[0] is None or pair[1] is None:
            raise StartError(f"{place}: {name} lacks its lora_a or lora_b")
        yield name, pair[0], pair[1], scale


def _check(named: str, place: str, layer: object, a: mx.array, b: mx.array) -> None:
    if not isinstance(layer, nn.Linear | nn.QuantizedLinear | nn.Embedding | nn.QuantizedEmbedding):
        raise StartError(f"--lora {named}: the model has no layer {place} that an adapter can be added to")
    rows, columns = layer.weight.shape
    if isinstance(layer, nn.QuantizedLinear | nn.QuantizedEmbedding):
        columns = columns * 32 // layer.bits
    shape = (columns, rows) if isinstance(layer, nn.Linear | nn.QuantizedLinear) else (rows, columns)
    if a.ndim != 2 or b.ndim != 2 or (a.shape[0], b.shape[1]) != shape or a.shape[1] != b.shape[0]:
        raise StartError(f"--lora {named}: {place} has shapes {a.shape} and {b.shape} for a layer of {shape}")
