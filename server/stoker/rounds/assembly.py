"""From what the command line says about drafting to a `Speculation`: loads the drafter, probes, measures."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from stoker.acceptance.governor import Gated, Governor, Graded
from stoker.core import clock
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.detect import inspect
from stoker.models.exactness_gate import Exactness, Mode, establish
from stoker.models.load import load
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.base import Drafter
from stoker.rounds.budget import Budget
from stoker.rounds.diagnostic import Diagnostic
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.lookup import Lookup
from stoker.rounds.memory import Memory
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation
from stoker.text.tokenizer import from_source

log = logging.getLogger(__name__)

COMPANY = 8
"""Rows, at most, of which a forward is measured at the start."""
TRIALS = 3
WIDEST = 16
"""Columns beyond which no forward is probed, and so none is made: a start must not wait for them."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """How the server speculates, and the widths that it may use (None: nothing drafts, nothing was probed)."""

    speculation: Speculation
    exactness: Exactness | None = None
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is drafted for."""

    target: Target
    pieces: Sequence[bytes]
    """The text of each token, which a draft model must share."""


def assemble(drafting: Drafting, subject: Subject, memory: Memory, *, find: Callable[[Drafting], Path]) -> Assembled:
    """Builds the drafter that was asked for. `find` gives the path of a drafter's checkpoint.

    Raises StartError where it cannot work with the target.
    """
    if drafting.kind is None:
        return Assembled(Speculation(setting=drafting.rule, coupled=drafting.coupled))
    target = subject.target
    drafter = _drafter(drafting, subject, find)
    exactness = establish(Mode(drafting.exactness), target, min(drafter.width + 1, WIDEST), memory.exactness)
    for line in exactness.lines():
        log.info(line)
    budget = memory.budget()
    if not budget.cost("", 1, 1):
        seed(budget, target, exactness.widest(drafter.width + 1))
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
    )
    return Assembled(speculation, exactness, budget)


def seed(budget: Budget, target: Target, width: int) -> None:
    """Measures the four corners of what ticks can be: one row and all, plain and as wide as it gets."""
    for rows in sorted({1, min(target.slots, COMPANY)}):
        for columns in sorted({1, width}):
            seconds = min(_seconds(target, rows, columns) for _ in range(TRIALS))
            budget.observe("", rows, columns, seconds)
            log.info("budget: %d rows x %d columns take %.1f ms", rows, columns, 1e3 * seconds)


def _seconds(target: Target, rows: int, columns: int) -> float:
    begun = clock.now()
    with target.verify(range(rows), mx.zeros((rows, columns), mx.int32)) as seen:
        mx.eval(seen.logits)
    return clock.now() - begun


def _drafter(drafting: Drafting, subject: Subject, find: Callable[[Drafting], Path]) -> Drafter:
    if drafting.kind is Kind.PROMPT_LOOKUP:
        return lookup(drafting)
    if drafting.kind is Kind.DRAFT_MODEL:
        return draft_model(drafting, subject, find(drafting))
    raise StartError(f"--draft-kind {drafting.kind} is not built yet: prompt-lookup and draft-model are")


def lookup(drafting: Drafting, *, floor: bool = True) -> Lookup:
    """Prompt lookup with the governor of the backend. `floor` False: that of the command line's generate."""
    try:
        sizes = Sizes(drafting.ngram_max, drafting.ngram_min, drafting.most, drafting.min_hits)
    except ValueError as error:
        raise StartError(f"prompt lookup: {error}") from None

    def governor(most: int) -> Governor:
        if not mx.cuda.is_available():
            return Graded(most)
        return Gated(most) if floor and drafting.adaptive else Gated(most, floor=0.0)

    return Lookup(sizes, governor)


def draft_model(drafting: Drafting, subject: Subject, path: Path) -> DraftModel:
    """Loads a draft model; its load time is logged and stands in no request's timings.

    Raises StartError for a checkpoint of another kind, or one that does not share the target's vocabulary.
    """
    begun, target = clock.now(), subject.target
    found = inspect(path)
    if not found.standalone:
        raise StartError(f"{path} is a {found.kind} drafter ({found.evidence}): such drafters are not built yet")
    loaded = load(str(path))
    model = Target(loaded.model, target.slots, target.context)
    theirs = from_source(loaded.tokenizer).pieces
    if model.vocab == target.vocab and theirs != list(subject.pieces):
        raise StartError(f"{path} has other tokens than the target: a draft model must share its vocabulary")
    drafter = DraftModel(model, target, most=drafting.most, least_p=drafting.p_min)
    log.info("drafter loaded: draft-model %s in %.0f ms", path, 1e3 * (clock.now() - begun))
    return drafter
