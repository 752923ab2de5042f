"""What a series of measurements says: medians, spreads, ratios of alternated pairs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TRUSTED = 0.04
"""A spread above this share of the median makes a row untrustworthy."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of a series and its tenth and ninetieth percentiles."""

    median: float
    low: float
    high: float
    count: int

    @property
    def relative(self) -> float:
        """Distance of the percentiles as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Value below which `share` (0 to 1) of the series lies, by linear interpolation between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def spread(values: Sequence[float]) -> Spread | None:
    """None for an empty series."""
    if not values:
        return None
    return Spread(percentile(values, 0.5), percentile(values, 0.1), percentile(values, 0.9), len(values))


def ratios(ours: Mapping[object, float], theirs: Mapping[object, float]) -> list[float]:
    """ours / theirs for every pair that both sides measured; a key names a pair."""
    return [value / theirs[key] for key, value in ours.items() if theirs.get(key)]


@dataclass(frozen=True, slots=True)
class Overhead:
    """Where the wall time of the measured turns went, from the server's own tick counters.

    `busy` is the summed wall time of the turns, `ticks_seconds` what the device worked of it,
    `lag_seconds` the part of the rest in which the device waited for the scheduler; all in seconds.
    """

    ticks: float
    tick_seconds: float
    lag_seconds: float
    busy: float

    @property
    def tick(self) -> float:
        """Mean seconds of a tick."""
        return self.tick_seconds / self.ticks

    @property
    def outside(self) -> float:
        """Seconds a tick outside the device's work: scheduler, HTTP, tokenizer, client. As a share: by `tick`."""
        return (self.busy - self.tick_seconds) / self.ticks

    @property
    def lag(self) -> float:
        """Seconds a tick that the device waited for the scheduler."""
        return self.lag_seconds / self.ticks


TICKS, TICK_SECONDS, LAG_SECONDS = (
    "stoker:ticks_total",
    "stoker:tick_seconds_total",
    "stoker:tick_lag_seconds_total",
)


def overhead(before: Mapping[str, float], after: Mapping[str, float], busy: float) -> Overhead | None:
    """From two readings of `/metrics`; None when the server has no tick counters, or did not tick."""
    if not all(name in reading for name in (TICKS, TICK_SECONDS, LAG_SECONDS) for reading in (before, after)):
        return None
    ticks, seconds, lag = (after[name] - before[name] for name in (TICKS, TICK_SECONDS, LAG_SECONDS))
    return Overhead(ticks, seconds, lag, busy) if ticks > 0 and seconds > 0 else None


def metric_values(text: str) -> dict[str, float]:
    """Names without labels of a Prometheus text, and their values."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if line and not line.startswith("#") and "{" not in name:
            values[name] = float(value)
    return values
