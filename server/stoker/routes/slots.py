"""POST /slots/N?action=: a slot's content to a file and back, or erased."""

import re
from pathlib import Path
from typing import cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core.errors import InvalidRequest, ServerFault
from stoker.core.work import Filed, SlotAction
from stoker.routes.body import Json, members, read
from stoker.routes.info import switched_off
from stoker.routes.respond import json_response
from stoker.routes.schema.fields import type_error, type_name
from stoker.routes.service import State

LONGEST_NAME = 255
_LEADING_NUMBER = re.compile(r"\s*\+?([0-9]+)")
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f:*?\"<>|/\\\uff0e\u2215\u2216\ufffd\ufeff\ud800-\udfff]|\.\.")


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/slots/{slot}")
    async def act(slot: str, request: Request) -> Response:
        service = state.ready()
        if not service.slot_save_path:
            raise switched_off("slots action", "--slot-save-path")
        number = _LEADING_NUMBER.match(slot)
        if number is None or int(number[1]) >= 2**31:
            raise InvalidRequest("Invalid slot ID")
        action = _action(request.query_params.get("action", ""))
        name = "" if action is SlotAction.ERASE else read_name(await read(request))
        path = "" if action is SlotAction.ERASE else str(Path(service.slot_save_path) / name)
        filed = await service.scheduler.act(int(number[1]), action, path, service.adapters.of())
        return json_response(answer(int(number[1]), action, name, filed))

    return routes


def answer(slot: int, action: SlotAction, name: str, filed: Filed) -> Json:
    """`slot` is the number as it was asked for."""
    count, took = len(filed.tokens), round(filed.seconds * 1e3, 3)
    if action is SlotAction.ERASE:
        return {"id_slot": slot, "n_erased": count}
    if action is SlotAction.SAVE:
        done: Json = {"n_saved": count, "n_written": filed.size, "timings": {"save_ms": took}}
    else:
        done = {"n_restored": count, "n_read": filed.size, "timings": {"restore_ms": took}}
    return {"id_slot": slot, "filename": name, **done}


def read_name(body: object) -> str:
    """The body's `filename`. InvalidRequest for one that could lead out of the folder, ServerFault for none."""
    if not isinstance(body, dict):
        raise ServerFault(f"[json.exception.type_error.304] cannot use at() with {type_name(body)}")
    fields = members(cast("object", body))
    if "filename" not in fields:
        raise ServerFault("[json.exception.out_of_range.403] key 'filename' not found")
    name = fields["filename"]
    if not isinstance(name, str):
        raise ServerFault(type_error("string", name))
    if not is_plain(name):
        raise InvalidRequest("Invalid filename")
    return name


def is_plain(name: str) -> bool:
    """True for the name of a file that every file system takes for one in the folder itself."""
    long = len(name.encode("utf-8", "replace")) > LONGEST_NAME
    padded = name != name.strip(" ") or name.endswith(".")
    return bool(name) and not long and not padded and _ODD.search(name) is None


def _action(word: str) -> SlotAction:
    try:
        return SlotAction(word)
    except ValueError:
        raise InvalidRequest("Invalid action") from None
