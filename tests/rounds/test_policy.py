"""The policy is the budget's memory: a few requests make a drafter's profile, and the verdict outlives the process."""

from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import pytest

from fakes import FakeClock
from rounds.harness import GREEDY, Harness, Wanted
from rounds.oracle import Learned, Oracle, OracleSession
from rounds.table import TableTarget
from stoker.core.counters import Kind
from stoker.core.info import DraftVerdict, Standing
from stoker.models.shelf import Subject
from stoker.rounds.base import Needs, Opening, Proposal
from stoker.rounds.budget import PROFILE, Budget
from stoker.rounds.costs import Cell, CostTable
from stoker.rounds.evidence import Acceptance
from stoker.rounds.memory import Memory
from stoker.rounds.speculator import Speculation as How

pytestmark = pytest.mark.mlx

VOCAB = 64
CYCLE = mx.array([[30.0 * (b == (a + 1) % VOCAB) for b in range(VOCAB)] for a in range(VOCAB)], mx.float32)
SUBJECT = Subject("model", "files", "float32", "device", "blas", "software")
LENGTH = 60


@dataclass
class Scripted(Oracle):
    """Three proposals a round, of which `right` in turn are right."""

    right: tuple[int, ...] = (1,)
    kind: Kind = Kind.MTP
    most: int = 3
    vocab: int = VOCAB
    acceptance: Acceptance = field(default_factory=Acceptance)
    rounds: int = 0

    @property
    def needs(self) -> Needs:
        return Needs(forwards=True)

    def open(self, opening: Opening) -> Learned:
        session = super().open(opening)
        own = Acceptance(general=self.acceptance)
        scripted = Learned(session.prompt, session.truth, session.rng, session.most, acceptance=own)
        self.sessions[-1] = scripted
        return scripted

    def _draft(self, session: OracleSession, limit: int) -> Proposal:
        count = min(limit, session.most)
        right = self.right[self.rounds % len(self.right)]
        self.rounds += 1
        last = session.prompt[-1] + len(session.emitted)
        return Proposal(tuple((last + 1 + n + (n >= right)) % VOCAB for n in range(count)))


def steps(rows: int, width: int) -> float:
    """A round costs three steps, whatever its width."""
    return 1.0 if width == 1 else 3.0


def serve(place: Path, right: tuple[int, ...], requests: int) -> tuple[Scripted, DraftVerdict, Harness]:
    """A server's life: it loads what is remembered, answers, and ends."""
    memory = Memory(place, SUBJECT)
    budget = memory.budget()
    if not budget.cost("", 1, 1):
        budget.tables[""] = CostTable({(1, 1): Cell(1.0, 50)})
    clock, drafter = FakeClock(), Scripted({}, right=right)
    budget.adopt(drafter.kind, drafter.acceptance, drafter.most)
    target = TableTarget(CYCLE, 1, 1024)
    target.evaluated = lambda r, w: clock.pass_by(steps(r, w))
    how = How({drafter.kind: drafter}, drafter.kind, budget=budget, remember=memory.keep)
    harness = Harness(target, how, clock=clock)
    for n in range(requests):
        assert harness.run([Wanted((n, n + 1), LENGTH, GREEDY)])[0] == [(n + 2 + k) % VOCAB for k in range(LENGTH)]
    return drafter, budget.verdict(drafter.kind), harness


def test_rounds_of_three_steps_that_yield_two_tokens_are_declined_and_a_restart_remembers(tmp_path: Path) -> None:
    drafter, verdict, _ = serve(tmp_path, (1,), PROFILE)
    assert (verdict.standing, verdict.requests) == (Standing.DECLINED, PROFILE)
    assert verdict.gain < 1
    assert 0 < drafter.rounds < PROFILE * LENGTH / 8
    again, remembered, _ = serve(tmp_path, (1,), 1)
    assert remembered.standing is Standing.DECLINED
    assert again.rounds <= 1, "at most a trial"


def test_rounds_that_yield_three_and_a_half_are_kept_and_a_restart_remembers(tmp_path: Path) -> None:
    drafter, verdict, _ = serve(tmp_path, (2, 3), PROFILE)
    assert verdict.standing is Standing.KEPT
    assert verdict.gain == pytest.approx(3.5 / 3, abs=0.06)
    assert verdict.width == 4
    assert drafter.rounds > PROFILE * LENGTH / 5
    again, remembered, harness = serve(tmp_path, (2, 3), 1)
    assert (remembered.standing, remembered.requests) == (Standing.KEPT, PROFILE + 1)
    assert remembered.acceptance == pytest.approx(verdict.acceptance, abs=0.1)
    assert harness.counters[0].rounds == again.rounds > LENGTH / 5


def test_before_its_profile_is_complete_a_drafter_has_no_verdict_and_nothing_is_written(tmp_path: Path) -> None:
    _, verdict, _ = serve(tmp_path, (2, 3), PROFILE - 1)
    assert (verdict.standing, verdict.requests) == (Standing.PROFILING, PROFILE - 1)
    assert list(tmp_path.iterdir()) == []


def test_another_drafter_of_the_same_kind_is_another_matter(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for place in (first, second):
        place.mkdir()
        (place / "config.json").write_text("{}")
    memory = Memory(tmp_path / "cache", SUBJECT)
    budget = Budget({"": CostTable({(1, 1): Cell(1.0, 50)}), "mtp": CostTable({(1, 4): Cell(3.0, 50)})})
    acceptance = Acceptance()
    acceptance.observe(3, 1)
    budget.adopt("mtp", acceptance, 3)
    memory.beside(first).keep(budget)
    assert memory.beside(first).budget().profiles["mtp"].acceptance.tested == acceptance.tested
    assert memory.beside(second).budget().profiles == {}
    assert memory.beside(None).budget().profiles == {}
    assert memory.beside(first).exactness is memory.exactness


@pytest.mark.parametrize("profile", [3, {"right": [2.0], "tested": [1.0], "requests": 1}, {"right": [], "tested": []}])
def test_a_profile_that_is_not_whole_is_as_good_as_none(profile: object, tmp_path: Path) -> None:
    memory = Memory(tmp_path, SUBJECT)
    memory.shelf.save({"seconds": {}, "profiles": {"mtp": profile}})
    assert memory.budget().profiles == {}
