import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from logging_state import kept_logging
from stoker import logs
from stoker.core.errors import StartError
from stoker.logs import TRACE, LogStyle, configure, level_of

LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, TRACE, logging.DEBUG)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    with kept_logging():
        yield


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(style: LogStyle, stream: io.StringIO | None = None, logger: str = "stoker.somewhere") -> list[str]:
    """The lines that one message of each level leaves on the stream."""
    stream = stream or io.StringIO()
    configure(style, stream)
    for level in LEVELS:
        logging.getLogger(logger).log(level, "level %d", level)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(("verbosity", "lines"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (2**31 - 1, 5)])
def test_a_verbosity_shows_that_many_levels(verbosity: int, lines: int) -> None:
    assert len(written(LogStyle(verbosity=verbosity))) == lines


def test_a_negative_verbosity_is_none() -> None:
    assert level_of(-1) > logging.CRITICAL


def test_a_plain_line_is_the_message_alone() -> None:
    assert written(LogStyle()) == ["level 40", "level 30", "level 20"]


def test_a_prefix_is_the_levels_letter() -> None:
    lines = written(LogStyle(prefix=True, verbosity=5))
    assert lines == ["E level 40", "W level 30", "I level 20", "T level 15", "D level 10"]


def test_a_level_below_debug_is_called_debug() -> None:
    stream = io.StringIO()
    configure(LogStyle(prefix=True, verbosity=5), stream)
    logging.getLogger().setLevel(1)
    logging.getLogger("stoker").log(5, "deep")
    assert stream.getvalue() == "D deep\n"


def test_timestamps_count_from_the_start() -> None:
    for line in written(LogStyle(timestamps=True, prefix=True)):
        assert re.fullmatch(r"\d+\.[0-5]\d\.\d{3}\.\d{3} [EWI] level \d+", line)
    record = logging.LogRecord("x", logging.INFO, "", 0, "hi", (), None)
    record.relativeCreated = 61_002.5
    assert logs.LineFormatter(LogStyle(timestamps=True), colours=False).format(record) == "1.01.002.500 hi"


def test_colours_follow_the_policy_and_the_terminal() -> None:
    def coloured(policy: str, stream: io.StringIO) -> bool:
        return any("\x1b[" in line for line in written(LogStyle(colours=policy), stream))

    assert [coloured(p, Terminal()) for p in ("auto", "on", "off")] == [True, True, False]
    assert [coloured(p, io.StringIO()) for p in ("auto", "on", "off")] == [False, True, False]


def test_colours_go_over_the_letter_or_the_whole_line_of_a_warning() -> None:
    assert written(LogStyle(colours="on"))[1:] == ["\x1b[35mlevel 30\x1b[0m", "level 20"]
    assert written(LogStyle(colours="on", prefix=True))[2] == "\x1b[32mI\x1b[0m level 20"


def test_the_file_gets_every_line_without_colours_and_starts_empty(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("of yesterday\n", encoding="utf-8")
    lines = written(LogStyle(file=str(file), colours="on"))
    assert len(lines) == 3
    assert file.read_text(encoding="utf-8").splitlines() == ["level 40", "level 30", "level 20"]


def test_a_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"^--log-file: cannot write .*: Is a directory$"):
        configure(LogStyle(file=str(tmp_path)))


def test_a_disabled_log_is_silent_even_for_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    assert written(LogStyle(disabled=True, file=str(file))) == []
    assert not file.exists()
    assert capsys.readouterr().err == ""


def test_a_second_set_up_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure(LogStyle(), first)
    configure(LogStyle(), second)
    logging.getLogger("stoker").info("hello")
    assert (first.getvalue(), second.getvalue()) == ("", "hello\n")


def test_libraries_are_heard_from_warnings_up_until_everything_is_asked_for() -> None:
    assert written(LogStyle(verbosity=4), logger="httpx") == ["level 40", "level 30"]
    assert len(written(LogStyle(verbosity=5), logger="httpx")) == 5


def test_the_access_log_of_uvicorn_is_off() -> None:
    assert written(LogStyle(verbosity=5), logger="uvicorn.access") == []
