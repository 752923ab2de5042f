"""`speculative`, Stoker's own object in a request: which drafter, and how many proposals at most.

llama-server's flat fields (`speculative.n_max` and its kin) are another thing, and ignored.
"""

from collections.abc import Mapping
from typing import cast

from stoker.core.counters import Kind
from stoker.core.request import Speculation
from stoker.routes.schema.fields import Field, Type, field_error, find, read_int, read_string, type_error

NAME = "speculative"
KINDS = ("auto", "none", *(kind.value for kind in Kind))
"""`auto` is the server's own drafter."""

_KIND = f"{NAME}.kind"
_MOST = Field((f"{NAME}.n_max",), Type.INT, -1, booleans=False)


def read_speculation(body: Mapping[str, object]) -> Speculation:
    """Raises InvalidRequest for a wrong type, an unknown kind, or an `n_max` below -1 (-1: as the server has it)."""
    found = find(body, (NAME,))
    if found is None:
        return Speculation()
    if not isinstance(found[1], dict):
        raise field_error(NAME, type_error("object", found[1]))
    given = {f"{NAME}.{key}": value for key, value in cast("Mapping[str, object]", found[1]).items()}
    kind = read_string(given, _KIND, KINDS[0])
    if kind not in KINDS:
        raise field_error(_KIND, f"Unknown kind of drafter: {kind}. Known are {', '.join(KINDS)}")
    return Speculation("" if kind == KINDS[0] else kind, read_int(given, _MOST, -1), asked=True)
