"""What acceptance should be: for each rule the probability that a proposal is accepted, given p and q.

    sum_prod   sum p·q                                   independent draws (sampler-match, coupling off)
    coupled    sum_x 1 / sum_y max(p_y/p_x, q_y/q_x)     draws that share their Gumbel noise (sampler-match)
    sum_min    sum min(p, q)                             modified rejection: the ceiling of every lossless rule
    argmax     q(argmax p)                               argmax against argmax, bounded by nothing

For distributions sum_prod <= coupled <= sum_min holds at every position; where it does not, p or q
is none. The numbers come from arrays (`rounds/agreement.py`); this file adds them up and judges.
Derivation: spec/drafters.md section 6, docs/speculative-acceptance.md.
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from stoker.acceptance.proposals import Proposals
from stoker.acceptance.select import Rule

SLACK = 1e-3
"""What rounding may cost the order: a float32 softmax over 49,152 tokens sums to 1 within 1e-4 only (MLX, CPU)."""


class Form(IntEnum):
    """A closed form, as an index into `ClosedForms`."""

    SUM_MIN = 0
    SUM_PROD = 1
    COUPLED = 2
    ARGMAX = 3

    @property
    def label(self) -> str:
        """Its name in the diagnostic line."""
        return f"closed_form_{self.name.lower()}"


class ClosedForms(NamedTuple):
    """Of one position, or averaged over several."""

    sum_min: float
    sum_prod: float
    coupled: float
    argmax: float

    @property
    def ordered(self) -> bool:
        """False where p or q cannot be a distribution; NaN is never in order."""
        return self.sum_prod <= self.coupled + SLACK and self.coupled <= self.sum_min + SLACK <= 1 + 2 * SLACK


def form_of(rule: Rule, proposals: Proposals) -> Form:
    """Where the acceptance that is measured under a rule belongs. For one-hot q all lossless forms coincide."""
    if rule is Rule.STOCHASTIC:
        return Form.SUM_MIN
    if rule is Rule.ARGMAX:
        return Form.ARGMAX
    return Form.COUPLED if proposals is Proposals.COUPLED else Form.SUM_PROD


@dataclass(slots=True)
class Averages:
    """Closed forms over the positions that were tested, and what was accepted there."""

    positions: int = 0
    accepted: int = 0
    violations: int = 0
    """Positions at which the order does not hold."""
    _sums: list[float] = field(default_factory=lambda: [0.0] * len(Form))
    _variances: list[float] = field(default_factory=lambda: [0.0] * len(Form))

    def add(self, forms: ClosedForms, *, accepted: bool) -> None:
        """One tested position."""
        self.positions += 1
        self.accepted += accepted
        self.violations += not forms.ordered
        for n, chance in enumerate(forms):
            self._sums[n] += chance
            self._variances[n] += chance * (1 - chance)

    @property
    def mean(self) -> ClosedForms:
        """Zeros where nothing was tested."""
        return ClosedForms(*(total / max(self.positions, 1) for total in self._sums))

    @property
    def measured(self) -> float:
        """`per_position_acceptance`, 0 where nothing was tested."""
        return self.accepted / max(self.positions, 1)

    def error(self, form: Form) -> float:
        """Standard error of `measured` if each position accepts with the probability that `form` gives it.

        The tests of a run are a martingale: whether a position is reached depends on earlier ones only,
        so variances add up although positions depend on one another.
        """
        return math.sqrt(max(self._variances[form], 0.0)) / max(self.positions, 1)
