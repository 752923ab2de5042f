"""An index of n-grams over a growing list of tokens: where did the last few tokens stand before?

Pure Python, incremental: appending a token costs one dictionary write for each n, and answers equal
those of a scan. Source: spec/drafters.md section 14.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LARGEST, LONGEST_COPY = 16, 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """Which n-grams are looked for, longest first, and how much is copied behind one."""

    longest: int = 3
    shortest: int = 2
    most: int = 7
    """Tokens copied at most."""
    hits: int = 1
    """Earlier occurrences that an n-gram must have."""

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest <= LARGEST:
            raise ValueError(f"n-grams of {self.shortest} to {self.longest} tokens: 1 to {LARGEST} are possible")
        if not 1 <= self.most <= LONGEST_COPY or self.hits < 1:
            raise ValueError(f"{self.most} proposals after {self.hits} hits: 1 to {LONGEST_COPY} after 1 or more")


class Ngrams:
    def __init__(self, sizes: Sizes, tokens: Iterable[int] = ()) -> None:
        self._sizes = sizes
        self._tokens: list[int] = []
        self._starts: dict[tuple[int, ...], tuple[int, int]] = {}
        """n-gram → start of its latest occurrence that has a follower, and how many there are."""
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            for n in range(self._sizes.shortest, self._sizes.longest + 1):
                if len(self._tokens) >= n:
                    gram = tuple(self._tokens[-n:])
                    self._starts[gram] = (len(self._tokens) - n, self._starts.get(gram, (0, 0))[1] + 1)
            self._tokens.append(token)

    def look_up(self) -> Sequence[int]:
        """What followed the latest earlier occurrence of the last tokens; empty if there is none."""
        for n in range(self._sizes.longest, self._sizes.shortest - 1, -1):
            if len(self._tokens) >= n:
                start, hits = self._starts.get(tuple(self._tokens[-n:]), (0, 0))
                if hits >= self._sizes.hits:
                    return self._tokens[start + n : start + n + self._sizes.most]
        return ()
