"""What clients do with idle slots: save, restore, erase. One that is busy is waited for."""

import asyncio
from dataclasses import dataclass

from stoker.core.errors import ServerError, as_server_error
from stoker.core.work import Filed, Outcome, SlotAction, SlotWork
from stoker.scheduler.slots import SlotTable


@dataclass(frozen=True, slots=True)
class Asked:
    id: int
    slot: int
    action: SlotAction
    path: str
    adapters: tuple[float, ...]
    """The scales that a restored content must have been made under."""
    done: asyncio.Future[Filed]


class Actions:
    def __init__(self, table: SlotTable) -> None:
        self._table = table
        self._waiting: list[Asked] = []
        self._running: dict[int, Asked] = {}

    def ask(
        self, id: int, slot: int, action: SlotAction, path: str, adapters: tuple[float, ...] = ()
    ) -> asyncio.Future[Filed]:
        """What was done, or the ServerError that prevented it, comes through the future."""
        done: asyncio.Future[Filed] = asyncio.get_running_loop().create_future()
        self._waiting.append(Asked(id, slot % len(self._table.slots), action, path, adapters, done))
        return done

    def plan(self) -> tuple[SlotWork, ...]:
        """The actions whose slots are idle, one a slot. Until they are done, so are these not."""
        work: list[SlotWork] = []
        still: list[Asked] = []
        for asked in self._waiting:
            slot = self._table.slots[asked.slot]
            if asked.done.cancelled():
                continue
            if slot.busy:
                still.append(asked)
                continue
            self._running[asked.id] = asked
            scales = slot.adapters if asked.action is SlotAction.SAVE else asked.adapters
            work.append(SlotWork(asked.id, asked.slot, asked.action, asked.path, slot.content, scales))
            self._table.hold(asked.slot)
        self._waiting = still
        return tuple(work)

    def absorb(self, outcome: Outcome) -> None:
        """Tells the one who asked, if somebody did. A failed action leaves its slot as it was."""
        asked = self._running.pop(outcome.id, None)
        if asked is None:
            return
        filed = outcome.filed
        slot = self._table.slots[asked.slot]
        if filed is None or asked.action is SlotAction.SAVE:
            self._table.leave(asked.slot, slot.content, slot.adapters)
        else:
            self._table.leave(asked.slot, () if asked.action is SlotAction.ERASE else filed.tokens, asked.adapters)
        if asked.done.cancelled():
            return
        if filed is None:
            asked.done.set_exception(as_server_error(outcome.error or RuntimeError("it was not done")))
        else:
            asked.done.set_result(filed)

    def fail(self, error: ServerError) -> None:
        """Nothing will be done any more."""
        for asked in [*self._waiting, *self._running.values()]:
            if not asked.done.done():
                asked.done.set_exception(error)
        self._waiting, self._running = [], {}
