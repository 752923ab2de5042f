"""The order of a stream's frames: what each frame is for, and which recorded frame it is held against.

A stream is read as a sequence of runs of one role: `role content content finish [DONE]` is four
runs. The sequence of runs must equal the recorded one. The length of a run must too, where the
texts are equal; a prompt may be read in any number of steps, so runs of progress are never counted.
"""

from dataclasses import dataclass
from itertools import groupby

from compat.answer import Frame, Json

UNCOUNTED = "progress"


@dataclass(frozen=True, slots=True)
class Run:
    role: str
    frames: tuple[Frame, ...]


def runs(frames: tuple[Frame, ...]) -> list[Run]:
    return [Run(role, tuple(group)) for role, group in groupby(frames, role_of)]


def role_of(frame: Frame) -> str:
    """`[DONE]`, `error`, `progress`, `role`, `content`, `finish`, `usage`, or an event's own name."""
    data = frame.data
    if not isinstance(data, dict):
        return str(data)
    if frame.event is not None:
        return frame.event
    if "error" in data:
        return "error"
    if "stop" in data:
        return "progress" if "prompt_progress" in data else "finish" if data["stop"] is True else "content"
    return _openai_role(data)


def _openai_role(data: dict[str, Json]) -> str:
    choices = data.get("choices")
    if not isinstance(choices, list):
        return "unknown"
    if not choices:
        return "usage"
    choice = choices[0] if isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    if choice.get("finish_reason") is not None:
        return "finish"
    if "prompt_progress" in data:
        return "progress"
    return "role" if isinstance(delta, dict) and "role" in delta else "content"
