"""/tokenize and /detokenize."""

from typing import Any

import pytest

from routes.fakes import Bench, ByteTokenizer, message


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"content": "ab"}, [97, 98]),
        ({"content": "a", "add_special": True}, [257, 97]),
        ({"content": "a", "add_special": "yes"}, [97]),
        ({"content": "<|im_end|>"}, [258]),
        ({"content": "<|im_end|>", "parse_special": False}, list(b"<|im_end|>")),
        ({"content": ["a", 5, "b", 6.9], "add_special": True}, [257, 97, 5, 98, 6]),
        ({"content": None}, []),
        ([], []),
    ],
)
async def test_tokenize(body: Any, tokens: list[int]) -> None:
    made = Bench(tokenizer=ByteTokenizer(adds_bos=True))
    assert (await made.post("/tokenize", body)).json() == {"tokens": tokens}


async def test_pieces_that_are_no_characters_are_bytes() -> None:
    answer = await Bench().post("/tokenize", {"content": "aé", "with_pieces": True})
    assert answer.json()["tokens"] == [
        {"id": 97, "piece": "a"},
        {"id": 195, "piece": [195]},
        {"id": 169, "piece": [169]},
    ]


@pytest.mark.parametrize(
    ("tokens", "content"), [([97, 256], "a<|endoftext|>"), ([97, 195], "a\ufffd"), (None, ""), ([], "")]
)
async def test_detokenize(tokens: Any, content: str) -> None:
    assert (await Bench().post("/detokenize", {"tokens": tokens})).json() == {"content": content}


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/tokenize", {"content": 5}, 500, "[json.exception.type_error.302] type must be string, but is number"),
        ("/tokenize", {"content": [{}]}, 500, "[json.exception.type_error.302] type must be number, but is object"),
        ("/detokenize", {"tokens": "a"}, 500, "[json.exception.type_error.302] type must be array, but is string"),
        ("/detokenize", {"tokens": ["a"]}, 500, "[json.exception.type_error.302] type must be number, but is string"),
        ("/detokenize", {"tokens": [300]}, 400, "Invalid token: 300 is not in the vocabulary of 300"),
        (
            "/tokenize",
            {"content": [-1], "with_pieces": True},
            400,
            "Invalid token: -1 is not in the vocabulary of 300",
        ),
    ],
)
async def test_what_is_no_text_or_token_is_refused(path: str, body: Any, status: int, said: str) -> None:
    answer = await Bench().post(path, body)
    assert (answer.status_code, message(answer)) == (status, said)
