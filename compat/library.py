"""The files of `llama-server/b10621/` as data: profiles, cases, recordings, routes, divergences, features."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from re import Pattern, compile
from typing import Any

from compat.answer import Answer, Json, from_recording, unpacked
from compat.rules import Context
from compat.shape import Difference

ROOT = Path(__file__).parent / "llama-server" / "b10621"
RECORDINGS = ROOT / "recordings"
PROFILES = ("base", "api_key", "off", "draft", "ngram", "embeddings", "slot_save")
NOTHING = Answer(0, {}, "text")
STATES = ("supported", "partial", "absent", "refused")


@dataclass(frozen=True, slots=True)
class Profile:
    """A command line, and the cases that were recorded on one server started with it, in order."""

    name: str
    server_args: tuple[str, ...]

    @property
    def command(self) -> str:
        """`{MODEL}` and `{TMP}` stand for the default model's file and a scratch folder."""
        return " ".join(["stoker-server -m {MODEL}", *self.server_args])

    @property
    def slots(self) -> int:
        return int(self.server_args[self.server_args.index("-np") + 1]) if "-np" in self.server_args else 4


@dataclass(frozen=True, slots=True)
class Case:
    """A request and what the real server answered. `route` is a key of routes.json, or "" for an unknown path."""

    profile: str
    name: str
    number: int
    route: str
    needs: tuple[str, ...]
    request: Mapping[str, Any]
    context: Context
    expected: Answer
    volatile: bool = False
    """True: the text depends on time, so it is left out of the report of agreement."""

    @property
    def id(self) -> str:
        return f"{self.profile}/{self.name}"

    @property
    def greedy(self) -> bool:
        """True when the request fixes its text by temperature 0 (or below, which is clamped to 0).

        A chain of samplers without that one draws from the whole distribution all the same.
        """
        warmth, chain = self.context.asked("temperature"), self.context.asked("samplers")
        cold = isinstance(warmth, int | float) and warmth <= 0
        return cold and (not isinstance(chain, list) or "temperature" in chain) and not self.volatile


@dataclass(frozen=True, slots=True)
class Divergence:
    """A difference that is meant. With no `path` no recording shows it, so it is never looked for."""

    id: str
    what: str
    why: str
    test: str
    cases: tuple[str, ...] = ()
    path: Pattern[str] | None = None
    kinds: tuple[str, ...] = ()
    got: Pattern[str] | None = None

    def concerns(self, case: str) -> bool:
        """True when the difference is expected to show in that case."""
        return self.path is not None and any(fnmatchcase(case, glob) for glob in self.cases)

    def explains(self, case: str, difference: Difference) -> bool:
        """True when this is the difference that is meant."""
        if not self.concerns(case) or self.path is None or difference.kind not in self.kinds:
            return False
        found = json.dumps(difference.got, ensure_ascii=False)
        return bool(self.path.fullmatch(difference.path)) and (self.got is None or bool(self.got.fullmatch(found)))


@dataclass(frozen=True, slots=True)
class Route:
    key: str
    state: str
    issue: int
    divergences: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Front:
    """A way to serve that is more than a route: another process in front of this one."""

    name: str
    state: str
    issue: int
    words: tuple[str, ...]
    """Parts of names that an option or a path of it would have."""
    note: str


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that cases need. Not built yet: its cases are replayed only when asked for."""

    name: str
    issue: int
    built: bool
    what: str


def profile(name: str) -> Profile:
    data = _read(ROOT / "cases" / f"{name}.json")
    return Profile(data["profile"], tuple(data["server_args"]))


def cases(name: str, known: Mapping[str, Feature] | None = None, recordings: Path | None = RECORDINGS) -> list[Case]:
    """The cases of a profile in their order; with `known`, only those whose features are all built.

    `recordings` is the folder that they are held against; None gives requests that expect nothing, to be recorded.
    """
    data = _read(ROOT / "cases" / f"{name}.json")
    slots = profile(name).slots
    found = [_case(name, slots, entry, recordings) for entry in data["cases"]]
    return [case for case in found if known is None or all(known[need].built for need in case.needs)]


def features() -> dict[str, Feature]:
    return {name: Feature(name, **entry) for name, entry in _read(ROOT / "features.json").items()}


def routes() -> dict[str, Route]:
    entries = _read(ROOT / "routes.json")["routes"]
    return {
        key: Route(key, entry["state"], entry["issue"], tuple(entry.get("divergences", ())), entry.get("note", ""))
        for key, entry in entries.items()
    }


def fronts() -> list[Front]:
    return [
        Front(name, **{**entry, "words": tuple(entry["words"])})
        for name, entry in _read(ROOT / "routes.json")["fronts"].items()
    ]


def divergences() -> list[Divergence]:
    return [_divergence(name, entry) for name, entry in _read(ROOT / "routes.json")["divergences"].items()]


def _divergence(name: str, entry: Mapping[str, Any]) -> Divergence:
    match = entry["match"]
    told = (name, entry["what"], entry["why"], entry["test"])
    if match is None:
        return Divergence(*told)
    got = compile(match["got"]) if "got" in match else None
    return Divergence(*told, tuple(match["cases"]), compile(match["path"]), tuple(match["kinds"]), got)


def route_of(method: str, path: str) -> str:
    """The key of routes.json for a request: no query, and `:id` for a slot's number."""
    parts: Sequence[str] = path.split("?", maxsplit=1)[0].split("/")
    if parts[1:2] == ["slots"] and len(parts) == 3:
        parts = ["", "slots", ":id"]
    return f"{method} {'/'.join(parts)}"


def recording_of(profile: str, number: int, name: str) -> Path:
    """A recording's file, from the folder of recordings."""
    return Path(profile) / f"{number:03}_{name}.json"


def _case(name: str, slots: int, entry: Mapping[str, Any], recordings: Path | None) -> Case:
    request: dict[str, Any] = dict(entry["request"])
    body: Json = unpacked(request["body"]) if "body" in request else None
    if "body" in request:
        request["body"] = body
    context = Context(request["method"], request["path"], body, request.get("repeat", 1), slots)
    key = route_of(request["method"], request["path"])
    return Case(
        profile=name,
        name=entry["name"],
        number=entry["number"],
        route=key if key in _read(ROOT / "routes.json")["routes"] else "",
        needs=tuple(entry["needs"]),
        request=request,
        context=context,
        expected=from_recording(_read(recordings / recording_of(name, entry["number"], entry["name"])))
        if recordings
        else NOTHING,
        volatile=entry.get("volatile_text", False),
    )


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
