"""One forward for rows of any lengths, against fresh forwards of each row alone; and what a tick may cost."""

import random
from collections.abc import Callable, Sequence

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.models.cache import make_prompt_cache

from models import tiny
from models.tiny import TARGETS, VOCAB, WIDTH
from stoker.core.errors import StartError
from stoker.models.target import Target

pytestmark = pytest.mark.mlx
NOISE = 1e-3
"""Most that logits of size 3 to 8 differ between a row alone and in company.

With the reference BLAS they do not differ at all, with OpenBLAS as much as mlx-lm's own caches do
between widths (1e-5, gated delta nets 1e-4).
"""
CONTEXT = 120
RECURRENT = ("lfm2", "qwen3_5", "mamba2")


def fresh(model: nn.Module, tokens: Sequence[int]) -> mx.array:
    """[len(tokens), V] from an empty cache of mlx-lm's."""
    return model(mx.array([list(tokens)]), cache=make_prompt_cache(model))[0]


class Company:
    """A target and, by slot, the tokens it should hold and the logits it gave for them.

    Every kept column is compared once, when its row is cut or by `check`.
    """

    def __init__(self, model: nn.Module, slots: int, seed: int = 0) -> None:
        self.model, self.rng = model, random.Random(seed)
        self.target = Target(model, slots, CONTEXT, room=8)
        self.held: list[list[int]] = [[] for _ in range(slots)]
        self.logits: list[list[mx.array]] = [[] for _ in range(slots)]
        self.error, self.compared = 0.0, 0

    def step(self, slots: Sequence[int], width: int, counts: Sequence[int] | None = None, wrong: int = 0) -> None:
        """`wrong` more columns are kept than the comparison knows of."""
        ids = [[self.rng.randrange(VOCAB) for _ in range(width)] for _ in slots]
        counts = counts or [self.rng.choice([0, width, self.rng.randint(0, width)]) for _ in slots]
        counts = [min(count, CONTEXT - len(self.held[slot])) for slot, count in zip(slots, counts, strict=True)]
        with self.target.verify(slots, mx.array(ids)) as seen:
            if self.rng.random() < 0.5:
                mx.eval(seen.logits)
            seen.keep([min(count + wrong, width) for count in counts])
        mx.eval(seen.logits)
        for row, (slot, count) in enumerate(zip(slots, counts, strict=True)):
            self.held[slot] += ids[row][:count]
            self.logits[slot] += list(seen.logits[row, :count])
        if not wrong:
            assert self.target.lengths == tuple(map(len, self.held))

    def cut(self, slot: int) -> None:
        self._compare(slot)
        have = len(self.held[slot])
        length = 0 if self.target.recurrent else self.rng.randint(0, have)
        self.target.truncate(slot, length)
        del self.held[slot][length:], self.logits[slot][length:]

    def copy(self, source: int, target: int) -> None:
        self.target.copy(source, target)
        self.held[target], self.logits[target] = list(self.held[source]), list(self.logits[source])

    def check(self) -> float:
        """The largest difference so far."""
        for slot in range(len(self.held)):
            self._compare(slot)
        return self.error

    def _compare(self, slot: int) -> None:
        if self.held[slot]:
            difference = mx.abs(mx.stack(self.logits[slot]) - fresh(self.model, self.held[slot])).max()
            assert not mx.isnan(difference).item()
            self.error = max(self.error, float(difference))
            self.compared += len(self.held[slot])


@pytest.mark.parametrize("family", TARGETS)
def test_ragged_rounds_equal_fresh_forwards_of_each_row(family: str) -> None:
    company = Company(TARGETS[family](), 3)
    company.step((0, 1, 2), 34, [30, 34, 2])  # the prefill is a ragged round too, past the window
    for width in [8, 1, 1, 3] * 6:
        company.step((0, 1, 2), width)
    assert company.check() < NOISE
    assert company.compared > 150


@pytest.mark.parametrize("family", TARGETS)
def test_rows_join_leave_swap_copy_and_return_in_any_order(family: str) -> None:
    company = Company(TARGETS[family](), 5, seed=1)
    rng = random.Random(2)
    for _ in range(30):
        if rng.random() < 0.3:
            company.cut(rng.randrange(5))
        if rng.random() < 0.15:
            company.copy(*rng.sample(range(5), 2))
        company.step(rng.sample(range(5), rng.randint(1, 5)), rng.choice([1, 1, 3, 12]))
    assert company.check() < NOISE
    assert company.compared > 120


