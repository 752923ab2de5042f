"""The runner of llama.cpp's own server tests, on a handful of tests of our own in their place."""

import os
import sys
import time
from pathlib import Path

import pytest

from compat import upstream
from compat.upstream import Expected, Result, judge

DOCS = Path(__file__).parents[2] / "docs" / "llama-server-compat.md"
UTILS = """
class Server:
    model_hf_repo = model_hf_file = "hub"
    model_file = None

class ServerPreset:
    @staticmethod
    def load_all():
        raise RuntimeError("no network")

    tinyllama2 = stories15m_moe = tinyllama_infill = staticmethod(Server)
"""
TESTS = """
import pytest
from utils import *

@pytest.fixture(scope="session", autouse=True)
def presets():
    ServerPreset.load_all()

@pytest.fixture
def broken():
    yield
    raise RuntimeError("no end")

def test_model():
    made = ServerPreset.tinyllama2()
    assert (made.model_hf_repo, made.model_hf_file, made.model_file) == (None, None, "here.gguf")

def test_fails():
    assert 1 == 2, "so it is"

def test_ends_badly(broken): ...

def test_skips():
    pytest.skip("not today")
"""
ENDLESS = """
import subprocess, sys

def test_short(): ...

def test_endless():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What llama.cpp's tests look like."""
    (tmp_path / "unit").mkdir()
    (tmp_path / "utils.py").write_text(UTILS, encoding="utf-8")
    (tmp_path / "unit" / "test_basic.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "unit" / "test_stream.py").write_text(ENDLESS, encoding="utf-8")
    return tmp_path


def run(folder: Path, file: str, seconds: float = 60, **more: str) -> dict[str, Result]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", upstream.PLUGIN]
    path = os.pathsep.join((str(folder), str(upstream.HERE)))
    environ = {**os.environ, "PYTHONPATH": path, "UPSTREAM_MODEL": "here.gguf", **more}
    return {one.name.partition("::")[2]: one for one in upstream.run_file(file, folder, command, environ, seconds)}


def test_each_outcome_is_known_and_the_presets_serve_the_given_model(folder: Path) -> None:
    told = run(folder, "basic")
    assert {name for name, one in told.items() if one.passed} == {"test_model"}
    assert "so it is" in told["test_fails"].why
    assert "no end" in told["test_ends_badly"].why
    assert set(told) == {"test_model", "test_fails", "test_ends_badly", "test_skips"}


def test_a_list_leaves_the_other_tests_out(folder: Path) -> None:
    (folder / "list").write_text('{"passes": ["unit/test_basic.py::test_model"]}', encoding="utf-8")
    assert set(run(folder, "basic", UPSTREAM_LIST=str(folder / "list"))) == {"test_model"}


def test_a_file_that_does_not_end_is_cut_and_keeps_what_it_has(folder: Path) -> None:
    told: dict[str, Result] = {}
    for seconds in (3, 12, 40):  # a busy machine may take that long for the first test
        began = time.monotonic()
        told = told or run(folder, "stream", seconds)
        assert time.monotonic() - began < 55
    assert [(name, one.passed) for name, one in told.items()] == [("test_short", True)]


A, B, C = (f"unit/test_basic.py::test_{letter}" for letter in "abc")
WANTED = Expected(("basic", "lora"), frozenset({A, B, "unit/test_lora.py::test_a"}), {B: "cannot be"})


def test_a_failure_is_a_fault_unless_it_is_explained() -> None:
    report = judge([Result(A, True), Result(B, False), Result(C, True)], WANTED, ["basic"])
    assert report.ok
    assert (report.asked, report.passed, report.missed, report.more) == (2, 1, {B: "cannot be"}, (C,))
    assert upstream.lines(report)[-1] == "of 2 that llama-server passes: 1 passed"
    report = judge([Result(A, False, "why"), Result(B, False)], WANTED, ["basic"])
    assert not report.ok
    assert upstream.lines(report)[0] == f"FAILED {A}: why"


def test_a_test_that_did_not_run_has_failed() -> None:
    assert [one.why for one in judge([Result(A, True)], WANTED, ["basic", "lora"]).failed] == ["did not run"]


def test_an_explained_miss_that_passes_is_stale() -> None:
    report = judge([Result(A, True), Result(B, True)], WANTED, ["basic"])
    assert report.stale == (B,)
    assert not report.ok


def test_every_miss_is_a_test_that_llama_server_passes_and_stands_in_the_docs() -> None:
    wanted, text = upstream.expected(), DOCS.read_text(encoding="utf-8")
    assert len(wanted.passes) == 179
    assert set(wanted.misses) < wanted.passes
    assert {upstream.file_of(name) for name in wanted.passes} <= set(wanted.files)
    for name in wanted.misses:
        assert f"`{name.removeprefix('unit/')}`" in text
    for file in wanted.files:
        asked = [name for name in wanted.passes if upstream.file_of(name) == file]
        passed = [name for name in asked if name not in wanted.misses]
        assert f"| {file} | {len(passed)} | {len(asked)} |" in text
