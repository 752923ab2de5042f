"""The engine's guard: one of the two places that may catch everything (the other is `routes/sse.py`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """What a guarded call raised."""

    error: Exception


def guard(call: Callable[[], T]) -> T | Fault:
    """Runs a call whose fault must not reach the other rows."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return Fault(error)
