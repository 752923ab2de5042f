"""Glimmer's measured width: narrow at first, timed from a draft to its last verdict, clamped rounds left out."""

from pathlib import Path

import mlx.core as mx
import pytest

from fakes import FakeClock
from models.nets import published, scripts
from rounds.harness import GREEDY
from stoker.acceptance.arms import WARM_UP, WINDOW, Arms
from stoker.acceptance.verdict import Verdict
from stoker.models.nets.glimmer import load
from stoker.models.nets.lender import lend
from stoker.models.target import Target
from stoker.rounds.base import Ask, Opening
from stoker.rounds.glimmer import Glimmer, Meter

pytestmark = pytest.mark.mlx


def test_a_session_offers_what_the_arms_allow_and_its_rounds_are_timed(tmp_path: Path) -> None:
    clock = FakeClock()
    target = Target(published.glimmer_target(), 1, 256)
    drafter = Glimmer(load(published.glimmer_assistant(tmp_path), lend(target)), target, clock=clock)
    assert (drafter.arms.low, drafter.arms.high) == (4, 8)
    prompt = (1, 2, 3, 4)
    session = drafter.open(Opening(0, 0, prompt, 0, GREEDY, 7))
    taps = published.GLIMMER_TAPS

    def features(number: int, columns: int) -> dict[int, mx.array]:
        parts = mx.split(scripts.glimmer_features(number, columns), len(taps), axis=-1)
        return dict(zip(taps, parts, strict=True))

    session.read(3, features(0, 3))
    position, widths = 3, list[int]()
    for number in range(WARM_UP + WINDOW + 2):
        limit = len(session.reach(7))
        widths.append(1 + limit)
        (made,) = drafter.propose([Ask(session, 5, position, limit)])
        assert len(made) == limit
        clock.pass_by(1.0)
        session.observe(Verdict((5,), 0, 1), limit, features(number, 1))
        position += 1
    assert widths == [4] * (WARM_UP + WINDOW + 1) + [8]


def test_a_round_nobody_judged_is_no_evidence() -> None:
    clock, arms = FakeClock(), Arms(4, 8)
    meter = Meter(arms, clock)
    for _ in range(4 * WINDOW):
        meter.drafted(4, 1)
        clock.pass_by(1.0)
    assert not arms.challenging
