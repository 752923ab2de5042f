import random

from stoker.core.events import StopType
from stoker.core.request import Limits
from stoker.scheduler.ending import Ending


def push(ending: Ending, *texts: str, elapsed_ms: float = 0.0) -> list[StopType | None]:
    return [ending.push(text, end=False, elapsed_ms=elapsed_ms).stop for text in texts]


def test_the_budget_ends_an_answer_and_zero_yields_one_token() -> None:
    assert push(Ending(Limits(predict=2), 9), "a", "b") == [None, StopType.LIMIT]
    assert push(Ending(Limits(predict=0), 9), "a") == [StopType.LIMIT]


def test_without_a_budget_the_context_ends_it_and_it_counts_as_truncated() -> None:
    ending = Ending(Limits(), 2)
    assert push(ending, "a", "b") == [None, StopType.LIMIT]
    assert ending.truncated


def test_a_budget_below_the_context_is_not_a_truncation() -> None:
    ending = Ending(Limits(predict=1), 2)
    push(ending, "a")
    assert not ending.truncated


def test_a_stop_string_wins_over_a_budget_that_ends_on_the_same_token() -> None:
    ending = Ending(Limits(predict=2, stop=("b",)), 9)
    assert push(ending, "a", "b") == [None, StopType.WORD]
    assert (ending.text, ending.word) == ("a", "b")


def test_an_end_token_wins_over_the_budget() -> None:
    assert Ending(Limits(predict=1), 9).push("", end=True, elapsed_ms=0).stop is StopType.EOS


def test_the_last_token_lets_through_what_was_held() -> None:
    ending = Ending(Limits(predict=2, stop=("xyz",)), 9)
    assert ending.push("x", end=False, elapsed_ms=0).shown.text == ""
    assert ending.push("y", end=False, elapsed_ms=0).shown.text == "xy"


def test_the_time_limit_ends_at_the_next_new_line_only() -> None:
    ending = Ending(Limits(predict_ms=5), 99)
    assert push(ending, "a", "b\n", elapsed_ms=3) == [None, None]
    assert push(ending, "c", "d\n", elapsed_ms=6) == [None, StopType.LIMIT]
    assert ending.has_new_line


def test_a_line_that_is_indented_too_little_ends_the_answer_and_is_cut_away() -> None:
    ending = Ending(Limits(indent=4), 99)
    assert push(ending, "    a\n", "    b", "\n", "  c") == [None, None, None, StopType.LIMIT]
    assert ending.text == "    a\n    b\n  "


def test_what_was_shown_of_an_indented_answer_is_its_text_wherever_it_is_cut() -> None:
    rng = random.Random(7)
    ended = 0
    for _ in range(2000):
        ending = Ending(Limits(indent=2, stop=("ba",)), 99)
        shown = ""
        for n in range(20):
            text = "".join(rng.choice("ab \n\t  ") for _ in range(rng.randint(0, 5)))
            step = ending.push(text, end=n == 19, elapsed_ms=0)
            shown += step.shown.text
            assert ending.text.startswith(shown)
            if step.stop is not None:
                ended += step.stop is StopType.LIMIT
                break
        assert shown == ending.text
    assert ended > 200


def test_text_of_a_line_waits_until_its_indentation_is_seen() -> None:
    ending = Ending(Limits(indent=4), 99)
    shown = [ending.push(text, end=False, elapsed_ms=0).shown.text for text in ("a\n    b\n", "  ", "  c", "d\n")]
    assert shown == ["a\n    ", "b\n  ", "  c", "d\n"]
    assert ending.push("x", end=False, elapsed_ms=0).shown.text == ""


def test_deep_enough_lines_go_on() -> None:
    assert push(Ending(Limits(indent=2), 99), "\n", "  a", "\n", "\t\tb", "c") == [None] * 5


def test_remaining_counts_down_to_the_nearer_of_budget_and_context() -> None:
    ending = Ending(Limits(predict=5), 3)
    assert ending.remaining == 3
    push(ending, "a")
    assert ending.remaining == 2
    assert Ending(Limits(), 7).remaining == 7
