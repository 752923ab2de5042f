import math
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.core.request import DEFAULT_SAMPLERS
from stoker.options import readers


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (readers.comma_list, 'a, "b,c" ,,d', ("a", "b,c", "d")),
        (readers.comma_list, "", ()),
        (readers.scaled_files, "a:0.5,c:/x:2", (("a", 0.5), ("c:/x", 2.0))),
        (readers.sampler_names, "top-k; temp;nucleus", ("top_k", "temperature", "top_p")),
        (readers.sampler_letters, "kt", ("top_k", "temperature")),
        (readers.logit_bias, "15+1.5, 7-inf,8-1e-1", ((15, 1.5), (7, -math.inf), (8, -0.1))),
        (readers.json_object, '{"a": 1}', {"a": 1}),
        (readers.range_of_two, "0 12", (0, 12)),
        (readers.one, "a,b", ("a,b",)),
        (readers.unescape, r"a\nb\x41\q\\n", "a\nbA\\q\\n"),
    ],
)
def test_a_text_of_each_form_is_read(reader: Callable[[str], object], text: str, value: object) -> None:
    assert reader(text) == value


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (readers.scaled_files, "a"),
        (readers.scaled_files, "a:nan"),
        (readers.sampler_names, "top_k;magic"),
        (readers.sampler_letters, "kq"),
        (readers.logit_bias, "x+1"),
        (readers.logit_bias, "1"),
        (readers.json_object, "[1]"),
        (readers.json_object, "{"),
        (readers.range_of_two, "1"),
    ],
)
def test_a_malformed_one_is_a_value_error(reader: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the words are the caller's)
        reader(text)


def test_there_is_a_letter_for_each_sampler_of_the_default_chain() -> None:
    assert set(DEFAULT_SAMPLERS) < set(readers.SAMPLER_LETTERS.values())


def test_a_file_of_keys_may_hold_comments(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# team\n one \n\ntwo\n")
    assert readers.key_file(str(tmp_path / "keys")) == ("one", "two")
    with pytest.raises(OSError, match="none"):
        readers.key_file(str(tmp_path / "none"))
