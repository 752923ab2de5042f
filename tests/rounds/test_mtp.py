"""MTP drafters and Glimmer's assistant on the real loop: equal text, equal seeds, mixed company, one wait a round."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from models.nets import published
from rounds.harness import GREEDY, PROMPTS, WARM, Harness, Wanted, greedy
from rounds.pairs import PAIRS, Pair
from stoker.acceptance.governor import Graded
from stoker.acceptance.select import Setting
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.core.request import Speculation
from stoker.models.target import Target
from stoker.rounds import glimmer, mtp
from stoker.rounds.chain import Chain
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation as How

pytestmark = pytest.mark.mlx


def how(pair: Pair, place: Path, target: Target, **more: object) -> How:
    """Its drafter and prompt lookup."""
    drafter = pair.load(pair.write(place), target, most=3)
    lookup = Lookup(Sizes(3, 2, 3, 1), Graded)
    return How({drafter.kind: drafter, lookup.kind: lookup}, drafter.kind, **more)  # type: ignore[arg-type]


def played(pair: Pair, place: Path, wanted: list[Wanted], **more: object) -> Harness:
    target = Target(pair.make(), max(len(wanted), 1), 512)
    harness = Harness(target, how(pair, place, target, **more))
    harness.run(wanted)
    assert not harness.errors
    return harness


def plain(pair: Pair, wanted: list[Wanted]) -> dict[int, list[int]]:
    return Harness(Target(pair.make(), len(wanted), 512)).run(wanted)


@pytest.mark.parametrize("name", PAIRS)
def test_greedy_text_is_the_models_own_past_the_window_too(name: str, tmp_path: Path) -> None:
    pair = PAIRS[name]
    prompts = PROMPTS[:3]
    harness = played(pair, tmp_path, [Wanted(prompt, 24) for prompt in prompts])
    for n, prompt in enumerate(prompts):
        assert harness.tokens[n] == greedy(pair.make(), prompt, 24)
    assert all(counters.rounds for counters in harness.counters.values())
    assert harness.target.lengths == tuple(len(prompt) + 23 for prompt in prompts)


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "glimmer"])
def test_greedy_text_is_the_models_own_where_proposals_are_right(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The networks run as ever, but their draws are the truth, wrong at random: every count of accepted ones occurs."""
    pair = PAIRS[name]
    truth = [greedy(pair.make(), prompt, 32) for prompt in PROMPTS]
    rng = random.Random(3)

    def draw(chain: Chain, logits: mx.array) -> mx.array:
        depth = len(chain._tokens)
        ahead = [
            truth[ask.session.slot][ask.position + 1 + depth - len(PROMPTS[ask.session.slot]) :]  # type: ignore[attr-defined]
            for ask in chain._asks
        ]
        drawn = [(row or [0])[0] ^ (rng.random() < 0.2) for row in ahead]
        chain._tokens.append(mx.array(drawn, mx.int32)[:, None])
        chain._logits.append(logits[:, 0])
        return chain.last

    monkeypatch.setattr(Chain, "draw", draw)
    harness = played(pair, tmp_path, [Wanted(prompt, 32) for prompt in PROMPTS])
    assert [harness.tokens[n] for n in range(len(PROMPTS))] == truth
    assert {o.round.accepted for o in harness.outcomes if o.round is not None} == {0, 1, 2, 3}


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_a_seed_gives_the_plain_stream_at_any_temperature(name: str, coupled: bool, tmp_path: Path) -> None:
    pair = PAIRS[name]
    wanted = [
        Wanted(prompt, 16, replace(WARM, seed=n, temperature=temperature))
        for n, (prompt, temperature) in enumerate(zip(PROMPTS[:3], (0.4, 1.0, 2.0), strict=True))
    ]
    harness = played(pair, tmp_path, wanted, coupled=coupled)
    assert harness.tokens == plain(pair, wanted)
    assert all(counters.rounds for counters in harness.counters.values())
    assert not coupled or sum(counters.accepted for counters in harness.counters.values())


