"""The stream follows p exactly with block drafters on the real loop, and the same test rejects wrong rules.

Six tokens, Pearson's chi-square with 5 degrees of freedom, rejected above 25.7448 (alpha = 1e-4), as
in `test_distribution.py`. The drafters are whole: their block's hidden states hang on the features,
so q differs from round to round; the Markov head makes q depend on the token drawn before.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn

from rounds.drafters import how
from rounds.harness import Harness, Wanted
from rounds.table import TableTarget, TableVerification, constant
from stoker.acceptance.select import Rule, Setting
from stoker.core.request import Sampling
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.block_config import Reader, read
from stoker.models.nets.dflash import DFlashNet, layout
from stoker.models.nets.dspark import DSparkNet, Head
from stoker.models.nets.lender import Lender
from stoker.models.target import Verification
from stoker.rounds.block import BlockDrafter, Drafted, Turns
from stoker.rounds.dflash import DFlash
from stoker.rounds.dspark import DSpark

pytestmark = pytest.mark.mlx

TARGET = (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)
CUT = 25.7448
SAMPLES, POWER_SAMPLES = 12_000, 6_000
ROWS, LENGTH, WIDTH = 16, 50, 16
CONFIG = {
    "hidden_size": WIDTH,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 6,
    "num_target_layers": 1,
    "target_layer_ids": [0],
    "mask_token_id": 5,
    "max_position_embeddings": 512,
    "markov_rank": 4,
}


class FeaturedTarget(TableTarget):
    """A Markov table with a residual stream: a random vector for each token."""

    depth = 1  # type: ignore[assignment]

    def verify(
        self, slots: Sequence[int], ids: mx.array, capture: Sequence[int] = (), *, revocable: bool = False
    ) -> Verification:
        seen = super().verify(slots, ids, capture, revocable=revocable)
        assert isinstance(seen, TableVerification)
        seen.features = dict.fromkeys(capture, STREAM[ids])
        return seen


STREAM = mx.array(np.random.default_rng(5).normal(size=(6, WIDTH)), mx.float32)


def net(dspark: bool) -> BlockNet:
    mx.random.seed(8)
    table = nn.Embedding(6, WIDTH)
    table.weight = mx.random.normal((6, WIDTH))
    head = mx.random.normal((WIDTH, 6)) * 0.25
    lender = Lender("table", 6, WIDTH, 1, table, 1.0, lambda hidden: hidden @ head, untied=True)
    config = read({**CONFIG, "block_size": 3 if dspark else 4}, "test")
    made = DSparkNet(config, Head(Reader(CONFIG, "test")), 6) if dspark else DFlashNet(config, layout(config))
    if isinstance(made, DSparkNet):
        made.markov_head.markov_w1.weight = mx.random.normal((6, 4))
        made.markov_head.markov_w2.weight = mx.random.normal((6, 4)) * 0.8
    made.borrow(lender)
    return made


class Unchained(DSpark):
    """Says that its proposals come from the slots' uncorrected logits."""

    def draw(self, hidden: mx.array, turns: Turns) -> Drafted:
        return replace(super().draw(hidden, turns), logits=self._net.logits(hidden))


def drafter(name: str, target: FeaturedTarget) -> BlockDrafter:
    kinds: dict[str, Callable[..., BlockDrafter]] = {"dflash": DFlash, "dspark": DSpark, "unchained": Unchained}
    return kinds[name](net(name != "dflash"), target)


def misfit(name: str, rule: str, temperature: float, samples: int) -> float:
    """The chi-square of so many emitted tokens."""
    setting = {"stochastic": Setting.STOCHASTIC, "argmax": Setting.ARGMAX}.get(rule, Setting.MATCH)
    target = FeaturedTarget(constant(TARGET), ROWS)
    harness = Harness(target, how(drafter(name, target), setting=setting, coupled=rule != "independent"))
    sampling = Sampling(temperature=temperature, top_k=0, top_p=1.0, min_p=0.0)
    tokens: list[int] = []
    for seed in itertools.count(0, ROWS):
        wanted = [Wanted((n % 6, 1), LENGTH, replace(sampling, seed=seed + n)) for n in range(ROWS)]
        tokens += itertools.chain(*harness.run(wanted).values())
        assert not harness.errors
        if len(tokens) >= samples:
            break
    expected_rule = {"stochastic": Rule.STOCHASTIC, "argmax": Rule.ARGMAX}.get(rule, Rule.MATCH)
    assert {outcome.rule for outcome in harness.outcomes if outcome.round is not None} == {expected_rule}
    assert sum(counters.accepted for counters in harness.counters.values()) > 0
    weights = np.exp(np.array(TARGET) / temperature)
    expected, counts = weights / weights.sum() * len(tokens), Counter(tokens)
    return float(sum((counts[n] - expected[n]) ** 2 / expected[n] for n in range(6)))


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("rule", ["coupled", "independent", "stochastic"])
@pytest.mark.parametrize("name", ["dflash", "dspark"])
def test_the_stream_follows_the_targets_distribution(name: str, rule: str, temperature: float) -> None:
    assert misfit(name, rule, temperature, SAMPLES) < CUT


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_the_unchained_q_of_dspark_is_rejected(temperature: float) -> None:
    assert misfit("unchained", "stochastic", temperature, POWER_SAMPLES) > CUT


@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_argmax_acceptance_is_rejected(temperature: float) -> None:
    assert misfit("dflash", "argmax", temperature, POWER_SAMPLES) > CUT
