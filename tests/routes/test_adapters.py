"""/lora-adapters and the `lora` field: which scales a request runs under."""

from typing import Any

import pytest

from routes.fakes import bench, message
from stoker.routes.scales import Scales


def two() -> Scales:
    return Scales(["a", "b"], [1.0, 0.0])


async def test_adapters_are_listed_with_their_present_scales() -> None:
    made = bench(adapters=two())
    assert (await made.post("/lora-adapters", [{"id": 1, "scale": 0.1}, {"id": 9, "scale": 3}])).json() == {
        "success": True
    }
    assert (await made.get("/lora-adapters")).json() == [
        {"id": 0, "path": "a", "scale": 0.0, "task_name": "", "prompt_prefix": ""},
        {"id": 1, "path": "b", "scale": 0.10000000149011612, "task_name": "", "prompt_prefix": ""},
    ]
    await made.post("/completion", {"prompt": "x"})
    assert made.scheduler.requests[-1].adapters == (0.0, 0.1)


@pytest.mark.parametrize(
    ("lora", "scales"),
    [
        (None, (1.0, 0.0)),
        ([], (1.0, 0.0)),
        ([{"id": 1, "scale": 0.5}], (0.0, 0.5)),
        ([{"id": 0, "scale": 0.0}], ()),
        ([{"id": 7, "scale": 2}], ()),
        ([{"id": 0, "scale": 1}, {"id": 0, "scale": -2}], (-2.0, 0.0)),
        ([{"scale": 1}], ()),
        ([{"id": 1}], ()),
    ],
)
async def test_a_request_names_its_scales_and_the_others_are_zero(lora: Any, scales: tuple[float, ...]) -> None:
    made = bench(adapters=two())
    for path, body in (("/completion", {"prompt": "x"}), ("/v1/chat/completions", {"messages": []})):
        assert (await made.post(path, {**body, "lora": lora})).status_code == 200
        assert made.scheduler.requests[-1].adapters == scales


async def test_without_adapters_nothing_is_scaled_and_the_field_is_echoed() -> None:
    made = bench()
    answer = (await made.post("/completion", {"prompt": "x", "lora": [{"id": 0, "scale": 0.5}]})).json()
    assert made.scheduler.requests[-1].adapters == ()
    assert answer["generation_settings"]["lora"] == [{"id": 0, "scale": 0.5}]


async def test_a_body_that_is_no_array_is_refused_and_odd_entries_are_nobodys() -> None:
    made = bench(adapters=two())
    refused = await made.post("/lora-adapters", {"id": 0})
    assert (refused.status_code, message(refused)) == (400, "Request body must be an array")
    await made.post("/lora-adapters", [1, {"id": "x", "scale": "y"}, {"id": 1, "scale": True}])
    assert made.service.adapters.scales == (0.0, 0.0)


async def test_a_slot_is_restored_under_the_present_scales() -> None:
    made = bench(adapters=two(), slot_save_path="TMP")
    await made.post("/slots/0?action=restore", {"filename": "f"})
    assert made.scheduler.restored_under == (1.0, 0.0)
