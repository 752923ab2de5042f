"""The page at /."""

from dataclasses import replace

import pytest

from routes.fakes import INFO, Bench, bench
from stoker.routes.scales import Scales
from stoker.routes.service import Edge, Switches
from stoker.scheduler.views import SlotView


@pytest.mark.parametrize("path", ["/", "/index.html"])
async def test_it_shows_state_model_and_links(path: str) -> None:
    made = bench(aliases=("a<b",), speculative_types="none,draft-simple", adapters=Scales(["x"], [1.0]))
    made.scheduler.views = [SlotView(0, busy=True), SlotView(1)]
    answer = await made.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    for shown in ("ready, 1 of 2 slots busy", "a&lt;b", "135 million", "1024 tokens", "none,draft-simple"):
        assert shown in answer.text
    for link in ("v1/models", "props", "health", "slots", "metrics", "lora-adapters"):
        assert f'href="{link}"' in answer.text


async def test_every_link_leads_somewhere() -> None:
    made = bench(switches=Switches(slots=True, metrics=False))
    text = (await made.get("/")).text
    links = [part.split('"')[0] for part in text.split('href="')[1:]]
    assert links == ["v1/models", "props", "health", "slots"]
    assert [(await made.get(f"/{link}")).status_code for link in links] == [200] * 4


async def test_it_says_what_else_the_server_is_doing() -> None:
    assert "loading the model" in (await Bench(loading=True).get("/")).text
    made = Bench()
    made.scheduler.sleeping = True
    assert "asleep" in (await made.get("/")).text
    made.scheduler.healthy = False
    assert "has stopped" in (await made.get("/")).text


async def test_it_is_off_without_ui_and_moves_with_the_prefix() -> None:
    assert (await Bench(edge=Edge(ui=False)).get("/")).status_code == 404
    moved = Bench(edge=Edge(prefix="/api"))
    assert (await moved.get("/api/")).status_code == 200
    assert (await moved.get("/")).status_code == 404


async def test_a_name_cannot_break_it() -> None:
    made = bench(aliases=("{rows}<script>",), info=replace(INFO, ftype="{x}"))
    assert "<script>" not in (await made.get("/")).text
