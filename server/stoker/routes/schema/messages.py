"""`messages` of a chat body: what llama-server accepts, and its words for the rest."""

from collections.abc import Mapping
from typing import cast

from stoker.core.errors import InvalidRequest, ServerFault
from stoker.text.caps import Message

Body = Mapping[str, object]

_MEDIA = {"image_url": "image", "input_audio": "audio", "video_url": "video", "input_video": "video"}


def read_messages(body: Body) -> list[Message]:
    """Raises InvalidRequest; ServerFault for media, which need a projector."""
    messages = body.get("messages")
    if messages is None:
        raise InvalidRequest("'messages' is required")
    if not isinstance(messages, list):
        raise InvalidRequest("Expected 'messages' to be an array")
    for message in cast("list[object]", messages):
        _check(message)
    return cast("list[Message]", messages)


def _check(message: object) -> None:
    if not isinstance(message, dict):
        raise InvalidRequest("Expected every message to be an object")
    members = cast("Body", message)
    if not isinstance(members.get("role"), str):
        raise InvalidRequest("Missing 'role' in message")
    if members["role"] != "assistant" and "content" not in members:
        raise InvalidRequest("All non-assistant messages must contain 'content'")
    if "content" not in members and "tool_calls" not in members:
        raise InvalidRequest("Assistant message must contain either 'content' or 'tool_calls'!")
    content = members.get("content")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise InvalidRequest("Expected 'content' to be a string or an array")
    for part in cast("list[object]", content):
        _check_part(part)


def _check_part(part: object) -> None:
    kind = cast("Body", part).get("type") if isinstance(part, dict) else None
    if kind == "text":
        if not isinstance(cast("Body", part).get("text"), str):
            raise InvalidRequest("Expected 'text' of a content part to be a string")
        return
    medium = _MEDIA.get(kind) if isinstance(kind, str) else None
    if medium is None:
        raise InvalidRequest("unsupported content[].type")
    raise ServerFault(
        f"{medium} input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    )
