"""One layer's slot cache: what is written, what is read, what is masked; never a copy of a whole buffer."""

from collections.abc import Callable, Sequence

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, RotatingKVCache, create_causal_mask

from stoker.models.slots import SlotKV
from stoker.models.span import Size, Span

pytestmark = pytest.mark.mlx
HEADS, DIM = 2, 4
LARGE = Size(rows=8, columns=8192)


def span(lengths: Sequence[int], width: int, size: Size, start: int = 0, stop: int | None = None) -> Span:
    return Span(start, len(lengths) if stop is None else stop, width, tuple(lengths), size)


def noise(rows: int, width: int, seed: int = 0) -> mx.array:
    return mx.random.normal((rows, HEADS, width, DIM), key=mx.random.key(seed))


def filled(cache: SlotKV, lengths: Sequence[int], size: Size) -> mx.array:
    """Write every row up to its length, junk behind it; returns the keys that were written."""
    keys = noise(len(lengths), size.columns, seed=9)
    cache.open(span([0] * len(lengths), size.columns, size))
    cache.update_and_fetch(keys, keys)
    mx.eval(cache.buffers)
    return keys


@pytest.mark.parametrize(
    ("lengths", "start", "stop"),
    [
        pytest.param((9, 9, 9, 9), 0, 4, id="level"),
        pytest.param((9, 2, 0, 30), 0, 4, id="all rows, ragged"),
        pytest.param((9, 2, 0, 30), 1, 4, id="most rows, ragged"),
        pytest.param((9, 2, 5, 30, 1, 1, 1, 8), 1, 3, id="few rows of many, ragged"),
        pytest.param((9, 2, 0, 30), 3, 4, id="one row"),
    ],
)
def test_each_row_of_a_forward_is_written_at_its_length_and_the_others_keep_theirs(
    lengths: tuple[int, ...], start: int, stop: int
) -> None:
    size = Size(len(lengths), 40)
    cache = SlotKV()
    old, new = filled(cache, lengths, size), noise(stop - start, 3)
    cache.open(span(lengths, 3, size, start, stop))
    keys, _ = cache.update_and_fetch(new, 2 * new)
    stored = cache.buffers[0]
    for row, length in enumerate(lengths):
        assert mx.array_equal(stored[row, :, :length], old[row, :, :length])
    for i, length in enumerate(lengths[start:stop]):
        assert mx.array_equal(keys[i, :, length : length + 3], new[i])
        assert mx.array_equal(cache.buffers[1][start + i, :, length : length + 3], 2 * new[i])


def test_columns_that_do_not_fit_are_dropped_and_hurt_nobody() -> None:
    size = Size(3, 40)
    cache = SlotKV()
    old, new = filled(cache, (38, 5, 39), size), noise(2, 6)
    cache.open(span((38, 5, 39), 6, size, 0, 2))
    keys, _ = cache.update_and_fetch(new, new)
    assert keys.shape == (2, HEADS, 40, DIM)
    assert mx.array_equal(keys[0, :, 38:], new[0, :, :2])
    assert mx.array_equal(keys[1, :, 5:11], new[1])
    assert mx.array_equal(cache.buffers[0][2, :, :39], old[2, :, :39])


def test_a_buffer_keeps_the_dtype_of_the_model() -> None:
    cache = SlotKV()
    cache.open(span((0, 0), 2, Size(2, 8)))
    keys, values = cache.update_and_fetch(noise(2, 2).astype(mx.bfloat16), noise(2, 2).astype(mx.float16))
    assert (keys.dtype, values.dtype) == (mx.bfloat16, mx.float16)


def test_growing_keeps_what_was_written() -> None:
    cache = SlotKV()
    old, new = filled(cache, (8, 8), Size(2, 16)), noise(3, 1)
    cache.open(span((8, 8, 0, 0), 1, Size(4, 32), 0, 3))
    cache.update_and_fetch(new, new)
    assert cache.buffers[0].shape == (4, HEADS, 32, DIM)
    assert mx.array_equal(cache.buffers[0][:2, :, :8], old[:, :, :8])


def test_rows_swap_and_copy_as_far_as_asked() -> None:
    cache = SlotKV()
    old = filled(cache, (9, 9, 9), Size(3, 16))
    cache.move({0: 2, 2: 0}, 9, Size(3, 16))
    cache.move({0: 1}, 9, Size(3, 16))
    stored = cache.buffers[0]
    for row, source in enumerate((2, 2, 0)):
        assert mx.array_equal(stored[row, :, :9], old[source, :, :9])
    assert mx.array_equal(stored[:, :, 9:], old[:, :, 9:])


def test_an_unused_cache_moves_nothing_and_cannot_be_read() -> None:
    cache = SlotKV()
    cache.move({0: 1}, 4, Size(2, 8))
    assert cache.buffers == []
    with pytest.raises(RuntimeError, match="outside of a forward"):
        _ = cache.offset
    cache.open(span((0,), 1, Size(1, 8)))
    with pytest.raises(RuntimeError, match="before it was written"):
        cache.keys_and_values()


def test_a_mask_of_another_width_than_the_forward_is_refused() -> None:
    cache = SlotKV()
    cache.open(span((0,), 2, Size(1, 8)))
    with pytest.raises(ValueError, match="mask of 3 columns"):
        cache.make_mask(3)


# Masks


