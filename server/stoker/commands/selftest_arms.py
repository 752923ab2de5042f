"""What there is to test: each drafter with each of its rules, right or wrong on purpose."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from stoker.acceptance.governor import Graded
from stoker.acceptance.select import Rule, Setting
from stoker.commands.selftest_inject import Disguised, Reticent
from stoker.core.counters import Kind
from stoker.rounds.base import Drafter
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation

MOST = 2
"""Proposals a round holds."""
BIASED = Kind.DFLASH
"""A kind for which the table of rules allows the argmax rule."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A drafter and the rule that judges its proposals."""

    kind: Kind
    rule: Rule
    proposals: str
    """How proposals are drawn: `coupled`, `independent`, `one-hot`; `greedy` where nothing is drawn."""
    how: Speculation
    injected: str = ""
    """The wrong rule that runs instead, if any."""
    number: int = 0
    """Arms of different numbers draw with different seeds where their distributions are tested."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.rule} {self.proposals}"


def lookup() -> Lookup:
    return Lookup(Sizes(most=MOST), Graded)


def arms(
    drafters: Mapping[Kind, Drafter], inject: str = "", widest: Callable[[int], int] = lambda width: width
) -> list[Arm]:
    """Every drafter with every lossless rule that it has; `inject` names the wrong rule to put in place of some.

    `widest` is `Speculation.widest`.
    """
    found: list[Arm] = []
    for kind, drafter in drafters.items():
        how = Speculation({kind: drafter}, kind, widest=widest)
        if kind is Kind.PROMPT_LOOKUP:
            found.append(Arm(kind, Rule.MATCH, "one-hot", how))
        else:
            found.append(Arm(kind, Rule.MATCH, "coupled", how))
            found.append(Arm(kind, Rule.MATCH, "independent", replace(how, coupled=False)))
            found.append(Arm(kind, Rule.STOCHASTIC, "independent", replace(how, setting=Setting.STOCHASTIC)))
        found.append(Arm(kind, Rule.GREEDY, "greedy", how))
    return [replace(_wrong(arm, inject), number=number) for number, arm in enumerate(found)]


def _wrong(arm: Arm, inject: str) -> Arm:
    """The arm with the wrong rule in its place, where that can be."""
    drafter = arm.how.drafters[arm.kind]
    if inject == "argmax" and arm.rule is not Rule.GREEDY:
        disguised = {BIASED: Disguised(drafter, BIASED)}
        how = replace(arm.how, drafters=disguised, default=BIASED, setting=Setting.ARGMAX)
        return replace(arm, how=how, injected=inject)
    if inject == "resample-p" and arm.rule is Rule.STOCHASTIC:
        how = replace(arm.how, drafters={arm.kind: Reticent(drafter, arm.kind)})
        return replace(arm, how=how, injected=inject)
    return arm
