"""A verdict as lines for a person."""

import json
from collections.abc import Iterator

from compat.answer import Json
from compat.texts import ENOUGH, Agreement
from compat.verdict import Outcome, Report


def lines(report: Report, *, with_text: bool) -> str:
    """The whole table: one line a case, its undeclared differences below it, and the sums at the end."""
    return "\n".join(_lines(report, with_text))


def _lines(report: Report, with_text: bool) -> Iterator[str]:
    wide = max((len(outcome.case) for outcome in report.outcomes), default=4)
    for outcome in report.outcomes:
        yield f"{outcome.case:{wide}}  {outcome.verdict:9}  {_summary(outcome, with_text)}".rstrip()
        for finding in outcome.findings:
            if not finding.declared:
                one = finding.difference
                yield f"    {one.kind:7} {one.path}: expected {_short(one.expected)}, got {_short(one.got)}"
    for name in report.stale:
        yield f"stale: no case shows the declared divergence {name} any more"
    counts = {verdict: sum(outcome.verdict == verdict for outcome in report.outcomes) for verdict in _VERDICTS}
    yield f"{len(report.outcomes)} cases: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    if with_text:
        yield f"greedy texts: {report.texts_agree} of {report.texts_seen} agree for {ENOUGH} tokens or to their end"


_VERDICTS = ("equal", "declared", "different", "failed")


def _summary(outcome: Outcome, with_text: bool) -> str:
    parts = [outcome.failure, " ".join(sorted({found.declared for found in outcome.findings if found.declared}))]
    if with_text and outcome.greedy and outcome.agreement:
        parts.append(_agreement(outcome.agreement))
    return "  ".join(part for part in parts if part)


def _agreement(told: Agreement) -> str:
    if told.text_equal:
        return f"text equal ({told.tokens} tokens)"
    short = "" if told.enough else ", TOO FEW"
    gap = "" if told.gap is None else f", the two logits {told.gap:.3f} apart"
    return f"text agrees for {told.first_divergence} of {told.tokens} tokens{short}{gap}: {told.got[:80]!r}"


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."
