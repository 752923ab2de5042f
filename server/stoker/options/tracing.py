"""`STOKER_LOG`: how much an offline command says on standard error. Unset, it says nothing more than before."""

from collections.abc import Mapping

from stoker.core.errors import StartError

LEVELS = {"error": 1, "warn": 2, "info": 3, "debug": 5, "trace": 5}
"""The words' values as llama-server's verbosity (`logs.py`)."""

OURS, RUST = "STOKER_LOG", "RUST_LOG"


def verbosity(environ: Mapping[str, str]) -> int | None:
    """The number of the level that was asked for; None: none was.

    `STOKER_LOG` counts before `RUST_LOG`. The latter may be set for other programs' sake, so words that are no
    level, and its directives for single modules, are passed over there. StartError for such a word in the former.
    """
    word = environ.get(OURS, "").strip().lower()
    if word:
        if word not in LEVELS:
            raise StartError(f"{OURS} takes {', '.join(LEVELS)}, not {environ[OURS]!r}")
        return LEVELS[word]
    parts = (part.strip().lower() for part in environ.get(RUST, "").split(","))
    return next((LEVELS[part] for part in parts if part in LEVELS), None)
