"""Call-through proxies: transparent, silent unless a forward of ours records."""

from typing import Any, cast

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from stoker.models.taps import Record, Tap, Taps
from stoker.models.target import Target

pytestmark = pytest.mark.mlx


def layer(model: nn.Module, index: int) -> Any:
    return cast("list[nn.Module]", model.layers)[index]


def test_a_tapped_model_computes_the_same_and_its_layers_answer_as_before() -> None:
    model, ids = tiny.gemma4_text(), mx.array([[1, 2, 3]])
    plain, kind = model(ids), layer(model, 2).layer_type
    Taps(model).put([0, 2])
    assert isinstance(layer(model, 2), Tap)
    assert layer(model, 2).layer_type == kind
    assert mx.array_equal(model(ids), plain).item()
    with pytest.raises(AttributeError):
        _ = layer(model, 2).no_such_thing


def test_nothing_is_noted_outside_of_a_recording_or_after_a_fault_in_one() -> None:
    model, record = tiny.llama(), Record((1,))
    taps = Taps(model)
    taps.put([1])
    model(mx.array([[1]]))
    with pytest.raises(ZeroDivisionError), taps.recording(record):
        _ = 1 / 0
    model(mx.array([[1]]))
    assert record.features == {}
    with taps.recording(record):
        model(mx.array([[1]]))
    assert list(record.features) == [1]


def test_a_layer_is_tapped_once_by_each_target_and_the_list_behind_a_slice_is_found() -> None:
    model = tiny.qwen3_5()
    first, second = Target(model, 1, 64), Target(model, 1, 64)
    for target in (first, second, first):
        target.verify((0,), mx.array([[1, 2, 3]])).keep([2])
    assert (first.lengths, second.lengths) == ((4,), (2,))
    outer = layer(model, 0)
    assert isinstance(outer, Tap)
    assert isinstance(outer.layer, Tap)
    assert not isinstance(outer.layer.layer, Tap)
