"""What a benchmark asks, of whom, and in which order. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

CLASSES = ("code", "prose", "list", "copy", "chat")
OURS, THEIRS = "ours", "theirs"


@dataclass(frozen=True, slots=True)
class Arm:
    """A server under measurement. `api` is `llama` (/completion) or `openai` (/v1/completions)."""

    name: str
    url: str
    api: str = "llama"
    model: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """What all requests have in common."""

    predict: int
    temperature: float
    book: Mapping[str, Sequence[str]] | None = None
    """Somebody's own prompts by class, which go to the chat routes as they are; None: the package's."""
    seed: int = -1
    """Of every request; negative: none is sent."""


@dataclass(frozen=True, slots=True)
class Turn:
    """`concurrency` streams of requests of one class to one arm at once. The turns of a pair differ in `arm` only."""

    arm: Arm
    group: str
    concurrency: int
    round: int
    warm_up: bool = False
    each: int = 1
    """Requests that a stream sends, one after the other."""

    @property
    def pair(self) -> tuple[str, int, int]:
        return self.group, self.concurrency, self.round


def prompts(group: str) -> list[str]:
    """The package's prompts of a class."""
    text = files("stoker.commands").joinpath("bench_prompts.json").read_text(encoding="utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found[group]


def read_book(lines: Iterable[str]) -> dict[str, list[str]]:
    """Prompts by class from JSON lines with `class` and `prompt`. Raises ValueError, naming the line, for others."""
    book: dict[str, list[str]] = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            group, prompt = entry["class"], entry["prompt"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"line {number} is no object with a class and a prompt") from None
        book.setdefault(str(group), []).append(str(prompt))
    return book


def turns(
    arms: Sequence[Arm], groups: Sequence[str], concurrency: int, rounds: int, warm_ups: int, each: int = 1
) -> Iterator[Turn]:
    """Warm-ups first; then round by round all classes, the arms in ABBA order, so that drift meets all alike."""
    for index in range(-warm_ups, rounds):
        for place, group in enumerate(groups):
            order = arms if (index + place) % 2 == 0 else tuple(reversed(arms))
            for arm in order:
                yield Turn(arm, group, concurrency, index, warm_up=index < 0, each=each)


def fresh(turn: Turn, index: int, book: Mapping[str, Sequence[str]] | None = None) -> str:
    """A prompt that no prefix cache has seen: numbered in front, alike for both arms of a pair.

    One of somebody's own is left as it is; `cache_prompt` alone keeps it new.
    """
    known = prompts(turn.group) if book is None else book[turn.group]
    text = known[(turn.round * turn.concurrency * turn.each + index) % len(known)]
    if book is not None:
        return text
    return f"{turn.concurrency}.{turn.round + 1}.{index + 1}\n{text}"


def request(arm: Arm, group: str, prompt: str, ask: Ask) -> tuple[str, dict[str, Any]]:
    """Path and body of a streaming request. Fields that a server does not know it ignores."""
    common: dict[str, Any] = {
        "temperature": ask.temperature,
        "stream": True,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    if ask.seed >= 0:
        common["seed"] = ask.seed
    chat = group == "chat" or ask.book is not None
    if arm.api == "llama" and not chat:
        return "/completion", {"prompt": prompt, "n_predict": ask.predict, **common}
    body = {"max_tokens": ask.predict, "stream_options": {"include_usage": True}, **common}
    if arm.model:
        body["model"] = arm.model
    if chat:
        return "/v1/chat/completions", {"messages": [{"role": "user", "content": prompt}], **body}
    return "/v1/completions", {"prompt": prompt, **body}
