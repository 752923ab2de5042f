"""The probabilities that a request asked for: prepared for every column, read for those that were emitted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx

from stoker.core.work import TokenProbs
from stoker.models.logprobs import Report, report, report_drawn
from stoker.models.sampling import Sampler
from stoker.rounds.row import Row


@dataclass(frozen=True, slots=True)
class Reported:
    """Of one row's columns, not evaluated."""

    finals: Report
    """Of the token that each column emits if the chain ends there."""
    drafted: Report | None
    """Of the proposals, where they can be emitted without being the column's own choice."""

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        return (*self.finals, *(self.drafted or ()))

    def read(self, accepted: int, emitted: int) -> tuple[TokenProbs, ...]:
        """Of the tokens emitted, the first `accepted` of which are proposals. After evaluation."""
        values = cast("list[float]", self.finals.chosen[0].tolist())
        if self.drafted is not None:
            values[:accepted] = cast("list[float]", self.drafted.chosen[0].tolist())[:accepted]
        ids = cast("list[list[int]]", self.finals.ids[0].tolist())
        best = cast("list[list[float]]", self.finals.values[0].tolist())
        return tuple(
            TokenProbs(values[i], tuple((id, x) for id, x in zip(ids[i], best[i], strict=True) if not math.isinf(x)))
            for i in range(emitted)
        )


def ask(sampler: Sampler, row: Row, logits: mx.array, finals: mx.array, start: int, draft: Sequence[int]) -> Reported:
    """Of a row's columns: `logits` [k, V], `finals` int32 [k]. Raw probabilities, or p's where the request says so."""
    return Reported(_report(sampler, row, logits, finals, start, draft), None)


def ask_rejection(
    sampler: Sampler, row: Row, logits: mx.array, finals: mx.array, drafted: mx.array, start: int
) -> Reported:
    """Under modified rejection an accepted proposal need not be the column's choice. `drafted` int32 [k - 1]."""
    best = _report(sampler, row, logits, finals, start, ())
    return Reported(best, _report(sampler, row, logits[:-1], drafted, start, ()))


def _report(sampler: Sampler, row: Row, logits: mx.array, tokens: mx.array, start: int, draft: Sequence[int]) -> Report:
    if row.post_sampling:
        return report_drawn(sampler.distribution(logits, row.draws, start, draft)[None], tokens[None], row.probs)
    return report(logits[None], tokens[None], row.probs)
