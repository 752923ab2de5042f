"""An engine for the offline commands: the server's target, sampler, drafters and rounds, without a server.

Two things differ from the server on purpose. There is no budget: what was asked to draft drafts, so
that a run can be measured and repeats itself at an equal seed under every rule. And prompt lookup has
no floor under its yield.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from stoker import blas
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.exactness_gate import Exactness, Mode, establish
from stoker.models.exactness_store import Store
from stoker.models.load import Loaded
from stoker.models.sampling import Sampler
from stoker.models.shelf import subject as measured
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.base import Drafter
from stoker.rounds.diagnostic import Diagnostic
from stoker.rounds.engine import Engine
from stoker.rounds.kinds import Subject, draft_model, lookup
from stoker.rounds.speculator import Speculation, Speculator
from stoker.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What engines are made of; several may be made one after the other, each when the one before is done."""

    target: Target
    sampler: Sampler
    ends: frozenset[int]
    drafter: Drafter | None


@dataclass(frozen=True, slots=True)
class Offline:
    engine: Engine
    diagnostic: Diagnostic | None
    """Closed forms over everything that the engine has run, where they were asked for."""


def parts(target: Target, tokenizer: Tokenizer, drafting: Drafting) -> Parts:
    """Loads the drafter. Raises StartError where it does not fit the target."""
    subject = Subject(target, tokenizer.pieces)
    drafter = None if drafting.kind is None else _drafter(drafting, subject)
    return Parts(target, Sampler(target.vocab, tokenizer.pieces), tokenizer.end_ids, drafter)


def engine(parts: Parts, drafting: Drafting, widths: Exactness | None = None) -> Offline:
    """`widths` None: every width is taken to be exact."""
    diagnostic = Diagnostic(coupled=drafting.coupled) if drafting.diagnostic else None
    drafter = parts.drafter
    speculation = Speculation(
        drafters={} if drafter is None else {drafter.kind: drafter},
        default=None if drafter is None else drafter.kind,
        setting=drafting.rule,
        coupled=drafting.coupled,
        widest=widths.widest if widths is not None else lambda width: width,
        diagnostic=diagnostic,
    )
    speculator = Speculator(speculation, parts.target.context)
    return Offline(Engine(parts.target, parts.sampler, parts.ends, speculator), diagnostic)


def exact_widths(loaded: Loaded, target: Target, drafting: Drafting, cache: Path) -> Exactness | None:
    """The widths that are exact enough for this model and machine, measured once and kept under `cache`."""
    if drafting.kind is None:
        return None
    store = Store(cache, measured(loaded, blas.provider()))
    exactness = establish(Mode(drafting.exactness), target, drafting.most + 1, store, rows=target.slots)
    for line in exactness.lines():
        log.info(line)
    return exactness


def _drafter(drafting: Drafting, subject: Subject) -> Drafter:
    if drafting.kind is Kind.PROMPT_LOOKUP:
        return lookup(drafting, floor=False)
    if drafting.kind is Kind.DRAFT_MODEL:
        return draft_model(drafting, subject, Path(drafting.model))
    raise StartError(f"{drafting.kind} has no offline round loop: stoker-server runs it")
