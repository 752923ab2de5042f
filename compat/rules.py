"""Which values the protocol does not fix, and what must hold of them instead.

A rule takes a whole value (a leaf or a subtree) at the paths that its pattern names. Everything
that no rule takes is compared exactly: same JSON type as printed, same value. Three kinds:

* history and time: ids, stamps, durations, slot numbers, cache counts. Always by rule.
* the model's opinion: log-probabilities and the runners-up. Kernels differ; always by rule.
* the generated text and what follows from it. By rule only where the texts differ (`loose`).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from compat.answer import Json

GENERATING = frozenset(
    {
        "/completion",
        "/completions",
        "/v1/completions",
        "/chat/completions",
        "/v1/chat/completions",
        "/infill",
        "/responses",
        "/v1/responses",
        "/v1/messages",
    }
)


@dataclass(frozen=True, slots=True)
class Context:
    """What a comparison must know of the request and of the server."""

    method: str = "GET"
    path: str = "/"
    body: Json = None
    repeat: int = 1
    slots: int = 1
    loose: bool = False
    """True: the generated texts differ, so nothing that follows from them is compared by value."""

    @property
    def generates(self) -> bool:
        return self.method == "POST" and self.path.split("?")[0] in GENERATING

    def asked(self, name: str) -> Json:
        """The request's field of that name; None when it is absent."""
        return self.body.get(name) if isinstance(self.body, dict) else None


