"""The drafter that comes with Stoker, made for the default model. Where it came from: `drafter/NOTICE.md`."""

from pathlib import Path

FOLDER = "drafter"


def drafter() -> Path:
    """Its directory, inside the package."""
    return Path(__file__).parent / FOLDER
