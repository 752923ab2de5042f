"""Draft counters of one request. They are copied from verdicts, so they add up by construction."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The six drafters, by the name that `draft_kind` reports."""

    PROMPT_LOOKUP = "prompt-lookup"
    DRAFT_MODEL = "draft-model"
    MTP = "mtp"
    DFLASH = "dflash"
    GLIMMER = "glimmer"
    DSPARK = "dspark"


class DraftOff(StrEnum):
    """Why a request was not drafted."""

    NO_DRAFTER = "no_drafter"
    DISABLED = "disabled"
    """The request said `"speculative": {"kind": "none"}` or `"n_max": 0`."""
    SAMPLER = "sampler"
    """Its sampler carries state from token to token, or its rule forbids drafting."""
    GRAMMAR = "grammar"
    """Its grammar forbids what was proposed."""
    BATCH = "batch"
    """It would pay alone, but not among so many rows."""
    INEXACT = "inexact"
    """No width passes the exactness probe."""
    DOES_NOT_PAY = "does_not_pay"
    NO_PROPOSAL = "no_proposal"
    """The drafter had nothing to propose, or there was no room for it."""
    FAULT = "fault"
    """The drafter failed on this request."""


@dataclass(frozen=True, slots=True)
class RoundCount:
    """One verify round of one row: its own proposals (never the tick's padding), how many were tested and accepted."""

    proposed: int
    tested: int
    accepted: int


@dataclass(slots=True)
class DraftCounters:
    """Sums over a request's verify rounds; `add` is the only way they grow."""

    proposed: int = 0
    tested: int = 0
    accepted: int = 0
    rounds: int = 0
    by_position: tuple[int, ...] = ()
    """Accepted proposals at depth 0, 1, …"""

    def add(self, count: RoundCount, delivered: int) -> None:
        """A round of which `delivered` tokens reached the client: what was cut away is not counted as accepted."""
        accepted = min(count.accepted, delivered)
        self.proposed += count.proposed
        self.tested += min(count.tested, delivered)
        self.accepted += accepted
        self.rounds += 1
        depth = max(len(self.by_position), accepted)
        padded = (*self.by_position, *[0] * (depth - len(self.by_position)))
        self.by_position = tuple(n + (place < accepted) for place, n in enumerate(padded))

    def summary(self, kind: Kind | None) -> "DraftSummary | None":
        """What the client is told; None if no round ran."""
        if kind is None or not self.rounds:
            return None
        return DraftSummary(kind, self.proposed, self.tested, self.accepted, self.rounds)


@dataclass(frozen=True, slots=True)
class DraftSummary:
    """What speculation did for a request: only a request that ran a verify round has one."""

    kind: Kind
    proposed: int
    tested: int
    accepted: int
    rounds: int


def log_fields(draft: DraftSummary | None, off: DraftOff | None, rule: str) -> str:
    """What a request's log line says of its drafting, as words with a blank before each."""
    if draft is None:
        return f" off={off}" if off else ""
    counts = f"rounds={draft.rounds} proposed={draft.proposed} tested={draft.tested} accepted={draft.accepted}"
    return f" draft={draft.kind}{f' rule={rule}' if rule else ''} {counts}"
