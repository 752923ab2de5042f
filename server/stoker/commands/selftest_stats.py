"""Pearson's chi-square test and its power, in plain Python: no array library, no table of quantiles.

Sources: Abramowitz and Stegun, "Handbook of Mathematical Functions", 6.5.29 and 6.5.31 (the incomplete gamma
function as a series and as a continued fraction), 26.4.19 (chi-square by it), 26.4.25 (the noncentral one as a
Poisson mixture).
"""

import math
from collections.abc import Mapping, Sequence

ALPHA = 1e-4
"""How often a right rule may be called wrong."""
EXPECTED = 20.0
"""Least expected count of a bin."""
_TERMS = 100_000
_EXACT = 1e-15

Distribution = Mapping[int, float]
"""Probability by token; a token that is not in it has none."""


def tail(x: float, dof: float) -> float:
    """P(chi-square with `dof` degrees of freedom > x)."""
    return 1.0 if x <= 0 else 0.0 if math.isinf(x) else _upper_gamma(dof / 2, x / 2)


def limit(dof: int, alpha: float = ALPHA) -> float:
    """The value that chi-square exceeds with probability alpha."""
    low, high = 0.0, float(dof)
    while tail(high, dof) > alpha:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, dof) > alpha else (low, middle)
    return high


def power(dof: int, shift: float, alpha: float = ALPHA) -> float:
    """P(the test at `alpha` rejects) if the statistic is noncentral chi-square with this noncentrality."""
    if shift <= 0:
        return alpha
    cut, mean = limit(dof, alpha), shift / 2
    reach = 12 * math.sqrt(mean) + 30
    first, last = max(0, int(mean - reach)), int(mean + reach)
    weights = ((j, math.exp(j * math.log(mean) - mean - math.lgamma(j + 1))) for j in range(first, last + 1))
    return min(sum(weight * tail(cut, dof + 2 * j) for j, weight in weights), 1.0)


def bins(p: Distribution, n: int, expected: float = EXPECTED) -> list[tuple[int, ...]]:
    """Tokens in groups that each expect at least so many of n draws: likely ones alone, all others together.

    Depends on p and n only, never on what was drawn. One group, if there is not enough for two.
    """
    ranked = sorted((token for token in p if p[token] > 0), key=lambda token: (-p[token], token))
    alone = [token for token in ranked if n * p[token] >= expected]
    rest = ranked[len(alone) :]
    while rest and alone and n * sum(p[token] for token in rest) < expected:
        rest.insert(0, alone.pop())
    return [(token,) for token in alone] + ([tuple(rest)] if rest else [])


def statistic(counts: Mapping[int, int], p: Distribution, groups: Sequence[Sequence[int]]) -> float:
    """Pearson's sum over the groups; infinite if a token was drawn that p rules out."""
    if any(count and not p.get(token) for token, count in counts.items()):
        return math.inf
    n = sum(counts.values())
    terms = ((_sum(counts, group), n * _sum(p, group)) for group in groups)
    return sum((seen - wanted) ** 2 / wanted for seen, wanted in terms)


def noncentrality(p: Distribution, wrong: Distribution, groups: Sequence[Sequence[int]], n: int) -> float:
    """By how much the statistic of n draws from `wrong` exceeds its degrees of freedom, about."""
    terms = ((_sum(wrong, group), _sum(p, group)) for group in groups)
    return n * sum((theirs - ours) ** 2 / ours for theirs, ours in terms)


def _sum(values: Mapping[int, float], group: Sequence[int]) -> float:
    return sum(values.get(token, 0) for token in group)


def _upper_gamma(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(a, x), a and x > 0."""
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    return 1 - scale * _series(a, x) if x < a + 1 else scale * _fraction(a, x)


def _series(a: float, x: float) -> float:
    term = total = 1 / a
    for k in range(1, _TERMS):
        term *= x / (a + k)
        total += term
        if term < total * _EXACT:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """The continued fraction, forward (modified Lentz): x > a, so that no denominator is zero."""
    b = x + 1 - a
    c, d = math.inf, 1 / b
    value = d
    for k in range(1, _TERMS):
        top, b = k * (a - k), b + 2
        d = 1 / (b + top * d)
        c = b + top / c
        value *= c * d
        if abs(c * d - 1) < _EXACT:
            break
    return value
