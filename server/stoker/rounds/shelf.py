"""Shelf: what slots held before, on the host, and slot files. Lives on the device thread.

The scheduler decides what is kept, fetched and dropped, by key; here are the columns themselves.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from stoker.core import clock
from stoker.core.errors import InvalidRequest, ServerFault
from stoker.core.work import Filed, Join, Keep, Outcome, SlotAction, SlotWork
from stoker.models import slot_file
from stoker.models.slot_file import SlotFileError
from stoker.models.snapshot import Snapshot
from stoker.models.target import Target
from stoker.rounds.guard import Fault, guard

log = logging.getLogger(__name__)

UNUSABLE = "Unable to restore slot: No available space in KV cache or invalid slot save file"


class Shelf:
    def __init__(self, target: Target, model: str = "", adapters: str = "") -> None:
        """`model` names the model in slot files, `adapters` those that it has loaded."""
        self._target, self._model, self._adapters = target, model, adapters
        self._kept: dict[int, Snapshot] = {}

    def drop(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._kept.pop(key, None)

    def keep(self, item: Keep) -> None:
        """What cannot be kept is read again when it is wanted."""
        snapshot = guard(lambda: self._target.snapshot(item.slot))
        if isinstance(snapshot, Fault):
            log.warning("the content of slot %d could not be kept: %s", item.slot, snapshot.error)
        else:
            self._kept[item.key] = snapshot

    def bring(self, join: Join) -> None:
        """Brings the columns that a row wants into its slot, unless it has them."""
        if join.source >= 0:
            self._target.copy(join.source, join.slot)
        elif join.kept in self._kept:
            self._target.put(join.slot, self._kept[join.kept])
        elif join.kept >= 0:
            self._target.truncate(join.slot, 0)

    def act(self, work: SlotWork) -> Outcome:
        """Saves, restores or erases an idle slot."""
        started = clock.now()
        done = guard(lambda: self._act(work))
        ended = clock.now()
        if isinstance(done, Fault):
            return Outcome(work.id, ended, error=done.error)
        tokens, size = done
        return Outcome(work.id, ended, filed=Filed(tokens, size, ended - started))

    def _act(self, work: SlotWork) -> tuple[tuple[int, ...], int]:
        match work.action:
            case SlotAction.SAVE:
                return work.tokens, self._save(work)
            case SlotAction.RESTORE:
                return self._restore(work)
            case SlotAction.ERASE:
                self._target.truncate(work.slot, 0)
                return work.tokens, 0

    def _save(self, work: SlotWork) -> int:
        if self._target.lengths[work.slot] != len(work.tokens):
            raise ServerFault("Unable to save slot: its content was lost")
        try:
            return slot_file.write(Path(work.path), self._name(work), work.tokens, self._target.snapshot(work.slot))
        except OSError as error:
            raise ServerFault(f"Unable to save slot: {error.strerror or error}") from None

    def _restore(self, work: SlotWork) -> tuple[tuple[int, ...], int]:
        try:
            held = slot_file.read(Path(work.path), self._name(work))
            self._target.put(work.slot, held.snapshot)
        except (SlotFileError, OSError, ValueError) as error:
            log.warning("slot %d stays as it is, %s cannot be used: %s", work.slot, work.path, error)
            raise InvalidRequest(UNUSABLE) from None
        return held.tokens, held.size

    def _name(self, work: SlotWork) -> str:
        """Of the model as it is with its adapters at these scales."""
        return f"{self._model} {self._adapters} {work.adapters}" if work.adapters else self._model
