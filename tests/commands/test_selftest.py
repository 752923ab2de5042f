"""The statistics are right, the checks pass the right rules and fail each wrong one."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from gguf_samples import sample, write
from models import tiny
from stoker.acceptance.select import Rule
from stoker.commands import selftest, selftest_report
from stoker.commands import selftest_run as running
from stoker.commands import selftest_stats as stats
from stoker.commands.selftest_arms import Arm, arms
from stoker.commands.selftest_checks import Checks, Result
from stoker.commands.selftest_fit import WRONG, argmax, fit, followers, resample_p
from stoker.commands.selftest_inject import Disguised, Reticent
from stoker.commands.selftest_play import Company, Job
from stoker.commands.selftest_run import Budget, Choice, examine, prepare
from stoker.commands.selftest_subject import Beliefs, Subject, Support, distribution, subject
from stoker.core import clock
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.core.request import Sampling
from stoker.core.work import Outcome, Plan
from stoker.models.target import Target
from stoker.rounds.base import Ask, Proposal
from stoker.rounds.engine import Engine
from stoker.rounds.speculator import Speculation

pytestmark = pytest.mark.mlx

PROMPT = (5, 9, 11, 30, 5, 9)
"""Its last two tokens stood before, so that prompt lookup proposes."""
LATER = 600.0

# --- statistics


@pytest.mark.parametrize(
    ("x", "dof", "chance"),
    [(3.841459, 1, 0.05), (25.7448, 5, 1e-4), (18.307038, 10, 0.05), (15.086272, 5, 0.01), (124.342113, 100, 0.05)],
)
def test_the_tail_agrees_with_the_tables(x: float, dof: int, chance: float) -> None:
    assert stats.tail(x, dof) == pytest.approx(chance, rel=1e-4)
    assert stats.limit(dof, chance) == pytest.approx(x, rel=1e-5)


def test_the_tail_of_two_degrees_of_freedom_is_an_exponential() -> None:
    for x in (0.01, 0.5, 1.9, 2.1, 10.0, 300.0):
        assert stats.tail(x, 2) == pytest.approx(math.exp(-x / 2), rel=1e-12)
    assert stats.tail(0.0, 2) == 1.0
    assert stats.tail(math.inf, 2) == 0.0


def test_power_is_that_of_a_shifted_normal_at_one_degree_of_freedom() -> None:
    for shift in (0.5, 4.0, 30.0, 400.0):
        cut, mean = math.sqrt(stats.limit(1)), math.sqrt(shift)
        exact = sum(math.erfc((cut + sign * mean) / math.sqrt(2)) / 2 for sign in (1, -1))
        assert stats.power(1, shift) == pytest.approx(exact, rel=1e-6)
    assert stats.power(3, 0.0) == stats.ALPHA
    assert stats.power(3, 1e5) == pytest.approx(1.0)


def test_power_agrees_with_a_simulation() -> None:
    p, wrong, n = {0: 0.5, 1: 0.3, 2: 0.2}, {0: 0.62, 1: 0.23, 2: 0.15}, 400
    groups = stats.bins(p, n)
    draws = np.random.default_rng(1).multinomial(n, list(wrong.values()), size=4000)
    cut = stats.limit(2)
    rejected = np.mean([stats.statistic(dict(enumerate(map(int, row))), p, groups) > cut for row in draws])
    assert stats.power(2, stats.noncentrality(p, wrong, groups, n)) == pytest.approx(rejected, abs=0.05)


def test_bins_expect_enough_and_the_unlikely_share_one() -> None:
    p = {0: 0.5, 1: 0.3, 2: 0.1, 3: 0.06, 4: 0.04, 5: 0.0}
    assert stats.bins(p, 400) == [(0,), (1,), (2,), (3, 4)]
    assert stats.bins(p, 1000) == [(0,), (1,), (2,), (3,), (4,)]
    assert stats.bins(p, 60) == [(0,), (1, 2, 3, 4)]
    assert stats.bins(p, 70) == [(0,), (1, 2, 3, 4)], "the rest expects too little alone, so it takes a neighbour in"
    assert stats.bins(p, 10) == [(0, 1, 2, 3, 4)]
    assert stats.bins({7: 1.0}, 100) == [(7,)]


def test_the_statistic_is_pearsons_and_infinite_outside_the_support() -> None:
    p = {0: 0.5, 1: 0.25, 2: 0.25}
    assert stats.statistic({0: 60, 1: 30, 2: 10}, p, [(0,), (1, 2)]) == pytest.approx(100 / 50 + 100 / 50)
    assert math.isinf(stats.statistic({0: 60, 9: 1}, p, [(0,), (1, 2)]))


# --- streams


def test_followers_are_counted_behind_every_prefix() -> None:
    found = followers([(1, 2), (1, 3), (2,)])
    assert found == {(): Counter({1: 2, 2: 1}), (1,): Counter({2: 1, 3: 1})}
    assert followers([]) == {}


P, Q = {0: 0.5, 1: 0.3, 2: 0.2}, {0: 0.1, 1: 0.7, 2: 0.2}


def streams(p: Mapping[int, float], count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(3)
    return [tuple(map(int, row)) for row in rng.choice(list(p), (count, 2), p=list(p.values()))]


def test_right_streams_fit_and_the_streams_of_wrong_rules_do_not() -> None:
    right = fit(streams(P, 2000), lambda _: P, lambda _: Q, WRONG)
    assert right.passed
    assert right.dof == 2 + 3 * 2
    assert 0 < right.statistic < right.limit
    assert all(power > 0.99 for power in right.powers.values())
    for name, rule in WRONG.items():
        assert not fit(streams(rule(P, Q), 2000), lambda _: P, lambda _: Q, WRONG).passed, name


def test_a_prefix_that_is_rare_or_uncertain_or_certain_is_left_out() -> None:
    known = {(): P, (0,): None, (1,): {5: 1.0}}
    found = fit([(0, 5)] * 50 + [(1, 5)] * 30 + [(2, 5)] * 20, lambda prefix: known[prefix], None, {"argmax": argmax})
    assert found.dof == 2
    assert found.statistic == pytest.approx(0.0)
    assert set(found.powers) == {"argmax"}


def test_one_token_outside_the_support_fails_even_where_there_is_one_bin() -> None:
    found = fit([(5,)] * 99 + [(6,)], lambda _: {5: 1.0}, None, {})
    assert math.isinf(found.statistic)
    assert not found.passed


def test_nothing_compared_is_not_passed() -> None:
    found = fit([(0,)] * 39, lambda _: P, None, WRONG)
    assert (found.dof, found.limit, found.passed, found.powers) == (0, 0.0, False, {})


def test_wrong_rules_emit_distributions() -> None:
    assert argmax(P, Q) == {0: 1.0}
    wrong = resample_p(P, Q)
    assert sum(wrong.values()) == pytest.approx(1.0)
    # 1 is proposed with 0.7 and stays with 0.3; else it is replaced by 0 or 2, in p's proportion.
    assert wrong == pytest.approx({0: 0.1 + 0.4 * 0.5 / 0.7, 1: 0.3, 2: 0.2 + 0.4 * 0.2 / 0.7})
    assert resample_p(P, P) == pytest.approx(P)
    assert sum(resample_p(P, {7: 1.0}).values()) == pytest.approx(1.0), "a proposal that p rules out"


# --- beliefs


def test_a_distribution_is_the_softmax_of_the_likeliest_or_unknown_at_a_tie() -> None:
    logits = np.log(np.array([0.1, 0.4, 0.2, 0.3]))
    assert distribution(logits, 2, 1e-3) == pytest.approx({1: 4 / 7, 3: 3 / 7})
    assert distribution(logits, 9, 1e-3) == pytest.approx({1: 0.4, 3: 0.3, 2: 0.2, 0: 0.1})
    assert distribution(np.array([2.0, 1.0, 1.0001]), 2, 1e-3) is None


def test_tokens_outside_the_likeliest_are_counted_where_they_stand() -> None:
    model = tiny.llama()
    inside: list[int] = []
    for rank in (1, 2, 1):
        logits = np.array(model(mx.array([[*PROMPT, *inside]]))[0, -1])
        inside.append(int(np.argsort(-logits)[rank - 1]))
    assert Support(model, PROMPT, 2).outside([tuple(inside)]) == 0
    last = np.argsort(-np.array(model(mx.array([[*PROMPT, *inside[:2]]]))[0, -1]))
    assert Support(model, PROMPT, 2).outside([(*inside[:2], int(last[2])), tuple(inside)]) == 1


def test_beliefs_are_told_once() -> None:
    beliefs = Beliefs(tiny.llama(), PROMPT, 4)
    first = beliefs((7,))
    assert first is not None
    assert len(first) == 4
    assert beliefs((7,)) is first


# --- the play


def subject_of(rows: int = 16, gain: float = 1.4) -> Subject:
    """A model whose choices are open enough, and a draft model that is like it but not too much."""
    model: Any = tiny.build("llama", tiny._ATTENTION | {"num_hidden_layers": 3, "rope_theta": 1e4}, gain)
    draft = tiny.build("llama", tiny._ATTENTION | {"num_hidden_layers": 2, "rope_theta": 1e4}, gain)
    shared = {"embed_tokens": model.model.embed_tokens.parameters()}
    draft.update({"model": shared})
    return subject(model, draft, PROMPT, rows)


class Plans(Engine):
    """Remembers the plans."""

    seen: list[Plan]

    def tick(self, plan: Plan) -> list[Outcome]:
        self.seen.append(plan)
        return super().tick(plan)


def test_a_prefix_is_read_once_for_each_slot_and_reused_by_all_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plans, "seen", list[Plan](), raising=False)
    monkeypatch.setattr("stoker.commands.selftest_play.Engine", Plans)
    target = Target(tiny.llama(), 2, 64)
    jobs = [Job(PROMPT, Sampling(seed=n), 3) for n in range(5)]
    ended: list[int] = []
    played = Company(target, None, 2).play(jobs, lambda: ended.append(1))
    assert len(ended) == len(played.streams) == 5
    joins = [join for plan in Plans.seen for join in plan.join]
    assert [join.cached for join in joins] == [0, 0, 5, 5, 5]
    assert sum(len(plan.prefill) for plan in Plans.seen) == 2
    assert max(len(plan.step) for plan in Plans.seen) == 2


def test_what_requests_emit_does_not_depend_on_reuse_or_company() -> None:
    jobs = [Job(PROMPT[: 6 - n % 2], Sampling(seed=n, temperature=1.0), 4) for n in range(6)]
    together = Company(Target(tiny.llama(), 4, 64), None, 4).play(jobs).streams
    assert together == [Company(Target(tiny.llama(), 1, 64), None, 1).play([job]).streams[0] for job in jobs]


def test_a_recurrent_model_reads_every_prompt_anew() -> None:
    jobs = [Job(PROMPT, Sampling(seed=n, temperature=1.0), 4) for n in range(4)]
    target = Target(tiny.lfm2(), 2, 64)
    assert Company(target, None, 2).play(jobs).streams == [
        Company(Target(tiny.lfm2(), 1, 64), None, 1).play([job]).streams[0] for job in jobs
    ]


def test_once_late_no_more_requests_begin_and_those_that_run_end() -> None:
    jobs = [Job(PROMPT, Sampling(seed=n), 3) for n in range(9)]
    answers = iter([False, True])
    played = Company(Target(tiny.llama(), 2, 64), None, 2).play(jobs, late=lambda: next(answers, True))
    assert [len(stream) for stream in played.streams] == [3, 3]


def test_a_fault_of_the_engine_ends_the_test_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such kernel")

    target = Target(tiny.llama(), 1, 64)
    monkeypatch.setattr(target, "verify", broken)
    with pytest.raises(StartError, match="the engine failed: no such kernel"):
        Company(target, None, 1).play([Job(PROMPT, Sampling(), 5)])


# --- the checks


class Bar:
    """Stands in for the progress bar."""

    def __init__(self) -> None:
        self.total: float | None = None
        self.done = 0
        self.descriptions: list[str] = []

    def update(self, n: int) -> None:
        self.done += n

    def set_description(self, desc: str) -> None:
        self.descriptions.append(desc)


def examined(inject: str = "", samples: int = 320) -> list[Result]:
    bar = Bar()
    results = examine(subject_of(), Budget(samples, clock.now(), LATER), bar, inject=inject)
    assert bar.done == bar.total
    assert len(bar.descriptions) == 13
    return results


ARMS = [
    "prompt-lookup sampler-match one-hot",
    "prompt-lookup greedy-argmax greedy",
    "draft-model sampler-match coupled",
    "draft-model sampler-match independent",
    "draft-model stochastic independent",
    "draft-model greedy-argmax greedy",
]


def test_every_right_rule_passes_with_power_against_the_wrong_ones() -> None:
    results = examined()
    assert [result for result in results if not result.passed] == []
    assert list(dict.fromkeys(result.arm.name for result in results)) == ARMS
    assert len(results) == 18
    for result in results:
        assert result.tested > 0
        if result.check == "distribution":
            assert result.n == 320
            assert result.dof > 5
            assert result.powers["argmax"] > 0.999
            assert ("resample-p" in result.powers) == (result.arm.rule is Rule.STOCHASTIC)
    assert min(result.powers.get("resample-p", 1.0) for result in results) > 0.9


def test_argmax_acceptance_fails_every_check_that_samples() -> None:
    results = examined("argmax", 160)
    for result in results:
        right = result.arm.rule is Rule.GREEDY or result.check.startswith("support")
        assert result.passed is right, (result.arm.name, result.check)
    wrong = [result for result in results if result.check == "distribution"]
    assert all(result.statistic > result.limit > 0 for result in wrong)


def test_resampling_from_p_fails_the_distribution_of_the_stochastic_rule_only() -> None:
    failed = [result for result in examined("resample-p") if not result.passed]
    assert [(result.arm.rule, result.check) for result in failed] == [(Rule.STOCHASTIC, "distribution")]
    assert failed[0].statistic > failed[0].limit > 0


def test_a_wider_target_than_the_support_is_noticed() -> None:
    """The support check fails where the engine's own filter is missing."""
    it = subject_of()
    checks = Checks.of(it, 1)
    (arm,) = [arm for arm in arms(it.drafters) if arm.proposals == "coupled"]
    assert checks.support(arm, lambda: None).passed
    played = Company(it.target, arm.how, 8).play([Job(PROMPT, Sampling(seed=n, temperature=1.0), 8) for n in range(8)])
    assert checks.two.outside(played.streams) > 0


