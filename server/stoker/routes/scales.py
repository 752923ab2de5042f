"""The scales of the server's adapters: what a request gets that says nothing, and one that does."""

from collections.abc import Mapping, Sequence


class Scales:
    """Lives on the event loop. Adapters are known by their place in `paths`."""

    def __init__(self, paths: Sequence[str] = (), scales: Sequence[float] = ()) -> None:
        self.paths = tuple(paths)
        self.scales = tuple(scales)

    def set(self, wanted: Mapping[int, float]) -> None:
        """For requests to come that name none; those not in it become 0, ids that are nobody's are ignored."""
        self.scales = tuple(wanted.get(id, 0.0) for id in range(len(self.paths)))

    def of(self, wanted: Mapping[int, float] | None = None) -> tuple[float, ...]:
        """A request's scales, by adapter; empty where all are 0, as without adapters. None or {}: the server's."""
        scales = tuple(wanted.get(id, 0.0) for id in range(len(self.paths))) if wanted else self.scales
        return scales if any(scales) else ()
