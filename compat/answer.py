"""An HTTP answer as the comparison sees it: status, headers, and a JSON body, a text or SSE frames.

Knows JSON and the SSE framing, no client and no rule of comparison. What a lenient reader would
forgive (a key twice, NaN, bytes that are not UTF-8, a frame without its blank line) is kept as a
fault, so that it can be reported.
"""

import base64
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""JSON as Python reads it: an int and a float stay different, and keys keep their order."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One SSE event. `data` is its JSON, or the bare word `[DONE]`."""

    data: Json
    event: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """`form` says which of the three contents counts: `json`, `text` or `frames`."""

    status: int
    headers: Mapping[str, str]
    form: str
    body: Json = None
    text: str = ""
    frames: tuple[Frame, ...] = ()
    faults: tuple[str, ...] = ()
    omitted: bool = False
    """True for a recording whose text is not kept; any text equals it."""


@dataclass(slots=True)
class Reader:
    """Parses one answer and collects the faults on the way."""

    faults: list[str] = field(default_factory=list[str])

    def json(self, text: str) -> Json:
        try:
            return json.loads(text, object_pairs_hook=self._pairs, parse_constant=_no_constant)
        except ValueError as error:
            self.faults.append(f"not JSON: {error}")
            return text

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            self.faults.append(f"an object names a key twice: {[key for key, _ in pairs]}")
        return found

    def frames(self, text: str) -> tuple[Frame, ...]:
        if "\r" in text:
            self.faults.append("a carriage return in the stream")
            text = text.replace("\r\n", "\n")
        *blocks, rest = text.split("\n\n")
        if rest:
            self.faults.append(f"the stream ends inside a frame: {rest[:80]!r}")
            blocks.append(rest)
        return tuple(frame for block in blocks if (frame := self._frame(block)))

    def _frame(self, block: str) -> Frame | None:
        data: list[str] = []
        event = None
        for line in block.split("\n"):
            if line.startswith("data: "):
                data.append(line.removeprefix("data: "))
            elif line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line != ":":
                self.faults.append(f"not a line of llama-server's streams: {line[:80]!r}")
        if not data:
            return None
        joined = "\n".join(data)
        return Frame(joined if joined == "[DONE]" else self.json(joined), event)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def from_http(status: int, headers: Mapping[str, str], content: bytes) -> Answer:
    """Read what came over HTTP; the Content-Type decides the form."""
    reader = Reader()
    kind = headers.get("content-type", "")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        reader.faults.append(f"not UTF-8: {error}")
        text = content.decode("utf-8", errors="replace")
    if kind.startswith("text/event-stream"):
        frames = reader.frames(text)
        return Answer(status, headers, "frames", frames=frames, faults=tuple(reader.faults))
    if kind.startswith("application/json"):
        body = reader.json(text)
        return Answer(status, headers, "json", body=body, faults=tuple(reader.faults))
    return Answer(status, headers, "text", text=text, faults=tuple(reader.faults))


def from_recording(data: Mapping[str, Any]) -> Answer:
    """Read a file of `recordings/` (its forms are described in `compat/README.md`)."""
    status, headers = data["status"], {name.lower(): value for name, value in data["headers"].items()}
    if "frames" in data:
        frames = tuple(Frame(frame["data"], frame.get("event")) for frame in data["frames"])
        return Answer(status, headers, "frames", frames=frames)
    if "body" in data:
        return Answer(status, headers, "json", body=unpacked(data["body"]))
    return Answer(status, headers, "text", text=data.get("text", ""), omitted="text_omitted" in data)


def unpacked(value: Json) -> Json:
    """Write out what the files shorten: `{"$repeat", "$times"}` strings and `{"$f32"}` vectors (little-endian)."""
    if isinstance(value, list):
        return [unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$repeat" in value:
        return str(value["$repeat"]) * int(str(value["$times"]))
    if "$f32" in value:
        raw = base64.b64decode(str(value["$f32"]))
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    return {key: unpacked(item) for key, item in value.items()}


_SAMPLE = re.compile(r"([^\s{]+)(\{[^}]*\})? (\S+)")


def metrics(text: str) -> Json:
    """Turn a Prometheus text into `{name: {help, type, samples: {labels: value as printed}}}`, in its order."""
    families: dict[str, Json] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            _, keyword, name, said = (*line.split(" ", 3), "")[:4]
            _family(families, name)[keyword.lower()] = said
        elif found := _SAMPLE.fullmatch(line):
            samples = _family(families, found[1]).setdefault("samples", {})
            if isinstance(samples, dict):
                samples[found[2] or ""] = found[3]
        else:
            _family(families, "unreadable")[line] = None
    return families


def _family(families: dict[str, Json], name: str) -> dict[str, Json]:
    found = families.setdefault(name, {})
    assert isinstance(found, dict)
    return found