def test_a_check_in_which_nothing_was_proposed_is_no_proof() -> None:
    it = subject_of()
    lookup = it.drafters[Kind.PROMPT_LOOKUP]
    idle = Arm(Kind.PROMPT_LOOKUP, Rule.GREEDY, "greedy", Speculation({lookup.kind: lookup}, None))
    together, alone = Checks.of(it, 1).equality(idle, lambda: None)
    assert not together.passed
    assert (together.statistic, together.note) == (0, "no proposal was tested")
    assert not alone.passed


def test_a_check_that_another_rule_judged_is_no_proof() -> None:
    it = subject_of()
    (greedy,) = [arm for arm in arms(it.drafters) if arm.rule is Rule.GREEDY and arm.kind is Kind.DRAFT_MODEL]
    claimed = replace(greedy, rule=Rule.MATCH)
    result = Checks.of(it, 1).support(replace(claimed, rule=Rule.STOCHASTIC), lambda: None)
    assert not result.passed
    assert result.note == "judged by sampler-match"


def test_a_difference_is_located() -> None:
    it = subject_of()
    checks = Checks.of(it, 1)
    (arm,) = [arm for arm in arms(it.drafters) if arm.proposals == "coupled"]
    checks.equality(arm, lambda: None)
    (sampling,) = checks.plain
    streams = checks.plain[sampling]
    streams[3] = (*streams[3][:-2], 1 + streams[3][-2], streams[3][-1])
    together, alone = checks.equality(arm, lambda: None)
    assert (together.passed, together.statistic) == (False, 2)
    assert together.note == f"row 3 differs from token {len(streams[3]) - 2}"
    assert alone.passed


