"""What a browser with llama-server's interface in its cache still asks for."""

import pytest

from routes.fakes import Bench
from stoker.core.build import build_info
from stoker.routes.service import Edge

PATHS = ("/sw.js", "/manifest.webmanifest", "/_app/version.json")


@pytest.mark.parametrize("path", PATHS)
async def test_they_need_neither_model_nor_key_and_are_off_without_ui(path: str) -> None:
    assert (await Bench(loading=True).get(path)).status_code == 200
    assert (await Bench(edge=Edge(keys=("secret",))).get(path)).status_code == 200
    assert (await Bench(edge=Edge(ui=False)).get(path)).status_code == 404


async def test_the_worker_ends_itself_and_the_version_is_ours() -> None:
    made = Bench()
    worker = await made.get("/sw.js")
    assert worker.headers["content-type"].startswith("text/javascript")
    assert "registration.unregister()" in worker.text
    assert (await made.get("/_app/version.json")).json() == {"version": build_info()}
    assert (await made.get("/manifest.webmanifest")).json()["name"] == "Stoker"
