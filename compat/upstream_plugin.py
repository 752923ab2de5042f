"""A pytest plugin for llama.cpp's server tests; it runs in their process and changes none of their files.

The presets whose models cannot be had here (tiny models on the hub) serve the file in UPSTREAM_MODEL, and each test's
outcome goes into the file UPSTREAM_RESULTS as a line of JSON as soon as it is known, so that a run that is cut off
still says what passed. With UPSTREAM_LIST, a JSON file, only the tests in its list `passes` run.
"""

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PRESETS = ("tinyllama2", "stories15m_moe", "tinyllama_infill")
"""Of `ServerPreset` in upstream's utils.py; the others need a model of another kind (BERT, a reranker, vision)."""


class Outcomes:
    """Collects the phases of each test: it passed when its call did and nothing else failed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.failed: dict[str, str] = {}
        self.called: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.called.add(report.nodeid)
        if not report.passed:
            self.failed.setdefault(report.nodeid, _reason(report))
        if report.when == "teardown":
            passed = report.nodeid in self.called and report.nodeid not in self.failed
            self._write(report.nodeid, passed, self.failed.get(report.nodeid, ""))

    def _write(self, name: str, passed: bool, why: str) -> None:
        with self.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"name": name, "passed": passed, "why": why}) + "\n")


class Listed:
    """Runs only the tests that a list names."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.names])
        items[:] = [item for item in items if item.nodeid in self.names]


def _reason(report: pytest.TestReport) -> str:
    """The error's own line in what pytest tells of it."""
    told = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return told[0].removeprefix("E").strip() if told else report.outcome


def _local(preset: Callable[[], Any], model: str) -> Callable[[], Any]:
    def made() -> Any:
        server = preset()
        server.model_hf_repo = server.model_hf_file = None
        server.model_file = model
        return server

    return made


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Outcomes(Path(os.environ["UPSTREAM_RESULTS"])), "outcomes")
    os.environ.pop("PYTHONPATH", None)  # it has done its work, and the servers would inherit it
    if listed := os.environ.get("UPSTREAM_LIST"):
        names = json.loads(Path(listed).read_text(encoding="utf-8"))["passes"]
        config.pluginmanager.register(Listed(frozenset(names)), "listed")
    presets = importlib.import_module("utils").ServerPreset
    presets.load_all = staticmethod(lambda: None)  # it would start each preset once to download its model
    for name in PRESETS:
        setattr(presets, name, staticmethod(_local(getattr(presets, name), os.environ["UPSTREAM_MODEL"])))