@pytest.mark.parametrize("family", ["qwen3", "muse_glimmer", *RECURRENT])
def test_a_rejected_column_that_is_kept_shows(family: str) -> None:
    company = Company(TARGETS[family](), 3)
    for width in (9, 5, 1, 5):
        company.step((0, 1, 2), width, [1] * 3, wrong=1)
    assert company.check() > 0.1


@pytest.mark.parametrize("family", ["qwen3", *RECURRENT])
def test_leaving_without_keep_keeps_nothing(family: str) -> None:
    company = Company(TARGETS[family](), 2)
    company.step((0, 1), 5, [5, 3])
    with company.target.verify((0, 1), mx.array([[1, 2, 3]] * 2)) as seen:
        mx.eval(seen.logits, seen.state)
    with pytest.raises(ZeroDivisionError), company.target.verify((1,), mx.array([[1, 2, 3]])):
        _ = 1 / 0
    company.target.verify((0, 1), mx.array([[1]] * 2)).keep([0, 0])
    company.step((0, 1), 3, [3, 3])
    assert company.check() < NOISE


@pytest.mark.parametrize("family", ["llama", *RECURRENT])
def test_forwards_may_be_queued_before_the_last_one_is_evaluated(family: str) -> None:
    model = TARGETS[family]()
    target = Target(model, 2, CONTEXT)
    prompts = [[5, 6, 7, 8], [9, 10]]
    target.verify((0, 1), mx.array([[5, 6, 7, 8], [9, 10, 0, 0]])).keep([4, 2])
    anchors, emitted = mx.array([[1], [2]]), list[mx.array]()
    for _ in range(6):
        seen = target.verify((0, 1), anchors)
        seen.keep([1, 1])
        anchors = mx.argmax(seen.logits, axis=-1)
        emitted.append(anchors)
    got = mx.concatenate([mx.array([[1], [2]]), *emitted], axis=1)
    for row, prompt in enumerate(prompts):
        tokens = [int(token) for token in got[row]]
        logits = fresh(model, prompt + tokens[:-1])
        assert mx.array_equal(mx.argmax(logits[len(prompt) :], axis=-1), got[row, 1:]).item()


@pytest.mark.parametrize("family", ["qwen3", *RECURRENT])
def test_a_prefill_is_filled_by_its_state_alone(family: str) -> None:
    model = TARGETS[family]()
    target = Target(model, 2, CONTEXT)
    with target.verify((0, 1), mx.array([[1, 2, 3, 4]] * 2)) as seen:
        seen.keep([4, 2])
        mx.eval(seen.state)
    logits = target.verify((1, 0), mx.array([[7], [8]])).logits
    for row, tokens in enumerate(([1, 2, 7], [1, 2, 3, 4, 8])):
        assert mx.allclose(logits[row, 0], fresh(model, tokens)[-1], atol=NOISE).item()


def test_a_full_row_may_be_padded_beyond_the_room() -> None:
    company = Company(tiny.llama_sliding(), 2)
    company.step((0, 1), CONTEXT - 1, [CONTEXT - 1, 3])
    company.step((0, 1), 40, [1, 40])
    company.step((1,), 40, [40])
    assert company.check() < NOISE


# Capture


@pytest.mark.parametrize("family", ["qwen3", "gemma4_text", "lfm2", "qwen3_5"])
def test_captured_streams_are_what_the_next_layer_gets_and_follow_the_callers_rows(family: str) -> None:
    model = TARGETS[family]()
    target = Target(model, 3, CONTEXT)
    target.verify((0, 1, 2), mx.array([[1], [2], [3]])).keep([1, 1, 1])
    seen = target.verify((2, 0), mx.array([[4, 5], [6, 7]]), capture=(0, 2))
    assert {layer: feature.shape for layer, feature in seen.features.items()} == {
        0: (2, 2, WIDTH),
        2: (2, 2, WIDTH),
    }
    alone = Target(model, 1, CONTEXT).verify((0,), mx.array([[3, 4, 5]]), capture=(2,))
    assert mx.allclose(seen.features[2][0], alone.features[2][0, 1:], atol=NOISE).item()
    assert not mx.allclose(seen.features[2][1], alone.features[2][0, 1:], atol=NOISE).item()
    assert target.verify((1,), mx.array([[1]])).features == {}


