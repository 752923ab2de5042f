"""A body of `/v1/responses` as the chat body that it stands for."""

from collections.abc import Mapping
from typing import cast

from stoker.core.errors import InvalidRequest
from stoker.routes.body import Json, members
from stoker.routes.schema.fields import lenient
from stoker.text.jsonstream import items

Body = Mapping[str, object]

_SINGLE = ("n", "n_cmpl", "echo")
"""Fields of a chat that mean nothing here: a response is one answer."""
_SPENT = ("input", "instructions", "tools", "max_output_tokens", "reasoning", "text", *_SINGLE)


def as_chat(body: Body) -> Json:
    """Raises InvalidRequest in llama-server's words."""
    if "input" not in body:
        raise InvalidRequest("'input' is required")
    if lenient(body, "previous_response_id", ""):
        raise InvalidRequest("llama.cpp does not support 'previous_response_id'.")
    chat: Json = {name: value for name, value in body.items() if name not in _SPENT}
    chat["messages"] = _messages(body)
    if tools := _tools(body.get("tools")):
        chat["tools"] = tools
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    effort = members(body.get("reasoning")).get("effort")
    if effort is not None:
        chat["reasoning_effort"] = effort
    if form := _response_format(members(members(body.get("text")).get("format"))):
        chat["response_format"] = form
    return chat


def _messages(body: Body) -> list[Json]:
    messages: list[Json] = []
    if "instructions" in body:
        messages.append({"role": "system", "content": lenient(body, "instructions", "")})
    given = body["input"]
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    if not isinstance(given, list):
        raise InvalidRequest("'input' must be a string or array of objects")
    for item in items(cast("object", given)):
        _add(messages, members(item))
    return messages


def _add(messages: list[Json], item: Body) -> None:
    """One item; what an assistant said, thought and called in a row is one message."""
    kind, role = item.get("type"), item.get("role")
    speaks = isinstance(item.get("content"), str | list)
    if role in ("user", "system", "developer") and speaks:
        messages.append({"role": role, "content": _inputs(item["content"])})
    elif role == "assistant" and (kind == "message" or speaks):
        _extend(messages, "content", _outputs(item.get("content")))
    elif kind == "function_call" and all(isinstance(item.get(name), str) for name in ("arguments", "call_id", "name")):
        function = {"arguments": item["arguments"], "name": item["name"]}
        _extend(messages, "tool_calls", [{"function": function, "id": item["call_id"], "type": "function"}])
    elif kind == "function_call_output" and isinstance(item.get("call_id"), str):
        messages.append({"role": "tool", "content": _result(item.get("output")), "tool_call_id": item["call_id"]})
    elif kind == "reasoning" and isinstance(item.get("summary"), list):
        _assistant(messages)["reasoning_content"] = _reasoning(item.get("content"))
    else:
        raise InvalidRequest("Cannot determine type of 'item'")


def _assistant(messages: list[Json]) -> Json:
    """The assistant's message at the end, a new one if there is none."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": []})
    return messages[-1]


def _extend(messages: list[Json], name: str, parts: list[Json]) -> None:
    message = _assistant(messages)
    message[name] = [*cast("list[Json]", message.get(name, [])), *parts]


def _inputs(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content, "type": "text"}]
    return [_input(members(part)) for part in items(content)]


def _input(part: Body) -> Json:
    kind = part.get("type")
    if kind == "input_text":
        if "text" not in part:
            raise InvalidRequest("'Input text' requires 'text'")
        return {"text": part["text"], "type": "text"}
    if kind == "input_image":
        if "image_url" not in part:
            raise InvalidRequest("'image_url' is required")
        return {"image_url": {"url": part["image_url"]}, "type": "image_url"}
    if kind == "input_file":
        raise InvalidRequest("'input_file' is not supported by llamacpp at this moment")
    raise InvalidRequest("'type' must be one of 'input_text', 'input_image', or 'input_file'")


def _outputs(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"text": content, "type": "text"}]
    return [_output(members(part)) for part in items(content)]


def _output(part: Body) -> Json:
    """A refusal is what the assistant said, too."""
    kind = part.get("type")
    if kind in ("output_text", "input_text"):
        if not isinstance(part.get("text"), str):
            raise InvalidRequest("'Output text' requires 'text'")
        return {"text": part["text"], "type": "text"}
    if kind == "refusal":
        if not isinstance(part.get("refusal"), str):
            raise InvalidRequest("'Refusal' requires 'refusal'")
        return {"text": part["refusal"], "type": "text"}
    raise InvalidRequest("'type' must be one of 'output_text' or 'refusal'")


def _result(output: object) -> object:
    if isinstance(output, str):
        return output
    if not isinstance(output, list):
        raise InvalidRequest("Cannot determine type of 'item'")
    parts = [members(part) for part in items(cast("object", output))]
    if any(part.get("type") != "input_text" for part in parts):
        raise InvalidRequest("Output of tool call should be 'Input text'")
    return [{**part, "type": "text"} for part in parts]


def _reasoning(content: object) -> object:
    if not isinstance(content, list):
        raise InvalidRequest("item['content'] is not an array")
    if not content:
        raise InvalidRequest("item['content'] is empty")
    text = members(items(cast("object", content))[0]).get("text")
    if not isinstance(text, str):
        raise InvalidRequest("item['content']['text'] is not a string")
    return text


def _tools(tools: object) -> list[Json]:
    """Functions only: the other kinds run on a server that is not ours."""
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise InvalidRequest("'tools' must be an array of objects")
    given = [members(tool) for tool in items(cast("object", tools))]
    return [_tool(tool) for tool in given if tool.get("type") == "function"]


def _tool(tool: Body) -> Json:
    function = {name: value for name, value in tool.items() if name != "type"}
    return {"type": "function", "function": {**function, "strict": tool.get("strict", True)}}


def _response_format(form: Body) -> Json:
    """`text.format`, which has a schema's members beside its type."""
    if form.get("type") == "json_schema":
        return {"type": "json_schema", "json_schema": {name: form[name] for name in form if name != "type"}}
    return dict(form)
