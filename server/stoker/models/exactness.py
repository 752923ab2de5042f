"""The exactness probe: does a forward of w columns give the logits of w forwards of one, and a row in company its own?

Kernels are chosen by the shape of a matrix, and each rounds in its own way; so the answer is
measured, for every width, on the very machine. What follows from it is `exactness_gate.py`'s.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import mlx.core as mx
from mlx_lm.models.cache import RotatingKVCache, make_prompt_cache

from stoker.core.clock import Clock, now
from stoker.models.comparison import Comparison, Grade, compare
from stoker.models.target import Target, Verification

log = logging.getLogger(__name__)

VERSION = 1
"""To be raised with every change of what is measured, or of how slot caches compute: kept reports are then void."""
DRAWS = 3
COMPANY = 4
"""Rows of a company, if there are so many slots."""
PROMPT = 8
"""Columns of a prompt, and how far behind a window the deep prompts reach."""
RAGGED = 3
"""By so many columns the last row of a company is shorter, since rows of one length take simpler paths."""
PATIENCE = 2.0
"""Seconds that the prompts which fill a sliding window may take."""
SILENCE = 1.0
"""Seconds between two lines of progress, at least."""


class Window(StrEnum):
    """Whether the probe went past the sliding window."""

    NONE = "none"
    """There is none."""
    PASSED = "passed"
    COSTLY = "costly"
    """To fill it would have taken too long."""
    OUT_OF_REACH = "out of reach"
    """A slot does not hold so many columns."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, over all draws and prompts. Plain data."""

    rows: int
    """In company; 1: there was none."""
    prompt: int
    """Columns of the short prompts."""
    window: Window
    block: dict[int, Comparison]
    """By width from 2: w columns against a chain of single ones, a row alone."""
    company: dict[int, Comparison]
    """By width from 1: `rows` rows against each of them alone, at that width. Empty if there was no company."""
    seconds: float

    def grade(self, width: int, rows: int) -> Grade:
        """Of a forward: the worse of what its width and its company do. What was not measured is `neither`."""
        parts = [self.block.get(width)] if width > 1 else []
        if rows > 1 and self.rows > 1:
            parts.append(self.company.get(width))
        grades = [part.grade if part else Grade.NEITHER for part in parts]
        return max(grades, key=lambda grade: grade.rank, default=Grade.BITWISE)

    def alone(self) -> "Report":
        """The same without what concerns company, for a target of one slot."""
        return replace(self, rows=1, company={})

    def evidence(self, width: int) -> Comparison:
        """All that was measured at a width."""
        return self.block.get(width, Comparison()) + self.company.get(width, Comparison())


def probe(target: Target, widths: Iterable[int], rows: int = COMPANY, *, clock: Clock = now) -> Report:
    """Measure these widths (1 is implied) with free slots of the target, at most `rows`; they are free again after it.

    Widths that no slot can hold are left out. Costs about 6 × the widest + 6 × the number of widths
    small forwards, more where a sliding window is passed. Whatever was verified and not kept before
    cannot be kept any more. ValueError if no slot is free.
    """
    free = [slot for slot, length in enumerate(target.lengths) if not length][: max(rows, 1)]
    if not free:
        raise ValueError("the exactness probe needs a free slot")
    begun = clock()
    run = _Probe(target, free, measurable(target, widths), clock)
    try:
        run.measure(prompt_columns(target, run.widths))
        window = _reach(run)
        if window is Window.PASSED:
            run.measure(_past(target))
    finally:
        run.release()
    columns = prompt_columns(target, run.widths)
    return Report(len(free), columns, window, run.block, run.company, round(clock() - begun, 3))


def serves(report: Report, target: Target, widths: Iterable[int], rows: int) -> bool:
    """True if a probe of this target could add nothing: it measured the same or more."""
    wanted = measurable(target, widths)
    deeper = report.window is Window.OUT_OF_REACH and holds_window(target, wanted)
    company = min(max(rows, 1), target.slots)
    enough = report.rows >= company and report.prompt >= prompt_columns(target, wanted)
    return enough and not deeper and report.block.keys() >= set(wanted)


def measurable(target: Target, widths: Iterable[int]) -> tuple[int, ...]:
    """Those of the widths that the probe can measure, in order."""
    return tuple(width for width in sorted(set(widths)) if 1 < width < target.context)


def prompt_columns(target: Target, widths: Sequence[int]) -> int:
    """How long a prompt leaves room for the widest."""
    return min(PROMPT, target.context - max(widths, default=1))


def holds_window(target: Target, widths: Sequence[int]) -> bool:
    """True if there is a sliding window and a slot has room for what is to be measured behind it."""
    past = _past(target)
    return past > PROMPT and past + max(widths, default=1) <= target.context


def _past(target: Target) -> int:
    caches = make_prompt_cache(target.model)
    return PROMPT + max((cache.max_size for cache in caches if isinstance(cache, RotatingKVCache)), default=0)


