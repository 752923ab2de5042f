"""A Markov table as a model: the fake at the seam below the engine, `Target.verify`, with exact probabilities."""

from collections.abc import Callable, Sequence
from typing import Self

import mlx.core as mx

from stoker.models.target import Target, Verification


class TableTarget(Target):
    """Logits of the next token depend on the last one only: `table` [V, V], row by last token."""

    def __init__(self, table: mx.array, slots: int, context: int = 512) -> None:
        self.table, self.slots, self.context = table, slots, context
        self.vocab = table.shape[-1]
        self.columns = [0] * slots
        self.forwards = 0
        self.evaluated: Callable[[int, int], None] = lambda rows, width: None
        """Told the shape of every forward that is evaluated; a test may let time pass here."""

    @property
    def recurrent(self) -> bool:
        return False

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(self.columns)

    def adapt(self, slot: int, scales: tuple[float, ...]) -> None:
        assert not scales, "a table has no adapters"

    def truncate(self, slot: int, length: int) -> None:
        assert 0 <= length <= self.columns[slot]
        self.columns[slot] = length

    def verify(
        self, slots: Sequence[int], ids: mx.array, capture: Sequence[int] = (), *, revocable: bool = False
    ) -> Verification:
        self.forwards += 1
        return TableVerification(self, tuple(slots), self.table[ids])


class TableVerification(Verification):
    def __init__(self, target: TableTarget, slots: tuple[int, ...], logits: mx.array) -> None:
        self.table_target, self.slots, self.logits = target, slots, logits
        self.features = {}
        self.committed = False

    @property
    def state(self) -> list[mx.array]:
        return []

    def keep(self, counts: Sequence[int]) -> None:
        for slot, count in zip(self.slots, counts, strict=True):
            assert 0 <= count <= self.logits.shape[1]
            self.table_target.columns[slot] += count

    def commit_to(self) -> None:
        if not self.committed:
            self.committed = True
            self.table_target.evaluated(self.logits.shape[0], self.logits.shape[1])

    def revoke(self) -> None:
        self.table_target.forwards -= 1

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self


def constant(logits: Sequence[float]) -> mx.array:
    """A table whose rows are all the same: independent tokens."""
    return mx.broadcast_to(mx.array(list(logits), mx.float32), (len(logits), len(logits)))