# Contract


def test_a_target_knows_its_sizes_before_anything_is_allocated() -> None:
    model = tiny.llama()
    before = mx.get_active_memory()
    target = Target(model, 2, 100, room=28)
    assert (target.vocab, target.slots, target.context, target.recurrent) == (VOCAB, 2, 100, False)
    assert target.bytes_per_column == 4 * 2 * (2 * 16) * 4
    assert target.bytes_when_full == 2 * 128 * target.bytes_per_column
    assert mx.get_active_memory() - before < target.bytes_per_column


def test_a_recurrent_target_counts_its_states() -> None:
    target = Target(tiny.lfm2(), 2, 100, room=28)
    assert target.recurrent
    assert target.bytes_per_slot == 4 * 2 * WIDTH * 4
    assert target.bytes_when_full == 2 * (128 * 2 * 2 * (2 * 16) * 4 + target.bytes_per_slot)


def test_half_precision_models_have_half_sized_columns() -> None:
    model = tiny.llama()
    model.set_dtype(mx.bfloat16)
    assert Target(model, 1, 64).bytes_per_column == 4 * 2 * (2 * 16) * 2


def test_a_verification_is_kept_once_and_only_while_it_is_the_newest() -> None:
    target = Target(tiny.llama(), 2, CONTEXT)
    first = target.verify((0,), mx.array([[1, 2]]))
    second = target.verify((1,), mx.array([[1, 2]]))
    with pytest.raises(RuntimeError, match="kept or abandoned"):
        first.keep([1])
    with pytest.raises(RuntimeError, match="newer forward"):
        _ = first.state
    second.keep([2])
    with pytest.raises(RuntimeError, match="kept or abandoned"):
        second.keep([2])
    assert target.lengths == (0, 2)


def test_counts_that_cannot_be_are_refused() -> None:
    target = Target(tiny.llama(), 2, 4)
    seen = target.verify((0, 1), mx.array([[1, 2, 3]] * 2))
    for counts in ([1], [4, 0], [-1, 0]):
        with pytest.raises(ValueError, match="cannot keep"):
            seen.keep(counts)
    seen.keep([3, 3])
    with pytest.raises(ValueError, match="3 \\+ 2 columns exceed the context of 4"):
        target.verify((0, 1), mx.array([[1, 2, 3]] * 2)).keep([1, 2])
    assert target.lengths == (3, 3)


@pytest.mark.parametrize("slots", [(0, 0), (0,), ()])
def test_rows_and_slots_must_match(slots: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="rows of ids"):
        Target(tiny.llama(), 2, 10).verify(slots, mx.array([[1], [2]]))


def test_a_row_that_was_cut_meanwhile_keeps_nothing_of_the_open_forward() -> None:
    target = Target(tiny.llama(), 2, CONTEXT)
    target.verify((0, 1), mx.array([[1, 2, 3]] * 2)).keep([3, 3])
    seen = target.verify((0, 1), mx.array([[4]] * 2))
    target.truncate(0, 2)
    with pytest.raises(ValueError, match="slot 0 was cut to 2"):
        seen.keep([1, 1])
    seen.keep([0, 1])
    assert target.lengths == (2, 4)


def test_a_cut_is_bounded_by_what_is_there() -> None:
    target = Target(tiny.llama(), 1, CONTEXT)
    target.verify((0,), mx.array([[1, 2, 3]])).keep([3])
    for length in (-1, 4):
        with pytest.raises(ValueError, match="holds 3 columns"):
            target.truncate(0, length)
    target.copy(0, 0)
    assert target.lengths == (3,)


