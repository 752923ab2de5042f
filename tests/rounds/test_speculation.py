"""The one loop with drafters, on tiny random targets: nothing that a drafter does changes what is emitted."""

from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import pytest
from mlx import nn

from models import tiny
from rounds.harness import GREEDY, PROMPTS, WARM, Harness, Wanted, alone
from rounds.oracle import Oracle
from stoker.acceptance.governor import Graded
from stoker.acceptance.select import Setting
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Sampling, Speculation
from stoker.models.target import Target
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation as How

pytestmark = pytest.mark.mlx

FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "qwen3": tiny.qwen3,
    "qwen3_5": tiny.qwen3_5,
    "lfm2": tiny.lfm2,
    "muse_glimmer": tiny.muse_glimmer,
    "gemma4_text": tiny.gemma4_text,
}
REPEATING = tuple([5, 6, 7, 8] * 5)


def how(drafter: object, **more: object) -> How:
    kind = drafter.kind  # type: ignore[attr-defined]
    return How({kind: drafter}, kind, **more)  # type: ignore[dict-item, arg-type]


def lookup(most: int = 7) -> Lookup:
    return Lookup(Sizes(most=most), Graded)


def draft_model(target: Target, seed: int = 3, **more: object) -> DraftModel:
    """A draft model that often agrees: the target itself with weights nudged."""
    model = tiny.llama(seed=0)
    mx.random.seed(seed)
    model.load_weights([(name, w + 0.02 * mx.random.normal(w.shape)) for name, w in flat(model)])
    return DraftModel(Target(model, target.slots, target.context), target, **more)  # type: ignore[arg-type]


def flat(model: nn.Module) -> list[tuple[str, mx.array]]:
    from mlx.utils import tree_flatten

    return tree_flatten(model.parameters())  # type: ignore[return-value]


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_oracle_over_rows_of_mixed_widths_gives_the_plain_greedy_text(family: str, on_device: bool) -> None:
    make, count = FAMILIES[family], 100
    wanted = [Wanted(prompt, count + 5 * n, join_at=n) for n, prompt in enumerate(PROMPTS)]
    truth = {want.prompt: alone(make, want) for want in wanted}
    drafter = Oracle(truth, on_device=on_device)
    harness = Harness(Target(make(), 4, 512), how(drafter))
    got = harness.run(wanted)
    assert got == {id: truth[want.prompt] for id, want in enumerate(wanted)}
    for counters in harness.counters.values():
        assert counters.rounds > 10
        assert 0 < counters.accepted < counters.proposed, "rounds are accepted in part"
        assert counters.tested <= counters.proposed
    assert harness.ticks < count, "and they save forwards"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_next_logits_after_drafted_rounds_equal_a_fresh_prefills(family: str) -> None:
    make = FAMILIES[family]
    want = Wanted(PROMPTS[0], 40)
    truth = alone(make, want)
    target = Target(make(), 2, 256)
    harness = Harness(target, how(Oracle({want.prompt: truth})))
    harness.run([want, Wanted(PROMPTS[2], 45)])
    content = [*want.prompt, *truth][: target.lengths[0]]
    assert len(content) == len(want.prompt) + 40 - 1
    with target.verify([0], mx.array([[truth[-1]]])) as seen:
        cached = seen.logits[0, -1]
        mx.eval(cached)
    fresh = make()(mx.array([[*content, truth[-1]]]))[0, -1]
    assert mx.allclose(cached, fresh, rtol=0, atol=2e-3)


@pytest.mark.parametrize("error", [0.0, 1.0, 0.5])
def test_row_lengths_are_exact_when_all_none_or_some_proposals_are_accepted(error: float) -> None:
    wanted = [Wanted(prompt, 30) for prompt in PROMPTS]
    truth = {want.prompt: alone(tiny.qwen3, want) for want in wanted}
    target = Target(tiny.qwen3(), 4, 256)
    harness = Harness(target, how(Oracle(truth, error=error)))
    assert harness.run(wanted) == {n: truth[want.prompt] for n, want in enumerate(wanted)}
    assert target.lengths == tuple(len(want.prompt) + 30 - 1 for want in wanted)
    rates = {counters.accepted / counters.proposed for counters in harness.counters.values()}
    assert (error == 0.0) == (rates == {1.0})
    assert (error == 1.0) == (rates == {0.0})


