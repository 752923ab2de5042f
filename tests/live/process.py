"""A server in a process of its own, started by the command line that a user types."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

START_SECONDS = 60.0
STOP_SECONDS = 20.0
COMMAND = (sys.executable, "-m", "stoker", "serve")
ANY_PORT = ("--port", "0")


@dataclass
class Live:
    """A running server. `loading` holds what /health said from the open port until it was ready."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str = ""
    loading: list[httpx.Response] = field(default_factory=list[httpx.Response])

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def requests(self) -> list[str]:
        """Its log lines of finished requests."""
        return [line for line in self.said.splitlines() if line.startswith("POST ")]

    @property
    def cpu_seconds(self) -> float:
        """Time that the process has spent on a processor (Linux)."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / 100

    @property
    def resident_mib(self) -> float:
        """Its resident size in MiB (Linux)."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(text.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def open_files(self) -> int:
        """Its open files and sockets (Linux)."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """The exit status; the process is killed, and the test fails, if it does not end."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def stop(self) -> None:
        """Ends it as an operator would; anything but a silent end is a failure."""
        self.signal(signal.SIGTERM)
        status = self.wait()
        assert status == 0, self.said
        assert_calm(self.said)


def assert_calm(log: str) -> None:
    """Nothing in the log that a programmer would have to look at."""
    for word in ("Traceback", "terminate called", "Exception", "never awaited", "Warning:"):
        assert word not in log, log


def start(words: Sequence[str], log: Path, *, ready: bool = True) -> Live:
    """Starts a server on a free port; returns when it is ready, or else as soon as its port is open."""
    with log.open("wb") as file:
        process = subprocess.Popen([*COMMAND, *ANY_PORT, *words], stderr=file, stdout=file)
    live = Live(process, log)
    live.url = _listening(live)
    while ready:
        health = _health(live)
        if health is not None and health.status_code == 200:
            break
        live.loading += [health] if health is not None else []
        _pause(live)
    return live


def _health(live: Live) -> httpx.Response | None:
    """None if nobody answers: the process has ended, as `_pause` will find, with its log."""
    try:
        return httpx.get(f"{live.url}/health")
    except httpx.TransportError:
        return None


def _listening(live: Live) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        found = re.search(r"listening on (\S+)", live.said)
        if found:
            return found[1]
        _pause(live)
    live.process.kill()
    raise AssertionError(f"no port after {START_SECONDS} s: {live.said}")


def _pause(live: Live) -> None:
    assert live.process.poll() is None, live.said
    time.sleep(0.02)


@dataclass(frozen=True)
class Refusal:
    """How a server ended that could not start."""

    status: int
    errors: list[str]
    """Lines of standard error that are no news of the start."""


NEWS = ("listening on ", "BLAS: ")


def refusal(words: Sequence[str]) -> Refusal:
    """Runs a server that is expected not to start."""
    done = subprocess.run([*COMMAND, *words], capture_output=True, timeout=START_SECONDS, check=False)
    lines = done.stderr.decode().splitlines()
    return Refusal(done.returncode, [line for line in lines if not line.startswith(NEWS)])
