from dataclasses import replace

from stoker.core.request import MAX_SEED, Grammar, Request, Sampling, Speculation
from stoker.scheduler.joining import SEED_STEP, first_join, join
from stoker.scheduler.sequence import Sequence
from stoker.scheduler.slots import Place

REQUEST = Request(
    5, (1, 2, 3, 4), 0.0, Sampling(seed=9), probs=2, speculation=Speculation("none"), grammar=Grammar("root ::= x")
)


def sequence(request: Request = REQUEST) -> Sequence:
    return Sequence(request, 3, 2, context=64, started=0.0)


def test_a_join_carries_the_request_and_where_its_columns_come_from() -> None:
    made = first_join(sequence(), Place(3, 2, source=1, kept=7))
    assert (made.id, made.slot, made.prompt, made.cached) == (5, 3, (1, 2, 3, 4), 2)
    assert (made.source, made.kept) == (1, 7)
    assert (made.probs, made.speculation, made.grammar) == (2, Speculation("none"), Grammar("root ::= x"))
    assert (made.sampling, made.answered) == (Sampling(seed=9), 0)


def test_a_later_join_reads_from_its_own_slot() -> None:
    made = join(sequence(), 4)
    assert (made.cached, made.source, made.kept) == (4, -1, -1)


def test_after_a_shift_the_noise_is_another() -> None:
    shifted = sequence()
    shifted.shifts = 2
    assert join(shifted, 0).sampling.seed == (9 + 2 * SEED_STEP) % (MAX_SEED + 1)
    wild = sequence(replace(REQUEST, sampling=Sampling(seed=MAX_SEED)))
    wild.shifts = 1
    assert 0 <= join(wild, 0).sampling.seed <= MAX_SEED
