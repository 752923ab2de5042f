"""Block drafters on the real loop: context, catching up, adopted prefixes, company; no token ever depends on them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from models import tiny
from rounds.drafters import CASES, Make, guided, how, net
from rounds.harness import GREEDY, PROMPTS, WARM, Harness, Wanted, alone
from stoker.acceptance.governor import Graded
from stoker.acceptance.select import Setting
from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Speculation
from stoker.core.work import Join, Keep, Plan, PrefillWork, Release, StepWork
from stoker.models.nets.backbone import BlockNet
from stoker.models.nets.context import Context
from stoker.models.target import Target
from stoker.rounds.base import Ask, Drawing, Opening
from stoker.rounds.block import DEBT, BlockDrafter
from stoker.rounds.dflash import DFlash
from stoker.rounds.dspark import DSpark
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes

pytestmark = pytest.mark.mlx

FAMILIES: dict[str, Make] = {
    "llama": tiny.llama,
    "qwen3": tiny.qwen3,
    "qwen3_5": tiny.qwen3_5,
    "lfm2": tiny.lfm2,
    "gemma3_text": tiny.gemma3_text,
    "muse_glimmer": tiny.muse_glimmer,
}
FIVE = (*PROMPTS, (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4))


def equality(family: str, name: str, place: Path, count: int) -> None:
    make = FAMILIES[family]
    wanted = [Wanted(prompt, count, join_at=n) for n, prompt in enumerate(FIVE)]
    truth = {want.prompt: alone(make, want) for want in wanted}
    target = Target(make(), 5, 512)
    harness = Harness(target, how(guided(name, target, place, truth)))
    assert harness.run(wanted) == {n: truth[want.prompt] for n, want in enumerate(wanted)}
    assert not harness.errors
    assert harness.outcomes[-1].off is None
    for counters in harness.counters.values():
        assert 0 < counters.accepted < counters.proposed


@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith("-short")])
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_plain_decodings(family: str, name: str, tmp_path: Path) -> None:
    equality(family, name, tmp_path, 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_plain_decodings_over_two_hundred_tokens(family: str, name: str, tmp_path: Path) -> None:
    equality(family, name, tmp_path, 200)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("coupled", [True, False])
def test_a_seeded_stream_is_the_same_drafted_or_not(name: str, coupled: bool, tmp_path: Path) -> None:
    wanted = [Wanted(prompt, 50, replace(WARM, seed=n, temperature=1.3)) for n, prompt in enumerate(PROMPTS)]
    truth = {want.prompt: alone(tiny.llama, want) for want in wanted}
    target = Target(tiny.llama(), 4, 256)
    harness = Harness(target, how(guided(name, target, tmp_path, truth), coupled=coupled))
    assert harness.run(wanted) == {n: truth[want.prompt] for n, want in enumerate(wanted)}
    assert sum(counters.accepted for counters in harness.counters.values()) > 20


@pytest.mark.parametrize("name", ["dflash", "dspark"])
def test_a_row_is_the_same_alone_and_among_seven_mixed_ones(name: str, tmp_path: Path) -> None:
    kinds = ["", "prompt-lookup", "none", "", "prompt-lookup", "none", ""]
    repeating = (5, 6, 7, 8) * 4
    wanted = [
        Wanted((*repeating, n), 40, replace(WARM, seed=n) if n % 2 else GREEDY, speculation=Speculation(kind))
        for n, kind in enumerate(kinds)
    ]
    truth = {want.prompt: alone(tiny.qwen3, want) for want in wanted}
    target = Counting(tiny.qwen3(), 7, 256)
    drafter = guided(name, target, tmp_path, truth)
    both = replace(how(drafter), drafters={drafter.kind: drafter, Kind.PROMPT_LOOKUP: Lookup(Sizes(), Graded)})
    harness = Harness(target, both)
    assert harness.run(wanted) == {n: truth[want.prompt] for n, want in enumerate(wanted)}
    used = {outcome.kind for outcome in harness.outcomes if outcome.round is not None}
    assert used == {drafter.kind, Kind.PROMPT_LOOKUP}
    assert any(shape[0] == 7 and shape[1] > 1 for shape in target.shapes), "all kinds share one forward"


class Counting(Target):
    def __init__(self, *args: Any) -> None:
        self.shapes: list[tuple[int, ...]] = []
        super().__init__(*args)

    def verify(self, slots, ids, capture=(), *, revocable=False):
        self.shapes.append(tuple(ids.shape))
        return super().verify(slots, ids, capture, revocable=revocable)

    def restore(self, before):
        self.shapes.pop()
        super().restore(before)


def test_four_rows_cost_one_draft_forward_and_one_verify_forward_a_tick(tmp_path: Path) -> None:
    wanted = [Wanted(prompt, 30) for prompt in PROMPTS]
    truth = {want.prompt: alone(tiny.qwen3, want) for want in wanted}
    target = Counting(tiny.qwen3(), 4, 256)
    drafter = guided("dflash", target, tmp_path, truth)
    harness = Harness(target, how(drafter))
    harness.run(wanted)
    rounds = [shape for shape in target.shapes if shape[1] > 1]
    assert drafter.guide.blocks <= len(target.shapes)
    assert len(rounds) <= drafter.guide.blocks + 1, "the prompts are read in one forward, and each round is one"
    assert harness.ticks < 25


def test_a_round_synchronises_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing that touches a value is the one evaluation; what is read after it is there already."""
    events: list[str] = []

    def told(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            events.append(name)
            return call(*args)

        return wrapped

    for name in ("dflash", "dspark"):
        wanted = [Wanted(prompt, 40, WARM) for prompt in PROMPTS]
        truth = {want.prompt: alone(tiny.qwen3, want) for want in wanted}
        target = Target(tiny.qwen3(), 4, 256)
        engine = Harness(target, how(guided(name, target, tmp_path, truth))).engine
        steps = tuple(StepWork(n, 40) for n in range(4))
        joins = tuple(Join(n, n, want.prompt, 0, want.sampling) for n, want in enumerate(wanted))
        reads = tuple(PrefillWork(n, len(want.prompt) - 1) for n, want in enumerate(wanted) if len(want.prompt) > 1)
        engine.tick(Plan(join=joins, prefill=reads, step=steps))
        with monkeypatch.context() as patch:
            patch.setattr(mx, "eval", told("eval", mx.eval))
            for method in ("tolist", "item"):
                patch.setattr(mx.array, method, told("read", getattr(mx.array, method)))
            for _ in range(4):
                events.clear()
                outcomes = engine.tick(Plan(step=steps))
                assert all(outcome.round is not None for outcome in outcomes)
                assert events[0] == "eval"
                assert events.count("eval") == 1


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("family", ["llama", "lfm2"])
def test_the_context_after_rounds_of_all_lengths_is_a_fresh_prompts(family: str, name: str, tmp_path: Path) -> None:
    make = FAMILIES[family]
    want = Wanted(FIVE[-1], 60)
    truth = alone(make, want)
    target = Target(make(), 2, 256)
    drafter = guided(name, target, tmp_path, {want.prompt: truth})
    Harness(target, how(drafter)).run([want])
    content = [*want.prompt, *truth][: target.lengths[0]]
    assert drafter.context.length(0) == len(content)
    used = drafter.context.draft([0], [[]], [truth[-1]])
    fresh = prefilled(drafter, target, content).draft([1], [[]], [truth[-1]])
    assert mx.allclose(used, fresh, atol=5e-3)
    other = prefilled(drafter, target, [*content[:-2], 1, 2]).draft([1], [[]], [truth[-1]])
    assert not mx.allclose(used, other, atol=5e-3), "and one column makes a difference"


def prefilled(drafter: BlockDrafter, target: Target, tokens: list[int]) -> Context:
    """Slot 1 of a new context, which has read these tokens in one forward."""
    context, taps = Context(drafter.context.net, 2, 256), drafter.needs.capture
    target.truncate(1, 0)
    with target.verify([1], mx.array([tokens]), taps) as seen:
        context.extend(1, [mx.concatenate([seen.features[tap][0] for tap in taps], axis=-1)])
    return context


def test_plain_rounds_are_read_along_and_run_in_together(tmp_path: Path) -> None:
    target = Target(tiny.llama(), 1, 256)
    drafter = DFlash(net("dflash", target, tmp_path), target)
    never = how(drafter, widest=lambda width: 1 if width > 2 else width)
    harness = Harness(target, replace(never, least=7))
    assert harness.run([Wanted(PROMPTS[0], DEBT + 20)])[0] == alone(tiny.llama, Wanted(PROMPTS[0], DEBT + 20))
    assert harness.counters[0].rounds == 0
    assert drafter.context.length(0) == target.lengths[0]


# prefixes that were taken over


def run(harness: Harness, *plans: Plan) -> None:
    for plan in plans:
        harness.engine.tick(plan)


def read_prompt(
    id: int, slot: int, prompt: tuple[int, ...], cached: int = 0, *, source: int = -1, kept: int = -1
) -> Plan:
    join = Join(id, slot, prompt, cached, GREEDY, source=source, kept=kept)
    work = (PrefillWork(id, len(prompt) - 1),) if len(prompt) - 1 > cached else ()
    return Plan(join=(join,), prefill=work)


PROMPT = FIVE[-1]
LONGER = (*PROMPT, 11, 12, 13, 14)


def blocks(drafter: BlockDrafter, slot: int) -> np.ndarray:
    return np.array(drafter.context.draft([slot], [[]], [9]))


@pytest.fixture
def beside(tmp_path: Path) -> tuple[Harness, DFlash]:
    target = Target(tiny.llama(), 3, 256)
    drafter = DFlash(net("dflash", target, tmp_path), target)
    return Harness(target, how(drafter)), drafter


def whole(drafter: BlockDrafter, target: Target, prompt: tuple[int, ...]) -> np.ndarray:
    return np.array(prefilled(drafter, target, list(prompt[:-1])).draft([1], [[]], [9]))


def test_a_slots_own_prefix_is_kept(beside: tuple[Harness, DFlash]) -> None:
    harness, drafter = beside
    run(harness, read_prompt(1, 0, PROMPT), Plan(release=(Release(1, len(PROMPT) - 1),)))
    run(harness, read_prompt(2, 0, LONGER, len(PROMPT) - 1))
    assert drafter.context.hole(0) == (0, 0)
    assert np.allclose(blocks(drafter, 0), whole(drafter, harness.target, LONGER), atol=1e-4)


def test_a_copied_prefix_is_copied(beside: tuple[Harness, DFlash]) -> None:
    harness, drafter = beside
    run(harness, read_prompt(1, 0, PROMPT), read_prompt(2, 2, LONGER, len(PROMPT) - 1, source=0))
    assert drafter.context.hole(2) == (0, 0)
    assert np.allclose(blocks(drafter, 2), whole(drafter, harness.target, LONGER), atol=1e-4)


def test_a_kept_prefix_is_kept_aside_and_dropped(beside: tuple[Harness, DFlash]) -> None:
    harness, drafter = beside
    run(harness, read_prompt(1, 0, PROMPT), Plan(release=(Release(1, len(PROMPT) - 1),), keep=(Keep(0, 7),)))
    run(harness, read_prompt(2, 0, (40, 41, 42)), read_prompt(3, 2, LONGER, len(PROMPT) - 1, kept=7))
    assert drafter.context.hole(2) == (0, 0)
    assert np.allclose(blocks(drafter, 2), whole(drafter, harness.target, LONGER), atol=1e-4)
    run(harness, Plan(drop=(7,)), Plan(release=(Release(3, 0),)))
    run(harness, read_prompt(4, 2, LONGER, len(PROMPT) - 1, kept=7))
    assert drafter.context.hole(2) == (0, 0), "what was lost is read again, by the engine"


def test_a_prefix_that_nobody_read_along_is_a_hole_which_is_never_seen(beside: tuple[Harness, DFlash]) -> None:
    harness, drafter = beside
    undrafted = Join(1, 0, PROMPT, 0, GREEDY, speculation=Speculation("none"))
    run(harness, Plan(join=(undrafted,), prefill=(PrefillWork(1, len(PROMPT) - 1),)))
    run(harness, Plan(release=(Release(1, len(PROMPT) - 1),)), read_prompt(2, 0, LONGER, len(PROMPT) - 1))
    assert drafter.context.hole(0) == (0, len(PROMPT) - 1)
    assert drafter.context.length(0) == len(LONGER) - 1
    taps, target = drafter.needs.capture, harness.target
    target.truncate(1, 0)
    with target.verify([1], mx.array([list(LONGER[:-1])]), taps) as seen:
        joined = mx.concatenate([seen.features[tap][0] for tap in taps], axis=-1)
    fresh = Context(drafter.context.net, 2, 256)
    fresh.extend(1, [joined[len(PROMPT) - 1 :]])
    expected = np.array(fresh.draft([1], [[]], [9]))
    assert np.allclose(blocks(drafter, 0), expected, atol=1e-4), "as if the text began behind it"


def test_a_request_goes_on_drafting_in_a_slot_with_a_hole(tmp_path: Path) -> None:
    target = Target(tiny.llama(), 2, 256)
    truth = {LONGER: alone(tiny.llama, Wanted(LONGER, 30))}
    drafter = guided("dspark", target, tmp_path, truth)
    harness = Harness(target, how(drafter))
    undrafted = Join(9, 0, PROMPT, 0, GREEDY, speculation=Speculation("none"))
    run(harness, Plan(join=(undrafted,), prefill=(PrefillWork(9, len(PROMPT) - 1),)))
    run(harness, Plan(release=(Release(9, len(PROMPT) - 1),)), read_prompt(1, 0, LONGER, len(PROMPT) - 1))
    tokens: list[int] = []
    while len(tokens) < 30:
        outcomes = harness.engine.tick(Plan(step=(StepWork(1, 30 - len(tokens)),)))
        tokens += [token for outcome in outcomes for token in outcome.tokens]
        assert outcomes[-1].off is None
    assert tokens == truth[LONGER]


# the pieces


def session_with(drafter: BlockDrafter, target: Target, prompt: tuple[int, ...], sampling=GREEDY):
    session = drafter.open(Opening(0, 0, prompt, 0, sampling, drafter.width))
    taps = drafter.needs.capture
    with target.verify([0], mx.array([list(prompt[:-1])]), taps) as seen:
        seen.keep([len(prompt) - 1])
    session.read(len(prompt) - 1, {tap: stream[0] for tap, stream in seen.features.items()})
    return session


@pytest.mark.parametrize("name", ["dflash", "dspark"])
def test_q_is_the_distribution_that_was_drawn_from(name: str, tmp_path: Path) -> None:
    """For DSpark the chained one: each slot behind the token that was really drawn before it."""
    target = Target(tiny.llama(), 1, 256)
    made: BlockNet = net(name, target, tmp_path)
    drafter = DSpark(made, target) if name == "dspark" else DFlash(made, target)  # type: ignore[arg-type]
    session = session_with(drafter, target, PROMPT, WARM)
    hidden = drafter.context.draft([0], [[]], [PROMPT[-1]])
    ask = Ask(session, PROMPT[-1], len(PROMPT) - 1, 4, Drawing(coupled=False, with_q=True))
    (proposal,) = drafter.propose([ask])
    assert proposal.q is not None
    logits = made.logits(hidden)[0, :4]
    if isinstance(drafter, DSpark):
        assert isinstance(proposal.tokens, mx.array)
        before = mx.concatenate([mx.array([PROMPT[-1]]), proposal.tokens[:-1]])
        logits = mx.stack([drafter._chain_net.corrected(logits[n][None], before[n][None])[0] for n in range(4)])
    assert mx.allclose(proposal.q, mx.softmax(logits, axis=-1), atol=1e-5)


def test_a_block_may_end_before_a_doubtful_slot(tmp_path: Path) -> None:
    target = Target(tiny.llama(), 1, 256)
    for name in ("dflash", "dspark"):
        made = net(name, target, tmp_path)
        kind: Any = DSpark if name == "dspark" else DFlash
        for least, count in ((1e-9, made.layout.most), (0.999999, 0)):
            drafter = kind(made, target, least_p=least)
            session = session_with(drafter, target, PROMPT)
            assert len(drafter.propose([Ask(session, PROMPT[-1], len(PROMPT) - 1, 9)])[0]) == count
            target.truncate(0, 0)


def test_the_users_limit_narrows_a_round_and_never_widens_it(tmp_path: Path) -> None:
    target = Target(tiny.llama(), 1, 256)
    made = net("dflash", target, tmp_path)
    assert [DFlash(made, target, most=most).width for most in (None, 3, 40)] == [7, 3, 7]


def test_a_drafter_that_loses_its_place_stops_drafting_and_no_text_changes(tmp_path: Path) -> None:
    target = Target(tiny.llama(), 1, 256)
    drafter = DFlash(net("dflash", target, tmp_path), target)
    session = session_with(drafter, target, PROMPT)
    session.observe(Verdict((1, 2), 1, 1), 1, {tap: mx.zeros((1, 64)) for tap in drafter.needs.capture})
    with pytest.raises(ValueError, match="columns before position"):
        drafter.propose([Ask(session, 2, len(PROMPT) + 1, 3)])

    class Forgetful(DFlash):
        def draw(self, hidden, turns):
            turns.sessions[0].pending.append(mx.zeros((1, hidden.shape[-1] * 3)))
            return super().draw(hidden, turns)

    target.truncate(0, 0)
    harness = Harness(target, how(Forgetful(net("dspark", target, tmp_path), target)))
    assert harness.run([Wanted(PROMPTS[0], 20)])[0] == alone(tiny.llama, Wanted(PROMPTS[0], 20))
    assert harness.outcomes[-1].off is DraftOff.FAULT


def test_argmax_serves_the_greedy_stream_with_dflash_and_dspark_declines(tmp_path: Path) -> None:
    truth = {PROMPTS[0]: alone(tiny.llama, Wanted(PROMPTS[0], 30))}
    for name, off in (("dflash", None), ("dspark", DraftOff.SAMPLER)):
        target = Target(tiny.llama(), 1, 256)
        harness = Harness(target, how(guided(name, target, tmp_path, truth), setting=Setting.ARGMAX))
        got = harness.run([Wanted(PROMPTS[0], 30, WARM)])[0]
        assert (got == truth[PROMPTS[0]]) == (off is None)
        assert harness.outcomes[-1].off is off
