"""The two entry points: `stoker` with its subcommands, and `stoker-server`, which is `stoker serve`.

Nothing heavy is imported before it is needed: `--help` answers without MLX and without HTTP, and OpenBLAS must be
in the process before MLX is.
"""

import argparse
import importlib
import importlib.metadata
import logging
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from stoker import inert, logs
from stoker import settings as honoured
from stoker.core.build import UPSTREAM_BUILD, build_info
from stoker.core.errors import StartError
from stoker.options import tracing, usage
from stoker.options.arguments import parse
from stoker.options.domains import Switch
from stoker.options.option import Option
from stoker.settings import Settings

log = logging.getLogger(__name__)

COMMANDS = {
    "serve": "answer on llama-server's routes; takes llama-server's options",
    "generate": "continue a prompt on standard output, with or without a drafter",
    "convert": "turn a GGUF file into an MLX directory",
    "bench": "measure a server, or two against each other",
    "accept-ab": "measure the acceptance of each rule against its closed form",
    "selftest": "show on a model that drafting changes nothing of what it says",
}


class Command(Protocol):
    """A module of `stoker.commands`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, namespace: argparse.Namespace, environ: Mapping[str, str]) -> int:
        """The exit status; StartError for a fault that one line explains."""
        ...


def main(words: Sequence[str] | None = None) -> int:
    """`stoker COMMAND …`: the exit status."""
    words = sys.argv[1:] if words is None else words
    name, rest = (words[0], words[1:]) if words else ("", ())
    if name == "serve":
        return serve(rest)
    if name in COMMANDS:
        return _guarded(lambda: _command(name, rest))
    if name == "--version":
        print(version_text())
        return 0
    if name in ("-h", "--help"):
        print(_overview())
        return 0
    print(_overview() if not name else f"error: no command {name}; there are {', '.join(COMMANDS)}", file=sys.stderr)
    return 2


def serve(words: Sequence[str] | None = None) -> int:
    """`stoker-server …`: the exit status; 1 after a line on standard error when it cannot start."""
    words = sys.argv[1:] if words is None else words
    return _guarded(lambda: start(words, honoured.environment(), _run_server))


def start(words: Sequence[str], environ: Mapping[str, str], run: Callable[[Settings], int]) -> int:
    """Words and variables → Settings, then `run` with them. StartError when they make no server.

    An option that prints something and ends, `--help` among them, is carried out instead.
    """
    arguments = parse(words, environ, options())
    for given in arguments.given:
        if given.option in ACTIONS:
            print(ACTIONS[given.option](environ))
            return 0
    warnings = (*arguments.warnings, *inert.judge(arguments.given))
    chosen = honoured.settings(arguments.given, environ)
    logs.configure(_log_style(chosen))
    for line in warnings:
        log.warning(line)
    return run(chosen)


def options() -> tuple[Option, ...]:
    """Every option that a command line may hold."""
    return (*honoured.options(), *ACTIONS, *inert.options())


def version_text() -> str:
    """llama-server's two lines; the first holds what the build string is made of."""
    number, ours = build_info().split("-", 1)
    mlx = importlib.metadata.version("mlx")
    return (
        f"version: {number.removeprefix('b')} ({ours})\n"
        f"built as {build_info()} with Python {platform.python_version()} and MLX {mlx} "
        f"for {platform.system()} {platform.machine()}"
    )


def _prepare() -> None:
    """What must come before the first import of MLX."""
    from stoker import blas

    blas.load()
    honoured.disarm_mlx()


def _run_server(settings: Settings) -> int:
    _prepare()
    from stoker import app

    return app.serve(settings)


def _command(name: str, words: Sequence[str]) -> int:
    _prepare()
    environ = honoured.environment()
    asked = tracing.verbosity(environ)
    if asked is not None:
        logs.configure(logs.LogStyle(verbosity=asked))
    module = cast("Command", importlib.import_module(f"stoker.commands.{name.replace('-', '_')}"))
    parser = argparse.ArgumentParser(prog=f"stoker {name}", description=COMMANDS[name], allow_abbrev=False)
    module.add_arguments(parser)
    return module.run(parser.parse_args(words), environ)


def _guarded(act: Callable[[], int]) -> int:
    """What `act` returns; a fault that is somebody's to mend becomes one line and a status."""
    try:
        return act()
    except StartError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _log_style(settings: Settings) -> logs.LogStyle:
    return logs.LogStyle(
        verbosity=settings.verbosity,
        file=settings.log_file,
        colours=settings.log_colors,
        prefix=settings.log_prefix,
        timestamps=settings.log_timestamps,
        disabled=settings.log_disable,
    )


def _overview() -> str:
    commands = "\n".join(f"  {name:<11}{what}" for name, what in COMMANDS.items())
    return (
        f"usage: stoker COMMAND …\n\n{commands}\n\nstoker COMMAND --help explains one; stoker-server is stoker serve."
    )


def _help(_: Mapping[str, str]) -> str:
    return usage.help_text("stoker-server", (*honoured.options(), *ACTIONS), len(inert.options()))


def _help_all(_: Mapping[str, str]) -> str:
    title = f"Options of llama-server b{UPSTREAM_BUILD} that are not honoured"
    return usage.list_text(title, inert.descriptions())


def _devices(_: Mapping[str, str]) -> str:
    from stoker.commands import inventory

    return "\n".join(["Available devices:", *(f"  {line}" for line in inventory.devices())])


def _cached(environ: Mapping[str, str]) -> str:
    from stoker.commands import inventory

    found = list(inventory.models(Path(honoured.cache_directory(environ)).expanduser()))
    return "\n".join([f"number of models in cache: {len(found)}", *(f"{n:4}. {m}" for n, m in enumerate(found, 1))])


def _completion(_: Mapping[str, str]) -> str:
    return usage.completion_script(("stoker-server", "llama-server"), options())


def _action(spellings: str, help: str) -> Option:
    return Option(spellings=tuple(spellings.split()), takes=Switch(), section=honoured.INFO, help=help)


ACTIONS: dict[Option, Callable[[Mapping[str, str]], str]] = {
    _action("-h --help --usage", "this text"): _help,
    _action("--help-all", "the options that are warned about or refused"): _help_all,
    _action("--version", "version and build"): lambda _: version_text(),
    _action("-cl --cache-list", "models in the cache"): _cached,
    _action("--list-devices", "devices that MLX has"): _devices,
    _action("--completion-bash", "a completion script for bash"): _completion,
}
"""Options that print a text and end; each makes it from the environment."""
