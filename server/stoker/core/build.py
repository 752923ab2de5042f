"""The server's name for itself: `/props.build_info`, `system_fingerprint` and `--version` all say the same."""

from stoker import __version__

UPSTREAM_BUILD = 10621
"""The build of llama.cpp whose behaviour this server answers with."""


def build_info() -> str:
    """`b10621-stoker0.1.0`.

    llama-server's own has the form `b<number>-<commit>`, and clients take the number for the set of
    features; here it is the build that the contract is pinned to, and our version stands for the commit.
    """
    return f"b{UPSTREAM_BUILD}-stoker{__version__}"
