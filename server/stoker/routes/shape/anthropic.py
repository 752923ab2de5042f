"""Answers in the shape of `/v1/messages`."""

from stoker.core.events import Finished, StopType
from stoker.routes.body import Json
from stoker.routes.shape.subject import Subject
from stoker.text.deltas import Call, Message
from stoker.text.jsonstream import parsed


def stop_reason(stop: StopType, calls: int) -> str:
    if stop not in (StopType.EOS, StopType.WORD):
        return "max_tokens"
    return "tool_use" if calls else "end_turn"


def message(subject: Subject, said: Message, event: Finished) -> Json:
    return {
        "id": subject.id,
        "type": "message",
        "role": "assistant",
        "content": _blocks(said),
        "model": subject.model,
        "stop_reason": stop_reason(event.stop, len(said.calls)),
        "stop_sequence": event.stopping_word or None,
        "usage": _input(event.prompt_tokens, event.cached_tokens) | {"output_tokens": len(event.tokens)},
    }


def opening(subject: Subject, prompt_tokens: int, cached_tokens: int) -> Json:
    """The message before anything is said."""
    return {
        "id": subject.id,
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": subject.model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _input(prompt_tokens, cached_tokens) | {"output_tokens": 0},
    }


def ending(event: Finished, calls: int) -> Json:
    """The members of `message_delta`."""
    return {
        "delta": {"stop_reason": stop_reason(event.stop, calls), "stop_sequence": event.stopping_word or None},
        "usage": {"output_tokens": len(event.tokens)},
    }


def _input(prompt_tokens: int, cached_tokens: int) -> Json:
    """Cached tokens are counted apart."""
    return {"cache_read_input_tokens": cached_tokens, "input_tokens": prompt_tokens - cached_tokens}


def _blocks(said: Message) -> list[Json]:
    blocks: list[Json] = []
    if said.reasoning:
        blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": ""})
    if said.content:
        blocks.append({"type": "text", "text": said.content})
    return [*blocks, *map(_tool_use, said.calls)]


def _tool_use(call: Call) -> Json:
    """Arguments that are no JSON, which a cut leaves behind, become none."""
    arguments = parsed(call.arguments)
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": arguments if isinstance(arguments, dict) else {},
    }
