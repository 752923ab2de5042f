"""Draft counters of one request. They are copied from verdicts, so they add up by construction."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftSummary:
    """What speculation did for a request: only a request that ran a verify round has one."""

    kind: str
    proposed: int
    accepted: int
    rounds: int
