"""The GPU benchmark on tiny shapes: the code that runs on a GPU is the code that runs here."""

import json
from pathlib import Path

import mlx.core as mx
import pytest

from benchmarks import gpu
from benchmarks.gpu_play import Oracle, Timed
from benchmarks.gpu_shapes import SHAPES, Drafted, build, decide
from benchmarks.gpu_split import Split
from stoker.models.target import Target
from stoker.rounds.speculator import Speculation as How

pytestmark = pytest.mark.mlx
TYPE = mx.bfloat16


def subject(shape: str, bits: int = 0) -> tuple[Target, Drafted, int]:
    pair = SHAPES[shape]
    model = build(pair.family, pair.config, TYPE, bits)
    step = decide(model, pair.family, pair.config, TYPE, bits)
    target = Target(model, 2, 160)
    return target, pair.make(target, pair.draft, TYPE), step


def how(oracle: Oracle) -> How:
    return How({oracle.kind: oracle}, oracle.kind, companions=oracle.companions)


def test_a_part_makes_all_four_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    assert gpu.main(["--part", "tiny-bf16", "--seconds", "60"]) == 0
    said = capsys.readouterr().out
    assert "failed" not in said
    assert "no time left" not in said
    tables = json.loads((tmp_path / "gpu-tiny-bf16.json").read_text())["tables"]
    assert [title[:3] for title in tables] == ["(d)", "(b)", "(c)", "(a)"]
    assert all(f"**tiny-bf16: {title}**" in said for title in tables)
    part = gpu.PARTS["tiny-bf16"]
    exact, costs, splits, speeds = tables.values()
    assert [line["width"] for line in exact] == ["chain again", *part.widths]
    assert [(line["rows"], line["width"]) for line in costs] == [(r, w) for r in part.rows for w in (1, *part.widths)]
    assert [line["strays"] for line in (*splits, *speeds)] == [0] * 4
    assert all(line["draft ms"] > 0 and line["verify ms"] > 0 for line in splits)


def test_time_that_is_up_ends_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    gpu.run("tiny-bf16", until=0.0, tables="bca")
    assert capsys.readouterr().out.count("no time left") == 3


@pytest.mark.parametrize("bits", [0, 4])
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.startswith("tiny")])
def test_a_decided_target_says_what_the_oracle_knows(shape: str, bits: int) -> None:
    target, drafted, step = subject(shape, bits)
    oracle = Oracle(drafted, 1.0, step, target.vocab)
    rate = Timed(target, how(oracle), step).play(2, 80, most=3)
    assert rate.strays == 0
    assert rate.tokens == rate.ticks * 2 * 4


def test_an_oracle_that_is_never_right_gets_one_token_a_round_and_no_stray() -> None:
    target, drafted, step = subject("tiny")
    rate = Timed(target, how(Oracle(drafted, 0.0, step, target.vocab)), step).play(1, 40, most=3)
    assert (rate.tokens, rate.strays) == (rate.ticks, 0)


def test_each_position_of_a_proposal_is_right_as_often_as_asked() -> None:
    target, drafted, step = subject("tiny")
    oracle = Oracle(drafted, 0.7, step, target.vocab)
    made = [oracle.ahead(5, 10) for _ in range(500)]
    right = [sum(row[n] == (5 + step * (n + 1)) % target.vocab for row in made) / 500 for n in range(10)]
    assert all(0.6 < share < 0.8 for share in right)


def test_the_phases_of_a_round_add_up_to_the_time_of_all_rounds() -> None:
    target, drafted, step = subject("tiny")
    play = Split(target, how(Oracle(drafted, 0.8, step, target.vocab)), step)
    begun = play.watch.at
    phases = play.split(1, 60, 5)
    parts = phases.draft + phases.verify + phases.sync + phases.host
    assert phases.rounds > 5
    assert 0 < parts <= play.watch.at - begun


def test_the_real_drafter_runs_though_nobody_asks_it() -> None:
    target, drafted, step = subject("tiny")
    layer = drafted.net["layers"][0]
    broken = layer.self_attn
    play = Timed(target, how(Oracle(drafted, 1.0, step, target.vocab)), step)
    broken["q_proj"] = broken["k_proj"]  # of another width: whoever builds this forward fails
    play.play(1, 40, most=3)
    assert all(outcome.round is None for outcome in play.outcomes)
