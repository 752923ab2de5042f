import numpy as np
import pytest

from stoker.routes.shape.embeddings import LARGEST, normalized


@pytest.mark.parametrize(
    ("norm", "expected"), [(-1, [3.0, -4.0]), (0, [0.75 * LARGEST, -LARGEST]), (1, [3 / 7, -4 / 7]), (2, [0.6, -0.8])]
)
def test_a_vector_is_scaled_by_llama_cpps_numbers(norm: int, expected: list[float]) -> None:
    assert np.allclose(normalized([3.0, -4.0], norm), expected)


@pytest.mark.parametrize("norm", [0, 1, 2])
def test_a_vector_of_zeros_stays_one(norm: int) -> None:
    assert normalized([0.0, 0.0], norm).tolist() == [0.0, 0.0]


def test_a_norm_beyond_a_double_makes_zeros_without_a_warning() -> None:
    assert normalized([3.0, -4.0], 10_000).tolist() == [0.0, 0.0]
