"""Sets of code points as sorted, disjoint ranges: what a character class of a grammar matches."""

from collections.abc import Iterable
from itertools import pairwise

Ranges = tuple[tuple[int, int], ...]
"""Inclusive, ascending, neither touching nor overlapping."""

LAST = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)


def union(parts: Iterable[tuple[int, int]]) -> Ranges:
    """Any ranges in order. Surrogates are no characters and are left out."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(piece for part in parts for piece in _without_surrogates(*part)):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """Every other character."""
    edges = [-1, *(edge for pair in ranges for edge in pair), LAST + 1]
    gaps = [(edges[n] + 1, edges[n + 1] - 1) for n in range(0, len(edges), 2)]
    return union(gap for gap in gaps if gap[0] <= gap[1])


def overlap(a: Ranges, b: Ranges) -> bool:
    """True if some character is in both."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][0] <= b[j][1] and b[j][0] <= a[i][1]:
            return True
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return False


def disjoint(sets: Iterable[Ranges]) -> bool:
    """True if no character is in two of them."""
    ranges = sorted(pair for one in sets for pair in one)
    return all(a[1] < b[0] for a, b in pairwise(ranges))


def _without_surrogates(low: int, high: int) -> list[tuple[int, int]]:
    first, last = SURROGATES
    parts = [(low, min(high, first - 1)), (max(low, last + 1), min(high, LAST))]
    return [part for part in parts if part[0] <= part[1]]