@pytest.mark.parametrize("name", ["gemma4 ordered", "qwen3_5", "glimmer"])
def test_a_row_is_the_same_alone_and_among_eight_of_mixed_kinds(name: str, tmp_path: Path) -> None:
    pair = PAIRS[name]
    kinds = ("", "prompt-lookup", "none", "")
    wanted = [
        Wanted(
            tuple(n % 5 + k % 3 for k in range(3 + n)),
            12,
            GREEDY if n % 2 else replace(WARM, seed=n),
            join_at=n // 3,
            speculation=Speculation(kind=kinds[n % 4]),
        )
        for n in range(8)
    ]
    together = played(pair, tmp_path, wanted)
    drafted = {outcome.kind for outcome in together.outcomes if outcome.round is not None}
    assert {Kind.PROMPT_LOOKUP} < drafted
    target = Target(pair.make(), 1, 512)
    alone = Harness(target, how(pair, tmp_path, target))
    for n, want in enumerate(wanted):
        assert alone.run([replace(want, join_at=0)])[0] == together.tokens[n], n


@pytest.mark.parametrize("name", PAIRS)
def test_a_round_has_one_synchronisation(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = PAIRS[name]
    target = Target(pair.make(), 2, 512)
    harness = Harness(target, how(pair, tmp_path, target))
    waits: list[int] = []
    evaluate = mx.eval

    def counted(*arrays: mx.array) -> None:
        waits.append(harness.ticks)
        evaluate(*arrays)

    monkeypatch.setattr(mx, "eval", counted)
    harness.run([Wanted(PROMPTS[0], 12), Wanted(PROMPTS[2], 12, WARM)])
    after_the_prompts = [tick for tick in waits if tick > 1]
    assert len(after_the_prompts) == len(set(after_the_prompts))


@pytest.mark.parametrize("name", PAIRS)
def test_modified_rejection_runs_with_a_true_q(name: str, tmp_path: Path) -> None:
    pair = PAIRS[name]
    wanted = [Wanted(prompt, 8, replace(WARM, seed=n)) for n, prompt in enumerate(PROMPTS)]
    harness = played(pair, tmp_path, wanted, setting=Setting.STOCHASTIC)
    assert {o.rule for o in harness.outcomes if o.round is not None} == {"stochastic"}


@pytest.mark.parametrize(
    ("make", "write", "said"),
    [
        (tiny.llama, published.qwen_native, r"Qwen3.5 MTP heads.*qwen3_5.*llama"),
        (tiny.qwen3_5, published.gemma_assistant, r"Gemma 4 assistant.*gemma4.*qwen3_5"),
        (lambda: tiny.qwen3_5(hidden_size=96), published.qwen_native, r"64 hidden units.*96"),
        (lambda: tiny.qwen3_5(vocab_size=96), published.qwen_native, r"128 tokens.*96"),
        (lambda: tiny.gemma4_text(hidden_size=96), published.gemma_assistant, r"64 hidden units.*96"),
        (lambda: tiny.gemma4_text(head_dim=32), published.gemma_assistant, r"4 heads of 16 in its sliding.*of 32"),
        (
            lambda: tiny.gemma4_text(layer_types=["sliding_attention"] * 6),
            published.gemma_assistant,
            "no full_attention layer",
        ),
        (tiny.qwen3_5, published.glimmer_assistant, r"is a glimmer drafter.*not mtp"),
    ],
)
def test_a_pair_that_does_not_fit_is_refused_by_name(
    make: Callable[[], nn.Module], write: Callable[[Path], Path], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StartError, match=said):
        mtp.load(write(tmp_path), Target(make(), 1, 64))


def test_a_target_whose_conversion_lost_its_heads_says_what_to_do(tmp_path: Path) -> None:
    published.save(tmp_path, {"model_type": "qwen3_5"}, {"model.norm.weight": mx.ones((4,))})
    with pytest.raises(StartError, match="stoker convert --mtp"):
        mtp.load(tmp_path, Target(tiny.qwen3_5(), 1, 64), own=True)


def test_glimmers_assistant_is_for_glimmer_only(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"muse_glimmer.*llama"):
        glimmer.load(published.glimmer_assistant(tmp_path), Target(tiny.llama(), 1, 64))


def test_widths_are_the_checkpoints_unless_asked_for(tmp_path: Path) -> None:
    gemma, qwen = Target(published.gemma_target(), 1, 64), Target(published.qwen_target(), 1, 64)
    assert mtp.load(published.gemma_assistant(tmp_path / "gemma"), gemma).width == 3
    assert mtp.load(published.qwen_native(tmp_path / "native"), qwen).width == 2
    assert mtp.load(tmp_path / "native", qwen, most=5).width == 5
    muse = Target(published.glimmer_target(), 1, 64)
    assert glimmer.load(published.glimmer_assistant(tmp_path / "glimmer"), muse).width == 7
