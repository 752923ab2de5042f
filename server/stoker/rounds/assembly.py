"""From what the command line says about drafting to a `Speculation`: loads the drafter, probes, measures."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx

from stoker.acceptance.governor import Gated, Governor, Graded
from stoker.core import clock
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.exactness_gate import Exactness, Mode, establish
from stoker.models.exactness_store import Store
from stoker.models.load import load
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.base import Drafter
from stoker.rounds.budget import Budget
from stoker.rounds.diagnostic import Diagnostic
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation

log = logging.getLogger(__name__)

WIDEST = 16
"""Columns beyond which no forward is probed, and so none is made: a start must not wait for them."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """How the server speculates, and the widths that it may use (None: nothing drafts, nothing was probed)."""

    speculation: Speculation
    exactness: Exactness | None = None
    budget: Budget | None = None


def assemble(drafting: Drafting, target: Target, store: Store, *, find: Callable[[Drafting], Path]) -> Assembled:
    """Builds the drafter that was asked for. `find` gives the path of a drafter's checkpoint.

    Raises StartError where it cannot work with the target.
    """
    if drafting.kind is None:
        return Assembled(Speculation(setting=drafting.rule, coupled=drafting.coupled))
    drafter = _drafter(drafting, target, find)
    exactness = establish(Mode(drafting.exactness), target, min(drafter.width + 1, WIDEST), store)
    for line in exactness.lines():
        log.info(line)
    budget = Budget()
    speculation = Speculation(
        drafters={drafter.kind: drafter},
        default=drafter.kind,
        setting=drafting.rule,
        coupled=drafting.coupled,
        least=drafting.least,
        widest=exactness.widest,
        budget=budget,
        diagnostic=Diagnostic(coupled=drafting.coupled) if drafting.diagnostic else None,
    )
    return Assembled(speculation, exactness, budget)


def _drafter(drafting: Drafting, target: Target, find: Callable[[Drafting], Path]) -> Drafter:
    if drafting.kind is Kind.PROMPT_LOOKUP:
        return lookup(drafting)
    if drafting.kind is Kind.DRAFT_MODEL:
        return draft_model(drafting, target, find(drafting))
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


def draft_model(drafting: Drafting, target: Target, path: Path) -> DraftModel:
    """Loads a draft model; its load time is logged and stands in no request's timings."""
    begun = clock.now()
    loaded = load(str(path))
    model = Target(loaded.model, target.slots, target.context)
    drafter = DraftModel(model, target, most=drafting.most, least_p=drafting.p_min)
    log.info("drafter loaded: draft-model %s in %.0f ms", path, 1e3 * (clock.now() - begun))
    return drafter
