"""Call-through proxies in the layer list of our own instance of a model. No class of mlx-lm is touched.

A tap passes everything on. While a forward of ours is being built it also notes what that forward
asked for: the residual stream behind the layer, or a recurrent layer's call (by reference).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import mlx.core as mx
from mlx import nn
from mlx_lm.models.cache import ArraysCache

from stoker.models.recurrent import Call


class Record:
    """What one forward leaves behind."""

    def __init__(self, capture: tuple[int, ...]) -> None:
        self.capture = capture
        self.features: dict[int, mx.array] = {}
        self.calls: list[Call] = []


class Switch:
    """Shared by all taps of a model: the record of the forward that is being built, if any."""

    def __init__(self) -> None:
        self.record: Record | None = None


class Tap(nn.Module):
    """Stands for the decoder layer `index`; what it has not got itself is the layer's."""

    def __init__(self, layer: nn.Module, index: int, switch: Switch) -> None:
        super().__init__()
        self.layer, self.index, self.switch = layer, index, switch

    @property
    def plain(self) -> nn.Module:
        """The layer itself, under the taps of other targets of this model too."""
        layer = self["layer"]
        return layer.plain if isinstance(layer, Tap) else layer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = self.layer(*args, **kwargs)
        record = self.switch.record
        if record is not None:
            self._note(record, args, kwargs, out)
        return out

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        if "layer" in self:
            return getattr(self["layer"], key)
        raise AttributeError(key)

    def _note(self, record: Record, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        caches = [value for value in (*args, *kwargs.values()) if isinstance(value, ArraysCache)]
        if caches:
            record.calls.append(Call(self.plain, caches[0], args, kwargs))
        if self.index in record.capture:
            record.features[self.index] = out[0] if isinstance(out, tuple) else out


class Taps:
    """The taps of one model, put in when they are first needed."""

    def __init__(self, model: nn.Module) -> None:
        self._switch = Switch()
        self._layers = _layer_list(model)

    def __len__(self) -> int:
        return len(self._layers)

    def put(self, indices: Iterable[int]) -> None:
        """See to it that these decoder layers have a tap."""
        for i in indices:
            layer = self._layers[i]
            if not (isinstance(layer, Tap) and layer.switch is self._switch):
                self._layers[i] = Tap(layer, i, self._switch)

    @contextmanager
    def recording(self, record: Record) -> Iterator[None]:
        """Taps note into `record` while a forward is built in here."""
        self._switch.record = record
        try:
            yield
        finally:
            self._switch.record = None


def _layer_list(model: nn.Module) -> list[nn.Module]:
    """The very list that the model walks, whatever its name (`model.layers` may be a slice of it)."""
    first = cast("list[nn.Module]", model.layers)[0]
    values = (value for module in model.modules() for value in module.values() if isinstance(value, list))
    return next(layers for layers in values if layers and layers[0] is first)
