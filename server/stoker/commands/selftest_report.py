"""What was found, as a table and as JSON."""

import math
from collections.abc import Sequence
from typing import Any

from stoker.commands.selftest_checks import Result

HEADS = ("drafter", "rule", "proposals", "check", "result", "statistic", "limit", "dof", "n", "accepted", "power")
RIGHT = frozenset({"statistic", "limit", "dof", "n", "accepted"})


def table(results: Sequence[Result]) -> str:
    """One line a check; `power` is the probability that it calls the named wrong rule wrong."""
    rows = [HEADS, *(_cells(result) for result in results)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(HEADS))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if head in RIGHT else cell.ljust(width)
            for cell, width, head in zip(row, widths, HEADS, strict=True)
        ).rstrip()
        for row in rows
    )


def notes(results: Sequence[Result]) -> list[str]:
    """A line for each check that has more to say."""
    return [f"{result.arm.name}, {result.check}: {result.note}" for result in results if result.note]


def verdict(results: Sequence[Result], seconds: float) -> str:
    passed = sum(result.passed for result in results)
    word = "passed" if passed == len(results) else "FAILED"
    return f"selftest {word}: {passed} of {len(results)} checks in {seconds:.0f} s"


def as_json(results: Sequence[Result], facts: dict[str, Any]) -> dict[str, Any]:
    """Everything in the table, unrounded. A statistic is null where a token came that p rules out."""
    return {**facts, "passed": all(result.passed for result in results), "checks": [_json(it) for it in results]}


def _cells(result: Result) -> tuple[str, ...]:
    exact = not result.dof
    acceptance = result.acceptance
    return (
        str(result.arm.kind),
        str(result.arm.rule) + (f" ({result.arm.injected})" if result.arm.injected else ""),
        result.arm.proposals,
        result.check,
        "pass" if result.passed else "FAIL",
        f"{result.statistic:.0f}" if exact else f"{result.statistic:.2f}",
        f"{result.limit:.0f}" if exact else f"{result.limit:.2f}",
        "" if exact else str(result.dof),
        str(result.n),
        "" if acceptance is None else f"{acceptance:.4f}",
        ", ".join(f"{name} {value:.4f}" for name, value in result.powers.items()),
    )


def _json(result: Result) -> dict[str, Any]:
    return {
        "drafter": str(result.arm.kind),
        "rule": str(result.arm.rule),
        "injected": result.arm.injected or None,
        "proposals": result.arm.proposals,
        "check": result.check,
        "passed": result.passed,
        "statistic": None if math.isinf(result.statistic) else result.statistic,
        "limit": result.limit,
        "dof": result.dof,
        "n": result.n,
        "tested": result.tested,
        "accepted": result.accepted,
        "power": result.powers,
        "note": result.note,
    }
