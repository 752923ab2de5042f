"""Rehearsal: what ticks with a drafter cost, measured before the first request asks.

Without it the budget would take a drafter's own forwards to be free until it has seen some.
"""

from collections.abc import Sequence

import mlx.core as mx

from stoker.acceptance.verdict import Verdict
from stoker.core import clock
from stoker.core.request import Sampling
from stoker.models.target import Target
from stoker.rounds.base import Ask, Drafter, DraftSession, Opening, Proposal
from stoker.rounds.budget import Budget

PROMPT = 16
"""Columns that the rows hold."""
TRIALS = 2
"""The first one also compiles."""
GREEDY = Sampling(temperature=0)


def rehearse(budget: Budget, target: Target, drafter: Drafter, rows: Sequence[int], widths: Sequence[int]) -> None:
    """Ticks of so many rows at so many columns, in empty slots, which are empty again after it."""
    for count in rows:
        for width in widths:
            seconds = min(_tick(target, drafter, count, width) for _ in range(TRIALS))
            budget.observe(drafter.kind, count, width, seconds)


def _tick(target: Target, drafter: Drafter, rows: int, width: int) -> float:
    """Seconds of one draft and its verification."""
    slots = list(range(rows))
    sessions = [_session(target, drafter, slot) for slot in slots]
    begun = clock.now()
    asks = [Ask(session, 0, PROMPT, width - 1) for session in sessions]
    drafts = [_on_device(made) for made in drafter.propose(asks)]
    anchors = mx.zeros((rows, 1), mx.int32)
    shortest = min(draft.shape[0] for draft in drafts)
    ids = mx.concatenate([anchors, mx.stack([draft[:shortest] for draft in drafts])], axis=1)
    with target.verify(slots, ids, drafter.needs.capture) as seen:
        mx.eval(mx.argmax(seen.logits, axis=-1))
        seen.keep([1] * rows)
        features = {tap: stream[:, :1] for tap, stream in seen.features.items()}
    seconds = clock.now() - begun
    for slot, session in zip(slots, sessions, strict=True):
        session.observe(Verdict((0,), 0, 0), 0, {tap: stream[slot] for tap, stream in features.items()})
        session.close(0)
        target.truncate(slot, 0)
    return seconds


def _on_device(made: Proposal) -> mx.array:
    """Proposals as int32 [n]."""
    return made.tokens if isinstance(made.tokens, mx.array) else mx.array(list(made.tokens), mx.int32)


def _session(target: Target, drafter: Drafter, slot: int) -> DraftSession:
    """A row that has read a prompt of zeros."""
    session = drafter.open(Opening(-1 - slot, slot, (0,) * (PROMPT + 1), 0, GREEDY, drafter.width))
    with target.verify([slot], mx.zeros((1, PROMPT), mx.int32), drafter.needs.capture) as seen:
        seen.keep([PROMPT])
        mx.eval(seen.state)
    session.read(PROMPT, {tap: stream[0] for tap, stream in seen.features.items()})
    return session
