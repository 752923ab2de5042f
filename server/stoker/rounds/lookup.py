"""Prompt lookup: proposes what followed the last few tokens when they stood in the text before.

Deterministic, so its q is one-hot and sampler-match is also the rule with the highest acceptance.
Costs no forward: an index look-up on the host. The governor decides about yield
(`acceptance/governor.py`); a paused row goes on indexing and looks up in its shadow.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoker.acceptance.governor import Governor
from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.rounds.base import Ask, Features, Needs, Opening, Proposal
from stoker.rounds.evidence import Acceptance
from stoker.rounds.ngrams import Ngrams, Sizes


class LookupSession:
    """One request's index and governor."""

    def __init__(self, opening: Opening, sizes: Sizes, governor: Governor) -> None:
        self._most, self._governor = opening.most, governor
        self._index = Ngrams(sizes, opening.prompt)
        self._found = self._index.look_up()
        self._acceptance = Acceptance()

    @property
    def wants_round(self) -> bool:
        return bool(self._found) and self._governor.width > 0

    @property
    def off(self) -> DraftOff | None:
        return DraftOff.DOES_NOT_PAY if self._governor.paused else None

    def reach(self, limit: int) -> Sequence[float]:
        return self._acceptance.reach(len(self.propose(limit)))

    def propose(self, limit: int) -> Proposal:
        return Proposal(tuple(self._found[: min(limit, self._most, self._governor.width)]), one_hot=True)

    def read(self, stop: int, features: Features) -> None:
        """The whole prompt is indexed at the start."""

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        if proposed:
            self._governor.observe(verdict.accepted)
            self._acceptance.observe(verdict.tested, verdict.accepted)
        elif self._found:
            self._shadow(verdict.emitted)
        self._index.extend(verdict.emitted)
        self._found = self._index.look_up()

    def _shadow(self, emitted: Sequence[int]) -> None:
        """A plain round although something was found: was it right? The budget and a paused governor listen."""
        matches = _leading_matches(self._found, emitted)
        self._acceptance.observe(min(len(self._found), matches + 1, len(emitted)), matches)
        self._governor.passed(matches)

    def close(self, keep: int) -> None:
        """Nothing outlives the request."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The drafter. `governor` makes a request's governor from the most proposals a round may hold."""

    sizes: Sizes
    governor: Callable[[int], Governor]

    @property
    def kind(self) -> Kind:
        return Kind.PROMPT_LOOKUP

    @property
    def needs(self) -> Needs:
        return Needs()

    @property
    def width(self) -> int:
        return self.sizes.most

    @property
    def has_q(self) -> bool:
        return True

    def open(self, opening: Opening) -> LookupSession:
        return LookupSession(opening, self.sizes, self.governor(opening.most))

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        return [_mine(ask).propose(ask.limit) for ask in asks]


def _mine(ask: Ask) -> LookupSession:
    if not isinstance(ask.session, LookupSession):
        raise TypeError(f"{type(ask.session).__name__} is no session of prompt lookup")
    return ask.session


def _leading_matches(found: Sequence[int], emitted: Sequence[int]) -> int:
    """Tokens that a shadow look-up had right, up to the first wrong one."""
    matches = 0
    for said, token in zip(found, emitted, strict=False):
        if said != token:
            break
        matches += 1
    return matches
