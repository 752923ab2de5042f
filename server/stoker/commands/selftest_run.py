"""Loads what is tested and runs the checks within a time: the exact ones first, the distributions in what is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

from stoker import blas
from stoker.acceptance.select import Rule
from stoker.commands.selftest_arms import MOST, Arm, arms
from stoker.commands.selftest_checks import ALONE, Checks, Result, checks_of
from stoker.commands.selftest_subject import Subject, Tokens, subject
from stoker.core import clock
from stoker.core.errors import StartError
from stoker.models.exactness_gate import Exactness, Mode, establish
from stoker.models.exactness_store import Store
from stoker.models.load import Loaded, load
from stoker.models.shelf import subject as identity
from stoker.text.tokenizer import from_source

LEAST = 0.04
"""Part of the time that a distribution gets in any case."""


class Bar(Protocol):
    """What is used of tqdm's."""

    total: float | None

    def update(self, n: int) -> object: ...
    def set_description(self, desc: str) -> object: ...


@dataclass(frozen=True, slots=True)
class Budget:
    """`samples` requests for each distribution, fewer where all would take more than `seconds` from `start`."""

    samples: int
    start: float
    seconds: float

    def deadline(self, arm: Arm, later: Sequence[Arm]) -> float:
        """When this arm shall begin no more requests, if the distributions of `later` are still to come.

        They share what remains, but get some time even where the exact checks took it all.
        """
        now, share = clock.now(), _weight(arm)
        remaining = (self.start + self.seconds - now) * share / (share + sum(map(_weight, later)))
        return now + max(remaining, LEAST * share * self.seconds)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to test: paths of the models (no `draft`: the model's own first layers), rows, `--exactness`."""

    model: str
    draft: str = ""
    rows: int = 16
    exactness: str = "decided"


@dataclass(frozen=True, slots=True)
class Prepared:
    subject: Subject
    notes: tuple[str, ...] = ()


def prepare(choice: Choice, text: str, cache: Path) -> Prepared:
    """Loads the model, and its draft model: the one given, else its own first layers. StartError if that cannot be.

    What the exactness probe finds is kept under `cache`.
    """
    loaded = load(choice.model)
    prompt = tuple(from_source(loaded.tokenizer).encode(text, add_special=True, parse_special=False))
    if choice.draft:
        prepared = Prepared(subject(loaded.model, load(choice.draft).model, prompt, choice.rows))
    else:
        prepared = _with_own_draft(choice, loaded, prompt)
    widths = _widths(choice, loaded, prepared.subject, cache)
    return replace(prepared, subject=replace(prepared.subject, widest=widths.widest))


def examine(subject: Subject, budget: Budget, bar: Bar, *, seed: int = 1, inject: str = "") -> list[Result]:
    """All checks of all arms, arm by arm in the result."""
    found = arms(subject.drafters, inject, subject.widest)
    plan = [
        (arm, check) for check in ("equality", "support", "distribution") for arm in found if check in checks_of(arm)
    ]
    sizes = {
        "equality": subject.rows + min(ALONE, subject.rows),
        "support": subject.rows,
        "distribution": budget.samples,
    }
    bar.total = sum(sizes[check] for _, check in plan)
    checks, results = Checks.of(subject, seed), list[Result]()
    sampled = [arm for arm, check in plan if check == "distribution"]
    for arm, check in plan:
        bar.set_description(f"{arm.name}, {check}")
        tick = _Counted(bar.update)
        if check == "equality":
            results += checks.equality(arm, tick)
        elif check == "support":
            results.append(checks.support(arm, tick))
        else:
            results.append(
                checks.distribution(arm, budget.samples, budget.deadline(arm, sampled[sampled.index(arm) + 1 :]), tick)
            )
        bar.update(sizes[check] - tick.count)
    return sorted(results, key=lambda result: found.index(result.arm))


def _weight(arm: Arm) -> int:
    """Part of the time. Argmax shows at once; a wrong residual, which only the stochastic rule can have, does not."""
    return 3 if arm.rule is Rule.STOCHASTIC else 1


class _Counted:
    """Moves a bar on by one, and counts."""

    def __init__(self, update: Callable[[int], object]) -> None:
        self._update, self.count = update, 0

    def __call__(self) -> None:
        self.count += 1
        self._update(1)


def _with_own_draft(choice: Choice, loaded: Loaded, prompt: Tokens) -> Prepared:
    """The model without its last third of layers drafts, if it can."""
    layers = len(cast("Sequence[object]", loaded.model.layers))
    keep = max(2 * layers // 3, 1)
    try:
        own = load(choice.model, layers=keep).model
        note = f"draft model: the model's own first {keep} of {layers} layers"
        return Prepared(subject(loaded.model, own, prompt, choice.rows), (note,))
    except StartError as error:
        return Prepared(subject(loaded.model, None, prompt, choice.rows), (f"no draft model: {error}",))


def _widths(choice: Choice, loaded: Loaded, subject: Subject, cache: Path) -> Exactness:
    """The widths that the server would use. StartError if there are none: then nothing drafts."""
    store = Store(cache, identity(loaded, blas.provider()))
    widths = establish(Mode(choice.exactness), subject.target, MOST + 1, store)
    if widths.widest(MOST + 1) < 2:
        raise StartError(
            f"{'; '.join(widths.lines())}: nothing drafts on this machine, so there is nothing to test; "
            "--exactness off tests it all the same"
        )
    return widths
