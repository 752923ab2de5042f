"""Which rule judges a request's rounds: one table over six kinds and four settings.

| | greedy | sampler-match (default) | stochastic | argmax |
|---|---|---|---|---|
| prompt-lookup | greedy-argmax | sampler-match | sampler-match | sampler-match, warned |
| draft-model | greedy-argmax | sampler-match | stochastic | sampler-match, warned |
| mtp, dflash, glimmer | greedy-argmax | sampler-match | stochastic | argmax (biased) |
| dspark | greedy-argmax | sampler-match | stochastic | no drafting, warned |

A request is greedy when its p is one-hot (temperature 0 or top_k 1), whatever the setting: then no
distribution is built. Prompt lookup's q is one-hot on its proposal, where both lossless rules
accept with the same probability p(d); there is nothing to opt into.
"""

from dataclasses import dataclass
from enum import StrEnum

from stoker.core.counters import Kind


class Setting(StrEnum):
    """What `--accept-rule` says about requests that sample."""

    MATCH = "sampler-match"
    STOCHASTIC = "stochastic"
    ARGMAX = "argmax"


class Rule(StrEnum):
    """The rule's stable name in `rule=` of the summary line."""

    GREEDY = "greedy-argmax"
    MATCH = "sampler-match"
    STOCHASTIC = "stochastic"
    ARGMAX = "argmax"
    MATCH_WITHOUT_Q = "sampler-match-no-proposal-distribution"


@dataclass(frozen=True, slots=True)
class Selected:
    """`rule` None: the request steps plainly. `warning`, if any, is said once per kind."""

    rule: Rule | None
    warning: str = ""

    @property
    def lossless(self) -> bool:
        return self.rule is not Rule.ARGMAX


_LOOKUP = "prompt lookup keeps sampler-match under --accept-rule argmax: its proposals are judged against draws from p"
_MODEL = "a draft model keeps sampler-match under --accept-rule argmax: that rule belongs to block drafters and MTP"
_DSPARK = (
    "dspark does not draft at temperature > 0 under --accept-rule argmax: "
    "its chain was trained against greedy targets; such requests step plainly"
)

_STOCHASTIC = {
    Kind.PROMPT_LOOKUP: Selected(Rule.MATCH),
    Kind.DRAFT_MODEL: Selected(Rule.STOCHASTIC),
    Kind.MTP: Selected(Rule.STOCHASTIC),
    Kind.DFLASH: Selected(Rule.STOCHASTIC),
    Kind.GLIMMER: Selected(Rule.STOCHASTIC),
    Kind.DSPARK: Selected(Rule.STOCHASTIC),
}
_ARGMAX = {
    Kind.PROMPT_LOOKUP: Selected(Rule.MATCH, _LOOKUP),
    Kind.DRAFT_MODEL: Selected(Rule.MATCH, _MODEL),
    Kind.MTP: Selected(Rule.ARGMAX),
    Kind.DFLASH: Selected(Rule.ARGMAX),
    Kind.GLIMMER: Selected(Rule.ARGMAX),
    Kind.DSPARK: Selected(None, _DSPARK),
}


def select(kind: Kind, setting: Setting, *, greedy: bool, has_q: bool = True) -> Selected:
    """The rule of a request that `kind` drafts for. `has_q`: its drafter can say what it drew from."""
    if greedy:
        return Selected(Rule.GREEDY)
    if setting is Setting.MATCH:
        return Selected(Rule.MATCH)
    if setting is Setting.ARGMAX:
        return _ARGMAX[kind]
    selected = _STOCHASTIC[kind]
    if selected.rule is Rule.STOCHASTIC and not has_q:
        return Selected(Rule.MATCH_WITHOUT_Q)
    return selected
