"""Ids and the wall clock: the only place of the server that reads the calendar."""

import secrets
import string
import time

_ALPHABET = string.ascii_letters + string.digits


def new_id(prefix: str = "chatcmpl-", length: int = 32) -> str:
    """The prefix and so many random letters and digits."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(length))


def call_id(length: int) -> str:
    """For a tool call."""
    return new_id("", length)


def wall_seconds() -> int:
    """Unix time in whole seconds, for `created`."""
    return int(time.time())
