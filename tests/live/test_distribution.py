"""Demand D2: the distribution, not just one text. A live server draws pairs of tokens; their law is asked from itself.

Two tokens are a drafted round's work: one proposal, accepted or not, and what follows. Every pair's exact probability
comes from the probabilities that the same server reports for one token at a time.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from live.client import Body, Client, client_of
from live.process import start
from stoker.commands.selftest_stats import ALPHA, bins, statistic, tail

pytestmark = pytest.mark.mlx

SUPPORT, CHOICES, MOST_REQUESTS = 8, 8, 600
DRAWS, LEAST, EXPECTED = 2000, 300, 5.0
PROMPT = "one two three one two three one"
ASCII_ONLY = [[id, False] for id in range(128, 259)]
"""A byte that may become a character is not reported before it is one."""
SAMPLED: Body = {
    "temperature": 2, "top_k": SUPPORT, "top_p": 1, "min_p": 0, "return_tokens": True, "logit_bias": ASCII_ONLY,
}  # fmt: skip
Pair = tuple[int, int]
Law = Mapping[int, float]


async def law(client: Client, prompt: list[int]) -> dict[int, float]:
    """The probability of each token that may follow."""
    body = {"prompt": prompt, "n_predict": 1, "n_probs": SUPPORT, "post_sampling_probs": True, **SAMPLED}
    (told,) = (await client.ask("/completion", body))["completion_probabilities"]
    return {top["id"]: top["prob"] for top in told["top_probs"] if top["prob"] > 0}


def coded(pair: Pair) -> int:
    return pair[0] * 1000 + pair[1]


def fits(pairs: Counter[int], pair_law: Law) -> float:
    """The p-value of what was drawn; 0 if anything outside the support was."""
    n = sum(pairs.values())
    groups = bins(pair_law, n, EXPECTED)
    assert len(groups) > 3, "the law is not so narrow that anything fits it"
    return tail(statistic(pairs, pair_law, groups), len(groups) - 1)


async def test_d2_drafted_pairs_have_the_targets_own_law(target_path: Path, tmp_path: Path) -> None:
    """With prompt lookup, which costs next to nothing; each rule and drafter: `stoker selftest`, tests/statistics."""
    live = start(("-m", str(target_path), "-np", "8", "-c", "8192", "--draft-kind", "prompt-lookup"), tmp_path / "log")
    async with client_of(live.url) as client:
        prompt = (await client.ask("/tokenize", {"content": PROMPT}))["tokens"]
        first = await law(client, prompt)
        second = {token: await law(client, [*prompt, token]) for token in first}
        exact = {coded((a, b)): first[a] * second[a][b] for a in first for b in second[a]}
        assert abs(sum(exact.values()) - 1) < 1e-3
        drawn = await draw(client, {}, rounds=1)
        plain = await draw(client, {"speculative": {"kind": "none"}}, rounds=0)
    live.stop()
    assert sum(drawn.values()) > LEAST
    assert fits(drawn, exact) > ALPHA
    assert fits(plain, exact) > ALPHA
    biased = Counter[int]()
    for pair, count in drawn.items():
        token = pair // 1000
        biased[coded((token, max(second[token], key=second[token].__getitem__)))] += count
    assert fits(biased, exact) < ALPHA, "an argmax rule is found out by the same test"


async def draw(client: Client, more: Body, *, rounds: int) -> Counter[int]:
    """Pairs without a seed that took so many verify rounds: whether one ran was decided before they were drawn."""
    pairs = Counter[int]()
    for _ in range(MOST_REQUESTS):
        body = {"prompt": PROMPT, "n_predict": 2, "n_cmpl": CHOICES, "ignore_eos": True, **SAMPLED, **more}
        answers: Any = await client.ask("/completion", body)
        for answer in answers:
            if answer["timings"].get("draft_rounds", 0) == rounds:
                pairs[coded(tuple(answer["tokens"]))] += 1
        if sum(pairs.values()) >= DRAWS:
            break
    return pairs
