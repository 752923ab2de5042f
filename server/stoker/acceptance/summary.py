"""The lines that say how speculation went: golden text, its fields in the order of the mission's document.

    [Speculative acceptance] rule=sampler-match rounds=61 … proposals=coupled (…)
    [Speculative acceptance diagnostic] closed_form_sum_min=0.7302 … (…)

spec/speculative-acceptance.md, "Reading the rule off a run".
"""

from dataclasses import dataclass

from stoker.acceptance.closed_forms import Averages, Form, form_of
from stoker.acceptance.proposals import Proposals
from stoker.acceptance.select import Rule
from stoker.core.counters import DraftCounters

_MEANING = {
    Rule.GREEDY: "greedy argmax (a proposal stands if it is the target's argmax)",
    Rule.MATCH: "sampler-match (a proposal stands if it is the target's own draw)",
    Rule.STOCHASTIC: "stochastic (modified rejection sampling)",
    Rule.ARGMAX: "argmax against argmax (biased: the stream is the target's greedy one)",
    Rule.MATCH_WITHOUT_Q: "sampler-match (stochastic was asked for, the drafter cannot say what it drew from)",
}
_PLACE = {
    Form.SUM_MIN: "sum_min",
    Form.SUM_PROD: "sum_prod",
    Form.COUPLED: "coupled",
    Form.ARGMAX: "argmax, the drafter's probability of the target's argmax",
}


@dataclass(frozen=True, slots=True)
class Run:
    """What judged a run, and how its proposals were drawn."""

    rule: Rule
    proposals: Proposals

    @property
    def form(self) -> Form:
        """The closed form that its acceptance must sit at."""
        return form_of(self.rule, self.proposals)


def fields(run: Run, counted: DraftCounters) -> str:
    """The summary's fields, without its head and its explanation. Rates are 0 where nothing was counted."""
    return (
        f"rule={run.rule} rounds={counted.rounds} proposed={counted.proposed} "
        f"positions_tested={counted.tested} accepted={counted.accepted} "
        f"per_position_acceptance={_rate(counted.accepted, counted.tested)} "
        f"acceptance_rate={_rate(counted.accepted, counted.proposed)} "
        f"mean_accepted_len={_rate(counted.accepted, counted.rounds)} proposals={run.proposals}"
    )


def summary(run: Run, counted: DraftCounters) -> str:
    """The line that follows every speculative run."""
    return f"[Speculative acceptance] {fields(run, counted)} ({_MEANING[run.rule]})"


def diagnostic(run: Run, averages: Averages) -> str:
    """The second line. It says where the first one's `per_position_acceptance` belongs, and whether p and q hold."""
    mean = averages.mean
    shown = [form for form in Form if form is not Form.ARGMAX or run.rule is Rule.ARGMAX]
    values = " ".join(f"{form.label}={mean[form]:.4f}" for form in shown)
    return f"[Speculative acceptance diagnostic] {values} ({_verdict(run, averages)})"


def _verdict(run: Run, averages: Averages) -> str:
    place = f"the measured per-position acceptance of this run belongs at {_PLACE[run.form]}"
    if averages.violations:
        return (
            f"{place}; ORDER VIOLATED at {averages.violations} of {averages.positions} positions: "
            "sum_prod <= coupled <= sum_min must hold, so p or q is no distribution"
        )
    return f"{place}; sum_prod <= coupled <= sum_min always"


def _rate(part: int, whole: int) -> str:
    return f"{part / whole if whole else 0.0:.4f}"
