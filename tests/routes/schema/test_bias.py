import math

import pytest

from routes.fakes import ByteTokenizer
from stoker.routes.schema.bias import Biases, read_bias


@pytest.mark.parametrize(
    ("value", "biases"),
    [
        (None, ()),
        ([[65, 1.5], [66, False], [67, -2]], ((65, 1.5), (66, -math.inf), (67, -2.0))),
        ([["AB", 1]], ((65, 1.0), (66, 1.0))),
        ({"65": 1, "AB": False, "-1": 2}, ((65, 1.0), (65, -math.inf), (66, -math.inf))),
        ([[65, True], [65, "x"], [True, 1], [65], 65, [999999, 1], [-1, 1], [None, 1]], ()),
        ("65", ()),
        ({"9" * 30: 1}, tuple((57, 1.0) for _ in range(30))),
    ],
)
def test_all_spellings_become_token_ids_and_others_are_skipped(value: object, biases: Biases) -> None:
    assert read_bias(value, ByteTokenizer()) == biases
