"""The recorder writes what the checker reads: every recording of llama-server survives the round trip."""

import json
from pathlib import Path

import pytest

from compat import library, record
from compat.answer import Answer, Json, from_http, from_recording, unpacked

FILES = sorted(library.RECORDINGS.glob("*/*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_recording_of_llama_server_is_written_as_it_was_read(file: Path) -> None:
    told = json.loads(file.read_text(encoding="utf-8"))
    again = record.recorded(from_recording(told), {})
    if "text_omitted" in told:
        assert again["status"] == told["status"]
        return
    # A vector is kept as it was, but texts that the file writes out may be shortened, and the other way round.
    for part in told:
        assert unpacked(again[part]) == unpacked(told[part])
    assert json.loads(record.written(again)) == again


def test_names_of_this_machine_are_hidden_everywhere() -> None:
    body = b'{"path": "/srv/m.gguf", "list": ["http://127.0.0.1:1/x", "m.gguf"]}'
    answer = from_http(200, {"content-type": "application/json"}, body)
    told = record.recorded(answer, {"/srv/m.gguf": "MODEL.gguf", "http://127.0.0.1:1": "BASE", "m.gguf": "MODEL.gguf"})
    assert told["body"] == {"path": "MODEL.gguf", "list": ["BASE/x", "MODEL.gguf"]}


def test_repetitions_vectors_and_pages_are_shortened() -> None:
    assert record.packed("word " * 300, {}) == {"$repeat": "word ", "$times": 300}
    assert record.packed("word " * 9, {}) == "word " * 9
    long: list[Json] = [0.5] * 16
    vector = record.packed(long, {})
    assert isinstance(vector, dict)
    assert unpacked(vector) == long
    plain: list[list[Json]] = [[0.1] * 16, [0.5] * 15, [*long, 1]]
    for values in plain:
        assert record.packed(values, {}) == values
    page = record.recorded(Answer(200, {}, "text", text="<p>" * 4000), {})
    assert page == {"status": 200, "headers": {}, "text_omitted": 12000}


def test_frames_keep_their_names_and_their_order() -> None:
    content = b'event: a\ndata: {"x": 1}\n\n:\n\ndata: [DONE]\n\n'
    told = record.recorded(from_http(200, {"content-type": "text/event-stream", "date": "now"}, content), {})
    assert told["headers"] == {"Content-Type": "text/event-stream"}
    assert told["frames"] == [{"event": "a", "data": {"x": 1}}, {"data": "[DONE]"}]
    assert from_recording(json.loads(record.written(told))).frames == from_recording(told).frames


def test_a_server_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    broken = ["/bin/sh", "-c", "echo no such model; exit 1"]
    with pytest.raises(SystemExit, match="no such model"), record.serving(broken, tmp_path / "log", 5):
        pass
