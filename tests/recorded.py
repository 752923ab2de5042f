"""A server that answers recorded requests with their recordings, or with what a test makes of them."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from compat.answer import Answer, Frame
from compat.library import Case

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Change = Callable[[Case, Answer], Answer]
Key = tuple[str, str, str, str, str]


class RecordedApp:
    """An ASGI app; it knows no protocol, so whatever it answers comes from the recordings."""

    def __init__(self, cases: Iterable[Case], change: Change = lambda _, answer: answer) -> None:
        self.answers: dict[Key, Answer] = {}
        self.asked: list[Key] = []
        for case in cases:
            self.answers.setdefault(_key_of(case), change(case, case.expected))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        content = b""
        more = True
        while more:
            message = await receive()
            content, more = content + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        path = scope["path"] + (f"?{scope['query_string'].decode()}" if scope["query_string"] else "")
        key = _key(scope["method"], path, content, headers)
        self.asked.append(key)
        await _send(send, self.answers.get(key) or Answer(500, {}, "text", text="not recorded"))


def _key_of(case: Case) -> Key:
    request = case.request
    content = b""
    if "raw" in request:
        content = request["raw"].encode()
    elif "body" in request:
        content = json.dumps(request["body"]).encode()
    headers = {name.lower(): value for name, value in request.get("headers", {}).items()}
    return _key(request["method"], request["path"], content, headers)


def _key(method: str, path: str, content: bytes, headers: Mapping[str, str]) -> Key:
    return method, path, content.decode(), headers.get("origin", ""), headers.get("authorization", "")


async def _send(send: Send, answer: Answer) -> None:
    headers = {name: value for name, value in answer.headers.items() if name != "transfer-encoding"}
    content = _content(answer)
    if answer.form != "frames":
        headers["content-length"] = str(len(content))
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


def _content(answer: Answer) -> bytes:
    if answer.form == "json":
        return json.dumps(answer.body, ensure_ascii=False).encode()
    if answer.form == "text":
        return answer.text.encode()
    return "".join(_frame(frame) for frame in answer.frames).encode()


def _frame(frame: Frame) -> str:
    data = frame.data if isinstance(frame.data, str) else json.dumps(frame.data, ensure_ascii=False)
    event = f"event: {frame.event}\n" if frame.event else ""
    return f"{event}data: {data}\n\n"


def only(name: str, change: Callable[[Answer], Answer]) -> Change:
    """A change of one case's answer."""
    return lambda case, answer: change(answer) if case.name == name else answer
