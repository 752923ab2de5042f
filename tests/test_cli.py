import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from logging_state import kept_logging
from stoker import cli, inert
from stoker.core.build import build_info
from stoker.core.errors import StartError
from stoker.settings import Settings

# The lines of llama-server-options.md that must start, split at what is not built yet.
STARTS = {
    "-m DIR -c 8192 -np 4 -ngl 99 -t 8 -fa on --host 0.0.0.0 --port 8080 --api-key K --jinja --alias a": "-ngl -t -fa",
    "-hf org/repo --temp 0 --top-k 40 --seed 1": "",
    "-m DIR --chat-template-file {t} --metrics --slots --props --no-ui --verbose": "",
    "-m DIR --log-file {f} --log-timestamps --ssl-key-file k --ssl-cert-file c --timeout 600 --threads-http 8": "",
    "-m DIR --cache-reuse 256 --slot-save-path {d} --lora a --mlock --no-mmap -b 2048 -ub 512": "--cache-reuse --mlock"
    " --no-mmap",
    "-m DIR --embeddings --pooling mean": "",
    "-hf org/repo -md DIR --spec-type draft-simple --spec-draft-n-max 3 --temp 0 --top-k 40 --seed 1": "",
    "-hf org/repo -md DIR -ngld 99": "-ngld",
    "-hf org/repo -md DIR --spec-type draft-mtp --spec-draft-n-max 3 --temp 0 --top-k 40 --seed 1": "",
    "-hf org/repo --spec-type draft-mtp --spec-draft-n-max 3": "",
    "-m DIR --draft-kind dflash -md DIR": "",
    "-m DIR --spec-type ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 7": "",
    "-m DIR --draft-kind prompt-lookup --no-prompt-lookup-adaptive --accept-rule stochastic": "",
    "-m DIR --chat-template-file {t} --reasoning-format deepseek --metrics --slots": "",
    "-m DIR --draft-model DIR --draft-coupling off --exactness bitwise --spec-draft-p-min 0.75": "",
}
NOT_BUILT_YET = {
    "-m DIR --reranking": "--reranking",
}
"""When one of these is built, it moves up."""


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    with kept_logging():
        yield


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was called, in order, with stand-ins for the modules behind the command line."""
    made: list[str] = []

    def module(name: str, **functions: Any) -> None:
        stand_in = ModuleType(f"stoker.{name}")
        for function, does in functions.items():
            setattr(stand_in, function, does)
        monkeypatch.setitem(sys.modules, f"stoker.{name}", stand_in)
        if "." not in name:
            monkeypatch.setattr(f"stoker.{name}", stand_in, raising=False)

    def run(namespace: Any, environ: Mapping[str, str]) -> int:
        assert dict(environ) == dict(os.environ)
        made.append(f"convert {namespace.out}")
        return 3

    # setenv first, so that it is put back as it was.
    monkeypatch.setenv("MLX_ENABLE_CACHE_THRASHING_CHECK", "1")
    monkeypatch.delenv("MLX_ENABLE_CACHE_THRASHING_CHECK")

    def serve(settings: Settings) -> int:
        assert os.environ["MLX_ENABLE_CACHE_THRASHING_CHECK"] == "0"
        made.append(f"serve {settings.port}")
        if settings.port == 1:
            raise KeyboardInterrupt
        if settings.port == 2:
            raise StartError("no model\nhere: give -m")
        return 0

    module("blas", load=lambda: made.append("blas"))
    module("app", serve=serve)
    module("commands.convert", add_arguments=lambda parser: parser.add_argument("--out"), run=run)
    return made


def words(line: str, tmp_path: Path) -> list[str]:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages }}", encoding="utf-8")
    return [
        w.replace("{t}", str(template)).replace("{f}", str(tmp_path / "log")).replace("{d}", str(tmp_path))
        for w in line.split()
    ]


@pytest.mark.parametrize(("line", "warned"), STARTS.items())
def test_a_typical_line_starts_with_the_needed_warnings_only(
    line: str, warned: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served: list[Settings] = []
    assert cli.start(words(line, tmp_path), {}, lambda settings: served.append(settings) or 0) == 0
    assert len(served) == 1
    assert [r.getMessage().split()[0] for r in caplog.records if r.levelname == "WARNING"] == warned.split()


@pytest.mark.parametrize(("line", "named"), NOT_BUILT_YET.items())
def test_a_line_with_something_not_built_yet_is_refused_by_its_name(line: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=f"^{named} cannot be honoured: .*not built yet"):
        cli.start(words(line, tmp_path), {}, lambda _: 0)


def test_what_was_typed_and_set_reaches_the_server() -> None:
    served: list[Settings] = []
    cli.start(["-np", "2"], {"LLAMA_ARG_PORT": "81"}, lambda settings: served.append(settings) or 0)
    assert (served[0].n_parallel, served[0].port) == (2, 81)


def test_the_exit_status_is_the_servers() -> None:
    assert cli.start([], {}, lambda _: 5) == 5


def test_warnings_go_where_the_log_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    cli.start(["-t", "8", "--log-file", str(file), "--log-prefix"], {}, lambda _: 0)
    assert file.read_text(encoding="utf-8") == "W -t has no effect: MLX runs its own threads\n"
    capsys.readouterr()
    cli.start(["-t", "8", "--log-disable"], {}, lambda _: 0)
    assert capsys.readouterr().err == ""


# the two entry points


def test_blas_is_loaded_before_the_server_is_imported(calls: list[str]) -> None:
    assert cli.serve(["--port", "81"]) == 0
    assert cli.main(["serve", "--port", "82"]) == 0
    assert calls == ["blas", "serve 81", "blas", "serve 82"]


def test_both_entry_points_read_the_process_command_line(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["stoker-server", "--port", "83"])
    assert cli.serve() == 0
    monkeypatch.setattr(sys, "argv", ["stoker", "serve", "--port", "84"])
    assert cli.main() == 0
    assert calls == ["blas", "serve 83", "blas", "serve 84"]


def test_a_start_error_is_one_line_and_status_1(calls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.serve(["--port", "2"]) == 1
    assert capsys.readouterr().err == "error: no model here: give -m\n"
    assert cli.serve(["--port", "x"]) == 1
    assert capsys.readouterr().err == "error: --port takes a whole number from 0 to 65535, not 'x'\n"


def test_an_interrupt_is_status_130(calls: list[str]) -> None:
    assert cli.serve(["--port", "1"]) == 130


def test_a_command_gets_its_own_arguments(calls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["convert", "--out", "DIR"]) == 3
    assert calls == ["blas", "convert DIR"]
    with pytest.raises(SystemExit, match="2"):
        cli.main(["convert", "--no-such"])
    assert "stoker convert: error: unrecognized arguments: --no-such" in capsys.readouterr().err


def test_a_command_is_as_quiet_as_before_unless_the_log_is_asked_for(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("STOKER_LOG", "RUST_LOG"):
        monkeypatch.delenv(name, raising=False)
    before = list(logging.getLogger().handlers)
    cli.main(["convert", "--out", "DIR"])
    assert logging.getLogger().handlers == before
    monkeypatch.setenv("STOKER_LOG", "info")
    cli.main(["convert", "--out", "DIR"])
    logging.getLogger("stoker.anything").info("heard")
    assert capsys.readouterr().err == "heard\n"
    monkeypatch.setenv("STOKER_LOG", "loud")
    assert cli.main(["convert", "--out", "DIR"]) == 1


def test_a_name_of_two_words_is_a_module_of_two_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["accept-ab", "--help"])
    assert capsys.readouterr().out.startswith("usage: stoker accept-ab")


def test_stoker_alone_explains_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name}" in out for name in cli.COMMANDS)
    assert cli.main([]) == 2
    assert capsys.readouterr().err == out


def test_an_unknown_command_is_an_error_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sirve"]) == 2
    assert capsys.readouterr().err == f"error: no command sirve; there are {', '.join(cli.COMMANDS)}\n"


# options that print and end


def printed(capsys: pytest.CaptureFixture[str], *typed: str, **environ: str) -> str:
    def never(_: Settings) -> int:
        raise AssertionError("started")

    assert cli.start(typed, environ, never) == 0
    return capsys.readouterr().out


def test_help_counts_the_options_that_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    for spelling in ("-h", "--help", "--usage"):
        assert f"\n{len(inert.options())} more options" in printed(capsys, spelling, "-md", "DIR")
    assert "--draft-max" in printed(capsys, "--help-all")


def test_version_and_build_string_agree(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--version")
    version = re.match(r"version: (\d+) \((\S+)\)\n", out)
    assert version
    assert f"b{version[1]}-{version[2]}" == build_info()
    assert f"built as {build_info()} with Python" in out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == out


def test_the_completion_script_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "complete -o filenames -F" in printed(capsys, "--completion-bash")


@pytest.mark.mlx
def test_devices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--list-devices").startswith("Available devices:\n  MLX0: ")


def test_cached_models_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "stoker").mkdir()
    (tmp_path / "stoker" / "m.gguf").touch()
    out = printed(capsys, "--cache-list", XDG_CACHE_HOME=str(tmp_path))
    assert re.match(r"number of models in cache: [1-9]", out)
    assert out.endswith(f". {tmp_path / 'stoker' / 'm.gguf'}\n")


def test_help_is_answered_without_mlx_and_without_http() -> None:
    heavy = "mlx.core mlx_lm fastapi uvicorn pydantic numpy transformers"
    program = f"""
import sys
from stoker.cli import serve
serve(["--help"])
sys.exit(", ".join(name for name in "{heavy}".split() if name in sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stderr.strip() == ""
    assert ran.stdout.startswith("usage: stoker-server")


def test_the_real_process_refuses_in_one_line_with_status_1() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "stoker", "serve", "--agent"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr == "error: --agent cannot be honoured: the server runs no tools; run them in the client\n"
