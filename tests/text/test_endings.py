from stoker.text.endings import CHANNEL_END, CHANNEL_MARKS, end_ids

NONE: frozenset[int] = frozenset()


def test_what_the_files_declare_ends_an_answer_whatever_its_text() -> None:
    assert end_ids({"a": 1}, frozenset({7})) == {7}


def test_turn_ends_are_known_by_their_text() -> None:
    assert end_ids({"<|im_end|>": 3, "<|eot_id|>": 4, "x": 5}, NONE) == {3, 4}


def test_of_infill_tokens_that_mean_the_same_the_first_counts() -> None:
    assert end_ids({"<PAD>": 1, "<fim-pad>": 2, "<|file_sep|>": 3}, NONE) == {2, 3}


def test_where_channels_are_marked_their_end_is_not_the_answers() -> None:
    marks = {mark: n for n, mark in enumerate(CHANNEL_MARKS)}
    assert end_ids({CHANNEL_END: 9}, NONE) == {9}
    assert end_ids({CHANNEL_END: 9, **marks}, NONE) == set(marks.values())
