"""What a rule decided about one row's round."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """`emitted` are the tokens the row emits: its accepted proposals and the token that ends the chain.

    `accepted` proposals were right, `tested` were looked at: those behind the first rejection never are.
    `len(emitted) == accepted + 1` unless an end token cut the round.
    """

    emitted: tuple[int, ...]
    accepted: int
    tested: int

    def until(self, ends: Collection[int]) -> "Verdict":
        """The verdict cut after its first end token: what follows it was never asked for."""
        for n, token in enumerate(self.emitted, 1):
            if token in ends:
                return Verdict(self.emitted[:n], min(self.accepted, n), min(self.tested, n))
        return self
