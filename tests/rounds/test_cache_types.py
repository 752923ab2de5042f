"""Packed slot caches under the loop: drafting changes no token, whatever keys and values are stored as."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from mlx import nn

from models import tiny
from rounds.harness import GREEDY, PROMPTS, WARM, Harness, Wanted
from rounds.oracle import Oracle
from rounds.test_speculation import how, lookup
from stoker.core.request import Sampling
from stoker.models.exactness import probe
from stoker.models.exactness_gate import Exactness, Mode
from stoker.models.kv_types import KVTypes
from stoker.models.target import Target

pytestmark = pytest.mark.mlx

TYPES = [("q8_0", "q8_0"), ("q4_0", "q4_1"), ("q5_1", ""), ("f16", "bf16")]
FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "llama": lambda: tiny.llama(head_dim=32),
    "llama_sliding": lambda: tiny.llama_sliding(head_dim=32),
    "gemma4_shared": lambda: tiny.gemma4_shared(head_dim=32),
    "qwen3": lambda: tiny.qwen3(head_dim=32),
}


CASES = [
    *(("llama", types, sampling) for types in TYPES for sampling in (GREEDY, WARM)),
    *((family, types, GREEDY) for family in FAMILIES if family != "llama" for types in TYPES[:2]),
]
"""Packing makes a step out of a rounding that falls on its edge. Widths that round otherwise can so show in a draw
that many tokens are near to, where unpacked ones do not: which widths serve is for the exactness probe to say."""


@pytest.mark.parametrize(("family", "types", "sampling"), CASES)
def test_drafted_rows_in_company_say_what_they_say_alone(
    family: str, types: tuple[str, str], sampling: Sampling
) -> None:
    make, stored = FAMILIES[family], KVTypes.of(*types)
    wanted = [Wanted(prompt, 30, replace(sampling, seed=n), join_at=n) for n, prompt in enumerate(PROMPTS[:2])]
    alone = [Harness(Target(make(), 1, 128, types=stored)).run([replace(want, join_at=0)])[0] for want in wanted]
    truth = {want.prompt: tokens for want, tokens in zip(wanted, alone, strict=True)}
    target = Target(make(), 2, 128, types=stored)
    for drafter in (Oracle(truth, error=0.3), lookup()):
        harness = Harness(target, how(drafter))
        assert list(harness.run(wanted).values()) == alone


@pytest.mark.parametrize("types", TYPES[:2], ids="/".join)
def test_the_exactness_probe_admits_widths_on_a_packed_cache(types: tuple[str, str]) -> None:
    target = Target(tiny.llama(head_dim=32), 2, 512, types=KVTypes.of(*types))
    report = probe(target, (2, 4), rows=2)
    assert Exactness(Mode.DECIDED, report).widest(4) == 4
