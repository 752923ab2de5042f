"""Scripts of rounds for the yield governors. The floor's sentences are the mission's document's own."""

from stoker.acceptance.governor import FLOOR, LONGEST_PAUSE, SHADOWS, Gated, Governor, Graded


def rounds(governor: Governor, *accepted: int) -> list[bool]:
    """Whether it is paused after each round."""
    paused: list[bool] = []
    for n in accepted:
        governor.observe(n)
        paused.append(governor.paused)
    return paused


def plain(governor: Governor, *matched: int) -> None:
    for n in matched:
        governor.passed(n)


# graded (Metal and CPU)


def test_graded_starts_at_full_width_and_follows_the_average() -> None:
    governor = Graded(7)
    assert governor.width == 7
    rounds(governor, 1, 1, 1)
    assert governor.width == 6
    rounds(governor, 0, 1)
    assert governor.width == 4


def test_graded_pauses_after_three_misses_and_each_time_for_longer() -> None:
    governor, pauses = Graded(7), []
    for _ in range(5):
        assert rounds(governor, 0, 0, 0) == [False, False, True]
        steps = 0
        while governor.paused:
            governor.passed(0)
            steps += 1
        pauses.append(steps)
    assert pauses == [4, 8, 16, 32, LONGEST_PAUSE]


def test_a_hit_resets_the_length_of_the_pause() -> None:
    governor = Graded(7)
    rounds(governor, 0, 0, 0)
    plain(governor, *[0] * 4)
    rounds(governor, 1, 0, 0, 0)
    steps = 0
    while governor.paused:
        governor.passed(0)
        steps += 1
    assert steps == 4


def test_graded_never_asks_for_nothing_while_it_runs() -> None:
    governor = Graded(1)
    rounds(governor, 0, 0)
    assert governor.width == 1


# gated, with the server's floor (CUDA)


def test_gated_starts_narrow_and_widens_when_it_pays() -> None:
    governor = Gated(7)
    assert governor.width == 2
    governor.observe(2)
    assert governor.width == 7


def test_a_row_pauses_when_the_average_is_below_four_after_two_rounds_and_the_latest_is_below_too() -> None:
    assert rounds(Gated(7), 2, 2) == [False, True]


def test_one_low_round_is_not_enough_to_pause() -> None:
    assert rounds(Gated(7), 1) == [False]


def test_a_latest_round_that_meets_the_floor_repays_the_debt_of_the_start_without_a_pause() -> None:
    governor = Gated(7)
    assert rounds(governor, 1, 3) == [False, False]
    assert governor.ema + 1 < FLOOR, "the average is still in debt"


def test_an_isolated_zero_round_after_a_good_average_gets_one_round_of_grace() -> None:
    assert rounds(Gated(7), 7, 7, 0) == [False, False, False]


def test_partial_low_acceptance_gets_no_grace() -> None:
    governor = Gated(7)
    rounds(governor, 7, 5)
    governor.ema = 4.0
    assert rounds(governor, 1) == [True]


def test_grace_never_extends_beyond_the_first_low_round() -> None:
    governor = Gated(7)
    assert rounds(governor, 7, 7, 0, 0) == [False, False, False, True]


def test_pausing_still_requires_the_average_to_be_below_the_floor() -> None:
    assert rounds(Gated(7), 7, 7, 7, 7, 1) == [False] * 5


def test_three_misses_in_a_row_pause() -> None:
    assert rounds(Gated(7, floor=0.0), 0, 0, 0) == [False, False, True]


def test_seven_matching_shadow_tokens_restore_verification() -> None:
    governor = Gated(7)
    rounds(governor, 0, 0)
    assert governor.paused
    plain(governor, *[1] * (SHADOWS - 1))
    assert governor.paused
    plain(governor, 1)
    assert not governor.paused
    assert governor.width == 2, "it comes back on probation"


def test_a_shadow_that_misses_starts_the_count_again() -> None:
    governor = Gated(7)
    rounds(governor, 0, 0)
    plain(governor, 3, 3, 0, 3, 3)
    assert governor.paused


def test_without_a_floor_two_shadow_tokens_are_enough() -> None:
    governor = Gated(7, floor=0.0)
    rounds(governor, 0, 0, 0)
    plain(governor, 1, 1)
    assert not governor.paused


def test_on_probation_any_zero_round_pauses_and_a_whole_narrow_block_ends_it() -> None:
    governor = Gated(7, floor=0.0)
    rounds(governor, 0, 0, 0)
    plain(governor, 2)
    assert rounds(governor, 0) == [True]
    plain(governor, 2)
    rounds(governor, 2)
    assert governor.width == 7
    assert rounds(governor, 0) == [False]


def test_plain_steps_of_a_running_row_are_no_evidence() -> None:
    gated, graded = Gated(7), Graded(7)
    for governor in (gated, graded):
        before = (governor.ema, governor.width)
        plain(governor, 0, 3, 0)
        assert (governor.ema, governor.width) == before


def test_without_the_floor_a_low_yield_alone_does_not_pause() -> None:
    assert not any(rounds(Gated(7, floor=0.0), 1, 1, 1, 1, 1, 1))
