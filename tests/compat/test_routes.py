"""The data of `compat/` agrees with itself, with the recordings and with the code it speaks of."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from compat import library
from stoker import cli
from stoker.core import errors
from stoker.core.build import build_info
from stoker.core.timings import Stopwatch

REPOSITORY = Path(__file__).resolve().parents[2]
SERVER = REPOSITORY / "server" / "stoker"
ROUTES = library.routes()
DIVERGENCES = {one.id: one for one in library.divergences()}
FEATURES = library.features()
CASES = {case.id: case for name in library.PROFILES for case in library.cases(name)}
BUILT = {case.id for name in library.PROFILES for case in library.cases(name, FEATURES)}
ERRORS: dict[str, Any] = json.loads((library.ROOT / "errors.json").read_text(encoding="utf-8"))

PAIRS = """
GET /health, /v1/health, /metrics, /props, /models, /v1/models, /slots, /lora-adapters, /v1/stream, /tools,
    /cors-proxy, /models/sse, $AIP_HEALTH_ROUTE, /
POST /props, /completion, /completions, /v1/completions, /chat/completions, /v1/chat/completions,
    /v1/chat/completions/control, /responses, /v1/responses, /v1/messages, /v1/messages/count_tokens, /infill,
    /tokenize, /detokenize, /apply-template, /chat/completions/input_tokens, /v1/chat/completions/input_tokens,
    /responses/input_tokens, /v1/responses/input_tokens, /embedding, /embeddings, /v1/embeddings, /rerank,
    /reranking, /v1/rerank, /v1/reranking, /slots/:id, /lora-adapters, /audio/transcriptions,
    /v1/audio/transcriptions, /v1/streams/lookup, /tools, /cors-proxy, /models, /models/load, /models/unload,
    $AIP_PREDICT_ROUTE
DELETE /v1/stream, /models
"""
"""llama-server's method and path pairs (spec/llama-server.md, section 3)."""


def pairs() -> set[str]:
    found: set[str] = set()
    method = ""
    for word in PAIRS.replace(",", " ").split():
        if word in ("GET", "POST", "DELETE"):
            method = word
        else:
            found.add(f"{method} {word}")
    return found


def test_all_53_pairs_have_an_entry_and_nothing_else_has() -> None:
    assert set(ROUTES) == pairs()
    assert len(ROUTES) == 53


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.key)
def test_a_route_has_a_known_state_and_a_divergence_forbids_supported(route: library.Route) -> None:
    assert route.state in library.STATES
    assert set(route.divergences) <= set(DIVERGENCES)
    if route.divergences:
        assert route.state == "partial"
    if route.state == "partial":
        assert route.divergences or route.note


@pytest.mark.parametrize("route", ROUTES.values(), ids=lambda route: route.key)
def test_a_claimed_route_is_replayed_and_an_absent_one_is_not(route: library.Route) -> None:
    replayed = any(CASES[case].route == route.key for case in BUILT)
    if route.state in ("supported", "partial"):
        assert replayed or route.note.startswith("no recording")
    else:
        assert not replayed


@pytest.mark.parametrize("front", library.fronts(), ids=lambda front: front.name)
def test_a_front_is_claimed_if_and_only_if_an_option_or_a_path_names_it(front: library.Front) -> None:
    assert front.state in library.STATES
    spelled = [word for option in cli.options() for word in (*option.spellings, *option.off)]
    sources = [file.read_text(encoding="utf-8") for file in (SERVER / "routes").rglob("*.py")]
    served = [path for source in sources for path in re.findall(r'"(/[^"]*)"', source)]
    assert "/completion" in served, "the search finds routes"
    named = [name for name in (*spelled, *served) if any(word in name for word in front.words)]
    assert bool(named) is (front.state != "absent"), named


