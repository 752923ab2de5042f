"""Run llama.cpp's own server tests against Stoker, and compare with what the real llama-server passes.

    python compat/upstream.py --server .venv/bin/stoker-server [FILE ...]

`llama-server/b10621/upstream.json` names the tests that llama-server b10622 passes with SmolLM2 in the place of the
tiny models of the hub, and those of them that Stoker misses, each with its reason. Exit status 1: another one failed,
or one that is listed as missed passes. Takes about twenty minutes on two cores, so it is no part of the tests. Other
tests of these files fail on llama-server too, mostly for what the tiny models would say; `--all` runs them as well.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

if not __package__:  # run as a file: the repository's root is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat import upstream_source
from compat.ports import free_port

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "llama-server" / "b10621" / "upstream.json"
PLUGIN = "upstream_plugin"


@dataclass(frozen=True, slots=True)
class Expected:
    """What llama-server passes, and which of these Stoker misses and why."""

    files: tuple[str, ...]
    passes: frozenset[str]
    misses: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Result:
    """One test's outcome; `why` is the last line of a failure."""

    name: str
    passed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """`failed` are unexplained; `stale` are listed as missed and pass; `more` pass beyond llama-server's list."""

    asked: int
    passed: int
    failed: tuple[Result, ...]
    missed: Mapping[str, str]
    stale: tuple[str, ...]
    more: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.failed and not self.stale


def expected() -> Expected:
    data = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return Expected(tuple(data["files"]), frozenset(data["passes"]), data["misses"])


def judge(results: Sequence[Result], wanted: Expected, files: Sequence[str]) -> Report:
    """Compare the outcomes of some files with what is expected of them; a test that never ran has failed."""
    asked = {name for name in wanted.passes if file_of(name) in files}
    outcome = {result.name: result for result in results}
    passed = {result.name for result in results if result.passed}
    failed = [outcome.get(name, Result(name, False, "did not run")) for name in sorted(asked - passed)]
    return Report(
        asked=len(asked),
        passed=len(asked & passed),
        failed=tuple(one for one in failed if one.name not in wanted.misses),
        missed={one.name: wanted.misses[one.name] for one in failed if one.name in wanted.misses},
        stale=tuple(sorted(set(wanted.misses) & passed)),
        more=tuple(sorted(passed - wanted.passes)),
    )


def file_of(name: str) -> str:
    """`unit/test_basic.py::test_x[…]` → `basic`."""
    return name.partition("::")[0].removeprefix("unit/test_").removesuffix(".py")


def run_file(
    file: str, tests: Path, command: Sequence[str], environ: Mapping[str, str], seconds: float
) -> list[Result]:
    """Run one file of tests; what did not end in `seconds` is killed with its servers and counts as failed."""
    with tempfile.TemporaryDirectory(prefix="upstream-") as place:
        results = Path(place) / "results"
        results.touch()
        process = subprocess.Popen(
            [*command, f"unit/test_{file}.py"],
            cwd=tests,
            env={**environ, "UPSTREAM_RESULTS": str(results)},
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"{file}: not done after {seconds:.0f} s", file=sys.stderr)
        finally:
            _end(process)
        return [Result(**json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and all that it started, which it leads as a session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def lines(report: Report) -> list[str]:
    said = [f"FAILED {one.name}: {one.why}" for one in report.failed]
    said += [f"missed, as explained: {name}: {why}" for name, why in report.missed.items()]
    said += [f"STALE  {name}: listed as missed, but it passes" for name in report.stale]
    said += [f"beyond llama-server: {name}" for name in report.more]
    return [*said, f"of {report.asked} that llama-server passes: {report.passed} passed"]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="compat/upstream.py", description=(__doc__ or "").partition("\n")[0])
    made.add_argument("files", nargs="*", metavar="FILE", help="basic, completion, … (default: all)")
    made.add_argument("--server", required=True, type=Path, help="the server's executable")
    made.add_argument("--model", type=Path, help="GGUF file (default: Stoker's own, fetched once)")
    made.add_argument("--tests", type=Path, help="a llama.cpp checkout's tools/server/tests (default: fetched)")
    made.add_argument("--cache", type=Path, default=upstream_source.CACHE, help="where they are kept")
    made.add_argument("--test-seconds", type=int, default=120, help="longest time of a test (default: %(default)s)")
    made.add_argument("--file-seconds", type=float, default=900, help="longest time of a file (default: %(default)s)")
    made.add_argument("--all", action="store_true", help="also tests that llama-server does not pass")
    made.add_argument("-k", dest="only", default="", help="pytest's -k: only these tests; nothing is judged")
    return made


def _leave(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(1)


def main(argv: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, _leave)  # so that what runs is ended too
    args = parser().parse_args(argv)
    wanted = expected()
    listed = {file_of(name) for name in wanted.passes}
    files: list[str] = args.files or [file for file in wanted.files if args.all or file in listed]
    tests: Path = args.tests or upstream_source.fetched(args.cache)
    python = upstream_source.python_for_tests(args.cache)
    command = [str(python), "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", PLUGIN]
    command += ["--tb=short", f"--timeout={args.test_seconds}", *(["-k", args.only] if args.only else [])]
    environ = _environment(args, tests)
    results = [one for file in files for one in run_file(file, tests, command, environ, args.file_seconds)]
    report = judge(results, wanted, files)
    if args.only:
        return int(not all(one.passed for one in results))
    print("\n".join(lines(report)))
    return 0 if report.ok else 1


def _environment(args: argparse.Namespace, tests: Path) -> dict[str, str]:
    """What the tests read: the executable, the model, a free port (Vertex AI's too), their helpers and our plugin."""
    port = str(free_port())
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")},
        "LLAMA_SERVER_BIN_PATH": str(args.server.absolute()),
        "LLAMA_CACHE": str(args.cache / "llama-cache"),
        "UPSTREAM_MODEL": str((args.model or _default_model()).absolute()),
        **({} if args.all else {"UPSTREAM_LIST": str(EXPECTED)}),
        "PYTHONPATH": os.pathsep.join((str(tests), str(HERE))),
        "PORT": port,
        "AIP_HTTP_PORT": port,
    }


def _default_model() -> Path:
    from stoker.models.fetch import cache_directory, default_model

    return default_model(cache_directory(os.environ))


if __name__ == "__main__":
    sys.exit(main())
