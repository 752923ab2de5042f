"""The probe on tiny targets as they are, and on targets that do something wrong: it must see that."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from models.tiny import TARGETS, VOCAB, WINDOW
from stoker.models.comparison import Comparison, Grade
from stoker.models.exactness import (
    PATIENCE,
    PROMPT,
    Report,
    Window,
    block_ids,
    holds_window,
    measurable,
    probe,
    prompt_ids,
    serves,
)
from stoker.models.target import Target, Verification

pytestmark = pytest.mark.mlx
NOISE = 1e-3
WIDTHS = (2, 3, 5, 8)
FAMILIES = ("qwen3", "lfm2", "qwen3_5", "muse_glimmer")


class Twisted(Target):
    """Something goes wrong in forwards of rows that hold a prompt, if they are wide or many enough."""

    def __init__(self, model: nn.Module, slots: int, *, width: int = 2, rows: int = 1) -> None:
        super().__init__(model, slots, 128)
        self.width, self.rows = width, rows

    def verify(self, slots: Sequence[int], ids: mx.array, *args: Any, **kwargs: Any) -> Verification:
        if self.lengths[slots[0]] and ids.shape[0] >= self.rows and ids.shape[1] >= self.width:
            return self.twisted(slots, ids)
        return super().verify(slots, ids, *args, **kwargs)

    def twisted(self, slots: Sequence[int], ids: mx.array) -> Verification:
        raise NotImplementedError


class WrongToken(Twisted):
    """The last token of a block is another one."""

    def twisted(self, slots: Sequence[int], ids: mx.array) -> Verification:
        wrong = (ids[:, -1:] + 1) % self.vocab
        return Target.verify(self, slots, mx.concatenate([ids[:, :-1], wrong], axis=1))


class WrongRow(Twisted):
    """The rows are mixed up."""

    def twisted(self, slots: Sequence[int], ids: mx.array) -> Verification:
        return Target.verify(self, slots, mx.concatenate([ids[1:], ids[:1]]))


class NudgedKeys(Twisted):
    """Cached keys are off by a part in 128."""

    def twisted(self, slots: Sequence[int], ids: mx.array) -> Verification:
        before = [(cache, cache.keys) for cache in self._caches._kv]
        for cache, keys in before:
            if keys is not None:
                cache.keys = keys * (1 + 2**-7)
        seen = Target.verify(self, slots, ids)
        mx.eval(seen.logits)
        for cache, keys in before:
            cache.keys = keys
        return seen


class OffsetHead(nn.Module):
    """An output layer whose logits depend on how many columns it is given."""

    def __init__(self, head: Callable[[mx.array], mx.array], by: float) -> None:
        super().__init__()
        self.head, self.by = head, by

    def __call__(self, x: mx.array) -> mx.array:
        out = self.head(x)
        return out * (1 + self.by) if x.shape[1] > 1 else out


def grades(figures: dict[int, Comparison]) -> set[Grade]:
    return {found.grade for found in figures.values()}


@pytest.mark.parametrize("family", FAMILIES)
def test_real_layers_change_no_clear_choice_at_any_width_or_company(family: str) -> None:
    target = Target(TARGETS[family](), 4, 128)
    report = probe(target, WIDTHS)
    assert (tuple(report.block), tuple(report.company), report.rows) == (WIDTHS, (1, *WIDTHS), 4)
    assert grades(report.block) | grades(report.company) <= {Grade.BITWISE, Grade.DECIDED}
    assert max(found.largest for found in (*report.block.values(), *report.company.values())) < NOISE
    assert report.window is (Window.PASSED if family == "muse_glimmer" else Window.NONE)
    depths = 2 if family == "muse_glimmer" else 1
    assert [report.block[width].bytes for width in WIDTHS] == [3 * depths * width * VOCAB * 4 for width in WIDTHS]
    assert [report.company[width].bytes for width in WIDTHS] == [3 * depths * width * VOCAB * 4 for width in WIDTHS]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_block_token_is_seen(family: str) -> None:
    report = probe(WrongToken(TARGETS[family](), 1), WIDTHS)
    assert grades(report.block) == {Grade.NEITHER}


def test_only_the_width_that_is_wrong_is_refused() -> None:
    report = probe(WrongToken(tiny.qwen3(), 1, width=8), WIDTHS)
    assert [report.grade(width, 1) is Grade.NEITHER for width in WIDTHS] == [False, False, False, True]


@pytest.mark.parametrize("family", FAMILIES)
def test_nudged_keys_are_seen(family: str) -> None:
    plain = probe(Target(TARGETS[family](), 1, 128), WIDTHS)
    report = probe(NudgedKeys(TARGETS[family](), 1), WIDTHS)
    assert Grade.BITWISE not in grades(report.block)
    for width in WIDTHS:
        assert report.block[width].largest > 20 * plain.block[width].largest
        assert report.block[width].largest > 1e-5


def test_rows_that_are_mixed_up_are_seen_in_company_only() -> None:
    report = probe(WrongRow(tiny.qwen3(), 4, width=1, rows=2), WIDTHS)
    assert grades(report.company) == {Grade.NEITHER}
    assert Grade.NEITHER not in grades(report.block)
    assert report.grade(2, 1) is not Grade.NEITHER
    assert report.grade(2, 4) is Grade.NEITHER


@pytest.mark.parametrize(
    ("by", "grade"), [(0.0, {Grade.BITWISE, Grade.DECIDED}), (1e-6, {Grade.DECIDED}), (0.2, {Grade.NEITHER})]
)
def test_a_little_noise_in_blocks_is_decided_and_much_is_an_error(by: float, grade: set[Grade]) -> None:
    model: Any = tiny.qwen2(tie_word_embeddings=False)
    model.lm_head = OffsetHead(model.lm_head, by)
    assert grades(probe(Target(model, 1, 128), WIDTHS).block) <= grade


# What it leaves and needs


@pytest.mark.parametrize("family", FAMILIES)
def test_slots_that_hold_something_keep_it_and_free_ones_are_free_again(family: str) -> None:
    model = TARGETS[family]()
    probed, spared = Target(model, 5, 128), Target(model, 5, 128)
    for target in (probed, spared):
        with target.verify((1, 3), mx.array([[5, 6, 7, 8]] * 2)) as seen:
            seen.keep([4, 2])
            mx.eval(seen.state)
    report = probe(probed, WIDTHS)
    assert report.rows == 3
    assert probed.lengths == (0, 4, 0, 2, 0)
    for slot in range(5):
        after, plain = (target.verify((slot,), mx.array([[9, 10]])).logits for target in (probed, spared))
        assert mx.array_equal(after, plain).item()


def test_slots_are_free_again_after_a_fault() -> None:
    target = Twisted(tiny.lfm2(), 4, width=3)
    with pytest.raises(NotImplementedError):
        probe(target, WIDTHS)
    assert target.lengths == (0, 0, 0, 0)


def test_without_a_free_slot_it_is_refused() -> None:
    target = Target(tiny.llama(), 1, 64)
    target.verify((0,), mx.array([[1]])).keep([1])
    with pytest.raises(ValueError, match="free slot"):
        probe(target, (2,))


@pytest.mark.parametrize(("slots", "rows"), [(1, 4), (2, 4), (3, 4), (4, 2), (6, 4), (4, 1)])
def test_every_draw_is_measured_with_any_number_of_slots(slots: int, rows: int) -> None:
    report = probe(Target(tiny.lfm2(), slots, 64), (3, 1, 3, 2), rows)
    together = min(slots, rows)
    assert report.rows == together
    assert {width: found.bytes for width, found in report.block.items()} == {w: 3 * w * VOCAB * 4 for w in (2, 3)}
    expected = {w: 3 * w * VOCAB * 4 for w in (1, 2, 3)} if together > 1 else {}
    assert {width: found.bytes for width, found in report.company.items()} == expected


def test_widths_that_no_slot_can_hold_are_left_out() -> None:
    target = Target(tiny.llama(), 2, 6)
    assert measurable(target, range(20)) == (2, 3, 4, 5)
    report = probe(target, range(20))
    assert (tuple(report.block), report.prompt) == ((2, 3, 4, 5), 1)
    assert tuple(probe(Target(tiny.llama(), 2, 2), range(20)).company) == (1,)


def test_prompts_and_blocks_are_those_of_the_specification() -> None:
    assert prompt_ids(0, 3, 1000) == [2, 9, 16]
    assert prompt_ids(2, 2, 1000) == [(1 + 977 * 2 + 1) % 1000, (7 + 1 + 977 * 2 + 1) % 1000]
    assert block_ids(1, 3, 1000) == [(3 + 978) % 1000, (13 + 3 + 978) % 1000, (26 + 3 + 978) % 1000]


# Past the window


def test_an_error_past_the_window_only_is_seen() -> None:
    class WrongPast(WrongToken):
        def twisted(self, slots: Sequence[int], ids: mx.array) -> Verification:
            past = self.lengths[slots[0]] >= WINDOW
            return super().twisted(slots, ids) if past else Target.verify(self, slots, ids)

    assert grades(probe(WrongPast(tiny.llama_sliding(), 1), WIDTHS).block) == {Grade.NEITHER}
    assert Grade.NEITHER not in grades(probe(WrongPast(tiny.llama(), 1), WIDTHS).block)


def test_a_window_that_a_slot_does_not_reach_is_said_to_be_out_of_reach() -> None:
    target = Target(tiny.llama_sliding(), 1, WINDOW + PROMPT + 3)
    assert holds_window(target, (2, 3))
    assert not holds_window(target, (2, 4))
    assert probe(target, (3,)).window is Window.PASSED
    assert probe(target, (4,)).window is Window.OUT_OF_REACH


def test_a_window_that_takes_too_long_to_fill_is_not_filled_and_progress_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ticks = iter(range(10_000))
    with caplog.at_level("INFO"):
        report = probe(Target(tiny.llama_sliding(), 1, 64), (2,), clock=lambda: PATIENCE * next(ticks))
    assert report.window is Window.COSTLY
    assert report.block[2].bytes == 3 * 2 * VOCAB * 4
    assert "exactness probe: 8-token prompts, draw 3 of 3, width 2 done" in caplog.text
    assert report.seconds > 10


# Reports


def report(rows: int = 4, window: Window = Window.NONE, prompt: int = PROMPT) -> Report:
    some = {width: Comparison(bytes=100) for width in (2, 3)}
    return Report(rows, prompt, window, some, {1: Comparison(bytes=50), **some} if rows > 1 else {}, 1.0)


def test_the_grade_of_a_forward_is_the_worse_of_width_and_company() -> None:
    same, near, off = Comparison(10), Comparison(10, 1, 1e-6), Comparison(10, 9, 5.0, 1.0)
    found = Report(4, 8, Window.NONE, {2: same, 3: near, 4: off}, {1: near, 2: near, 3: off, 4: same}, 1.0)
    assert [found.grade(width, 1) for width in (1, 2, 3, 4, 5)] == [
        "bitwise",
        "bitwise",
        "decided",
        "neither",
        "neither",
    ]
    assert [found.grade(width, 4) for width in (1, 2, 3, 4, 5)] == [
        "decided",
        "decided",
        "neither",
        "neither",
        "neither",
    ]
    assert found.evidence(3) == Comparison(20, 10, 5.0, 1.0)


def test_a_report_without_company_speaks_of_rows_alone() -> None:
    assert report(rows=1).grade(2, 4) is Grade.BITWISE
    assert report(rows=1).grade(4, 4) is Grade.NEITHER


def test_a_report_serves_while_a_probe_could_add_nothing() -> None:
    plain, sliding = Target(tiny.llama(), 4, 64), Target(tiny.llama_sliding(), 4, 64)
    assert serves(report(), plain, range(2, 4), 4)
    assert serves(report(), plain, (2,), 6)
    assert not serves(report(), plain, range(2, 5), 4)
    assert serves(report(), plain, (2,), 2)
    assert not serves(report(rows=3), plain, (2,), 4)
    assert not serves(report(prompt=2), plain, (2,), 4)
    assert serves(report(window=Window.COSTLY), sliding, (2,), 4)
    assert not serves(report(window=Window.OUT_OF_REACH), sliding, (2,), 4)
    assert serves(report(window=Window.OUT_OF_REACH), Target(tiny.llama_sliding(), 4, WINDOW), (2,), 4)