def test_without_time_there_is_no_sample_and_no_pass() -> None:
    it = subject_of()
    results = examine(it, Budget(100, clock.now(), 0.0), Bar())
    wrong = [result for result in results if not result.passed]
    assert {result.check for result in wrong} == {"distribution"}
    assert wrong[0].note == "too few samples for two bins; no proposal was tested"


def test_a_target_without_draft_model_is_tested_with_prompt_lookup() -> None:
    it = subject(tiny.llama(), None, PROMPT, 2)
    assert [arm.name for arm in arms(it.drafters)] == ARMS[:2]


def test_a_disguise_changes_the_name_and_reticence_the_rest_of_q() -> None:
    it = subject_of()
    model = it.drafters[Kind.DRAFT_MODEL]
    disguised = Disguised(model, Kind.DFLASH)
    assert (disguised.kind, disguised.width, disguised.has_q, disguised.needs) == (
        Kind.DFLASH,
        model.width,
        True,
        model.needs,
    )

    class Two(Disguised):
        def propose(self, asks: Any) -> list[Proposal]:
            q = mx.array([[0.25, 0.75], [0.5, 0.5]])
            return [Proposal((1, 0), q), Proposal(mx.array([0, 1]), q), Proposal((1,))]

    asks: list[Ask] = []
    said = Reticent(Two(model, Kind.DRAFT_MODEL), Kind.DRAFT_MODEL).propose(asks)
    assert said[2].q is None
    for proposal, kept in zip(said, ([[0.0, 0.75], [0.5, 0.0]], [[0.25, 0.0], [0.0, 0.5]]), strict=False):
        assert proposal.q is not None
        assert proposal.q.tolist() == kept


