"""Holds an observed answer against a recorded one. Pure: no client, no file, no clock.

Keys, their order and their presence, JSON types as printed, frame sequence, statuses, headers and
error texts must be equal. Values must be equal too, save those that `rules` names: what depends on
history, on time, or, where the generated texts differ, on the text.
"""

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace

from compat import invariants, texts
from compat.answer import Answer, Frame, Json, metrics
from compat.frames import UNCOUNTED, Run, runs
from compat.rules import Context, length_is_free, rule_for

HEADERS = (
    "server",
    "content-type",
    "transfer-encoding",
    "process-start-time-unix",
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-allow-methods",
    "access-control-allow-headers",
)
"""Headers that count; the others (length, date, connection) are the transport's."""

_HEADER_RULES = {"process-start-time-unix": re.compile(r"\d{9,11}")}


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as recorded.

    `kind` is `status`, `header`, `form`, `fault`, `missing`, `extra`, `order`, `type`, `length`,
    `value`, `rule` or `frames`. `path` is `$` for a JSON body, `$metrics` for a Prometheus text,
    `$headers`, or `$ROLE[n]` for the n-th frame of a role, each with the keys below it.
    """

    path: str
    kind: str
    expected: Json
    got: Json


@dataclass(frozen=True, slots=True)
class Comparison:
    differences: tuple[Difference, ...]
    agreement: texts.Agreement | None = None
    """How far the generated texts agree; None where neither answer has one."""


def compare(
    expected: Answer, got: Answer, ctx: Context, split: texts.Split = texts.pieces, ignore: Set[str] = frozenset()
) -> Comparison:
    """Every difference between two answers to the request that `ctx` describes.

    `split` cuts texts into tokens for the report of agreement. `ignore` names headers, in lower
    case, that the transport at hand does not carry.
    """
    left, right = texts.generated(expected), texts.generated(got)
    agreed = texts.agreement(left or "", right or "", split) if ctx.generates and (left or right) else None
    ctx = replace(ctx, loose=agreed is not None and not agreed.text_equal)
    found = [*_envelope(expected, got, ignore), *_content(expected, got, ctx)]
    return Comparison(tuple(found), agreed)


def _envelope(expected: Answer, got: Answer, ignore: Set[str]) -> Iterator[Difference]:
    if expected.status != got.status:
        yield Difference("$status", "status", expected.status, got.status)
    for name in HEADERS:
        if name in ignore:
            continue
        want, have = expected.headers.get(name), got.headers.get(name)
        pattern = _HEADER_RULES.get(name)
        if want is not None and have is not None and pattern:
            if not pattern.fullmatch(have):
                yield Difference(f"$headers.{name}", "rule", "a Unix time", have)
        elif want != have:
            yield Difference(f"$headers.{name}", "header", want, have)
    for fault in got.faults:
        yield Difference("$", "fault", None, fault)


def _content(expected: Answer, got: Answer, ctx: Context) -> Iterator[Difference]:
    if expected.form != got.form:
        yield Difference("$", "form", expected.form, got.form)
        return
    walk = Walk(ctx)
    if expected.form == "frames":
        yield from walk.frames(expected.frames, got.frames)
    elif expected.form == "json":
        yield from walk.value(expected.body, got.body, "$")
        yield from walk.invariants(got.body, "$")
    elif expected.headers.get("content-type", "").startswith("text/plain; version="):
        yield from walk.value(metrics(expected.text), metrics(got.text), "$metrics")
    elif not expected.omitted and expected.text != got.text:
        yield Difference("$", "value", expected.text, got.text)


@dataclass(slots=True)
class Walk:
    """One comparison under way. It remembers which observed id stands for which recorded one."""

    ctx: Context
    ids: dict[str, str] = field(default_factory=dict[str, str])

    def frames(self, expected: tuple[Frame, ...], got: tuple[Frame, ...]) -> Iterator[Difference]:
        want, have = runs(expected), runs(got)
        if [run.role for run in want] != [run.role for run in have]:
            yield Difference("$frames", "frames", _roles(want), _roles(have))
            return
        for left, right in zip(want, have, strict=True):
            yield from self._run(left, right)

    def _run(self, want: Run, have: Run) -> Iterator[Difference]:
        counted = want.role != UNCOUNTED and not self.ctx.loose
        if counted and len(want.frames) != len(have.frames):
            yield Difference(f"${want.role}", "frames", len(want.frames), len(have.frames))
        for index, frame in enumerate(have.frames):
            model = want.frames[min(index, len(want.frames) - 1)]
            path = f"${want.role}[{index}]"
            if model.event != frame.event:
                yield Difference(f"{path}.event", "value", model.event, frame.event)
            yield from self.value(model.data, frame.data, path)
            yield from self.invariants(frame.data, path)

    def value(self, expected: Json, got: Json, path: str) -> Iterator[Difference]:
        rule = rule_for(path, expected, self.ctx)
        if rule is not None:
            if not rule.test(expected, got, self.ctx):
                yield Difference(path, "rule", rule.says, got)
            elif isinstance(expected, str) and path.endswith(("id", "item_id")) and self._other_id(expected, got):
                yield Difference(path, "rule", "the same id wherever the recording has the same", got)
        elif isinstance(expected, dict) and isinstance(got, dict):
            yield from self._object(expected, got, path)
        elif isinstance(expected, list) and isinstance(got, list):
            yield from self._list(expected, got, path)
        elif type(expected) is not type(got):
            yield Difference(path, "type", expected, got)
        elif expected != got:
            yield Difference(path, "value", expected, got)

    def _other_id(self, expected: str, got: Json) -> bool:
        return self.ids.setdefault(expected, str(got)) != got

    def _object(self, expected: dict[str, Json], got: dict[str, Json], path: str) -> Iterator[Difference]:
        for key, item in expected.items():
            if key not in got:
                yield Difference(f"{path}.{key}", "missing", item, None)
        for key, item in got.items():
            if key not in expected:
                yield Difference(f"{path}.{key}", "extra", None, item)
        want, have = [key for key in expected if key in got], [key for key in got if key in expected]
        if want != have:
            yield Difference(path, "order", list(want), list(have))
        for key in want:
            yield from self.value(expected[key], got[key], f"{path}.{key}")

    def _list(self, expected: list[Json], got: list[Json], path: str) -> Iterator[Difference]:
        if len(expected) != len(got) and not (length_is_free(path, self.ctx) and bool(expected) == bool(got)):
            yield Difference(path, "length", len(expected), len(got))
        for index, item in enumerate(got):
            if expected:
                yield from self.value(expected[min(index, len(expected) - 1)], item, f"{path}[{index}]")

    def invariants(self, value: Json, path: str) -> Iterator[Difference]:
        for where, says, found in invariants.broken(value, path, self.ctx):
            yield Difference(where, "rule", says, found)


def _roles(sequence: list[Run]) -> str:
    return " ".join(run.role for run in sequence)