Test = Callable[[Json, Json, Context], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """`says` completes the sentence "the value must be …"."""

    says: str
    test: Test
    paths: re.Pattern[str]
    kinds: tuple[type, ...] = (str, int, float, bool, list, dict, type(None))
    """The rule takes only values that the recording has in one of these types."""
    when: Callable[[Context], bool] = lambda ctx: True


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return is_int(value) and value >= 0


def is_duration(value: Any) -> bool:
    return isinstance(value, float) and 0.0 <= value < float("inf")


def _same_shape_of_id(expected: Json, got: Json, _: Context) -> bool:
    prefix = str(expected)[: -len(str(expected).rpartition("_" if "_" in str(expected) else "-")[2])]
    return isinstance(got, str) and re.fullmatch(re.escape(prefix) + "[A-Za-z0-9]{32}", got) is not None


def _pattern(pattern: str) -> Test:
    compiled = re.compile(pattern)
    return lambda _, got, __: isinstance(got, str) and compiled.fullmatch(got) is not None


def _one_of(*values: str | None) -> Test:
    return lambda expected, got, _: got in values and (got is None) == (expected is None)


def _slot(expected: Json, got: Json, ctx: Context) -> bool:
    if expected == -1 or is_int(ctx.asked("id_slot")):
        return is_int(got) and got == expected
    return is_int(got) and isinstance(got, int) and 0 <= got < ctx.slots


def _ints(expected: Json, got: Json, _: Context) -> bool:
    return isinstance(got, list) and all(is_int(item) for item in got) and bool(got) == bool(expected)


def _logprob(_: Json, got: Json, __: Context) -> bool:
    return isinstance(got, float) and got <= 0.0


def _probability(_: Json, got: Json, __: Context) -> bool:
    return isinstance(got, float) and 0.0 <= got <= 1.0


def _always(test: Callable[[Any], bool]) -> Test:
    return lambda _, got, __: test(got)


def _is_type(kind: type) -> Test:
    return lambda _, got, __: isinstance(got, kind)


def _rule(
    says: str, test: Test, paths: str, kinds: Iterable[type] = (), when: Callable[[Context], bool] | None = None
) -> Rule:
    extra: dict[str, Any] = {}
    if kinds:
        extra["kinds"] = tuple(kinds)
    if when:
        extra["when"] = when
    return Rule(says, test, re.compile(paths), **extra)


def _loose(ctx: Context) -> bool:
    return ctx.loose and ctx.generates


def _generates(ctx: Context) -> bool:
    return ctx.generates


def _counts_depend_on_history(ctx: Context) -> bool:
    return ctx.repeat == 1


def _slot_list(ctx: Context) -> bool:
    return ctx.path.split("?")[0] == "/slots"


def _slot_action(ctx: Context) -> bool:
    return ctx.path.startswith("/slots/")


_TIMINGS = r"(?:\.timings\.|\.timings/)"
_TOP = r"\.top_(?:logprobs|probs)\[\d+\]\."

RULES: tuple[Rule, ...] = (
    # history and time
    _rule(
        "a positive number of seconds",
        _always(lambda v: is_int(v) and v > 0),
        r"\.(created|created_at|completed_at)$",
        (int,),
    ),
    _rule("an id of the same kind", _same_shape_of_id, r"\.(id|item_id)$", (str,), _generates),
    _rule("a duration in ms, or a rate", _always(is_duration), _TIMINGS + r"\w+(_ms|_per_second)$"),
    _rule("a count", _always(is_count), _TIMINGS + r"(cache_n|prompt_n)$", when=_counts_depend_on_history),
    _rule("a count", _always(is_count), _TIMINGS + r"(draft_n|draft_n_accepted)$"),
    _rule("a count", _always(is_count), r"\.(cached_tokens|cache_read_input_tokens)$", when=_counts_depend_on_history),
    _rule("a count", _always(is_count), r"^\$\.usage\.input_tokens$", when=lambda ctx: ctx.path == "/v1/messages"),
    _rule("a slot number", _slot, r"\.id_slot$", (int,), _generates),
    _rule("a count", _always(is_count), r"\.prompt_progress\.(cache|processed|time_ms)$"),
    _rule("a random marker", _pattern(r"<__media_[A-Za-z0-9]{32}__>"), r"^\$\.media_marker$"),
    _rule("a build string", _pattern(r"b\d+-\S+"), r"\.(build_info|system_fingerprint)$"),
    _rule("a path", _pattern(r".+"), r"^\$\.model_path$"),
    _rule("a count", _always(is_count), r"\.(id_task|n_prompt_tokens\w*|n_decoded)$", when=_slot_list),
    _rule("an object of settings", _is_type(dict), r"^\$\[\d+\]\.params$", when=_slot_list),
    _rule("a flag", _is_type(bool), r"\.next_token\[0\]\.has_new_line$", when=_slot_list),
    _rule("a count", _always(is_count), r"^\$\.(n_saved|n_written|n_restored|n_read|n_erased)$", when=_slot_action),
    _rule(
        "a number of six significant digits",
        _pattern(r"\d(\.\d{1,5})?e[+-]\d\d|(?=[\d.]{1,11}$)\d+(\.\d+)?"),
        r"^\$metrics\..*\.samples\.",
    ),
    # the model's opinion
    _rule("a logarithm of a probability", _logprob, r"\.logprob$"),
    _rule("a probability", _probability, r"\.prob$"),
    _rule("a token id", _always(is_count), _TOP + "id$"),
    _rule("a text", _is_type(str), _TOP + "token$"),
    _rule("bytes", _ints, _TOP + "bytes$"),
    _rule("a number", _is_type(float), r"\.embedding(\[\d+\])+$", (float,)),
    # the generated text and what follows from it
    _rule("a text", _is_type(str), r"\.(content|text|stopping_word|token|__text)$", (str,), _loose),
    _rule("token ids", _ints, r"\.(tokens|bytes)$", (list,), _loose),
    _rule("a token id", _always(is_count), r"\.id$", (int,), _loose),
    _rule(
        "a count",
        _always(is_count),
        r"\.(tokens_predicted|tokens_cached|completion_tokens|output_tokens|total_tokens|predicted_n)$",
        (int,),
        _loose,
    ),
    _rule("a count", _always(is_count), _TIMINGS + r"predicted_n$", (int,), _loose),
    _rule("a flag", _is_type(bool), r"\.has_new_line$", (bool,), _loose),
    _rule("a reason to stop", _one_of("eos", "word", "limit", "none"), r"\.stop_type$", (str,), _loose),
    _rule("a reason to finish", _one_of("stop", "length", "tool_calls"), r"\.finish_reason$", (str,), _loose),
    _rule(
        "a reason to stop",
        _one_of("end_turn", "stop_sequence", "max_tokens", "tool_use"),
        r"\.stop_reason$",
        (str,),
        _loose,
    ),
)

_FREE_LENGTHS = re.compile(r"\.(completion_probabilities|tokens|bytes)$|\.logprobs\.content$")
_TOP_PROBS = re.compile(r"\.top_probs$")


def rule_for(path: str, expected: Json, ctx: Context) -> Rule | None:
    """The first rule that takes the value at `path`, or None: then it is compared exactly."""
    for rule in RULES:
        if rule.paths.search(path) and type(expected) in rule.kinds and rule.when(ctx):
            return rule
    return None


def length_is_free(path: str, ctx: Context) -> bool:
    """True for lists whose number of items follows from the text, or (`top_probs`) from the model's opinion."""
    return bool(_TOP_PROBS.search(path)) or (_loose(ctx) and bool(_FREE_LENGTHS.search(path)))