# --- the report

GOLDEN = (
    "drafter        rule                    proposals    check           result"
    "  statistic  limit  dof    n  accepted  power\n"
    "prompt-lookup  greedy-argmax           greedy       equal, 16 rows  pass  "
    "          0      0       256    0.5000\n"
    "draft-model    stochastic              independent  distribution    pass  "
    "      21.25  42.50   12  900    0.2500  argmax 1.0000, resample-p 0.9876\n"
    "draft-model    sampler-match (argmax)  coupled      distribution    FAIL  "
    "        inf  42.50   12    9"
)


def golden() -> list[Result]:
    how = Speculation()
    powers = {"argmax": 1.0, "resample-p": 0.98761}
    return [
        Result(Arm(Kind.PROMPT_LOOKUP, Rule.GREEDY, "greedy", how), "equal, 16 rows", True, 0, 0, 256, 0, {}, 10, 5),
        Result(
            Arm(Kind.DRAFT_MODEL, Rule.STOCHASTIC, "independent", how),
            "distribution", True, 21.25, 42.5, 900, 12, powers, 8, 2,
        ),
        Result(
            Arm(Kind.DRAFT_MODEL, Rule.MATCH, "coupled", how, "argmax"),
            "distribution", False, math.inf, 42.5, 9, 12, note="why",
        ),
    ]  # fmt: skip


