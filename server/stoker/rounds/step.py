"""Step: one round for all rows. Build the forward and the draws lazily, read them once.

A `Round` is a forward that has been queued. `settle` says which rows were still there when its
anchor turned out to be real; it must come before the next forward is built. `read` is the one
host synchronisation.
"""

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import mlx.core as mx

from stoker.core.work import TokenProbs
from stoker.models.logprobs import Report, report
from stoker.models.sampling import Choice, Sampler
from stoker.models.target import Target, Verification
from stoker.rounds.row import Row


@dataclass(slots=True)
class Emitted:
    """What a round emitted for one row."""

    tokens: tuple[int, ...]
    probs: tuple[TokenProbs, ...] = ()


class Round:
    """One forward of [B, 1] anchors, its draws, and the probabilities somebody asked for."""

    def __init__(
        self, target: Target, sampler: Sampler, rows: Sequence[Row], anchors: mx.array, positions: Sequence[int]
    ) -> None:
        """`anchors`: int32 [B, 1], on the device, possibly not computed yet; `positions`: their absolute indices."""
        self.rows = tuple(rows)
        self.ids = tuple(row.id for row in rows)
        starts = [position + 1 for position in positions]
        with ExitStack() as undo:
            self._seen: Verification = undo.enter_context(target.verify([row.slot for row in rows], anchors))
            self._choice: Choice = sampler.choose(self._seen.logits, [row.draws for row in rows], starts)
            self._reports = self._ask()
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

    def settle(self, alive: Collection[int]) -> None:
        """Commits the anchors' columns of the rows whose ids are in `alive`, and no others."""
        self._seen.keep([int(id in alive) for id in self.ids])

    def read(self) -> dict[int, Emitted]:
        """Waits for the round; one host synchronisation. Rows by id."""
        mx.eval(*self._arrays)
        tokens: list[list[int]] = self._choice.tokens.tolist()
        self._choice.settle(tokens)
        emitted = {id: Emitted((column[0],)) for id, column in zip(self.ids, tokens, strict=True)}
        for row, asked in self._reports:
            emitted[row.id].probs = asked.read()
        return emitted

    @property
    def _arrays(self) -> tuple[mx.array, ...]:
        reports = (array for _, asked in self._reports for array in asked.arrays)
        return (*self._choice.arrays, *self._seen.state, *reports)

    def _ask(self) -> list[tuple[Row, Report]]:
        asked: list[tuple[Row, Report]] = []
        for n, row in enumerate(self.rows):
            if row.probs:
                asked.append((row, report(self._seen.logits[n], self._choice.tokens[n], row.probs)))
        return asked
