"""POST /slots/N: what is asked of the scheduler, what comes back, what is refused."""

import pytest

from routes.fakes import Bench, bench, message
from stoker.core.errors import InvalidRequest
from stoker.core.work import Filed, SlotAction
from stoker.routes.slots import is_plain

TYPE_ERROR = "[json.exception.type_error."
ODD_NAMES = (
    "",
    ".",
    "..",
    "a/b",
    "a\\b",
    "/etc/passwd",
    "a..b",
    "a.",
    " a",
    "a ",
    "a\n",
    "a:b",
    "a*",
    "\u2215",
    "a\x7f",
)


def saving() -> Bench:
    return bench(slot_save_path="folder")


async def test_save_and_restore_name_the_file_its_size_and_the_time() -> None:
    made = saving()
    saved = await made.post("/slots/1?action=save", {"filename": "a.bin"})
    assert saved.json() == {
        "id_slot": 1, "filename": "a.bin", "n_saved": 3, "n_written": 4000, "timings": {"save_ms": 1.5},
    }  # fmt: skip
    restored = await made.post("/slots/0?action=restore", {"filename": "a.bin"})
    assert restored.json() == {
        "id_slot": 0, "filename": "a.bin", "n_restored": 3, "n_read": 4000, "timings": {"restore_ms": 1.5},
    }  # fmt: skip
    assert made.scheduler.acts == [(1, SlotAction.SAVE, "folder/a.bin"), (0, SlotAction.RESTORE, "folder/a.bin")]


async def test_erase_needs_no_body_and_echoes_the_number() -> None:
    made = saving()
    made.scheduler.filed = Filed((7,) * 9, 0, 0.0)
    answer = await made.client.post("/slots/99?action=erase", content=b"")
    assert answer.json() == {"id_slot": 99, "n_erased": 9}
    assert made.scheduler.acts == [(99, SlotAction.ERASE, "")]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/slots/x?action=save", {"filename": "a"}, 400, "Invalid slot ID"),
        ("/slots/-1?action=erase", {}, 400, "Invalid slot ID"),
        ("/slots/99999999999?action=erase", {}, 400, "Invalid slot ID"),
        ("/slots/0?action=fly", {}, 400, "Invalid action"),
        ("/slots/0", {}, 400, "Invalid action"),
        ("/slots/0?action=save", {"filename": "../x"}, 400, "Invalid filename"),
        ("/slots/0?action=restore", {"filename": ""}, 400, "Invalid filename"),
        ("/slots/0?action=save", {}, 500, "[json.exception.out_of_range.403] key 'filename' not found"),
        ("/slots/0?action=save", {"filename": 1}, 500, f"{TYPE_ERROR}302] type must be string, but is number"),
        ("/slots/0?action=save", [], 500, f"{TYPE_ERROR}304] cannot use at() with array"),
    ],
)
async def test_what_cannot_be_done_is_not_asked_of_the_scheduler(
    path: str, body: object, status: int, said: str
) -> None:
    made = saving()
    answer = await made.post(path, body)
    assert (answer.status_code, message(answer)) == (status, said)
    assert made.scheduler.acts == []


async def test_an_error_of_the_engine_is_the_answer() -> None:
    made = saving()
    made.scheduler.filed = InvalidRequest("Unable to restore slot")
    answer = await made.post("/slots/0?action=restore", {"filename": "a"})
    assert (answer.status_code, message(answer)) == (400, "Unable to restore slot")


async def test_without_a_folder_every_action_is_switched_off() -> None:
    answer = await Bench().post("/slots/0?action=erase", {})
    assert (answer.status_code, message(answer)) == (
        501,
        "This server does not support slots action. Start it with `--slot-save-path`",
    )


@pytest.mark.parametrize("name", ["a", "slot 1.bin", "ünï", ".hidden", "a" * 255])
def test_a_plain_name_is_taken(name: str) -> None:
    assert is_plain(name)


@pytest.mark.parametrize("name", [*ODD_NAMES, "a" * 256])
def test_a_name_that_could_mean_another_place_is_not(name: str) -> None:
    assert not is_plain(name)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"content": "a"}),
        ("/detokenize", {"tokens": [65]}),
        ("/apply-template", {"messages": []}),
        ("/v1/chat/completions/input_tokens", {"messages": []}),
        ("/v1/responses/input_tokens", {"input": "a"}),
        ("/v1/messages/count_tokens", {"messages": []}),
    ],
)
async def test_all_work_wakes_a_sleeping_server(path: str, body: dict[str, object]) -> None:
    made = Bench()
    made.scheduler.sleeping = True
    assert (await made.post(path, body)).status_code == 200
    assert not made.scheduler.sleeping


async def test_sleeping_shows_in_props() -> None:
    made = Bench()
    assert (await made.get("/props")).json()["is_sleeping"] is False
    made.scheduler.sleeping = True
    assert (await made.get("/props")).json()["is_sleeping"] is True
