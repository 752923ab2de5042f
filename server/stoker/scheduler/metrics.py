"""Totals since the start, and the picture of a slot. Fed by the scheduler, read by the routes."""

from dataclasses import dataclass, replace
from itertools import zip_longest

from stoker.core.counters import DraftCounters, DraftOff, Kind
from stoker.core.work import Outcome
from stoker.scheduler.device import Ran
from stoker.scheduler.sequence import Sequence
from stoker.scheduler.slots import Slot
from stoker.scheduler.views import KeptView, SlotView, Totals


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of the last task of a slot."""

    task: int
    has_new_line: bool
    report: dict[str, object]
    draft_kind: Kind | None
    draft_off: DraftOff | None


class Metrics:
    def __init__(self) -> None:
        self._totals = Totals()
        self._past: dict[int, Past] = {}

    def tick(self, ran: Ran[list[Outcome]], *, lag: float, rows: int) -> None:
        """A tick has run; `lag` is the device's pause before it in seconds, `rows` how many rows it stepped.

        A forward that verified proposals is no decode, as upstream counts, nor are its rows busy slots of one.
        """
        totals = self._totals
        if any(outcome.round for outcome in ran.result):
            rows = 0
        self._totals = replace(
            totals,
            ticks=totals.ticks + 1,
            tick_seconds=totals.tick_seconds + ran.ended - ran.started,
            tick_lag=lag,
            tick_lag_sum=totals.tick_lag_sum + lag,
            tick_lag_max=max(totals.tick_lag_max, lag),
            decodes=totals.decodes + int(rows > 0),
            busy_slots=totals.busy_slots + rows,
        )

    def chunk(self, seconds: float) -> None:
        """A forward that read prompts took this long."""
        totals = self._totals
        self._totals = replace(
            totals,
            chunks=totals.chunks + 1,
            chunk_seconds=totals.chunk_seconds + seconds,
            chunk_seconds_max=max(totals.chunk_seconds_max, seconds),
        )

    def finished(self, sequence: Sequence) -> None:
        """A request has left its slot, whole, cancelled or failed: its figures join the totals."""
        totals, timings = self._totals, sequence.timings
        self._totals = replace(
            totals,
            prompt_tokens=totals.prompt_tokens + timings.prompt,
            cached_tokens=totals.cached_tokens + timings.cached,
            prompt_seconds=totals.prompt_seconds + timings.prompt_ms / 1e3,
            predicted_tokens=totals.predicted_tokens + timings.predicted,
            predicted_seconds=totals.predicted_seconds + timings.predicted_ms / 1e3,
            longest=max(totals.longest, len(sequence.request.prompt) + len(sequence.tokens)),
        )
        self._drafted(sequence.drafted.counters, sequence.draft_off)
        self._past[sequence.slot] = Past(
            task=sequence.id,
            has_new_line=sequence.ending.has_new_line,
            report=dict(sequence.request.report),
            draft_kind=sequence.drafted.kind,
            draft_off=sequence.draft_off,
        )

    def _drafted(self, counters: DraftCounters, off: DraftOff | None) -> None:
        totals = self._totals
        positions = zip_longest(totals.accepted_by_position, counters.by_position, fillvalue=0)
        self._totals = replace(
            totals,
            drafted=totals.drafted + counters.proposed,
            accepted=totals.accepted + counters.accepted,
            rounds=totals.rounds + counters.rounds,
            accepted_by_position=tuple(a + b for a, b in positions),
            draft_off={**totals.draft_off, off: totals.draft_off.get(off, 0) + 1} if off else totals.draft_off,
        )

    def totals(self, *, processing: int, deferred: int, kept: KeptView) -> Totals:
        return replace(self._totals, busy=processing, deferred=deferred, kept=kept)

    def slot(self, slot: Slot, sequence: Sequence | None) -> SlotView:
        """A slot as `/slots` shows it: its running task, or what the last one left."""
        if sequence is None:
            past = self._past.get(slot.id)
            if past is None:
                return SlotView(slot.id, len(slot.content))
            return SlotView(
                slot.id,
                len(slot.content),
                past.task,
                has_new_line=past.has_new_line,
                report=past.report,
                draft_kind=past.draft_kind,
                draft_off=past.draft_off,
            )
        limit = sequence.request.limits.predict
        return SlotView(
            slot.id,
            content=sequence.processed + len(sequence.tokens),
            task=sequence.id,
            busy=True,
            processed=sequence.processed - sequence.cached,
            cached=sequence.cached,
            decoded=len(sequence.tokens),
            remaining=limit - len(sequence.tokens) if limit >= 0 else -1,
            has_new_line=sequence.ending.has_new_line,
            report=sequence.request.report,
            draft_kind=sequence.drafted.kind,
            draft_off=sequence.drafted.now,
        )
