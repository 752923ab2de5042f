"""What is tested: the models, and what each of them believes by a fresh forward without any cache of ours."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np
from mlx import nn

from stoker.commands.selftest_arms import MOST, lookup
from stoker.commands.selftest_stats import Distribution
from stoker.core.counters import Kind
from stoker.models.target import Target
from stoker.rounds.base import Drafter
from stoker.rounds.draft_model import DraftModel

Tokens = tuple[int, ...]
ROOM = 64
"""Columns of a slot beside the prompt: what is emitted, and a round's proposals."""
TIE, COARSE_TIE = 1e-3, 0.1
"""Logits this close may change places with the shape of a forward, in float32 and in narrower types."""


@dataclass(slots=True)
class Beliefs:
    """A model's distribution behind `prompt` and a prefix, at temperature 1 under top_k. Told once, remembered."""

    model: nn.Module
    prompt: Tokens
    top_k: int
    known: dict[Tokens, Distribution | None] = field(default_factory=dict[Tokens, Distribution | None])

    def __call__(self, prefix: Tokens) -> Distribution | None:
        """None where it is a matter of rounding which token is the last one of the top_k."""
        if prefix not in self.known:
            logits, tie = forward(self.model, (*self.prompt, *prefix))
            self.known[prefix] = distribution(logits, self.top_k, tie)
        return self.known[prefix]


def forward(model: nn.Module, tokens: Tokens) -> tuple[np.ndarray, float]:
    """Logits [V] behind a sequence, and how close two of them count as tied."""
    logits: mx.array = model(mx.array([tokens], mx.int32))[0, -1]
    return np.array(logits.astype(mx.float32), np.float64), TIE if logits.dtype == mx.float32 else COARSE_TIE


def distribution(logits: np.ndarray, top_k: int, tie: float) -> Distribution | None:
    """Softmax over the top_k largest of logits [V]; None if the next one is tied with the last of them."""
    best = np.argsort(-logits, kind="stable")[: top_k + 1]
    if len(best) > top_k and logits[best[top_k - 1]] - logits[best[top_k]] < tie:
        return None
    weights = np.exp(logits[best[:top_k]] - logits[best[0]])
    chances: list[float] = (weights / weights.sum()).tolist()
    return dict(zip((int(token) for token in best), chances, strict=False))


@dataclass(slots=True)
class Support:
    """The tokens that top_k leaves behind `prompt` and a prefix, ties at its edge included. Told once, remembered."""

    model: nn.Module
    prompt: Tokens
    top_k: int
    known: dict[Tokens, frozenset[int]] = field(default_factory=dict[Tokens, frozenset[int]])

    def __call__(self, prefix: Tokens) -> frozenset[int]:
        if prefix not in self.known:
            logits, tie = forward(self.model, (*self.prompt, *prefix))
            last = np.sort(logits)[-min(self.top_k, logits.shape[-1])]
            self.known[prefix] = frozenset(np.flatnonzero(logits >= last - tie).tolist())
        return self.known[prefix]

    def outside(self, streams: Iterable[Tokens]) -> int:
        """How many tokens of the streams are not in the support where they stand."""
        return sum(token not in self(stream[:n]) for stream in streams for n, token in enumerate(stream))


@dataclass(frozen=True, slots=True)
class Subject:
    """A target with slot caches, the drafters that it can have, and the prompts of the test."""

    target: Target
    drafters: dict[Kind, Drafter]
    prompt: Tokens
    draft: nn.Module | None = None
    """The draft model, for its q."""
    widest: Callable[[int], int] = field(default=lambda width: width)
    """The widest forward, in columns, that is exact enough and not above the given width."""

    @property
    def rows(self) -> int:
        return self.target.slots

    def prompts(self) -> list[Tokens]:
        """One for each row, of different lengths: the prompt without a few of its last tokens."""
        return [self.prompt[: len(self.prompt) - n % min(4, len(self.prompt))] for n in range(self.rows)]


def subject(model: nn.Module, draft: nn.Module | None, prompt: Tokens, rows: int) -> Subject:
    """Wires it up. StartError where the draft model cannot draft for the target."""
    context = len(prompt) + ROOM
    target = Target(model, rows, context)
    drafters: dict[Kind, Drafter] = {Kind.PROMPT_LOOKUP: lookup()}
    if draft is not None:
        drafters[Kind.DRAFT_MODEL] = DraftModel(Target(draft, rows, context), target, most=MOST)
    return Subject(target, drafters, prompt, draft)
