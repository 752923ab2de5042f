"""Block drafters for tiny targets: random checkpoints in the published layouts, and a guide that lets them be right.

A random drafter is never right and so tests nothing. `Guided` runs the whole drafter and then lets
some of its proposals be the known continuation.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import mlx.core as mx
from mlx import nn

from parity import cases
from parity.cases import DSPARK, Case
from stoker.models.nets import dflash, dspark
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.lender import lend
from stoker.models.target import Target
from stoker.rounds.block import BlockDrafter, Drafted, Turns
from stoker.rounds.dflash import DFlash
from stoker.rounds.dspark import DSpark
from stoker.rounds.speculator import Speculation as How

Truth = Mapping[tuple[int, ...], Sequence[int]]

CASES = {
    "dflash": Case("dflash", "dflash", ()),
    "dflash-sliding": Case("dflash-sliding", "dflash", (), window=16),
    "dspark": Case("dspark", "dspark", (), 5, changes=DSPARK),
    "dspark-short": Case("dspark-short", "dspark", (), 5, changes=DSPARK),
}
SHORT = 80
"""Tokens that a drafter with a short head can propose."""


def checkpoint(name: str, target: Target, place: Path) -> Path:
    """A checkpoint for this target, below `place`."""
    case = CASES[name]
    nested = {"num_target_layers": target.depth, "target_layer_ids": [0, 1, target.depth - 1]} | case.nested
    path = cases.write(replace(case, nested=nested), place)
    if name.endswith("-short"):
        shorten(path, sorted(random.Random(0).sample(range(target.vocab), SHORT)))
    return path


def shorten(path: Path, ids: Sequence[int]) -> None:
    """Rewrites a checkpoint so that it proposes these tokens only."""
    config, weights = path / "config.json", path / "model.safetensors"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"draft_vocab_size": len(ids)}))
    tensors = cast("dict[str, mx.array]", mx.load(str(weights)))
    mx.eval(tensors)
    tensors["d2t"] = mx.array([id - n for n, id in enumerate(ids)], mx.int32)
    for name in ("markov_head.markov_w2.weight", "lm_head.weight"):
        if name in tensors:
            tensors[name] = tensors[name][mx.array(list(ids))]
    mx.save_safetensors(str(weights), tensors)


def net(name: str, target: Target, place: Path) -> BlockNet:
    loader = dspark.load if CASES[name].kind == "dspark" else dflash.load
    return loader(checkpoint(name, target, place), lend(target))


def how(*drafters: BlockDrafter, **more: object) -> How:
    made = {drafter.kind: drafter for drafter in drafters}
    return How(made, drafters[0].kind, companions=drafters, **more)  # type: ignore[arg-type]


class Guide:
    """What makes proposals right: each is, with probability `1 - error`, the token that will come."""

    def __init__(self, truth: Truth, error: float) -> None:
        self.truth, self.error = truth, error
        self.blocks = 0

    def applied(self, drafted: Drafted, turns: Turns) -> Drafted:
        self.blocks += 1
        rows = [self._row(session.tokens, turns.most) for session in turns.sessions]
        known = mx.array(rows, mx.int32)
        return replace(drafted, tokens=mx.where(known >= 0, known, drafted.tokens))

    def _row(self, tokens: Sequence[int], count: int) -> list[int]:
        """The tokens behind these, -1 where the drafter's own stands."""
        prompt, answer = next(
            (prompt, answer) for prompt, answer in self.truth.items() if tuple(tokens[: len(prompt)]) == prompt
        )
        done, rng = len(tokens) - len(prompt), random.Random(len(tokens))
        ahead = [*answer[done : done + count], *[-1] * count][:count]
        return [token if rng.random() >= self.error else -1 for token in ahead]


class GuidedDFlash(DFlash):
    guide: Guide

    def draw(self, hidden: mx.array, turns: Turns) -> Drafted:
        return self.guide.applied(super().draw(hidden, turns), turns)


class GuidedDSpark(DSpark):
    guide: Guide

    def draw(self, hidden: mx.array, turns: Turns) -> Drafted:
        return self.guide.applied(super().draw(hidden, turns), turns)


def guided(name: str, target: Target, place: Path, truth: Truth, error: float = 0.2) -> "GuidedDFlash | GuidedDSpark":
    made = net(name, target, place)
    drafter = GuidedDSpark(made, target) if isinstance(made, dspark.DSparkNet) else GuidedDFlash(made, target)
    drafter.guide = Guide(truth, error)
    return drafter


Make = Callable[[], nn.Module]
