"""The scheduler: one asyncio task that admits requests, plans ticks and absorbs their outcomes.

All state belongs to the event loop; nothing here is locked. The tick boundary is the only place
where membership changes. Idle costs nothing: the loop sleeps until `submit`, `cancel` or `stop`.
"""

import asyncio
import logging
from collections.abc import Sequence as Many
from functools import partial

from stoker.core import clock
from stoker.core.counters import log_fields
from stoker.core.errors import ContextExceeded, InvalidRequest, ServerFault, Unavailable, as_server_error
from stoker.core.events import Failed, nothing
from stoker.core.request import Request
from stoker.core.work import (
    Filed,
    Join,
    Outcome,
    Plan,
    PrefillWork,
    Release,
    Sleeper,
    SlotAction,
    StepWork,
    Ticker,
    Traits,
)
from stoker.scheduler.actions import Actions
from stoker.scheduler.admission import Admission
from stoker.scheduler.device import Ran, Runner
from stoker.scheduler.dispatch import PrefillPolicy, Waiting
from stoker.scheduler.joining import first_join, join
from stoker.scheduler.metrics import Metrics
from stoker.scheduler.policy import Policy, Vocabulary
from stoker.scheduler.rest import Rest
from stoker.scheduler.sequence import Phase, Sequence
from stoker.scheduler.stream import Stream
from stoker.scheduler.views import SlotView, Totals

log = logging.getLogger("stoker.requests")

RETRY_AFTER = 1
"""Seconds that a client is asked to wait when the queue is full."""


__all__ = ["Policy", "Scheduler", "Vocabulary"]