def test_the_table_has_one_line_for_each_check() -> None:
    assert selftest_report.table(golden()) == GOLDEN
    assert selftest_report.notes(golden()) == ["draft-model sampler-match coupled, distribution: why"]
    assert selftest_report.verdict(golden(), 61.4) == "selftest FAILED: 2 of 3 checks in 61 s"
    assert selftest_report.verdict(golden()[:2], 61.4) == "selftest passed: 2 of 2 checks in 61 s"


def test_json_holds_what_the_table_rounds() -> None:
    found = selftest_report.as_json(golden(), {"rows": 16})
    assert (found["rows"], found["passed"]) == (16, False)
    assert found["checks"][1]["power"]["resample-p"] == 0.98761
    assert found["checks"][2]["statistic"] is None
    assert found["checks"][2]["injected"] == "argmax"
    assert json.loads(json.dumps(found)) == found


# --- the command


def command(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    selftest.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write(tmp_path / "m.gguf", sample("llama"))


def run(model: Path, *words: str) -> int:
    return selftest.run(
        command("-m", str(model), "--rows", "4", "--samples", "120", *words), {"XDG_CACHE_HOME": str(model.parent)}
    )


def test_the_command_prints_a_table_and_writes_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = model.parent / "found.json"
    status = run(model, "--exactness", "off", "--json", str(file))
    out = capsys.readouterr().out.splitlines()
    found = json.loads(file.read_text())
    assert (status == 0) is found["passed"] is all(check["passed"] for check in found["checks"])
    assert out[0].split() == list(selftest_report.HEADS)
    assert "note: draft model: the model's own first" in "\n".join(out)
    assert out[-1].startswith("selftest ")
    assert (found["model"], found["rows"], found["inject"]) == ("m.gguf", 4, None)
    assert len(found["checks"]) == 18


def test_an_injected_rule_ends_the_command_with_status_1(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "--exactness", "off", "--inject", "argmax") == 1
    out = capsys.readouterr().out
    assert "sampler-match (argmax)" in out
    assert "selftest FAILED" in out


def test_json_that_cannot_be_written_is_a_line(model: Path) -> None:
    with pytest.raises(StartError, match="cannot write"):
        run(model, "--exactness", "off", "--json", str(model / "no"))


def test_no_exact_width_means_nothing_to_test(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running.Exactness, "admits", lambda self, width, rows=4: width <= 1)
    with pytest.raises(StartError, match=r"nothing drafts on this machine.*--exactness off tests it all the same"):
        prepare(Choice(str(model), rows=2), "ab ab", model.parent)


def test_a_given_draft_model_must_fit_and_an_own_one_need_not(model: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.gguf", sample("lfm2"))
    with pytest.raises(StartError, match="recurrent state"):
        prepare(Choice(str(model), str(other), 2, "off"), "ab ab", tmp_path)
    own = prepare(Choice(str(other), rows=2, exactness="off"), "ab ab", tmp_path)
    assert set(own.subject.drafters) == {Kind.PROMPT_LOOKUP}
    assert own.notes[0].startswith("no draft model: ")
    given = prepare(Choice(str(model), str(model), 2, "off"), "ab ab", tmp_path)
    assert set(given.subject.drafters) == {Kind.PROMPT_LOOKUP, Kind.DRAFT_MODEL}
    assert given.notes == ()


@pytest.mark.parametrize("words", [("--rows", "0"), ("--samples", "x"), ("--inject", "p")])
def test_arguments_that_make_no_test_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        command(*words)
