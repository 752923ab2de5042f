from dataclasses import replace

import pytest

from stoker.core.request import Sampling
from stoker.core.work import Plan, Release


@pytest.mark.parametrize(
    ("change", "greedy"),
    [
        ({}, False),
        ({"temperature": 0.0}, True),
        ({"temperature": 0.0, "samplers": ("top_k",)}, False),
        ({"top_k": 1}, True),
        ({"top_k": 1, "samplers": ("temperature",)}, False),
        ({"temperature": 0.0, "mirostat": 2}, False),
    ],
)
def test_greedy_means_that_p_is_one_hot(change: dict[str, object], greedy: bool) -> None:
    assert replace(Sampling(), **change).greedy is greedy  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "feedback"),
    [
        ({}, False),
        ({"repeat_penalty": 1.1}, True),
        ({"repeat_penalty": 1.1, "repeat_last_n": 0}, False),
        ({"repeat_penalty": 1.1, "samplers": ("top_k",)}, False),
        ({"presence_penalty": 0.5}, True),
        ({"frequency_penalty": 0.5}, True),
        ({"dry_multiplier": 0.8}, True),
        ({"dry_multiplier": 0.8, "dry_base": 0.5}, False),
        ({"mirostat": 1}, True),
        ({"adaptive_target": 0.5, "samplers": ("adaptive_p",)}, True),
        ({"adaptive_target": 0.5}, False),
        ({"xtc_probability": 0.5}, False),
    ],
)
def test_feedback_means_that_a_draw_depends_on_earlier_tokens(change: dict[str, object], feedback: bool) -> None:
    assert replace(Sampling(), **change).feedback is feedback  # type: ignore[arg-type]


def test_a_plan_with_only_a_release_is_not_empty() -> None:
    assert Plan().empty
    assert not Plan(release=(Release(1, 0),)).empty