def test_an_end_token_inside_an_accepted_run_ends_it_there() -> None:
    want = Wanted(PROMPTS[0], 60, WARM)
    plain = alone(tiny.qwen3, want)
    end = next(token for n, token in enumerate(plain) if n > 20 and token not in plain[:n])
    expected = plain[: plain.index(end) + 1]
    target = Target(tiny.qwen3(), 1, 256)
    harness = Harness(target, how(Oracle({want.prompt: plain}, error=0.0)), ends=frozenset({end}))
    assert harness.run([want])[0] == expected
    assert target.lengths[0] == len(want.prompt) + len(expected) - 1
    counters = harness.counters[0]
    assert counters.accepted + counters.rounds >= len(expected) - 1


def test_a_round_never_overruns_the_budget() -> None:
    for count in range(1, 10):
        want = Wanted(PROMPTS[0], count)
        truth = alone(tiny.qwen3, Wanted(PROMPTS[0], 30))
        harness = Harness(Target(tiny.qwen3(), 1, 256), how(Oracle({want.prompt: truth}, error=0.0)))
        assert harness.run([want])[0] == truth[:count]


def test_a_round_never_overruns_the_context() -> None:
    want = Wanted(PROMPTS[0], 30)
    truth = alone(tiny.qwen3, want)
    target = Target(tiny.qwen3(), 1, len(want.prompt) + 20)
    harness = Harness(target, how(Oracle({want.prompt: truth}, error=0.0)))
    assert harness.run([replace(want, count=20)])[0] == truth[:20]


SAMPLED = [replace(WARM, temperature=t, seed=s) for t in (0.2, 1.0, 1.5) for s in (1, 2)]


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("sampling", SAMPLED, ids=lambda s: f"t{s.temperature}-s{s.seed}")
def test_a_seeded_stream_is_the_same_with_any_drafter_alone_and_in_company(sampling: Sampling, coupled: bool) -> None:
    wanted = [Wanted((*REPEATING[: 8 + n], n), 40, replace(sampling, seed=sampling.seed + n)) for n in range(5)]
    plain = [alone(tiny.llama, want) for want in wanted]
    for kind in (Kind.PROMPT_LOOKUP, Kind.DRAFT_MODEL):
        target = Target(tiny.llama(), 8, 512)
        drafter = lookup() if kind is Kind.PROMPT_LOOKUP else draft_model(target, most=4)
        harness = Harness(target, how(drafter, coupled=coupled))
        company = [Wanted((n, n + 1), 30 + n, replace(WARM, seed=n), speculation=Speculation("none")) for n in range(3)]
        got = harness.run([*wanted, *company])
        assert [got[n] for n in range(5)] == plain
        if kind is Kind.DRAFT_MODEL:
            assert sum(counters.rounds for counters in harness.counters.values()) > 20


def test_coupling_raises_acceptance_and_changes_no_token() -> None:
    rates = {}
    for coupled in (True, False):
        target = Target(tiny.llama(), 4, 512)
        harness = Harness(target, how(draft_model(target, most=4), coupled=coupled))
        harness.run([Wanted(prompt, 60, WARM) for prompt in PROMPTS])
        sums = harness.counters.values()
        rates[coupled] = sum(c.accepted for c in sums) / sum(c.tested for c in sums)
    assert rates[True] > rates[False] + 0.2


@pytest.mark.parametrize("family", ["qwen3", "lfm2", "qwen3_5", "muse_glimmer"])
def test_prompt_lookup_drafts_on_every_kind_of_cache(family: str) -> None:
    make = FAMILIES[family]
    wanted = [Wanted(REPEATING[n:], 60) for n in range(3)]
    harness = Harness(Target(make(), 3, 512), how(lookup()))
    got = harness.run(wanted)
    assert [got[n] for n in range(3)] == [alone(make, want) for want in wanted]
    assert all(counters.rounds for counters in harness.counters.values())


def test_a_penalised_row_drafts_and_sees_the_accepted_prefix() -> None:
    penalised = replace(GREEDY, repeat_penalty=1.3, frequency_penalty=0.2)
    want = Wanted(PROMPTS[0], 60, penalised)
    truth = alone(tiny.llama, want)
    for on_device in (False, True):
        harness = Harness(Target(tiny.llama(), 1, 256), how(Oracle({want.prompt: truth}, on_device=on_device)))
        assert harness.run([want])[0] == truth
        assert harness.counters[0].accepted > 5


@pytest.mark.parametrize("post", [False, True])
def test_probabilities_under_drafting_are_the_targets_own(post: bool) -> None:
    want = Wanted(PROMPTS[0], 30, replace(WARM, temperature=0.7), probs=5)
    plain = Harness(Target(tiny.llama(), 1, 256))
    truth = plain.run([want])[0]
    drafted = Harness(Target(tiny.llama(), 1, 256), how(Oracle({want.prompt: truth})))
    assert drafted.run([want])[0] == truth
    a, b = ([probs for outcome in h.outcomes for probs in outcome.probs] for h in (plain, drafted))
    assert len(a) == len(b) == 30
    for x, y in zip(a, b, strict=True):
        assert x.logprob == pytest.approx(y.logprob, abs=1e-3)
        assert [id for id, _ in x.top][:2] == [id for id, _ in y.top][:2]


