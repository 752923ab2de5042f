"""Where a request's time went: the nine base figures of llama-server's `timings`."""

from dataclasses import dataclass

LEAST_MS = 0.001
"""llama-server's resolution: a phase that ran is never reported as zero."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Counts and milliseconds; the four derived figures are properties.

    `prompt_ms` runs from arrival (queue wait included, a declared deviation) to the end of the
    prompt; `predicted_ms` from there to the last token.
    """

    cached: int = 0
    prompt: int = 0
    prompt_ms: float = 0.0
    predicted: int = 0
    predicted_ms: float = 0.0

    @property
    def prompt_per_token_ms(self) -> float:
        return self.prompt_ms / self.prompt if self.prompt else 0.0

    @property
    def prompt_per_second(self) -> float:
        return 1e3 * self.prompt / self.prompt_ms if self.prompt_ms else 0.0

    @property
    def predicted_per_token_ms(self) -> float:
        return self.predicted_ms / (self.predicted - 1) if self.predicted > 1 else 0.0

    @property
    def predicted_per_second(self) -> float:
        return 1e3 * (self.predicted - 1) / self.predicted_ms if self.predicted > 1 else 0.0


class Stopwatch:
    """Collects the stamps of one request, all of `core.clock`; seconds in, milliseconds out."""

    def __init__(self, arrived: float) -> None:
        self.arrived = arrived
        self.prompt_done: float | None = None
        self.last = arrived

    def reading(self, at: float) -> None:
        """A part of the prompt has been read."""
        self.last = at

    def prompt_read(self, at: float) -> None:
        """The prompt ended here, before the first token: a verify round is about to make it, and others with it."""
        self.prompt_done = self.last = at

    def token(self, at: float) -> None:
        """A token arrived; the first one ends the prompt phase, unless that has ended."""
        if self.prompt_done is None:
            self.prompt_done = at
        self.last = at

    def read(self, *, cached: int, prompt: int, predicted: int) -> Timings:
        """The figures so far; an unfinished prompt reads as zero milliseconds of generation."""
        if self.prompt_done is None:
            return Timings(cached, prompt, max(_ms(self.last - self.arrived), 0.0), predicted, 0.0)
        prompt_ms = max(_ms(self.prompt_done - self.arrived), LEAST_MS)
        predicted_ms = max(_ms(self.last - self.prompt_done), LEAST_MS)
        return Timings(cached, prompt, prompt_ms, predicted, predicted_ms)


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
