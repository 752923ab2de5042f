"""Step: one round for all rows. The forward and the draws are built lazily and read once.

A `Round` is a forward that has been queued. `settle` commits its columns, when it is known which
rows were still there; that must come before the next forward is built. `read` is the one host
synchronisation.
"""

import math
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from stoker.core.work import TokenProbs
from stoker.models.logprobs import Report, report, report_drawn
from stoker.models.sampling import Choice, Sampler
from stoker.models.target import Target, Verification
from stoker.rounds.row import Row


@dataclass(slots=True)
class Emitted:
    """What a round emitted for one row."""

    tokens: tuple[int, ...]
    probs: tuple[TokenProbs, ...] = ()


class Round:
    """One forward of anchors [B, 1], its draws, and the probabilities that somebody asked for."""

    def __init__(
        self, target: Target, sampler: Sampler, rows: Sequence[Row], anchors: mx.array, positions: Sequence[int]
    ) -> None:
        """`anchors`: int32 [B, 1], possibly not computed yet; `positions`: their absolute indices."""
        self.rows = tuple(rows)
        self.ids = tuple(row.id for row in rows)
        starts = [position + 1 for position in positions]
        with ExitStack() as undo:
            self._seen: Verification = undo.enter_context(target.verify([row.slot for row in rows], anchors))
            self._choice: Choice = sampler.choose(self._seen.logits, [row.draws for row in rows], starts)
            self._reports = [
                (row.id, self._report(sampler, n, start))
                for n, (row, start) in enumerate(zip(rows, starts, strict=True))
                if row.probs
            ]
            undo.pop_all()  # from here on `settle` decides; until here a fault keeps nothing

    def has(self, id: int) -> bool:
        return id in self.ids

    @property
    def tokens(self) -> mx.array:
        """int32 [B, 1]: the next anchors, not necessarily computed yet."""
        return self._choice.tokens

    def start(self) -> None:
        """Queues the computation without waiting for it."""
        mx.async_eval(*self._arrays)

    def wait(self) -> None:
        """Lets the computation end, without reading it."""
        mx.eval(*self._arrays)

    def settle(self, alive: Collection[int]) -> None:
        """Commits the anchors' columns of the rows whose ids are in `alive`, and no others."""
        self._seen.keep([int(id in alive) for id in self.ids])

    def read(self) -> dict[int, Emitted]:
        """Waits for the round; one host synchronisation. By row id."""
        self.wait()
        tokens = cast("list[list[int]]", self._choice.tokens.tolist())
        self._choice.settle(tokens)
        emitted = {id: Emitted(tuple(columns)) for id, columns in zip(self.ids, tokens, strict=True)}
        for id, asked in self._reports:
            emitted[id].probs = _probs(asked)
        return emitted

    @property
    def _arrays(self) -> tuple[mx.array, ...]:
        reports = (array for _, asked in self._reports for array in asked)
        return (self._choice.tokens, *self._choice.arrays, *self._seen.state, *reports)

    def _report(self, sampler: Sampler, n: int, start: int) -> Report:
        """Probabilities of row n: of the raw logits, or of p where the request asked for that."""
        row, logits, tokens = self.rows[n], self._seen.logits[n : n + 1], self._choice.tokens[n : n + 1]
        if row.post_sampling:
            return report_drawn(sampler.distribution(logits[0], row.draws, start)[None], tokens, row.probs)
        return report(logits, tokens, row.probs)


def _probs(asked: Report) -> tuple[TokenProbs, ...]:
    """One entry a column. Values are as reported: log probabilities, or probabilities after sampling."""
    chosen = cast("list[float]", asked.chosen[0].tolist())
    ids = cast("list[list[int]]", asked.ids[0].tolist())
    values = cast("list[list[float]]", asked.values[0].tolist())
    return tuple(
        TokenProbs(value, tuple((id, x) for id, x in zip(row, xs, strict=True) if not math.isinf(x)))
        for value, row, xs in zip(chosen, ids, values, strict=True)
    )
