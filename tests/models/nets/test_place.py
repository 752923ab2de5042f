"""Where blocks stand and what they see, against the rule written out for every pair of positions."""

import itertools

import mlx.core as mx
import numpy as np
import pytest

from stoker.models.nets.block_config import Sight
from stoker.models.nets.place import Hole, Place
from stoker.models.span import Size, Span

pytestmark = pytest.mark.mlx
BLOCK = 4


def place(held: tuple[int, ...], fresh: tuple[int, ...], holes: tuple[Hole, ...], grain: int = 0) -> Place:
    span = Span(0, len(held), max(fresh) + BLOCK, held, Size(len(held), 128), grain)
    return Place(span, fresh, BLOCK, holes)


def sees(sight: Sight, end: int, hole: Hole, query: int, key: int) -> bool:
    if key >= end + BLOCK or hole[0] <= key < hole[1]:
        return False
    if key >= end and sight.causal and key > query:
        return False
    near = sight.window is None or query - key < sight.window
    return near and (not sight.both or sight.window is None or key - query < sight.window)


@pytest.mark.parametrize(
    ("held", "fresh", "holes"),
    [
        ((5,), (3,), ((0, 0),)),
        ((5,), (3,), ((1, 4),)),
        ((20, 20), (2, 2), ((0, 0), (0, 0))),
        ((20, 20), (2, 2), ((0, 9), (0, 0))),
        ((20, 20), (2, 1), ((0, 0), (0, 0))),
        ((0, 30, 7), (6, 1, 3), ((0, 0), (4, 8), (0, 7))),
    ],
)
@pytest.mark.parametrize(
    "sight",
    [
        Sight(window, causal, both)
        for window, causal, both in itertools.product((None, 8), (False, True), (False, True))
    ],
)
@pytest.mark.parametrize("grain", [0, 16])
def test_a_block_sees_its_context_and_itself(
    held: tuple[int, ...], fresh: tuple[int, ...], holes: tuple[Hole, ...], sight: Sight, grain: int
) -> None:
    stand = place(held, fresh, holes, grain)
    bottom, top = stand.span.bottom(sight.window), stand.span.top
    mask = stand.mask(sight, bottom)
    expected = np.array(
        [
            [[sees(sight, end, hole, end + j, key) for key in range(bottom, top)] for j in range(BLOCK)]
            for end, hole in zip(stand.ends, holes, strict=True)
        ]
    )
    if mask is None:
        assert expected.all()
    else:
        assert np.array_equal(np.broadcast_to(np.array(mask)[:, 0], expected.shape), expected)
    below = [
        sees(sight, end, hole, end + j, key)
        for end, hole in zip(stand.ends, holes, strict=True)
        for j, key in itertools.product(range(BLOCK), range(bottom))
    ]
    assert not any(below), "nothing that can be seen is left out"


def test_each_block_stands_right_behind_its_own_context() -> None:
    stand = place((0, 5), (3, 1), ((0, 0), (0, 0)))
    context = mx.array([[[1.0], [2], [3]], [[4], [0], [0]]])
    block = mx.array([[[10.0], [11], [12], [13]], [[20], [21], [22], [23]]])
    joined = np.array(stand.joined(context, block))[:, :, 0]
    assert joined[0].tolist() == [1, 2, 3, 10, 11, 12, 13]
    assert joined[1, :5].tolist() == [4, 20, 21, 22, 23]
    assert stand.ends == (3, 6)
    assert np.array(stand.offset).tolist() == [3, 6]
