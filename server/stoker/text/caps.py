"""What a chat template can express, found out by rendering small conversations that contain a marker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from jinja2 import TemplateError

Message = Mapping[str, object]
Render = Callable[[list[Message], list[Message] | None, dict[str, object]], str]

FAILURES = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What rendering may raise: a template is a program, and the messages are its input."""

_MARK = "zq7needle"
_USER: Message = {"role": "user", "content": "Hi"}
_TOOL: Message = {
    "type": "function",
    "function": {"name": _MARK, "description": "d", "parameters": {"type": "object", "properties": {}}},
}


@dataclass(frozen=True, slots=True)
class Caps:
    """llama-server's `chat_template_caps`, in its order."""

    supports_object_arguments: bool
    supports_parallel_tool_calls: bool
    supports_preserve_reasoning: bool
    supports_reasoning_effort: bool
    supports_string_content: bool
    supports_system_role: bool
    supports_tool_calls: bool
    supports_tools: bool
    supports_typed_content: bool

    def as_dict(self) -> dict[str, bool]:
        return {field.name: bool(getattr(self, field.name)) for field in fields(self)}


def probe(render: Render) -> Caps:
    """Renders about a dozen tiny conversations; a template that raises on one cannot express it."""

    def shows(mark: str, messages: list[Message], tools: list[Message] | None = None, **kwargs: object) -> bool:
        return mark in _try(render, messages, tools, kwargs)

    typed = _try(render, [{"role": "user", "content": [{"type": "text", "text": _MARK}]}], None, {})
    effort = {"reasoning_effort": _MARK}
    calls = shows(_MARK, [_USER, _calling(_MARK, '{"x": 1}'), _answer(), _USER])
    objects = _try(render, [_USER, _calling("f", {_MARK: "v"}), _answer(), _USER], None, {})
    return Caps(
        supports_object_arguments=f'"{_MARK}"' in objects or f">{_MARK}<" in objects or f"={_MARK}>" in objects,
        supports_parallel_tool_calls=calls and shows(_MARK + "2", [_USER, _two_calls(), _answer(), _answer(), _USER]),
        supports_preserve_reasoning=shows(
            _MARK, [_USER, {"role": "assistant", "content": "A", "reasoning_content": _MARK}, _USER]
        ),
        supports_reasoning_effort=shows(_MARK, [_USER], None, **effort),
        supports_string_content=shows(_MARK, [{"role": "user", "content": _MARK}]),
        supports_system_role=shows(_MARK, [{"role": "system", "content": _MARK}, _USER]),
        supports_tool_calls=calls,
        supports_tools=shows(_MARK, [_USER], [_TOOL]),
        supports_typed_content=_MARK in typed and "'type'" not in typed and '"type"' not in typed,
    )


def _try(render: Render, messages: list[Message], tools: list[Message] | None, kwargs: dict[str, object]) -> str:
    try:
        return render(messages, tools, kwargs)
    except FAILURES:
        return ""


def _call(name: str, arguments: object, number: int = 1) -> Message:
    return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _calling(name: str, arguments: object) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": [_call(name, arguments)]}


def _two_calls() -> Message:
    calls = [_call(_MARK + "1", {"x": 1}), _call(_MARK + "2", {"x": 1}, 2)]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _answer() -> Message:
    return {"role": "tool", "name": "f", "tool_call_id": "call00001", "content": "ok"}
