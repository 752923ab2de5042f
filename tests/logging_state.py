"""Keeps a test that sets up logging from setting it up for the next one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.logs import CHATTY


@contextmanager
def kept_logging() -> Iterator[None]:
    """Restores the root logger and those that `stoker.logs` touches; closes handlers that were added."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in CHATTY}
    access = logging.getLogger("uvicorn.access").disabled
    try:
        yield
    finally:
        for handler in [h for h in root.handlers if h not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)
        logging.getLogger("uvicorn.access").disabled = access
