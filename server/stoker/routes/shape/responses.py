"""Answers in the shape of `/v1/responses`."""

from collections.abc import Sequence

from stoker.core.events import Finished
from stoker.routes.body import Json
from stoker.routes.shape.ids import new_id
from stoker.text.deltas import Call, Message


class Names:
    """The ids of one response: its own and those of the items that there is one of at most."""

    def __init__(self) -> None:
        self.response = new_id("resp_")
        self.reasoning = new_id("rs_")
        self.message = new_id("msg_")


def head(names: Names) -> Json:
    """What a response is while it grows."""
    return {"id": names.response, "object": "response", "status": "in_progress"}


def usage(event: Finished) -> Json:
    predicted = len(event.tokens)
    return {
        "input_tokens": event.prompt_tokens,
        "output_tokens": predicted,
        "total_tokens": event.prompt_tokens + predicted,
        "input_tokens_details": {"cached_tokens": event.cached_tokens},
    }


def text_part(text: str) -> Json:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def reasoning_item(names: Names, text: str) -> Json:
    return {
        "id": names.reasoning,
        "summary": [],
        "type": "reasoning",
        "content": [{"text": text, "type": "reasoning_text"}],
        "encrypted_content": "",
        "status": "completed",
    }


def message_item(names: Names, text: str) -> Json:
    return {
        "content": [text_part(text)],
        "id": names.message,
        "role": "assistant",
        "status": "completed",
        "type": "message",
    }


def streamed_message_item(names: Names, text: str) -> Json:
    """The same with its keys in a stream's order."""
    item = message_item(names, text)
    return {name: item[name] for name in ("type", "status", "id", "content", "role")}


def call_item(call: Call) -> Json:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.id,
        "name": call.name,
    }


def output(names: Names, said: Message, *, streamed: bool = False) -> list[Json]:
    """Reasoning, message and calls, as far as there are any."""
    message = streamed_message_item if streamed else message_item
    items: list[Json] = [reasoning_item(names, said.reasoning)] if said.reasoning else []
    items += [message(names, said.content)] if said.content else []
    return [*items, *map(call_item, said.calls)]


def response(names: Names, model: str, said: Message, event: Finished, times: Sequence[int]) -> Json:
    """The whole answer; `times` are the Unix seconds of its beginning and its end."""
    return {
        "completed_at": times[1],
        "created_at": times[0],
        "id": names.response,
        "model": model,
        "object": "response",
        "output": output(names, said),
        "status": "completed",
        "usage": usage(event),
    }


def completed(names: Names, model: str, said: Message, event: Finished, created: int) -> Json:
    """The whole answer as the last event of a stream has it."""
    return {
        "id": names.response,
        "object": "response",
        "created_at": created,
        "status": "completed",
        "model": model,
        "output": output(names, said, streamed=True),
        "usage": usage(event),
    }
