"""From comparisons to a verdict: which differences are declared, which are not, which declarations are stale."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compat.library import Case, Divergence
from compat.shape import Comparison, Difference
from compat.texts import Agreement

ENOUGH_CASES = 0.9
"""Share of the greedy cases whose text must agree for at least `texts.ENOUGH` tokens."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference, and the id of the divergence that declares it (empty: none does)."""

    difference: Difference
    declared: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """`verdict` is `equal`, `declared`, `different` or `failed` (no answer came)."""

    case: str
    route: str
    verdict: str
    findings: tuple[Finding, ...] = ()
    failure: str = ""
    greedy: bool = False
    agreement: Agreement | None = None


@dataclass(frozen=True, slots=True)
class Report:
    outcomes: tuple[Outcome, ...]
    stale: tuple[str, ...]
    """Declared divergences that these cases should show and do not."""
    texts_agree: int = 0
    texts_seen: int = 0

    @property
    def ok(self) -> bool:
        return not self.stale and all(outcome.verdict in ("equal", "declared") for outcome in self.outcomes)

    @property
    def texts_ok(self) -> bool:
        return self.texts_agree >= ENOUGH_CASES * self.texts_seen


Seen = tuple[Case, Comparison | None, str]


def judge(seen: Iterable[Seen], declared: Sequence[Divergence], *, complete: bool) -> Report:
    """`complete`: all cases of a profile are there, so that a divergence none of them shows is stale."""
    outcomes = tuple(_outcome(case, comparison, failure, declared) for case, comparison, failure in seen)
    shown = {finding.declared for outcome in outcomes for finding in outcome.findings}
    due = [one.id for one in declared if any(one.concerns(outcome.case) for outcome in outcomes)]
    texts = [outcome.agreement for outcome in outcomes if outcome.greedy and outcome.agreement]
    return Report(
        outcomes,
        tuple(name for name in due if complete and name not in shown),
        sum(agreement.enough for agreement in texts),
        len(texts),
    )


def _outcome(case: Case, comparison: Comparison | None, failure: str, declared: Sequence[Divergence]) -> Outcome:
    if comparison is None:
        return Outcome(case.id, case.route, "failed", failure=failure, greedy=case.greedy)
    findings = tuple(Finding(one, _declaration(case.id, one, declared)) for one in comparison.differences)
    undeclared = any(not finding.declared for finding in findings)
    verdict = "different" if undeclared else "declared" if findings else "equal"
    return Outcome(case.id, case.route, verdict, findings, "", case.greedy, comparison.agreement)


def _declaration(case: str, difference: Difference, declared: Sequence[Divergence]) -> str:
    return next((one.id for one in declared if one.explains(case, difference)), "")
