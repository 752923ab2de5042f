"""`prompt` in all its forms."""

from typing import Any

import pytest

from routes.fakes import ByteTokenizer
from stoker.core.errors import InvalidRequest
from stoker.routes.schema.prompts import WRONG_FORM, read_prompts

TOKENIZER = ByteTokenizer(adds_bos=True)


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("ab", [(257, 97, 98)]),
        ("<|im_end|>", [(257, 258)]),
        ("", [(257,)]),
        ([5, 6], [(5, 6)]),
        (["a", "b"], [(257, 97), (257, 98)]),
        (["a", 5, "b"], [(257, 97, 5, 98)]),
        ([5, "a"], [(5, 97)]),
        ([[5], "a", [6, "b"]], [(5,), (257, 97), (6, 98)]),
        ([["a", 5], ["b", "c"]], [(257, 97, 5), (257, 98, 99)]),
        ({"prompt_string": "a"}, [(257, 97)]),
        ([{"prompt_string": "a"}, "b", {"prompt_string": [5]}], [(257, 97), (257, 98), (5,)]),
        ([[]], [()]),
    ],
)
def test_forms(prompt: Any, ids: list[tuple[int, ...]]) -> None:
    assert read_prompts({"prompt": prompt}, TOKENIZER) == ids


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "[json.exception.out_of_range.403] key 'prompt' not found"),
        ([], "[json.exception.type_error.304] cannot use at() with array"),
        (None, "[json.exception.type_error.304] cannot use at() with null"),
        ("p", "[json.exception.type_error.304] cannot use at() with string"),
        ({"prompt": []}, '"prompt" must not be empty'),
        ({"prompt": None}, WRONG_FORM),
        ({"prompt": 5}, WRONG_FORM),
        ({"prompt": {"a": 1}}, WRONG_FORM),
        ({"prompt": [1.5]}, WRONG_FORM),
        ({"prompt": [True]}, WRONG_FORM),
        ({"prompt": [[None]]}, WRONG_FORM),
        ({"prompt": [300]}, "Prompt contains invalid tokens"),
        ({"prompt": ["a", -1]}, "Prompt contains invalid tokens"),
        (
            {"prompt": {"prompt_string": "a", "multimodal_data": ["AAAA"]}},
            "Multimodal data provided, but model does not support multimodal requests.",
        ),
    ],
)
def test_refusals(body: Any, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_prompts(body, TOKENIZER)
    assert caught.value.message == said
