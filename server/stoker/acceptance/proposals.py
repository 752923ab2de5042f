"""How a row's proposals are drawn: the third thing, after the rule and the counts, that a log line must say."""

from enum import StrEnum

from stoker.acceptance.select import Rule
from stoker.core.counters import Kind


class Proposals(StrEnum):
    """`proposals=` of the summary line."""

    COUPLED = "coupled"
    """With the noise of the target's own draw."""
    INDEPENDENT = "independent"
    """With noise of their own."""
    ONE_HOT = "one-hot"
    """Without chance: prompt lookup, and every drafter of a greedy request."""


def proposals(kind: Kind | None, rule: Rule, *, coupled: bool) -> Proposals:
    """`coupled` is the setting; under modified rejection shared noise would be biased, so it does not count there."""
    if kind is Kind.PROMPT_LOOKUP or rule is Rule.GREEDY:
        return Proposals.ONE_HOT
    return Proposals.COUPLED if coupled and rule is not Rule.STOCHASTIC else Proposals.INDEPENDENT
