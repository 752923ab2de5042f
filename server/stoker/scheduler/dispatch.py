"""Plans the prompt work of a tick: which prompts are read, how far. Pure: numbers in, numbers out.

Rules of this file:
1. Prompts whose rest fits one chunk are read together, shortest first, in one padded forward of up
   to `PACK` chunks: short requests must not wait for one another.
2. Longer ones are read a chunk at a time, the oldest first; when both kinds wait they take turns,
   so neither can starve the other.
3. While rows decode, prompt reading gets at most `SHARE` of the time: after a chunk that took t
   seconds, rows decode for t·(1 - SHARE)/SHARE seconds before the next chunk. A decoding row
   therefore never waits longer than one prompt forward and one tick, and a long prompt always advances.
4. A chunk is as many tokens as took about `CHUNK_SECONDS` before: cancellation waits for a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SHARE = 0.5
CHUNK_SECONDS = 0.5
LEAST_CHUNK = 32
FIRST_CHUNK = 128
PACK = 5
"""Chunks that a padded forward of several short prompts may hold."""
PADDING = 2
"""A prompt joins a padded forward only if the longest in it is at most this many times its length…"""
SLACK = 16
"""…or at most this many tokens longer."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A prompt that has a slot: its next token to run and the one to stop before."""

    id: int
    start: int
    stop: int

    @property
    def rest(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Grant:
    """Run this prompt up to `stop` (exclusive)."""

    id: int
    stop: int


class PrefillPolicy:
    def __init__(self, batch: int) -> None:
        """`batch`: most tokens of one prompt forward (`--batch-size`)."""
        self._batch = batch
        self._chunk = min(FIRST_CHUNK, batch)
        self._debt = 0.0
        self._long_turn = False

    @property
    def chunk(self) -> int:
        """Tokens of one prompt that a forward may hold now."""
        return self._chunk

    def grant(self, waiting: Sequence[Waiting], *, decoding: bool) -> tuple[Grant, ...]:
        """The prompt forward of this tick; `waiting` in the order of arrival. Empty: none this time."""
        if not decoding:
            self._debt = 0.0
        if not waiting or self._debt > 0:
            return ()
        short = [prompt for prompt in waiting if prompt.rest <= self._chunk]
        long = [prompt for prompt in waiting if prompt.rest > self._chunk]
        if long and (self._long_turn or not short):
            self._long_turn = False
            return (Grant(long[0].id, long[0].start + self._chunk),)
        self._long_turn = bool(long)
        budget = min(PACK * self._chunk, max(self._batch, self._chunk))
        return tuple(Grant(prompt.id, prompt.stop) for prompt in _pack(short, budget))

    def spent(self, tokens: int, prefill_seconds: float) -> None:
        """A prompt forward of `tokens` columns took this long."""
        self._debt += prefill_seconds * (1 - SHARE) / SHARE
        # Small forwards say little about large ones: only one near the chunk moves it, and at most twofold.
        if 2 * tokens >= self._chunk and prefill_seconds > 0:
            fitting = int(tokens / prefill_seconds * CHUNK_SECONDS)
            self._chunk = max(min(fitting, 2 * self._chunk, self._batch), min(LEAST_CHUNK, self._batch))

    def decoded(self, seconds: float) -> None:
        """Rows decoded for this long."""
        self._debt = max(self._debt - seconds, 0.0)


def _pack(prompts: Sequence[Waiting], budget: int) -> list[Waiting]:
    """The shortest prompts that fit `budget` columns when padded to the longest of them."""
    packed: list[Waiting] = []
    for prompt in sorted(prompts, key=lambda p: p.rest):
        shortest = packed[0].rest if packed else prompt.rest
        padded = (len(packed) + 1) * prompt.rest
        if packed and (padded > budget or prompt.rest > max(PADDING * shortest, shortest + SLACK)):
            break
        packed.append(prompt)
    return packed
