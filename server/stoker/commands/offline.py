"""What the offline commands share: an engine without a server, and the loop that plays the scheduler for it.

The rounds are the server's own: this only makes plans and collects outcomes.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from stoker.core.errors import StartError
from stoker.core.request import Sampling, Speculation
from stoker.core.work import Join, Outcome, Plan, PrefillWork, Release, StepWork, Ticker
from stoker.scheduler.drafted import Drafted

CHUNK = 512
"""Prompt tokens of one forward."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A prompt to continue by `count` tokens at most, at least 1."""

    prompt: tuple[int, ...]
    count: int
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(slots=True)
class Answer:
    """What became of a wish."""

    tokens: list[int] = field(default_factory=list[int])
    drafted: Drafted = field(default_factory=lambda: Drafted(Speculation()))
    ended: bool = False
    """True once nothing more will come."""


Hear = Callable[[int, Sequence[int]], None]
"""Told of a wish's number and its new tokens, at every round."""


def play(
    engine: Ticker, wishes: Sequence[Wish], ends: Collection[int] = frozenset(), hear: Hear | None = None
) -> list[Answer]:
    """Answers the wishes side by side, wish n in slot n, which is empty afterwards. `ends`: tokens that end an answer.

    Raises StartError where a round fails.
    """
    game = _Game(wishes, ends, hear)
    try:
        engine.tick(Plan(join=tuple(game.joins())))
        while plan := game.plan():
            for outcome in engine.tick(plan):
                game.take(outcome)
    finally:
        engine.tick(Plan(release=tuple(Release(n, 0) for n in range(len(wishes)))))
    return game.answers


class _Game:
    def __init__(self, wishes: Sequence[Wish], ends: Collection[int], hear: Hear | None) -> None:
        self._wishes, self._ends, self._hear = wishes, ends, hear
        self._read = [0] * len(wishes)
        """Prompt tokens that have been run."""
        self.answers = [Answer() for _ in wishes]

    def joins(self) -> Iterator[Join]:
        for n, wish in enumerate(self._wishes):
            yield Join(n, n, wish.prompt, 0, wish.sampling)

    def plan(self) -> Plan | None:
        """The next tick's orders; None when every answer has ended."""
        open_ones = [n for n, answer in enumerate(self.answers) if not answer.ended]
        if not open_ones:
            return None
        # The last prompt token is the anchor of the first round.
        reading = [n for n in open_ones if self._read[n] < len(self._wishes[n].prompt) - 1]
        return Plan(
            prefill=tuple(PrefillWork(n, min(self._read[n] + CHUNK, len(self._wishes[n].prompt) - 1)) for n in reading),
            step=tuple(StepWork(n, self._left(n)) for n in open_ones if n not in reading),
        )

    def take(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            raise StartError(f"the run failed: {outcome.error}") from outcome.error
        n, answer = outcome.id, self.answers[outcome.id]
        if outcome.processed:
            self._read[n] = outcome.processed
            return
        answer.drafted.see(outcome)
        answer.drafted.count(outcome, len(outcome.tokens))
        answer.tokens += outcome.tokens
        answer.ended = self._left(n) <= 0 or answer.tokens[-1] in self._ends
        if self._hear is not None:
            self._hear(n, outcome.tokens)

    def _left(self, n: int) -> int:
        return self._wishes[n].count - len(self.answers[n].tokens)
