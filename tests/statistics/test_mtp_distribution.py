"""The emitted stream follows the target's own distribution, whatever MTP heads, an assistant or Glimmer propose.

On tiny networks of the real families: many seeds of one prompt, and Pearson's chi-square of the first two
tokens against probabilities that are computed without any cache or loop of ours. The second token stands
behind an accepted proposal, or behind a correction.
"""

import math
import os
from collections import Counter
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from models.nets import published
from rounds import pairs
from rounds.harness import WARM, Harness, Wanted
from rounds.pairs import Pair
from stoker.acceptance.select import Setting
from stoker.models.target import Target
from stoker.rounds.chain import Chain
from stoker.rounds.speculator import Speculation as How

pytestmark = pytest.mark.mlx

SAMPLES = int(os.environ.get("STOKER_SPEC_DIST_SAMPLES", os.environ.get("MLXCEL_SPEC_DIST_SAMPLES", "12000"))) // 16
PROMPT = (5, 17, 40, 3)
ROWS, LENGTH = 64, 4
"""Of a run; four tokens, so that the first round has three proposals."""
LEAST = 5.0
"""Expected count of a cell; rarer tokens share one."""
Z = 3.719
"""Of a normal distribution, for alpha = 1e-4."""
PAIRS = {
    "gemma4": Pair(published.calm_gemma_target, partial(published.gemma_assistant, size=0.2)),
    "gemma4 ordered": Pair(published.calm_gemma_target, partial(published.gemma_assistant, ordered=True, size=0.2)),
    "qwen3_5": pairs.PAIRS["qwen3_5"],
    "glimmer": pairs.PAIRS["glimmer"],
}


def softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    scaled = np.exp((logits - logits.max(axis=-1, keepdims=True)) / temperature)
    return scaled / scaled.sum(axis=-1, keepdims=True)


@lru_cache
def exact(name: str, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """p of the first token, and of the second whatever the first is."""
    model = PAIRS[name].make()
    first = softmax(np.array(model(mx.array([PROMPT]))[0, -1], np.float64), temperature)
    after = mx.array([[*PROMPT, token] for token in range(len(first))])
    second = softmax(np.array(model(after)[:, -1], np.float64), temperature)
    return first, first @ second


def stream(
    name: str, place: Path, temperature: float, samples: int = SAMPLES, **how: object
) -> tuple[list[list[int]], float]:
    """The answers of many seeds, and the share of tested proposals that were accepted."""
    pair = PAIRS[name]
    target = Target(pair.make(), ROWS, 64)
    drafter = pair.load(pair.write(place), target, most=3)
    harness = Harness(target, How({drafter.kind: drafter}, drafter.kind, **how))  # type: ignore[arg-type]
    rows: list[list[int]] = []
    tested = accepted = 0
    while len(rows) < samples:
        sampling = [replace(WARM, seed=len(rows) + n, temperature=temperature) for n in range(ROWS)]
        rows += harness.run([Wanted(PROMPT, LENGTH, it) for it in sampling]).values()
        tested += sum(counters.tested for counters in harness.counters.values())
        accepted += sum(counters.accepted for counters in harness.counters.values())
    assert not harness.errors
    return rows, accepted / tested


def surprise(tokens: list[int], p: np.ndarray) -> float:
    """Chi-square over the value that one sample in ten thousand exceeds: above 1, p is rejected."""
    counts, n = Counter(tokens), len(tokens)
    common = [x for x in range(len(p)) if n * p[x] >= LEAST]
    rest = 1 - sum(p[x] for x in common)
    cells = [(counts[x], n * p[x]) for x in common]
    cells.append((n - sum(counts[x] for x in common), n * rest))
    degrees = len(cells) - 1
    cut = degrees * (1 - 2 / (9 * degrees) + Z * math.sqrt(2 / (9 * degrees))) ** 3
    return sum((seen - expected) ** 2 / max(expected, 1e-9) for seen, expected in cells) / cut


def surprises(name: str, temperature: float, rows: list[list[int]]) -> list[float]:
    return [surprise([row[n] for row in rows], p) for n, p in enumerate(exact(name, temperature))]


@pytest.mark.parametrize(
    ("temperature", "rule"),
    [
        (0.7, "stochastic"),
        (1.5, "coupled"),
        pytest.param(0.7, "coupled", marks=pytest.mark.slow),
        pytest.param(1.5, "stochastic", marks=pytest.mark.slow),
        pytest.param(0.7, "independent", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", PAIRS)
def test_the_stream_follows_the_target(name: str, temperature: float, rule: str, tmp_path: Path) -> None:
    setting = Setting.STOCHASTIC if rule == "stochastic" else Setting.MATCH
    rows, acceptance = stream(name, tmp_path, temperature, setting=setting, coupled=rule != "independent")
    assert max(surprises(name, temperature, rows)) < 1
    assert rule == "independent" or acceptance > 0.01


@pytest.mark.parametrize("name", ["gemma4", "qwen3_5", "glimmer"])
def test_argmax_acceptance_is_rejected(name: str, tmp_path: Path) -> None:
    rows, _ = stream(name, tmp_path, 0.7, SAMPLES // 2, setting=Setting.ARGMAX)
    assert max(surprises(name, 0.7, rows)) > 1


def test_a_seed_whose_q_is_another_steps_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the heads had forgotten the distribution of the proposal that was drawn with the round before."""
    true_q = Chain._distribution

    def shifted(chain: Chain, n: int, count: int, least_p: float) -> mx.array:
        q = true_q(chain, n, count, least_p)
        return mx.concatenate([q[1:], q[:1]])

    monkeypatch.setattr(Chain, "_distribution", shifted)
    rows, _ = stream("qwen3_5", tmp_path, 1.5, setting=Setting.STOCHASTIC)
    assert max(surprises("qwen3_5", 1.5, rows)) > 1