def test_the_front_that_splits_prefill_from_decoding_is_absent_and_its_note_keeps_the_draft_summary() -> None:
    (front,) = [front for front in library.fronts() if front.name == "disaggregated-prefill-decode"]
    assert front.state == "absent"
    assert all(key in front.note for key in ("draft_n", "draft_n_accepted", "draft_rounds", "draft_kind"))


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_divergence_is_used_and_names_an_existing_test(name: str) -> None:
    divergence = DIVERGENCES[name]
    assert any(name in route.divergences for route in ROUTES.values())
    assert divergence.what
    assert divergence.why
    file, _, test = divergence.test.partition("::")
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("name", [name for name, one in DIVERGENCES.items() if one.path])
def test_a_divergence_matches_cases_of_the_routes_that_declare_it_and_no_others(name: str) -> None:
    divergence = DIVERGENCES[name]
    assert all(any(library.fnmatchcase(case, glob) for case in CASES) for glob in divergence.cases)
    routes = {CASES[case].route for case in CASES if divergence.concerns(case)}
    assert routes <= {key for key, route in ROUTES.items() if name in route.divergences}


def test_there_are_fewer_than_15_divergences() -> None:
    assert len(DIVERGENCES) < 15


def test_every_case_has_its_recording_and_every_recording_its_case() -> None:
    files = {f"{file.parent.name}/{file.stem[4:]}" for file in (library.ROOT / "recordings").rglob("*.json")}
    assert files == set(CASES)
    assert {file.stem for file in (library.ROOT / "cases").glob("*.json")} == set(library.PROFILES)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.id)
def test_a_case_needs_known_features_and_asks_a_known_route(case: library.Case) -> None:
    assert set(case.needs) <= set(FEATURES)
    assert case.route in ROUTES or case.expected.status == 404 or case.request["method"] == "OPTIONS"


def test_every_feature_is_needed_by_a_case() -> None:
    assert {need for case in CASES.values() for need in case.needs} == set(FEATURES)


def test_numbers_that_a_file_does_not_shorten_are_kept_as_recorded() -> None:
    vector = CASES["embeddings/emb_v1"].expected.body
    assert isinstance(vector, dict)
    data: Any = vector["data"]
    assert data[0]["embedding"][0] == -0.02043287828564644
    assert len(data[0]["embedding"]) == 576


# --- errors.json


def test_our_errors_have_the_statuses_of_the_table() -> None:
    leaves = errors.ServerError.__subclasses__()
    assert {leaf.kind.value: leaf.status for leaf in leaves} == ERRORS["types"]


@pytest.mark.parametrize("entry", ERRORS["situations"], ids=lambda entry: entry["id"])
def test_a_situation_is_what_its_recordings_show(entry: dict[str, Any]) -> None:
    envelope = ERRORS["envelopes"][entry.get("envelope", "handler")]
    assert entry["type"] in ERRORS["types"] or entry["type"] == "feature_disabled"
    assert entry["status"] == ERRORS["types"].get(entry["type"], 403)
    assert entry["seen"] in ("rec", "src")
    for case in entry.get("cases", []):
        answer = CASES[case].expected
        assert answer.status == entry["status"]
        assert isinstance(answer.body, dict)
        error: Any = answer.body["error"]
        assert list(error) == [*envelope, *entry.get("extra", [])]
        assert (error["message"], error["type"]) == (entry["message"], entry["type"])


def test_every_recorded_error_is_a_situation() -> None:
    listed = {case for entry in ERRORS["situations"] for case in entry.get("cases", [])}
    assert listed == {case.id for case in CASES.values() if case.expected.status >= 400}
    names = [entry["id"] for entry in ERRORS["situations"]]
    assert len(names) == len(set(names))


# --- divergences that no recording shows


def test_prompt_ms_runs_from_arrival() -> None:
    watch = Stopwatch(arrived=10.0)
    watch.token(10.5)
    assert watch.read(cached=0, prompt=5, predicted=1).prompt_ms == 500.0


def test_the_build_string_has_llama_servers_form_and_our_name() -> None:
    number, _, rest = build_info().partition("-")
    assert number == "b10621"
    assert rest.startswith("stoker")
