"""Which tokens a packed drafter can propose."""

import mlx.core as mx
import numpy as np
import pytest
from tools.pack_drafter import OFTEN, OLDER, chosen, shortened

pytestmark = pytest.mark.mlx
VOCAB = OLDER + 1000


def test_what_was_said_comes_first_then_the_oldest_and_what_is_often_read_counts_as_older() -> None:
    said, read = np.zeros(VOCAB, int), np.zeros(VOCAB, int)
    said[VOCAB - 1] = 1
    read[OLDER + 2], read[OLDER + 3] = OFTEN + 1, OFTEN
    assert chosen(said, read, 4).tolist() == [0, 1, 2, VOCAB - 1]
    assert chosen(said, read, 5).tolist() == [0, 1, 2, OLDER + 2, VOCAB - 1]


def test_d2t_leads_each_row_to_its_token() -> None:
    ids = np.array([0, 3, 4, 9])
    table = mx.arange(20).reshape(10, 2)
    made = shortened({"markov_head.markov_w2.weight": table, "fc.weight": table}, ids)
    assert (mx.arange(4) + made["d2t"]).tolist() == ids.tolist()
    assert made["markov_head.markov_w2.weight"].tolist() == table[mx.array(ids)].tolist()
    assert "fc.weight" not in made
