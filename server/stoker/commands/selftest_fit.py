"""Emitted streams against the target's own distribution, position by position. Knows no model and no array.

The next token is compared conditional on the prefix emitted before it, wherever a prefix is common
enough for two bins. Given how often a prefix came, what follows it is multinomial with the target's p,
so the sums of all prefixes add up to one chi-square.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stoker.commands import selftest_stats as stats
from stoker.commands.selftest_stats import Distribution

Tokens = tuple[int, ...]
Belief = Callable[[Tokens], Distribution | None]
"""A model's distribution behind the prompt and these tokens; None where it cannot be told exactly enough."""
Wrong = Callable[[Distribution, Distribution], Distribution]
"""What a wrong rule emits where the target has p and the drafter q."""


@dataclass(slots=True)
class Fit:
    """Sums over all prefixes. `shifts`: the noncentrality under each named wrong rule."""

    statistic: float = 0.0
    dof: int = 0
    shifts: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def limit(self) -> float:
        return stats.limit(self.dof) if self.dof else 0.0

    @property
    def passed(self) -> bool:
        """False also where nothing could be compared."""
        return self.dof > 0 and self.statistic <= self.limit

    @property
    def powers(self) -> dict[str, float]:
        """How likely the test calls each wrong rule wrong, if its streams come to these prefixes as often."""
        return {name: stats.power(self.dof, shift) for name, shift in self.shifts.items()} if self.dof else {}


def fit(streams: Sequence[Tokens], p_of: Belief, q_of: Belief | None, wrong: Mapping[str, Wrong]) -> Fit:
    """The test of all positions. A wrong rule that looks at q is left out where there is no q."""
    found = Fit()
    for prefix, counts in followers(streams).items():
        n = counts.total()
        p = p_of(prefix) if n >= 2 * stats.EXPECTED else None
        if p is None:
            continue
        groups = stats.bins(p, n)
        value = stats.statistic(counts, p, groups)
        if len(groups) < 2 and not math.isinf(value):
            continue
        found.statistic += value
        found.dof += max(len(groups) - 1, 1)
        q = q_of(prefix) if q_of else None
        for name, rule in wrong.items():
            emitted = rule(p, q if q is not None else p)
            shift = stats.noncentrality(p, emitted, groups, n)
            found.shifts[name] = found.shifts.get(name, 0.0) + shift
    return found


def followers(streams: Sequence[Tokens]) -> dict[Tokens, Counter[int]]:
    """How often each token came behind each prefix, shorter prefixes first."""
    counted: defaultdict[Tokens, Counter[int]] = defaultdict(Counter)
    for depth in range(max(map(len, streams), default=0)):
        for stream in streams:
            if depth < len(stream):
                counted[stream[:depth]][stream[depth]] += 1
    return dict(counted)


def argmax(p: Distribution, q: Distribution) -> Distribution:
    """Proposals are judged against the likeliest token, which is also what a rejection emits."""
    return {max(p, key=lambda token: p[token]): 1.0}


def resample_p(p: Distribution, q: Distribution) -> Distribution:
    """Modified rejection whose replacement comes from p without the proposal, not from the residual max(p - q, 0)."""
    emitted = {token: min(chance, q.get(token, 0.0)) for token, chance in p.items()}
    for proposal, chance in q.items():
        ours = p.get(proposal, 0.0)
        rejected = max(chance - ours, 0.0)
        for token in emitted if rejected else ():
            if token != proposal:
                emitted[token] += rejected * p[token] / (1 - ours)
    return emitted


WRONG: Mapping[str, Wrong] = {"argmax": argmax, "resample-p": resample_p}
