"""From what the command line says about drafting to a `Speculation`: builds the drafter, probes, measures."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx

from stoker.core import clock
from stoker.core.counters import Kind
from stoker.models.exactness_gate import Exactness, Mode, establish
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.base import Drafter
from stoker.rounds.budget import Budget
from stoker.rounds.diagnostic import Diagnostic
from stoker.rounds.kinds import Built, Order, Subject, build, settle
from stoker.rounds.memory import Memory
from stoker.rounds.rehearsal import PROMPT, rehearse
from stoker.rounds.speculator import Speculation

log = logging.getLogger(__name__)

COMPANY = 8
"""Rows, at most, of which a forward is measured at the start."""
TRIALS = 3
STEPS = 4
"""Plain ticks of a trial."""
WIDEST = 16
"""Columns beyond which no forward is probed, and so none is made: a start must not wait for them."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """How the server speculates, and the widths that it may use (None: nothing drafts, nothing was probed)."""

    speculation: Speculation
    exactness: Exactness | None = None
    budget: Budget | None = None
    drafting: Drafting = field(default_factory=Drafting)
    """What was asked for, its kind settled."""

    @property
    def bytes_per_column(self) -> int:
        """What drafters keep beside each column of a slot."""
        return sum(companion.bytes_per_column for companion in self.speculation.companions)


def assemble(
    drafting: Drafting, subject: Subject, memory: Memory, *, find: Callable[[Drafting], Path | None]
) -> Assembled:
    """Builds the drafter that was asked for. `find` gives the path of its checkpoint, if it needs one.

    Raises StartError where it cannot work with the target.
    """
    if drafting.kind is None:
        return Assembled(Speculation(setting=drafting.rule, coupled=drafting.coupled), drafting=drafting)
    target = subject.target
    path = None if drafting.kind is Kind.PROMPT_LOOKUP else find(drafting)
    drafting, built = _built(drafting, subject, path)
    drafter, memory = built.drafter, memory.beside(path)
    exactness = establish(Mode(drafting.exactness), target, min(drafter.width + 1, WIDEST), memory.exactness)
    for line in exactness.lines():
        log.info(line)
    budget = memory.budget()
    if not budget.cost("", 1, 1):
        seed(budget, target, exactness.widest(drafter.width + 1))
    if built.acceptance is not None:
        budget.adopt(drafter.kind, built.acceptance, min(drafter.width, exactness.widest(drafter.width + 1) - 1))
    _rehearse(budget, target, drafter, exactness.widest(drafter.width + 1))
    speculation = Speculation(
        drafters={drafter.kind: drafter},
        default=drafter.kind,
        setting=drafting.rule,
        coupled=drafting.coupled,
        least=drafting.least,
        widest=exactness.widest,
        budget=budget,
        remember=memory.keep,
        diagnostic=Diagnostic(coupled=drafting.coupled) if drafting.diagnostic else None,
        companions=built.companions,
    )
    return Assembled(speculation, exactness, budget, drafting)


def _built(drafting: Drafting, subject: Subject, path: Path | None) -> tuple[Drafting, Built]:
    """The drafter, and what it turned out to be. Its load time is logged and stands in no request's timings."""
    begun = clock.now()
    settled = settle(drafting, path)
    built = build(Order(settled, subject, path))
    if path is not None:
        log.info("drafter loaded: %s %s in %.0f ms", settled.kind, path, 1e3 * (clock.now() - begun))
    return settled, built


def _rehearse(budget: Budget, target: Target, drafter: Drafter, widest: int) -> None:
    """Ticks with the drafter's own forwards, where they were never measured."""
    known = not drafter.needs.forwards or drafter.kind in budget.tables
    if known or widest < 2 or target.context < PROMPT + widest:
        return
    rows = sorted({1, min(target.slots, COMPANY)})
    rehearse(budget, target, drafter, rows, sorted({2, widest}))
    for shape, cell in budget.tables[drafter.kind].cells.items():
        log.info("budget: %s, %d rows x %d columns take %.1f ms", drafter.kind, *shape, 1e3 * cell.seconds)


def seed(budget: Budget, target: Target, width: int) -> None:
    """Measures the four corners of what ticks can be: one row and all, plain and as wide as it gets."""
    for rows in sorted({1, min(target.slots, COMPANY)}):
        for columns in sorted({1, width}):
            seconds = min(_seconds(target, rows, columns) for _ in range(TRIALS))
            budget.observe("", rows, columns, seconds)
            log.info("budget: %d rows x %d columns take %.1f ms", rows, columns, 1e3 * seconds)


def _seconds(target: Target, rows: int, columns: int) -> float:
    if columns == 1:
        return _plain_seconds(target, rows)
    begun = clock.now()
    with target.verify(range(rows), mx.zeros((rows, columns), mx.int32)) as seen:
        mx.eval(seen.logits)
    return clock.now() - begun


def _plain_seconds(target: Target, rows: int) -> float:
    """Of one plain tick among others: each is built while the one before it runs."""
    tokens, steps = mx.zeros((rows, 1), mx.int32), min(STEPS, target.context)
    begun = clock.now()
    for _ in range(steps):
        before = tokens
        with target.verify(range(rows), tokens) as seen:
            tokens = mx.argmax(seen.logits, axis=-1).astype(mx.int32)
            seen.keep([1] * rows)
        mx.async_eval(tokens)
        mx.eval(before)
    mx.eval(tokens)
    spent = clock.now() - begun
    for slot in range(rows):
        target.truncate(slot, 0)
    return spent / steps
