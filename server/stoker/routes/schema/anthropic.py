"""A body of `/v1/messages` as the chat body that it stands for."""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from stoker.core.errors import ServerFault
from stoker.routes.body import Json, dump, members
from stoker.routes.schema.fields import lenient, lenient_int
from stoker.text.jsonstream import items

Body = Mapping[str, object]

MAX_TOKENS = 4096
_BUDGET = 10_000
_PASSED = ("temperature", "top_p", "top_k", "stream", "chat_template_kwargs")
_CHOICES = {"auto": "auto", "any": "required", "tool": "required", "none": "none"}
_STAMP = re.compile(r"(x-anthropic-billing-header:.*?cch=)[^;\s]{1,64};")
"""A line in Claude Code's system prompt that differs from request to request."""


def as_chat(body: Body) -> Json:
    """Raises ServerFault without messages, as llama-server does."""
    if "messages" not in body:
        raise ServerFault("'messages' is required")
    chat: Json = {"messages": [*_system(body.get("system")), *_messages(body["messages"])]}
    if isinstance(body.get("tools"), list):
        chat["tools"] = [_tool(members(tool)) for tool in items(body["tools"])]
    choice = members(body.get("tool_choice"))
    if (wish := _CHOICES.get(lenient(choice, "type", ""))) is not None:
        chat["tool_choice"] = wish
    if choice.get("disable_parallel_tool_use") is True:
        chat["parallel_tool_calls"] = False
    if "stop_sequences" in body:
        chat["stop"] = body["stop_sequences"]
    chat["max_tokens"] = body.get("max_tokens", MAX_TOKENS)
    chat |= {name: body[name] for name in _PASSED if name in body}
    return chat | _thinking(members(body.get("thinking")), members(body.get("chat_template_kwargs")))


def _thinking(thinking: Body, kwargs: Body) -> Json:
    kind = thinking.get("type")
    if kind == "enabled":
        return {"thinking_budget_tokens": lenient_int(thinking, "budget_tokens", _BUDGET)}
    if kind == "disabled":
        return {"chat_template_kwargs": {"enable_thinking": False, **kwargs}}
    return {}


def _system(system: object) -> list[Json]:
    if system is None:
        return []
    texts = [system] if isinstance(system, str) else list(_texts(system))
    return [{"role": "system", "content": "".join(map(unstamped, texts))}]


def unstamped(text: str) -> str:
    """The text with the billing stamp made always the same, so that the prompt can be found in the cache again."""
    found = _STAMP.match(text)
    return text if found is None else f"{found[1]}fffff;{text[found.end() :]}"


def _texts(blocks: object) -> Iterator[str]:
    for block in items(blocks):
        if members(block).get("type") == "text":
            yield lenient(members(block), "text", "")


def _messages(messages: object) -> list[object]:
    """Checked where chat messages are checked."""
    if not isinstance(messages, list):
        return [messages]
    return [made for message in items(cast("object", messages)) for made in _message(message)]


def _message(message: object) -> Iterator[object]:
    """The message of the same role, and one for each tool result in it."""
    given = members(message)
    content = given.get("content")
    if not isinstance(content, list):
        if "content" in given or given.get("role") != "assistant":
            yield message
        return
    blocks = [members(block) for block in items(cast("object", content))]
    made = _spoken(blocks)
    if made:
        yield {"role": given.get("role"), "content": "", **made}
    for block in blocks:
        if block.get("type") == "tool_result":
            yield {"role": "tool", "tool_call_id": lenient(block, "tool_use_id", ""), "content": _result(block)}


def _spoken(blocks: list[Body]) -> Json:
    """Content, calls and thoughts of a message; nothing where it has none of them."""
    made: Json = {}
    content = [part for block in blocks if (part := _part(block)) is not None]
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    thought = "".join(lenient(block, "thinking", "") for block in blocks if block.get("type") == "thinking")
    if content:
        made["content"] = content
    if calls:
        made["tool_calls"] = calls
    if thought:
        made["reasoning_content"] = thought
    return made


def _part(block: Body) -> Json | None:
    if block.get("type") == "text":
        return {"type": "text", "text": block.get("text")}
    if block.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": _url(members(block.get("source")))}}
    return None


def _url(source: Body) -> str:
    if source.get("type") == "base64":
        return f"data:{lenient(source, 'media_type', 'image/jpeg')};base64,{lenient(source, 'data', '')}"
    return lenient(source, "url", "")


def _call(block: Body) -> Json:
    function = {"name": lenient(block, "name", ""), "arguments": dump(block.get("input", {})).decode()}
    return {"id": lenient(block, "id", ""), "type": "function", "function": function}


def _result(block: Body) -> object:
    """A text where all of it is text."""
    content = block.get("content")
    if isinstance(content, str):
        return content
    blocks = [members(one) for one in items(content)]
    if any(one.get("type") == "image" for one in blocks):
        return [part for one in blocks if (part := _part(one)) is not None]
    return "".join(_texts(content))


def _tool(tool: Body) -> Json:
    function = {
        "name": lenient(tool, "name", ""),
        "description": lenient(tool, "description", ""),
        "parameters": tool.get("input_schema", {}),
    }
    return {"type": "function", "function": function}
