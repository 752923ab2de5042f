"""The generated texts of two answers: what they are, and how far they agree.

Kernels round differently, so a greedy text may leave the recorded one; how far it agrees is
reported apart from the differences of shape.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compat.answer import Answer, Json

ENOUGH = 8
"""Leading tokens that a greedy text must share with the recorded one."""

Split = Callable[[str], Sequence[object]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """`first_divergence` counts tokens, and is None where the texts are equal."""

    text_equal: bool
    first_divergence: int | None
    tokens: int
    """Tokens of the recorded text."""
    expected: str
    got: str
    gap: float | None = None
    """By how much the server preferred its own token at the divergence, in logits; None: not asked."""

    @property
    def enough(self) -> bool:
        return self.text_equal or (self.first_divergence or 0) >= ENOUGH


def agreement(expected: str, got: str, split: Split) -> Agreement:
    """Compare token by token; `split` is a tokenizer, or `pieces` where none is at hand."""
    left, right = split(expected), split(got)
    if expected == got:
        return Agreement(True, None, len(left), expected, got)
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        shared += 1
    return Agreement(False, shared, len(left), expected, got)


def pieces(text: str) -> list[str]:
    """Words with the space before them, digits one by one, runs of signs: about as long as tokens."""
    return re.findall(r" ?[^\W\d]+|\d| ?[^\w\s]+|\s", text)


def generated(answer: Answer) -> str | None:
    """The text that the model wrote, every choice and every frame of it in order; None where there is none."""
    if answer.form == "frames":
        parts = [part for frame in answer.frames if (part := _of(frame.data)) is not None]
        return "".join(parts) if parts else None
    return _of(answer.body) if answer.form == "json" else None


def _of(body: Json) -> str | None:
    if isinstance(body, list):
        parts = [part for item in body if (part := _of(item)) is not None]
        return "".join(parts) if parts else None
    if not isinstance(body, dict) or "error" in body:
        return None
    if isinstance(body.get("content"), str):
        return str(body["content"])
    if isinstance(body.get("delta"), str):
        return str(body["delta"])
    return _of_choices(body)


def _of_choices(body: dict[str, Any]) -> str | None:
    if "choices" in body:
        return "".join(_of_choice(choice) for choice in body["choices"])
    if body.get("object") == "response":
        return "".join(part.get("text", "") for item in body["output"] for part in item.get("content", []))
    if body.get("type") == "message":
        return "".join(block.get("text", "") for block in body["content"])
    if isinstance(body.get("delta"), dict):
        return body["delta"].get("text")
    return None


def _of_choice(choice: dict[str, Any]) -> str:
    if "text" in choice:
        return choice["text"]
    return (choice.get("message") or choice.get("delta") or {}).get("content") or ""
