"""Evidence: how often proposals were right, by depth. Host arithmetic only: no array, no clock."""

import operator
from dataclasses import dataclass, field
from itertools import accumulate

DECAY = 0.95
"""Of a request's evidence, at every round."""
LONG_DECAY = 0.99
"""Of a drafter's evidence of all requests: several answers long."""
AGING = 0.98
"""Of a request's evidence, at every token that came without a draft: what was true of the text gets old."""
PRIOR_WEIGHT = 1.5
"""Tests that the prior counts for."""
GENERAL_WEIGHT = 4.0
"""Tests that what is known of other requests counts for."""


@dataclass(slots=True)
class Acceptance:
    """How likely a proposal of each depth is right, given that the ones before it are: decayed counts."""

    prior: float = 0.6
    right: list[float] = field(default_factory=list[float])
    tested: list[float] = field(default_factory=list[float])
    general: "Acceptance | None" = None
    """What is known of other requests: the prior of every depth, in the place of `prior`."""
    decay: float = DECAY

    @classmethod
    def of_all(cls) -> "Acceptance":
        """A drafter's account of all its requests."""
        return cls(decay=LONG_DECAY)

    def observe(self, tested: int, accepted: int) -> None:
        """A round, or a shadow look-up, that tested so many proposals in order."""
        if self.general is not None:
            self.general.observe(tested, accepted)
        while len(self.tested) < tested:
            self.tested.append(0.0)
            self.right.append(0.0)
        for i in range(tested):
            self.tested[i] = self.tested[i] * self.decay + 1.0
            self.right[i] = self.right[i] * self.decay + float(i < accepted)

    def age(self, tokens: int) -> None:
        """So many tokens came without a draft: the request falls back on what is known of others."""
        if self.general is not None:
            kept = AGING**tokens
            self.right = [right * kept for right in self.right]
            self.tested = [tested * kept for tested in self.tested]

    def reach(self, depth: int) -> list[float]:
        """The probability that proposals 1 … depth are accepted, cumulative."""
        return list(accumulate(self.steps(depth), operator.mul))

    def steps(self, depth: int) -> list[float]:
        """For each depth, the probability that its proposal is right if the ones before it are."""
        weight, priors = PRIOR_WEIGHT, [self.prior] * depth
        if self.general is not None:
            weight, priors = GENERAL_WEIGHT, self.general.steps(depth)
        pooled = (sum(self.right) + weight * (sum(priors) / depth if depth else 0.0)) / (sum(self.tested) + weight)
        steps: list[float] = []
        for i in range(depth):
            right, tested = (self.right[i], self.tested[i]) if i < len(self.tested) else (0.0, 0.0)
            prior = pooled if self.general is None else priors[i]
            steps.append((right + weight * prior) / (tested + weight))
        return steps