class Scheduler:
    def __init__(
        self,
        ticker: Ticker,
        runner: Runner,
        traits: Traits,
        vocabulary: Vocabulary,
        policy: Policy | None = None,
        sleeper: Sleeper | None = None,
    ) -> None:
        """`sleeper`: gives the model up and brings it back, where the policy speaks of sleep."""
        self._ticker, self._runner, self._traits, self._vocabulary = ticker, runner, traits, vocabulary
        self._policy = policy or Policy()
        self._admission = Admission(self._policy.terms, traits)
        self._table = self._admission.table
        self._actions = Actions(self._table)
        self._prefill = PrefillPolicy(self._policy.batch)
        self._metrics = Metrics()
        self._running: dict[int, Sequence] = {}
        self._streams: dict[int, Stream] = {}
        self._cancelled: set[int] = set()
        self._released: list[Release] = []
        self._joining: list[Join] = []
        self._wakeup = asyncio.Event()
        self._ids = 0
        self._stopping = False
        self._ended = False
        self._rest = Rest(sleeper, runner, self._policy.sleep_after, self._admission.forget)

    # the routes' side

    @property
    def healthy(self) -> bool:
        """False once the loop has ended: nothing will ever be generated again."""
        return not self._ended

    @property
    def sleeping(self) -> bool:
        """True while the model is given up; the next request brings it back."""
        return self._rest.sleeping

    def next_id(self) -> int:
        """A fresh request id."""
        self._ids += 1
        return self._ids

    def submit(self, request: Request) -> Stream:
        """Queues a request. Raises ContextExceeded, InvalidRequest or Unavailable at once."""
        if self._stopping or self._ended:
            raise Unavailable("the server is shutting down")
        stream = Stream(request.id)
        if not request.prompt:
            stream.push([nothing()])
            return stream
        if len(request.prompt) + request.generates > self._traits.context:
            raise ContextExceeded(len(request.prompt), self._traits.context)
        if request.id in self._streams:
            raise InvalidRequest(f"request id {request.id} is in use")
        if 0 < self._policy.max_queue <= self._admission.surplus:
            raise Unavailable("All slots are busy. Please try again later.", RETRY_AFTER)
        self._admission.add(request)
        self._streams[request.id] = stream
        self._wakeup.set()
        return stream

    def cancel(self, id: int) -> None:
        """Ends a request at the next tick boundary. Unknown and finished ids are ignored."""
        stream = self._streams.get(id)
        if stream is not None:
            stream.close()
            self._cancelled.add(id)
            self._wakeup.set()

    def end_thought(self, id: int) -> bool:
        """Makes a request stop thinking at its next token; False where it runs no thought that can be ended."""
        sequence = self._running.get(id)
        return sequence is not None and sequence.thought is not None and sequence.thought.order_end()

    async def act(self, slot: int, action: SlotAction, path: str = "", adapters: tuple[float, ...] = ()) -> Filed:
        """Saves, restores or erases a slot as soon as it is idle. Raises the ServerError that prevents it.

        `adapters`: the scales that a restored content must have been made under.
        """
        if self._stopping or self._ended:
            raise Unavailable("the server is shutting down")
        done = self._actions.ask(self.next_id(), slot, action, path, adapters)
        self._wakeup.set()
        return await done

    async def rouse(self) -> None:
        """Brings back a model that was given up, and waits for it; at once where it is there."""
        await self._rest.rouse(self._wakeup)

    def slots(self) -> list[SlotView]:
        """What each slot is doing, for `/slots`."""
        by_slot = {sequence.slot: sequence for sequence in self._running.values()}
        return [self._metrics.slot(slot, by_slot.get(slot.id)) for slot in self._table.slots]

    def totals(self) -> Totals:
        """Counters and gauges since the start, for `/metrics`."""
        return self._metrics.totals(
            processing=len(self._running), deferred=self._admission.waiting, kept=self._admission.kept.view
        )

    # the loop

    async def run(self) -> None:
        """Ticks until `stop`; if it ends any other way, every stream is told and `healthy` is False."""
        try:
            await self._loop()
        finally:
            self._ended = True
            self._rest.end()
            for stream in self._streams.values():
                stream.push([Failed(ServerFault("the engine has stopped"))])
            self._streams.clear()
            self._actions.fail(ServerFault("the engine has stopped"))

    async def stop(self, grace: float = 0.0) -> None:
        """Refuses new requests, lets running ones finish for `grace` seconds, cancels the rest."""
        self._stopping = True
        self._wakeup.set()
        deadline = clock.now() + grace
        while self._streams and clock.now() < deadline:
            await asyncio.sleep(0.01)
        for id in list(self._streams):
            self.cancel(id)
        self._wakeup.set()

    async def _loop(self) -> None:
        after: float | None = None
        while True:
            self._wakeup.clear()
            plan = self._plan()
            if plan.empty:
                if self._stopping and not self._streams:
                    return
                after = None
                await self._rest.wait(self._wakeup)
                continue
            await self._rest.wake()
            ran = await self._runner.run(partial(self._ticker.tick, plan))
            self._metrics.tick(ran, lag=ran.started - after if after is not None else 0.0, rows=len(plan.step))
            after = ran.ended
            self._absorb(plan, ran)

    def _plan(self) -> Plan:
        self._retire_cancelled()
        slots = self._actions.plan()
        self._admit()
        awaited = self._admission.awaited
        grants = self._grants()
        self._turn()
        reading = {work.id: work.stop for work in grants}
        step = tuple(
            StepWork(sequence.id, sequence.remaining)
            for sequence in self._running.values()
            if sequence.phase is Phase.DECODE
            or (
                sequence.request.generates
                and sequence.id not in awaited
                and reading.get(sequence.id) == sequence.prefill_end
            )
        )
        keep, drop = self._admission.orders()
        plan = Plan(tuple(self._released), tuple(self._joining), grants, step, slots, drop, keep)
        self._released, self._joining = [], []
        return plan

    def _retire_cancelled(self) -> None:
        for id in self._cancelled:
            sequence = self._running.get(id)
            if sequence is not None:
                _log_cancelled(sequence)
                self._retire(sequence, sequence.content)
            else:
                self._streams.pop(id, None)
        self._admission.withdraw(self._cancelled)
        self._cancelled.clear()

    def _admit(self) -> None:
        for request, place in self._admission.admit(self._running):
            sequence = Sequence(
                request,
                place.slot,
                place.cached,
                context=self._traits.context,
                started=clock.now(),
                shifts=self._policy.shift and not request.grammar,
            )
            self._running[request.id] = sequence
            self._streams[request.id].push([sequence.begin()])
            self._joining.append(first_join(sequence, place))

    def _turn(self) -> None:
        """Takes the rows of sequences that got words put into their mouths; new ones will read them from the slot on.

        This comes behind the grants: in the plan that does it the row is in no step, so nothing that the old one had
        in flight is taken for the new one's.
        """
        for sequence in self._running.values():
            if sequence.phase is Phase.TURN:
                sequence.turn(lost=sequence.overrun and self._traits.recurrent)
                self._released.append(Release(sequence.id, sequence.start))
                self._joining.append(join(sequence, sequence.start))

    def _grants(self) -> tuple[PrefillWork, ...]:
        waiting = [
            Waiting(sequence.id, sequence.start, sequence.prefill_end)
            for sequence in self._running.values()
            if sequence.phase is Phase.PREFILL
        ]
        decoding = len(waiting) < len(self._running)
        return tuple(PrefillWork(grant.id, grant.stop) for grant in self._prefill.grant(waiting, decoding=decoding))

    def _absorb(self, plan: Plan, ran: Ran[list[Outcome]]) -> None:
        self._account(plan, ran)
        for outcome in ran.result:
            sequence = self._running.get(outcome.id)
            if sequence is None:
                self._actions.absorb(outcome)
                continue
            stream = self._streams[outcome.id]
            if outcome.error is not None:
                stream.push([sequence.fail(Failed(as_server_error(outcome.error)))])
                self._retire(sequence, ())
                continue
            stream.push(sequence.absorb(outcome, self._vocabulary.piece, self._vocabulary.ends))
            if sequence.phase is Phase.DONE:
                # A recurrent state that went past the end cannot go back: no prompt may continue from it.
                lost = sequence.overrun and self._traits.recurrent
                self._retire(sequence, () if lost else sequence.content)

    def _account(self, plan: Plan, ran: Ran[list[Outcome]]) -> None:
        """Tells the prefill policy and the metrics where the tick's time went."""
        begun = {work.id: self._running[work.id].start for work in plan.prefill if work.id in self._running}
        read = [outcome for outcome in ran.result if outcome.processed]
        whole = ran.ended - ran.started
        seconds = 0.0
        if read:
            # Outcomes come in the order of the work: a round that landed first has its stamp before the prompts'.
            landed = [outcome.at for outcome in ran.result[: ran.result.index(read[0])]]
            seconds = max(outcome.at for outcome in read) - max(landed, default=ran.started)
            columns = len(read) * max(outcome.processed - begun.get(outcome.id, 0) for outcome in read)
            self._prefill.spent(columns, seconds)
            self._metrics.chunk(seconds)
        if plan.step:
            self._prefill.decoded(whole - seconds)

    def _retire(self, sequence: Sequence, content: Many[int]) -> None:
        self._metrics.finished(sequence)
        self._released.append(Release(sequence.id, len(content)))
        self._admission.leave(sequence, tuple(content))
        del self._running[sequence.id]
        self._streams.pop(sequence.id, None)


def _log_cancelled(sequence: Sequence) -> None:
    """The line that the route writes for a request that finished; nobody there hears of this one's end."""
    log.info(
        "cancelled id=%d slot=%d prompt=%d cached=%d predicted=%d%s",
        sequence.id,
        sequence.slot,
        len(sequence.request.prompt),
        sequence.cached,
        len(sequence.tokens),
        log_fields(sequence.drafted.summary, sequence.draft_off, sequence.drafted.rule),
    )
