"""Engine: carries out a plan on the device thread. Owns the rows; isolates their faults.

Order of a tick
1. The round queued by the last tick is settled: rows that still step keep its column, others nothing.
2. Rows leave, rows join (bookkeeping; a join copies nothing).
3. One padded prompt forward.
4. The round: the next one is built while it is computed, and started as soon as it is read, so that
   the device computes while the host works. (Started earlier, MLX would copy every cache buffer:
   `models/slots.py`.)

A row whose draws depend on earlier tokens (`Row.feedback`) must be read before its next forward is
built; a tick with such a row queues nothing.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import mlx.core as mx

from stoker.core import clock
from stoker.core.work import Join, Outcome, Plan, PrefillWork, Release, StepWork
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.prefill import prefill
from stoker.rounds.row import Row
from stoker.rounds.step import Emitted, Round

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """What a guarded call raised."""

    error: Exception


class Engine:
    """Implements `core.work.Ticker`. Every method must be called on the device thread."""

    def __init__(self, target: Target, sampler: Sampler) -> None:
        self._target, self._sampler = target, sampler
        self._rows: dict[int, Row] = {}
        self._queued: Round | None = None

    def tick(self, plan: Plan) -> list[Outcome]:
        """Carries the plan out. A fault ends the rows it concerns, in their outcomes; it never escapes."""
        if self._queued is not None:
            self._queued.settle({work.id for work in plan.step})
        for release in plan.release:
            self._release(release)
        outcomes = [outcome for join in plan.join for outcome in self._join(join)]
        outcomes += self._prefill([work for work in plan.prefill if work.id in self._rows])
        return outcomes + self._step([work for work in plan.step if work.id in self._rows])

    # membership

    def _release(self, release: Release) -> None:
        row = self._rows.pop(release.id, None)
        if row is not None:
            self._cut(row.slot, release.keep)

    def _join(self, join: Join) -> list[Outcome]:
        def open_row() -> Row:
            self._cut(join.slot, join.cached)
            return Row.open(join, self._sampler.open(join.sampling, join.prompt))

        row = guard(open_row)
        if isinstance(row, Fault):
            return [self._fail(join.id, join.slot, row)]
        self._rows[join.id] = row
        return []

    def _cut(self, slot: int, length: int) -> None:
        """Leaves the first `length` columns in the slot; none where the model cannot go back to there."""
        have = self._target.lengths[slot]
        if length > have or (self._target.recurrent and length < have):
            length = 0
        if length != have:
            self._target.truncate(slot, length)

    def _fail(self, id: int, slot: int, fault: Fault) -> Outcome:
        log.error("request %d failed: %s", id, fault.error, exc_info=fault.error)
        self._rows.pop(id, None)
        self._target.truncate(slot, 0)
        return Outcome(id, clock.now(), error=fault.error)

    # prompts

    def _prefill(self, work: Sequence[PrefillWork]) -> list[Outcome]:
        if not work:
            return []
        if self._queued is not None:
            guard(self._queued.wait)  # two forwards in flight would copy the caches; a fault shows when it is read
        rows = [self._rows[item.id] for item in work]
        done = guard(lambda: prefill(self._target, rows, work))
        if isinstance(done, Fault):
            if len(work) == 1:
                return [self._fail(rows[0].id, rows[0].slot, done)]
            log.warning("a prompt forward of %d rows failed (%s); each is tried alone", len(rows), done.error)
            return [outcome for item in work for outcome in self._prefill([item])]
        at = clock.now()
        return [Outcome(row.id, at, processed=row.processed) for row in rows]

    # rounds

    def _step(self, work: Sequence[StepWork]) -> list[Outcome]:
        current, self._queued = self._queued, None
        if current is not None and not any(current.has(item.id) for item in work):
            current = None
        if not work:
            return []
        rows = [self._rows[item.id] for item in work]
        emitted = guard(lambda: self._advance(current, rows, work))
        if isinstance(emitted, Fault):
            self._queued = None
            return self._alone(rows, emitted)
        return self._absorb(rows, emitted)

    def _advance(self, current: Round | None, rows: Sequence[Row], work: Sequence[StepWork]) -> dict[int, Emitted]:
        """Reads the current round, or builds and reads one, with the next one queued behind it."""
        pipelined = not any(row.feedback for row in rows)
        fresh = current is None
        if current is None:
            current = Round(self._target, self._sampler, rows, _anchors(rows), [row.position for row in rows])
            current.start()
        if fresh and pipelined:
            current.settle({row.id for row in rows})
        if pipelined:
            self._queued = self._behind(current, work)
        emitted = current.read()
        if self._queued is not None:
            self._queued.start()
        if fresh and not pipelined:
            current.settle({row.id for row in rows})
        return emitted

    def _behind(self, current: Round, work: Sequence[StepWork]) -> Round | None:
        """Builds the next round from the unread tokens of `current`; a row that ends there stays out."""
        rows = [self._rows[item.id] for item in work if item.remaining > 1 or not current.has(item.id)]
        if not rows:
            return None

        positions = [row.position + int(current.has(row.id)) for row in rows]
        queued = guard(lambda: Round(self._target, self._sampler, rows, _following(current, rows), positions))
        # The fault comes again, with clean caches, when the next tick builds this round unqueued.
        return None if isinstance(queued, Fault) else queued

    def _absorb(self, rows: Sequence[Row], emitted: dict[int, Emitted]) -> list[Outcome]:
        at, outcomes = clock.now(), list[Outcome]()
        for row in rows:
            it = emitted.get(row.id)
            if it is not None:
                row.anchor = it.tokens[-1]
                row.position += len(it.tokens)
                outcomes.append(Outcome(row.id, at, tokens=it.tokens, probs=it.probs))
        return outcomes

    def _alone(self, rows: Sequence[Row], fault: Fault) -> list[Outcome]:
        """A shared round failed: each row tries alone, so that only the guilty one ends."""
        if len(rows) > 1:
            log.warning("a round of %d rows failed (%s); each is tried alone", len(rows), fault.error)
        outcomes: list[Outcome] = []
        for row in rows:
            emitted = guard(lambda row=row: self._single(row)) if len(rows) > 1 else fault
            if isinstance(emitted, Fault):
                outcomes.append(self._fail(row.id, row.slot, emitted))
            else:
                outcomes += self._absorb([row], emitted)
        return outcomes

    def _single(self, row: Row) -> dict[int, Emitted]:
        if self._target.lengths[row.slot] != row.position:
            self._target.truncate(row.slot, row.position)
        alone = Round(self._target, self._sampler, [row], _anchors([row]), [row.position])
        emitted = alone.read()
        alone.settle({row.id})
        return emitted


def guard(call: Callable[[], T]) -> T | Fault:
    """Runs a call whose fault must not reach the other rows. One of the two places that may catch everything."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return Fault(error)


def _anchors(rows: Sequence[Row]) -> mx.array:
    """The rows' newest tokens, int32 [B, 1]."""
    return mx.array([[row.anchor] for row in rows], mx.int32)


def _following(current: Round, rows: Sequence[Row]) -> mx.array:
    """The anchors of the round behind `current`: its unread tokens, and the host's for rows that join. [B, 1]."""
    if tuple(row.id for row in rows) == current.ids:
        return current.tokens
    joining = [row for row in rows if not current.has(row.id)]
    pool = mx.concatenate([current.tokens, _anchors(joining)]) if joining else current.tokens
    places = {id: n for n, id in enumerate((*current.ids, *(row.id for row in joining)))}
    return pool[mx.array([places[row.id] for row in rows])]