def test_a_row_alone_has_an_integer_offset_and_no_mask_array() -> None:
    cache = SlotKV()
    cache.open(span((5, 30), 1, Size(2, 64), 1, 2))
    assert cache.offset == 30
    assert cache.make_mask(1) is None
    cache.open(span((5, 30), 4, Size(2, 64), 1, 2))
    assert cache.make_mask(4) == "causal"
    keys, _ = cache.update_and_fetch(noise(1, 4), noise(1, 4))
    assert keys.shape == (1, HEADS, 34, DIM)


def test_ragged_rows_have_an_offset_each() -> None:
    cache = SlotKV()
    cache.open(span((5, 30), 1, Size(2, 64)))
    offset = cache.offset
    assert isinstance(offset, mx.array)
    assert offset.tolist() == [5, 30]


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("length", [3, 15, 16, 40])
def test_a_level_forward_asks_for_the_masks_of_mlx_lms_cache(length: int, width: int) -> None:
    ours, theirs = SlotKV(), KVCache()
    ours.open(span((length,), width, Size(1, 64)))
    theirs.update_and_fetch(noise(1, length), noise(1, length))
    assert ours.make_mask(width) == theirs.make_mask(width, return_array=False, window_size=None)
    for window in (None, 16):
        full = create_causal_mask(width, length, window_size=window)
        mask = ours.make_mask(width, return_array=True, window_size=window)
        assert full.all().item() if mask is None else mx.array_equal(_array(mask), full)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("lengths", [(40,), (10,), (40, 17, 3), (40, 40), (15, 16, 17)])
@pytest.mark.parametrize("asked", [None, 16, 6])
def test_a_query_sees_the_last_columns_of_its_window_and_only_those(
    lengths: tuple[int, ...], width: int, asked: int | None
) -> None:
    own = 16
    cache = SlotKV(own)
    at = span(lengths, width, Size(len(lengths), 128))
    cache.open(at)
    mask = cache.make_mask(width, window_size=asked)
    first, count = at.bottom(own), at.top - at.bottom(own)
    seen = mx.ones((len(lengths), width, count), mx.bool_)
    if isinstance(mask, str):
        seen = mx.broadcast_to(create_causal_mask(width, count - width), seen.shape)
    elif mask is not None:
        seen = mx.broadcast_to(mask if mask.ndim == 2 else mask[:, 0], seen.shape)
    for row, length in enumerate(lengths):
        for step in range(width):
            query = length + step
            expected = set(range(max(0, query + 1 - min(own, asked or own)), query + 1))
            assert {first + i for i in range(count) if seen[row, step, i].item()} == expected


def test_a_window_reads_no_more_columns_than_it_needs() -> None:
    cache, size = SlotKV(16), Size(1, 128)
    filled(cache, (100,), size)
    cache.open(span((100,), 1, size))
    keys, _ = cache.update_and_fetch(noise(1, 1), noise(1, 1))
    assert keys.shape[2] == 16
    assert cache.make_mask(1, window_size=16) is None


def test_attention_through_a_window_equals_mlx_lms_ring() -> None:
    ours, theirs, size = SlotKV(16), RotatingKVCache(16), Size(1, 64)
    for step in range(40):
        new, query = noise(1, 1, step), noise(1, 1, 99)
        ours.open(span((step,), 1, size))
        got = mx.fast.scaled_dot_product_attention(query, *ours.update_and_fetch(new, new), scale=1.0)
        keys, values = theirs.update_and_fetch(new, new)
        assert keys is not None
        assert values is not None
        want = mx.fast.scaled_dot_product_attention(query, keys, values, scale=1.0)
        assert mx.allclose(got, want, atol=1e-5).item()


# Memory


def growth(tick: Callable[[], object]) -> int:
    """Bytes that a call needs beyond what was there."""
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    tick()
    mx.synchronize()
    return mx.get_peak_memory() - before


def tick(cache: SlotKV, lengths: Sequence[int], start: int, stop: int) -> None:
    cache.open(span(lengths, 2, LARGE, start, stop))
    new = noise(stop - start, 2)
    keys, values = cache.update_and_fetch(new, new)
    mx.eval(keys[:, 0, 0, 0] + values[:, 0, 0, 0])


SHAPES = [((4000,) * 8, 0, 8), ((4000,) * 8, 2, 3), (range(10, 90, 10), 0, 8), (range(10, 90, 10), 1, 3)]


@pytest.mark.parametrize(("lengths", "start", "stop"), SHAPES, ids=["level", "alone", "scatter", "slices"])
def test_a_write_copies_no_buffer(lengths: Sequence[int], start: int, stop: int) -> None:
    cache = SlotKV()
    tick(cache, lengths, start, stop)
    assert growth(lambda: tick(cache, lengths, start, stop)) < cache.buffers[0].nbytes // 8


def test_a_write_while_somebody_holds_the_buffer_is_seen_as_a_copy() -> None:
    cache = SlotKV()
    tick(cache, SHAPES[0][0], 0, 8)
    held = [mx.array(buffer) for buffer in cache.buffers]
    assert growth(lambda: tick(cache, SHAPES[0][0], 0, 8)) >= held[0].nbytes


def test_an_exchange_of_rows_copies_these_rows_only() -> None:
    cache = SlotKV()
    tick(cache, SHAPES[0][0], 0, 8)
    row = cache.buffers[0].nbytes // 8
    assert growth(lambda: cache.move({0: 5, 5: 0}, 4000, LARGE)) < 3 * row


def _array(mask: mx.array | str) -> mx.array:
    assert isinstance(mask, mx.array)
    return mask
