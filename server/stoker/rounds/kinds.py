"""The drafters that can be built, by kind: one row each. `docs/adding-a-drafter.md` shows how to add one."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx

from stoker.acceptance.governor import Gated, Governor, Graded
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.detect import Detected, inspect
from stoker.models.load import load
from stoker.models.target import Target
from stoker.options.drafting import BLOCK, Drafting
from stoker.rounds import dflash, dspark, glimmer, mtp
from stoker.rounds.base import Companion, Drafter
from stoker.rounds.block import BlockDrafter
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.evidence import Acceptance
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.text.tokenizer import from_source

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is drafted for."""

    target: Target
    pieces: Sequence[bytes]
    """The text of each token, which a draft model must share."""
    path: Path | None = None
    """Of its checkpoint, which may hold heads of its own."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a drafter is built from."""

    drafting: Drafting
    subject: Subject
    path: Path | None
    """Of its checkpoint; None: it has none of its own."""

    @property
    def checkpoint(self) -> Path:
        if self.path is None:
            raise StartError(f"--draft-kind {self.drafting.kind} needs a draft model: give --draft-model (-md)")
        return self.path

    @property
    def most(self) -> int | None:
        """Proposals of a round, if the user limits them."""
        return self.drafting.most if self.drafting.limited else None


@dataclass(frozen=True, slots=True)
class Built:
    drafter: Drafter
    companions: tuple[Companion, ...] = ()
    acceptance: Acceptance | None = None
    """Its account of how the pair agrees in general, for those that learn across requests."""


Build = Callable[[Order], Built]
LoadBlock = Callable[..., BlockDrafter]


def block(load_block: LoadBlock) -> Build:
    """The builder of a block drafter that `load_block(path, target, most=, least_p=)` loads."""

    def build(order: Order) -> Built:
        drafter = load_block(order.checkpoint, order.subject.target, most=order.most, least_p=order.drafting.p_min)
        return Built(drafter, (drafter,), drafter.acceptance)

    return build


def heads(order: Order) -> Built:
    """MTP: a drafter's checkpoint, or without one the heads in the target's own."""
    path = order.path or order.subject.path
    if path is None:
        raise StartError(f"--draft-kind {Kind.MTP} needs a draft model: give --draft-model (-md)")
    drafter = mtp.load(path, order.subject.target, most=order.most, own=order.path is None)
    companions = (drafter,) if isinstance(drafter, mtp.MtpHeads) else ()
    return Built(drafter, companions, drafter.acceptance)


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
    """Loads a draft model.

    Raises StartError for a checkpoint of another kind, or one that does not share the target's vocabulary.
    """
    target, found = subject.target, inspect(path)
    if not found.standalone:
        raise StartError(f"{path} is a {found.kind} drafter ({found.evidence}) and no model of its own")
    loaded = load(str(path))
    model = Target(loaded.model, target.slots, target.context)
    theirs = from_source(loaded.tokenizer).pieces
    if model.vocab == target.vocab and theirs != list(subject.pieces):
        raise StartError(f"{path} has other tokens than the target: a draft model must share its vocabulary")
    return DraftModel(model, target, most=drafting.most, least_p=drafting.p_min)


def small_model(order: Order) -> Built:
    drafter = draft_model(order.drafting, order.subject, order.checkpoint)
    return Built(drafter, acceptance=drafter.acceptance)


BUILDERS: Mapping[Kind, Build] = {
    Kind.PROMPT_LOOKUP: lambda order: Built(lookup(order.drafting)),
    Kind.DRAFT_MODEL: small_model,
    Kind.DFLASH: block(dflash.load),
    Kind.DSPARK: block(dspark.load),
    Kind.GLIMMER: block(glimmer.load),
    Kind.MTP: heads,
}


def build(order: Order) -> Built:
    """Raises StartError for a kind without a builder, and where the drafter cannot work with the target."""
    kind = order.drafting.kind
    builder = None if kind is None else BUILDERS.get(kind)
    if builder is None:
        raise StartError(f"--draft-kind {kind} is not built yet: {', '.join(BUILDERS)} are")
    return builder(order)


def settle(drafting: Drafting, path: Path | None) -> Drafting:
    """The same with the kind that the checkpoint's structure says. StartError where another one was named."""
    if path is None or drafting.kind is None:
        return drafting
    found = inspect(path)
    if found.refused:
        raise StartError(f"--draft-model {path}: {found.refused}")
    if not drafting.auto and not _same(drafting.kind, found):
        raise StartError(f"--draft-kind {drafting.kind}: {path} is a {found.kind} drafter ({found.evidence})")
    if drafting.kind is Kind.DRAFT_MODEL and not drafting.auto:
        return drafting
    if found.kind is not drafting.kind:
        log.info("drafter kind detected: %s for %s (%s)", found.kind, path, found.evidence)
    return replace(drafting, kind=found.kind)


def _same(kind: Kind, found: Detected) -> bool:
    """True if a checkpoint may be used under that name: `dflash` is said of all block drafters."""
    if kind is Kind.DRAFT_MODEL:
        return found.standalone
    return kind is found.kind or (kind is Kind.DFLASH and found.kind in BLOCK)
