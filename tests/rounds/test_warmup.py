import pytest

from models import tiny
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.warmup import warm_up

pytestmark = pytest.mark.mlx


@pytest.mark.parametrize("make", [tiny.llama, tiny.lfm2])
def test_warming_up_keeps_nothing(make) -> None:
    target = Target(make(), 2, 16)
    warm_up(target, Sampler(target.vocab, []))
    assert target.lengths == (0, 0)


def test_a_tiny_context_is_enough() -> None:
    target = Target(tiny.llama(), 1, 2)
    warm_up(target, Sampler(target.vocab, []))
    assert target.lengths == (0,)
