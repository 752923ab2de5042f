from hypothesis import given
from hypothesis import strategies as st

from stoker.text.stop import Shown, StopMatcher


def test_text_without_stop_strings_is_shown_at_once() -> None:
    assert StopMatcher(()).push("abc", last=False) == Shown("abc")


def test_empty_stop_strings_are_dropped() -> None:
    assert StopMatcher(("",)).push("abc", last=False) == Shown("abc")


def test_a_possible_beginning_is_held_and_then_released() -> None:
    matcher = StopMatcher(("END",))
    assert matcher.push("a E", last=False) == Shown("")
    assert matcher.push("x", last=False) == Shown("a Ex")
    assert matcher.text == "a Ex"


def test_a_stop_string_across_three_tokens_never_leaks() -> None:
    matcher = StopMatcher(("STOP",))
    assert matcher.push("say S", last=False).text == ""
    assert matcher.push("TO", last=False).text == ""
    assert matcher.push("P now", last=False) == Shown("say ", "STOP")
    assert matcher.text == "say "


def test_the_earliest_match_wins_and_ties_go_by_list_order() -> None:
    assert StopMatcher(("cd", "bc")).push("abcd", last=False) == Shown("a", "bc")
    assert StopMatcher(("bcd", "bc")).push("abcd", last=False) == Shown("a", "bcd")


def test_the_end_flushes_what_was_held() -> None:
    matcher = StopMatcher(("END",))
    matcher.push("a E", last=False)
    assert matcher.push("N", last=True) == Shown("a EN")


@given(
    st.lists(st.text("ab", max_size=3), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
)
def test_what_is_shown_is_the_text_up_to_its_first_stop_string(chunks: list[str], stops: list[str]) -> None:
    matcher, shown = StopMatcher(stops), ""
    word = None
    for n, chunk in enumerate(chunks):
        step = matcher.push(chunk, last=n == len(chunks) - 1)
        shown += step.text
        if step.word is not None:
            word = step.word
            break
    whole = "".join(chunks)
    if word is None:
        assert shown == (whole if chunks else "")
        assert not any(stop in whole for stop in stops)
    else:
        assert word not in shown
        assert whole.startswith(shown + word)
    assert matcher.text == shown