def test_a_request_may_decline_or_narrow_drafting() -> None:
    truth = {PROMPTS[0]: alone(tiny.llama, Wanted(PROMPTS[0], 30))}
    for speculation, off, most in (
        (Speculation("none"), DraftOff.DISABLED, 0),
        (Speculation(most=0), DraftOff.DISABLED, 0),
        (Speculation("mtp"), DraftOff.NO_DRAFTER, 0),
        (Speculation(most=2), None, 2),
        (Speculation("draft-model"), None, 7),
    ):
        harness = Harness(Target(tiny.llama(), 1, 256), how(Oracle(truth, error=0.0, full=True)))
        harness.run([Wanted(PROMPTS[0], 30, speculation=speculation)])
        assert harness.outcomes[-1].off is off
        rounds = [outcome.round.proposed for outcome in harness.outcomes if outcome.round]
        assert max(rounds, default=0) == most


def test_stateful_samplers_step_plainly_and_say_so() -> None:
    harness = Harness(Target(tiny.llama(), 1, 256), how(lookup()))
    harness.run([Wanted(REPEATING, 20, replace(WARM, mirostat=2))])
    assert harness.counters[0].rounds == 0
    assert harness.outcomes[-1].off is DraftOff.SAMPLER


def test_widths_that_are_not_exact_enough_are_not_used() -> None:
    truth = {PROMPTS[0]: alone(tiny.llama, Wanted(PROMPTS[0], 40))}
    for widest, off in ((4, None), (1, DraftOff.INEXACT)):
        harness = Harness(
            Target(tiny.llama(), 1, 256), how(Oracle(truth, error=0.0), widest=lambda w, m=widest: min(w, m))
        )
        assert harness.run([Wanted(PROMPTS[0], 40)])[0] == truth[PROMPTS[0]]
        rounds = [outcome.round.proposed for outcome in harness.outcomes if outcome.round]
        assert max(rounds, default=0) == widest - 1
        assert harness.outcomes[-1].off is off


class BrokenOracle(Oracle):
    def propose(self, asks):
        if len(self.sessions[0].emitted) > 10:
            raise RuntimeError("drafter lost")
        return super().propose(asks)


def test_a_drafters_fault_costs_proposals_and_no_token() -> None:
    truth = {want.prompt: alone(tiny.llama, want) for want in (Wanted(PROMPTS[0], 40), Wanted(PROMPTS[1], 40))}
    drafter = BrokenOracle(truth)
    harness = Harness(Target(tiny.llama(), 2, 256), how(drafter))
    got = harness.run([Wanted(PROMPTS[0], 40), Wanted(PROMPTS[1], 40)])
    assert got == dict(enumerate(truth.values()))
    assert not harness.errors
    assert harness.outcomes[-1].off is DraftOff.FAULT
    assert all(session.closed == 0 for session in drafter.sessions)


def test_the_argmax_rule_serves_the_greedy_stream_whatever_the_temperature() -> None:
    truth = {PROMPTS[0]: alone(tiny.llama, Wanted(PROMPTS[0], 30))}
    drafter = Oracle(truth, kind=Kind.DFLASH)
    harness = Harness(Target(tiny.llama(), 1, 256), how(drafter, setting=Setting.ARGMAX))
    assert harness.run([Wanted(PROMPTS[0], 30, WARM)])[0] == truth[PROMPTS[0]]


def test_drafted_and_plain_rows_share_one_forward_a_tick() -> None:
    class Counting(Target):
        forwards: list[tuple[int, ...]]

        def verify(self, slots, ids, capture=(), *, revocable=False):
            self.forwards.append(tuple(ids.shape))
            return super().verify(slots, ids, capture, revocable=revocable)

        def restore(self, before):
            self.forwards.pop()
            super().restore(before)

    target = Counting(tiny.qwen3(), 4, 256)
    target.forwards = []
    wanted = [Wanted(prompt, 20) for prompt in PROMPTS]
    truth = {want.prompt: alone(tiny.qwen3, want) for want in wanted[:2]}
    harness = Harness(target, how(Oracle(truth, error=0.0)))
    harness.run(wanted)
    wide = [shape for shape in target.forwards[1:] if shape[1] > 1]
    assert wide
    assert any(shape[0] == 4 for shape in wide), "rows without proposals ride along"
    assert len(target.forwards) <= harness.ticks + 2
