"""The acceptance A/B in small: a random pair of models, every judgement, and that each can fail."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_map

from gguf_samples import sample, write
from logging_state import kept_logging
from models import tiny
from rounds.table import TableTarget, constant
from stoker import cli
from stoker.acceptance import rules
from stoker.acceptance.closed_forms import Averages, ClosedForms
from stoker.acceptance.select import Rule
from stoker.acceptance.verdict import Verdict
from stoker.commands import accept_ab
from stoker.commands.accept_ab import HEAD, table
from stoker.commands.accept_ab_arms import (
    ARMS,
    Course,
    Report,
    compare,
    judge,
    repeats,
    same_when_cold,
    steps,
    told_apart,
)
from stoker.commands.offline_model import Parts
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds import step
from stoker.rounds.draft_model import DraftModel

pytestmark = pytest.mark.mlx

TARGET = (2.0, 1.0, 0.5, 0.0, -0.5, -1.0)
DRAFT = (1.4, 1.3, 0.2, 0.6, -0.3, -0.8)


def table_course(count: int = 60) -> Course:
    target, model = TableTarget(constant(TARGET), 4), TableTarget(constant(DRAFT), 4)
    parts = Parts(target, Sampler(target.vocab, []), frozenset(), DraftModel(model, target, most=2))
    return Course(parts, [(n % 6,) for n in range(8)], count, most=2, temperatures=(0.7, 1.5))


def tiny_course() -> Course:
    """A random model and its nudged twin as the drafter, so that some proposals are right."""
    model = tiny.llama(seed=0)
    mx.random.seed(3)
    model.update(tree_map(lambda w: w + 0.02 * mx.random.normal(w.shape), model.parameters()))
    target = Target(tiny.llama(), 4, 128)
    drafter = DraftModel(Target(model, 4, 128), target, most=2)
    parts = Parts(target, Sampler(target.vocab, []), frozenset(), drafter)
    return Course(parts, [(1, 2, 3), (9, 8), (30,), (5, 6, 7, 8)], 40, most=2, temperatures=(0.7,))


@pytest.fixture(scope="module")
def report() -> Report:
    return compare(table_course(), lambda: None)


def test_every_arm_sits_at_its_closed_form_on_tables(report: Report) -> None:
    assert report.faults == []
    assert [it.arm.name for it in report.measured] == [arm.name for arm in ARMS] * 2
    assert min(it.counters.tested for it in report.measured) > 200


def test_and_on_models(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0

    def count() -> None:
        nonlocal seen
        seen += 1

    course = tiny_course()
    report = compare(course, count)
    assert report.faults == []
    assert seen == steps(course)
    assert len({it.tokens for it in report.measured if it.run.rule is Rule.MATCH}) == 1, "coupling changes no token"


def test_the_table_has_a_line_for_each_arm_and_temperature(report: Report) -> None:
    lines = table(report.measured)
    assert lines[:2] == list(HEAD)
    assert len(lines) == 2 + 6
    assert {line.count("|") for line in lines} == {13}
    assert lines[2].startswith("| 0.7 | coupled | sampler-match | coupled | ")
    assert lines[4].startswith("| 0.7 | stochastic | stochastic | independent | ")


def test_a_rule_that_accepts_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(draft: list[int], choices: list[int]) -> Verdict:
        return rules.match(draft, [*draft[:1], *choices[1:]] if draft else choices)

    monkeypatch.setattr(step, "match", generous)
    course = table_course()
    faults = judge(course.measure(ARMS[0], 0.7))
    assert len(faults) == 1
    assert "standard errors from closed_form_coupled" in faults[0]


def test_an_arm_that_runs_another_rule_is_found(report: Report) -> None:
    first = report.measured[0]
    (fault,) = judge(replace(first, arm=ARMS[2]))
    assert fault.endswith("ran rule=sampler-match proposals=coupled, not rule=stochastic proposals=independent")


def test_proposals_that_are_not_drawn_as_they_say_are_found(report: Report) -> None:
    """Coupled ones that call themselves independent: only the closed form can tell."""
    (fault,) = judge(replace(report.measured[0], arm=ARMS[1]))
    assert "standard errors from closed_form_sum_prod" in fault


def test_arms_that_cannot_be_told_apart_are_found(report: Report) -> None:
    assert told_apart(report.measured) == []
    assert told_apart([report.measured[0], report.measured[1]]) == [
        "the arms show only 2 pairs of rule= and proposals="
    ]


def test_what_was_watched_must_be_what_was_tested(report: Report) -> None:
    first = report.measured[0]
    (fault,) = judge(replace(first, counters=replace(first.counters, tested=1)))
    assert "tested" in fault


def test_an_arm_that_is_not_greedy_or_not_equal_at_temperature_0_is_found(report: Report) -> None:
    cold = [table_course(10).measure(arm, 0.0) for arm in ARMS]
    assert same_when_cold(cold) == []
    assert len(same_when_cold(report.measured[:3])) == 4
    assert same_when_cold([cold[0], replace(cold[1], tokens=((1,),))]) == [
        "at temperature 0 the arms do not emit the same tokens"
    ]


def test_a_stream_that_does_not_come_again_is_found(report: Report) -> None:
    stochastic = report.measured[2]
    assert repeats(stochastic, stochastic) == []
    assert repeats(stochastic, replace(stochastic, tokens=())) == ["stochastic does not repeat itself at an equal seed"]


def test_distributions_that_are_none_and_arms_that_tested_nothing_are_found(report: Report) -> None:
    first, wrong = report.measured[0], Averages()
    wrong.add(ClosedForms(0.5, 0.9, 0.6, 0.1), accepted=True)
    counters = replace(first.counters, tested=1, accepted=1)
    assert "is violated at 1 positions" in judge(replace(first, averages=wrong, counters=counters))[0]
    nothing = replace(first, averages=Averages(), counters=replace(counters, tested=0, accepted=0))
    assert judge(nothing) == ["coupled at temperature 0.7: nothing was tested"]
    assert "| inf |" in table([nothing])[-1]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with kept_logging():
        yield tmp_path


def test_the_command_makes_its_draft_model_once_and_prints_the_table(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(cache / "m.gguf", sample("llama", num_hidden_layers=3))
    words = ["accept-ab", "-m", str(path), "-n", "6"]
    assert cli.main(words) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[:2] == list(HEAD)
    assert len(first) == 2 + 9 + 1
    assert first[-1].startswith("every rate within 4 standard errors")
    (made,) = [place for place in cache.rglob("accept-ab/*") if place.is_dir()]
    assert made.name.endswith("-2-layers")
    monkeypatch.setattr(accept_ab, "convert", lambda *_, **__: pytest.fail("made again"))
    assert cli.main(words) == 0
    assert capsys.readouterr().out.splitlines() == first, "fixed seeds: the same table"


def test_a_fault_is_printed_and_is_the_exit_status(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(cache / "m.gguf", sample("llama", num_hidden_layers=3))
    monkeypatch.setattr(accept_ab, "compare", lambda *_: Report([], ["this is wrong"]))
    assert (
        accept_ab.run(
            argparse.Namespace(model=str(path), predict=4, num_draft_tokens=2, seed=1), {"XDG_CACHE_HOME": str(cache)}
        )
        == 1
    )
    assert capsys.readouterr().out.splitlines()[-1] == "FAULT: this is wrong"