def test_a_recurrent_row_is_erased_or_left_but_never_cut() -> None:
    target = Target(tiny.qwen3_5(), 1, CONTEXT)
    target.verify((0,), mx.array([[1, 2, 3]])).keep([3])
    with pytest.raises(ValueError, match="recurrent state"):
        target.truncate(0, 2)
    target.truncate(0, 3)
    target.truncate(0, 0)
    assert target.lengths == (0,)


def test_a_recurrent_family_whose_layers_ignore_row_lengths_is_refused_by_name() -> None:
    with pytest.raises(StartError, match=r"nemotron_h\.Model: .* ArraysCache"):
        Target(tiny.nemotron_h(), 1, CONTEXT)


def test_a_cache_that_nothing_stands_in_for_is_refused_by_name() -> None:
    class Chunked:
        def __init__(self, model: nn.Module) -> None:
            self.model_type, self.layers = "chunked", model.layers

        def make_cache(self) -> list[object]:
            return [object()]

    with pytest.raises(StartError, match=r"Chunked: .* cache object;"):
        Target(Chunked(tiny.llama()), 1, CONTEXT)  # pyright: ignore[reportArgumentType]


def test_a_model_that_wants_one_offset_for_all_rows_is_refused_by_name() -> None:
    with pytest.raises(StartError, match=r"gpt_bigcode\.Model cannot take rows of different lengths"):
        Target(tiny.gpt_bigcode(), 1, CONTEXT)


# What a tick costs


def growth(tick: Callable[[], object]) -> int:
    """Bytes that a call needs beyond what was there."""
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    tick()
    mx.synchronize()
    return mx.get_peak_memory() - before


def long(slots: int = 4) -> Target:
    """Buffers of 8,500 columns, of which the rows use few: a copy would show, attention costs nothing."""
    target = Target(tiny.llama(), slots, 9000)
    target._caches._layout.reserve(slots, 8500)
    for slot in range(slots):
        round_of(target, (slot,), 5 + slot)
    return target


BUFFER = 4 * 2 * 8500 * 16 * 4
"""Bytes of one layer's keys; there are eight such buffers."""


def round_of(target: Target, slots: Sequence[int], width: int) -> None:
    with target.verify(slots, mx.ones((len(slots), width), mx.int32)) as seen:
        seen.keep([1] * len(slots))
        mx.eval(seen.logits)


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("slots", [(0,), (2, 3), (0, 1, 2, 3)])
def test_a_tick_copies_no_buffer(slots: tuple[int, ...], width: int) -> None:
    target = long()
    round_of(target, slots, width)
    assert growth(lambda: round_of(target, slots, width)) < BUFFER / 4


def test_groups_that_take_turns_copy_no_buffer() -> None:
    target = long()

    def turns() -> None:
        round_of(target, (0, 1), 1)
        round_of(target, (2,), 6)
        round_of(target, (3, 0, 1), 1)
        round_of(target, (0, 1), 1)

    turns()
    turns()
    target.truncate(2, 2)
    assert growth(lambda: round_of(target, (2,), 6)) < BUFFER / 4


@pytest.mark.parametrize("early", [False, True], ids=["started after the last", "started beside the last"])
def test_a_pipeline_of_forwards_copies_no_buffer(early: bool) -> None:
    if early and mx.metal.is_available():
        pytest.skip("how far ahead MLX prepares a GPU's work is not known")
    target = long()
    slots = (0, 1, 2, 3)
    round_of(target, slots, 1)

    def pipeline() -> None:
        seen = target.verify(slots, mx.ones((4, 1), mx.int32))
        seen.keep([1] * 4)
        now = mx.argmax(seen.logits, axis=-1)
        mx.async_eval(now, *seen.state)
        for _ in range(6):
            seen = target.verify(slots, now)
            seen.keep([1, 0, 1, 1])
            following = mx.argmax(seen.logits, axis=-1)
            if early:
                mx.async_eval(following)
            mx.eval(now)
            mx.async_eval(following, *seen.state)
            now = following
        mx.eval(now)

    assert growth(pipeline) < BUFFER / 4


def test_the_measure_sees_a_held_buffer() -> None:
    target = long()
    round_of(target, (0, 1), 1)
    held = [mx.array(buffer) for buffer in target._caches.buffers]
    assert growth(lambda: round_of(target, (0, 1), 1)) > sum(buffer.nbytes for buffer in held) / 2
