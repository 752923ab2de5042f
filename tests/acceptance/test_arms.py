"""The width that is measured: windows, challenges, waits."""

from stoker.acceptance.arms import EARLY, FIRST_WAIT, LONGEST_WAIT, WARM_UP, WINDOW, Arms


def play(arms: Arms, rounds: int, rates: dict[int, float]) -> list[int]:
    """Rounds of a second each; the widths that were used."""
    used: list[int] = []
    for _ in range(rounds):
        used.append(arms.width)
        arms.observe(arms.width, rates[arms.width], 1.0)
    return used


def test_it_begins_narrow_and_challenges_after_the_first_measured_window() -> None:
    used = play(Arms(4, 16), WARM_UP + 2 * WINDOW, {4: 2.0, 16: 2.0})
    assert used == [4] * (WARM_UP + WINDOW) + [16] * WINDOW


def test_a_clearly_better_arm_is_adopted_and_a_slightly_better_one_is_not() -> None:
    for rate, held in ((2.1, 16), (2.03, 4)):
        arms = Arms(4, 16)
        play(arms, WARM_UP + 2 * WINDOW, {4: 2.0, 16: rate})
        assert (arms.held, arms.challenging) == (held, False)


def test_a_much_worse_arm_is_given_up_early() -> None:
    used = play(Arms(4, 16), WARM_UP + WINDOW + 3 * EARLY, {4: 2.0, 16: 1.0})
    assert used.count(16) == EARLY


def test_the_wait_grows_with_every_loss_and_an_adoption_resets_it() -> None:
    arms = Arms(4, 16)
    rates = {4: 2.0, 16: 1.9}
    play(arms, WARM_UP + 2 * WINDOW, rates)
    for windows in (FIRST_WAIT, 16, LONGEST_WAIT, LONGEST_WAIT):
        assert set(play(arms, windows * WINDOW, rates)) == {4}
        assert set(play(arms, WINDOW, rates)) == {16}
    play(arms, LONGEST_WAIT * WINDOW, rates)
    play(arms, WINDOW, {4: 2.0, 16: 3.0})
    assert arms.held == 16
    assert set(play(arms, FIRST_WAIT * WINDOW, {4: 1.0, 16: 3.0})) == {16}
    assert arms.width == 4


def test_a_round_that_something_else_made_narrower_is_no_evidence() -> None:
    arms = Arms(4, 16)
    for _ in range(10 * WINDOW):
        arms.observe(3, 2.0, 1.0)
    assert not arms.challenging


def test_equal_arms_never_challenge() -> None:
    assert set(play(Arms(4, 4), 5 * WINDOW, {4: 1.0})) == {4}