def _reach(run: "_Probe") -> Window:
    past = _past(run.target)
    if past == PROMPT:
        return Window.NONE
    if not holds_window(run.target, run.widths):
        return Window.OUT_OF_REACH
    return Window.PASSED if run.seconds_to_fill(past) <= PATIENCE else Window.COSTLY


def prompt_ids(draw: int, columns: int, vocab: int) -> list[int]:
    """The draw's prompt (drafters.md, section 18)."""
    return [(7 * i + 1 + _salt(draw)) % vocab for i in range(columns)]


def block_ids(draw: int, width: int, vocab: int) -> list[int]:
    """What follows it: a narrower block is the beginning of a wider one, so one chain serves all."""
    return [(13 * i + 3 + _salt(draw)) % vocab for i in range(width)]


def _salt(draw: int) -> int:
    return 977 * draw + 1


@dataclass(slots=True)
class _Probe:
    """One run: the slots that it may use, and the figures so far."""

    target: Target
    slots: Sequence[int]
    widths: tuple[int, ...]
    clock: Clock
    block: dict[int, Comparison] = field(default_factory=dict[int, Comparison])
    company: dict[int, Comparison] = field(default_factory=dict[int, Comparison])
    fastest: float = float("inf")
    """Seconds for a column of a prompt."""
    spoken: float = field(init=False)

    def __post_init__(self) -> None:
        self.spoken = self.clock()

    def measure(self, prompt: int) -> None:
        """All draws behind prompts of so many columns, as many at a time as there are slots, less the odd row's."""
        size = max(len(self.slots) - 1, 1)
        for first in range(0, DRAWS, size):
            self._group(range(first, min(first + size, DRAWS)), prompt)

    def seconds_to_fill(self, columns: int) -> float:
        return (DRAWS + 1) * columns * self.fastest

    def release(self) -> None:
        for slot in self.slots:
            self.target.truncate(slot, 0)

    def _group(self, draws: range, prompt: int) -> None:
        """Every draw alone, then all together with the odd row, if a slot is left for that."""
        rows = list(zip(self.slots, draws, strict=False))
        chains: list[mx.array] = []
        for slot, draw in rows:
            self._fill(slot, draw, prompt)
            chains.append(self._chain(slot, draw))
            self._rewind(slot, draw, prompt)
            self._speak(prompt, draw)
        odd = (self.slots[len(rows)], DRAWS) if len(rows) < len(self.slots) else None
        if odd:
            self._fill(*odd, max(prompt - RAGGED, 1))
            self._accompany(rows, odd, 1, mx.concatenate(chains)[:, :1])
        for width in self.widths:
            alone = mx.concatenate([self._block([row], width) for row in rows])
            self._note(self.block, width, mx.concatenate(chains)[:, :width], alone)
            if odd:
                self._accompany(rows, odd, width, alone)
            self._speak(prompt, draws[-1], width)
        self.release()

    def _accompany(self, rows: list[tuple[int, int]], odd: tuple[int, int], width: int, alone: mx.array) -> None:
        self._note(self.company, width, alone, self._block([*rows, odd], width)[: len(rows)])

    def _note(self, figures: dict[int, Comparison], width: int, reference: mx.array, other: mx.array) -> None:
        figures[width] = figures.get(width, Comparison()) + compare(reference, other)

    def _fill(self, slot: int, draw: int, columns: int) -> None:
        begun = self.clock()
        with self._verify([slot], [prompt_ids(draw, columns, self.target.vocab)]) as seen:
            seen.keep([columns])
            mx.eval(seen.state)
        self.fastest = min(self.fastest, (self.clock() - begun) / columns)

    def _chain(self, slot: int, draw: int) -> mx.array:
        """[1, widest, V], one column at a time."""
        logits: list[mx.array] = []
        for token in block_ids(draw, max(self.widths, default=1), self.target.vocab):
            with self._verify([slot], [[token]]) as seen:
                seen.keep([1])
                mx.eval(seen.logits, seen.state)
            logits.append(seen.logits)
        return mx.concatenate(logits, axis=1)

    def _rewind(self, slot: int, draw: int, prompt: int) -> None:
        """Back to the end of the prompt; a recurrent state is made anew, in the same way."""
        if self.target.recurrent:
            self.target.truncate(slot, 0)
            self._fill(slot, draw, prompt)
        else:
            self.target.truncate(slot, prompt)

    def _block(self, rows: Sequence[tuple[int, int]], width: int) -> mx.array:
        """[rows, width, V] in one forward, of which nothing is kept."""
        ids = [block_ids(draw, width, self.target.vocab) for _, draw in rows]
        with self._verify([slot for slot, _ in rows], ids) as seen:
            mx.eval(seen.logits, seen.state)
        return seen.logits

    def _verify(self, slots: Sequence[int], ids: list[list[int]]) -> Verification:
        return self.target.verify(slots, mx.array(ids, mx.int32))

    def _speak(self, prompt: int, draw: int, width: int = 1) -> None:
        if self.clock() - self.spoken >= SILENCE:
            self.spoken = self.clock()
            log.info("exactness probe: %d-token prompts, draw %d of %d, width %d done", prompt, draw + 1, DRAWS, width)
