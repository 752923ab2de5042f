"""Chat messages to a prompt, by the model's own jinja2 template, as Hugging Face and llama.cpp render it."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import cast

from jinja2 import TemplateError, TemplateSyntaxError, Undefined
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from stoker.core.errors import InvalidRequest, StartError
from stoker.text.builtin import CHATML
from stoker.text.caps import FAILURES, Caps, Message, probe
from stoker.text.reasoning import find_tags
from stoker.text.tools.known import find_format

_RESERVED = ("messages", "tools", "add_generation_prompt", "bos_token", "eos_token")
_DATES = {"date_string": "%d %b %Y", "datetime": "%b %d %Y"}
"""Variables that llama.cpp gives every template, unless the request says otherwise."""
_PROBE: list[Message] = [{"role": "user", "content": "Hi"}]


class _Generation(Extension):
    """Hugging Face's `{% generation %}` block, which marks answers for training: here its body only."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it as an instance attribute

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(ImmutableSandboxedEnvironment):
    """As llama.cpp reads templates: what is missing joins a text as an empty one."""

    intercepted_binops = frozenset({"+"})

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        if isinstance(left, str) and _missing(right):
            return left
        if isinstance(right, str) and _missing(left):
            return right
        return super().call_binop(context, operator, left, right)


def _missing(value: object) -> bool:
    return value is None or isinstance(value, Undefined)


class ChatTemplate:
    """One model's template; `None` means that it has none, and ChatML stands in. Safe to use from any thread."""

    def __init__(self, source: str | None, bos_text: str = "", eos_text: str = "") -> None:
        self.source = source or CHATML
        self._tokens = {"bos_token": bos_text, "eos_token": eos_text}
        try:
            self._template = _environment().from_string(self.source)
        except TemplateSyntaxError as error:
            raise StartError(f"chat template, line {error.lineno}: {error.message}") from None
        self.caps: Caps = probe(lambda messages, tools, kwargs: self._raw(messages, tools, True, kwargs))
        self.generation_prompt = self._tail()
        self.tags = find_tags(self.source)
        """Around thoughts; None for a model that does not think."""
        self.format = find_format(self.source) if self.caps.supports_tools else None
        """Of tool calls; None for a template that shows no tools."""

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None = None,
        add_generation_prompt: bool = True,
        /,
        **kwargs: object,
    ) -> str:
        """The prompt. Raises InvalidRequest with the template's own words if it refuses the messages.

        Messages are first fitted to what the template can express: see `fit`.
        """
        fitted = fit(messages, self.caps, keep_developer="developer" in self.source or "<|channel|>" in self.source)
        try:
            return self._raw(fitted, tools, add_generation_prompt, kwargs)
        except FAILURES as error:
            raise InvalidRequest(f"chat template: {error}") from None

    def _raw(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        add_generation_prompt: bool,
        kwargs: Mapping[str, object],
    ) -> str:
        extra = {name: value for name, value in kwargs.items() if name not in _RESERVED}
        now = {name: _strftime_now(form) for name, form in _DATES.items()}
        variables = {"messages": messages, "tools": tools or None, "add_generation_prompt": add_generation_prompt}
        return self._template.render({**self._tokens, **now, **extra, **variables})

    def _tail(self) -> str:
        """What `add_generation_prompt` adds; empty if it changes more than the end."""
        try:
            without, whole = (self._raw(_PROBE, None, flag, {}) for flag in (False, True))
        except FAILURES:
            return ""
        return whole.removeprefix(without) if whole.startswith(without) else ""


def fit(messages: Sequence[Message], caps: Caps, *, keep_developer: bool) -> list[Message]:
    """Messages in the form that a template wants, with llama.cpp's compromises.

    Role `developer` becomes `system` unless the template knows it; a first system message joins
    the next one where there is no such role; text parts are joined with new lines, or a string
    is wrapped into a part; call arguments become objects; a null content becomes empty.
    """
    fitted = [_fit_one(message, caps, keep_developer) for message in messages]
    if not caps.supports_system_role and len(fitted) > 1 and fitted[0].get("role") == "system":
        fitted[:2] = [{**fitted[1], "content": _merged(fitted[0].get("content"), fitted[1].get("content"))}]
    return cast("list[Message]", fitted)


def join_text(content: object, between: str = "\n") -> str:
    """The text of a message's content, its parts on lines of their own."""
    if isinstance(content, str):
        return content
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts = [cast("Mapping[str, object]", part).get("text") for part in parts if isinstance(part, dict)]
    return between.join(text for text in texts if isinstance(text, str))


def _fit_one(message: Message, caps: Caps, keep_developer: bool) -> dict[str, object]:
    fitted = dict(message)
    if fitted.get("role") == "developer" and not keep_developer:
        fitted["role"] = "system"
    content = fitted.get("content")
    if content is None:
        fitted["content"] = ""
    elif isinstance(content, list) and not caps.supports_typed_content:
        fitted["content"] = join_text(cast("object", content))
    elif isinstance(content, str) and caps.supports_typed_content and not caps.supports_string_content:
        fitted["content"] = [{"type": "text", "text": content}]
    if caps.supports_object_arguments and isinstance(fitted.get("tool_calls"), list):
        fitted["tool_calls"] = [_object_arguments(call) for call in cast("list[object]", fitted["tool_calls"])]
    return fitted


def _object_arguments(call: object) -> object:
    """The call with its arguments parsed, or as it is where they are no JSON text."""
    if not isinstance(call, dict) or not isinstance(cast("Message", call).get("function"), dict):
        return cast("object", call)
    members = cast("Message", call)
    function = cast("Message", members["function"])
    try:
        parsed = cast("object", json.loads(cast("str", function.get("arguments"))))
    except (ValueError, TypeError):
        return members
    return {**members, "function": {**function, "arguments": parsed}}


def _merged(first: object, second: object) -> object:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n{second}"
    return [*_parts(first), *_parts(second)]


def _parts(content: object) -> list[object]:
    return cast("list[object]", content) if isinstance(content, list) else [{"type": "text", "text": content}]


def _environment() -> _Environment:
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    filters = cast("dict[str, Callable[..., object]]", environment.filters)
    filters["tojson"] = _to_json
    functions = cast("dict[str, Callable[..., object]]", environment.globals)
    functions["raise_exception"] = _raise
    functions["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike jinja2's own filter, without HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
