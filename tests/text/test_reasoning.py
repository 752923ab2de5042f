import pytest

from stoker.text.reasoning import FAMILIES, HARMONY, Tags, find_tags, opens_at_end, stops_inside

THINK = Tags("<think>", "</think>")


@pytest.mark.parametrize("tags", FAMILIES, ids=lambda tags: tags.open)
def test_each_family_is_known_by_its_template(tags: Tags) -> None:
    assert find_tags(f"{{{{ x }}}}{tags.open}…{tags.close}") == tags
    assert find_tags(f"split({tags.close!r})") == tags


def test_harmony_is_known_by_its_channels_and_others_have_no_tags() -> None:
    assert find_tags("<|channel|>x<|message|><think>") == HARMONY
    assert find_tags("{{ messages[0].content }}") is None


def test_the_words_that_end_a_thought_are_the_closing_tag_unless_more_is_needed() -> None:
    assert THINK.last_words == "</think>"
    assert HARMONY.last_words.endswith("final<|message|>")


@pytest.mark.parametrize(
    ("prompt", "opens"), [("<a>\n<think>\n", True), ("<think>", True), ("<think></think>", False), ("<think> x", False)]
)
def test_a_prompt_opens_a_thought_if_it_stops_behind_the_tag(prompt: str, opens: bool) -> None:
    assert opens_at_end(prompt, THINK) is opens


@pytest.mark.parametrize(
    ("text", "inside"), [("<think>a", True), ("<think>a</think>b", False), ("</think>b<think>", True), ("a", False)]
)
def test_the_start_of_an_answer_may_leave_a_thought_open(text: str, inside: bool) -> None:
    assert stops_inside(text, THINK) is inside
