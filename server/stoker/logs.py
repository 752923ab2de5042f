"""Where log lines go and what they look like. Everyone else uses `logging.getLogger(__name__)` and nothing of this.

Levels are llama-server's numbers: 0 output, 1 error, 2 warning, 3 info, 4 trace, 5 debug.
"""

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from stoker.core.errors import StartError

TRACE = 15
"""Between info and debug: `logging.log(TRACE, …)` shows from verbosity 4 on."""

SILENT = logging.CRITICAL + 1
_LEVELS = (SILENT, logging.ERROR, logging.WARNING, logging.INFO, TRACE, logging.DEBUG)
_LETTERS = {logging.ERROR: "E", logging.WARNING: "W", logging.INFO: "I", TRACE: "T", logging.DEBUG: "D"}
_COLOURS = {"C": "\x1b[31m", "E": "\x1b[31m", "W": "\x1b[35m", "I": "\x1b[32m", "T": "\x1b[34m", "D": "\x1b[33m"}
_RESET = "\x1b[0m"
_NAME = "stoker"
"""Marks our handlers among the root's, so that a second set-up replaces the first and nothing else."""

CHATTY = ("httpx", "httpcore", "huggingface_hub", "filelock", "asyncio", "multipart", "uvicorn", "uvicorn.error")
"""Libraries that are heard from warnings up, until verbosity asks for everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStyle:
    verbosity: int = 3
    file: str = ""
    """Gets every line too, without colours; emptied at the start."""
    colours: str = "auto"
    """on, off, or auto: when standard error is a terminal."""
    prefix: bool = False
    timestamps: bool = False
    disabled: bool = False


def configure(style: LogStyle, stream: TextIO | None = None) -> None:
    """Set up the root logger; uvicorn then needs `log_config=None, access_log=False`.

    `stream` is standard error unless given. StartError when the file cannot be opened.
    """
    root = logging.getLogger()
    for handler in [h for h in root.handlers if h.name == _NAME]:
        root.removeHandler(handler)
        handler.close()
    for handler in _handlers(style, stream or sys.stderr):
        handler.name = _NAME
        root.addHandler(handler)
    level = SILENT if style.disabled else level_of(style.verbosity)
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger("uvicorn.access").disabled = True


def level_of(verbosity: int) -> int:
    """The least level of `logging` that shows at one of llama-server's numbers."""
    return _LEVELS[min(max(verbosity, 0), len(_LEVELS) - 1)]


def _handlers(style: LogStyle, stream: TextIO) -> Iterator[logging.Handler]:
    if style.disabled:
        yield logging.NullHandler()
        return
    if style.file:
        try:
            handler = logging.FileHandler(style.file, mode="w", encoding="utf-8")
        except OSError as error:
            raise StartError(f"--log-file: cannot write {style.file}: {error.strerror}") from None
        handler.setFormatter(LineFormatter(style, colours=False))
        yield handler
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(style, colours=_coloured(style.colours, stream)))
    yield handler


def _coloured(colours: str, stream: TextIO) -> bool:
    return stream.isatty() if colours == "auto" else colours == "on"


class LineFormatter(logging.Formatter):
    """`0.12.345.678 W message`: minutes, seconds, milliseconds, microseconds since the start, then the level's letter.

    Both parts stand only if asked for. Colours go by level, over the letter or, without one, over warnings and errors.
    """

    def __init__(self, style: LogStyle, colours: bool) -> None:
        super().__init__()
        self.style = style
        self.colours = colours

    def format(self, record: logging.LogRecord) -> str:
        letter = _letter(record.levelno)
        text = super().format(record)
        if self.style.prefix:
            text = f"{self._painted(letter, letter)} {text}"
        elif record.levelno >= logging.WARNING:
            text = self._painted(text, letter)
        if self.style.timestamps:
            text = f"{_since_start(record.relativeCreated)} {text}"
        return text

    def _painted(self, text: str, letter: str) -> str:
        return f"{_COLOURS[letter]}{text}{_RESET}" if self.colours else text


def _letter(level: int) -> str:
    return next((letter for least, letter in _LETTERS.items() if level >= least), "D")


def _since_start(milliseconds: float) -> str:
    microseconds = int(milliseconds * 1e3)
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{seconds // 60}.{seconds % 60:02d}.{rest // 1000:03d}.{rest % 1000:03d}"
