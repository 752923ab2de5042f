"""/infill: the prompt is llama-server's, token by token."""

from typing import Any

import pytest

from routes.fakes import Bench, ByteTokenizer, bench, message
from stoker.core.request import Limits
from stoker.routes.service import Defaults
from stoker.text.fim import FimTokens

PRE, SUF, MID, REPO, FILE = 290, 291, 292, 293, 294
SMALL, WHOLE = FimTokens(PRE, SUF, MID), FimTokens(PRE, SUF, MID, REPO, FILE)


def code(fim: FimTokens = SMALL, adds_bos: bool = False, **changes: Any) -> Bench:
    return bench(tokenizer=ByteTokenizer(adds_bos=adds_bos, fim=fim), **{"batch": 64, **changes})


async def prompt(made: Bench, **body: Any) -> list[int | str]:
    """What was asked of the engine: special tokens as numbers, the bytes between them as texts."""
    answer = await made.post("/infill", {"input_prefix": "", "input_suffix": "", **body})
    assert answer.status_code == 200, answer.text
    parts: list[int | str] = []
    for id in made.scheduler.requests[-1].prompt:
        if id >= 256:
            parts.append(id)
        elif parts and isinstance(parts[-1], str):
            parts[-1] += chr(id)
        else:
            parts.append(chr(id))
    return parts


async def test_prefix_suffix_and_the_beginning_of_the_answer_stand_in_this_order() -> None:
    wanted = {"input_prefix": "def f(", "input_suffix": "): pass", "prompt": "x"}
    assert await prompt(code(), **wanted) == [PRE, "def f(x", SUF, "): pass", MID]
    spm = code(defaults=Defaults(spm_infill=True))
    assert await prompt(spm, **wanted) == [SUF, "): pass", PRE, "def f(x", MID]


async def test_other_files_come_before_it_by_name() -> None:
    extra = [{"filename": "a.py", "text": "A"}, {"text": "B"}]
    whole = await prompt(code(WHOLE), input_prefix="p", input_extra=extra)
    assert whole == [REPO, "myproject\n", FILE, "a.py\nA", FILE, "tmp\nB", FILE, "filename\n", PRE, "p", SUF, MID]
    small = await prompt(code(), input_prefix="p", input_extra=extra)
    assert small == ["\n\n--- snippet ---\n\nA\n\n--- snippet ---\n\nB", PRE, "p", SUF, MID]


async def test_special_texts_in_the_code_are_plain_and_in_the_prompt_are_not() -> None:
    made = await prompt(code(), input_prefix="<|im_end|>", input_suffix="<|im_end|>", prompt="<|im_end|>")
    assert made == [PRE, "<|im_end|>", 258, SUF, "<|im_end|>", MID]


async def test_bos_stands_behind_the_other_files() -> None:
    made = await prompt(code(adds_bos=True), input_prefix="p", input_extra=[{"text": "A"}])
    assert made[1:] == [257, PRE, "p", SUF, MID]


async def test_the_batch_is_shared_three_to_one_and_the_context_goes_to_other_files() -> None:
    long = "".join(chr(97 + n % 26) for n in range(200))
    made = await prompt(
        code(context=100, limits=Limits(predict=10)),
        input_prefix=long,
        input_suffix=long,
        prompt="xy",
        input_extra=[{"text": long}],
    )
    assert made == [long[-16:], PRE, long[-48:] + "xy", SUF, long[: 16 - 2 - 2], MID]


async def test_ids_may_stand_among_the_texts_and_a_prompt_that_is_none_is_empty() -> None:
    assert await prompt(code(), input_prefix=["a", 98], prompt=7) == [PRE, "ab", SUF, MID]


async def test_it_answers_and_streams_as_a_completion() -> None:
    made = code()
    whole = (await made.post("/infill", {"input_prefix": "", "input_suffix": "", "n_predict": 2})).json()
    assert whole["content"] == "Hi there"
    streamed = await made.post("/infill", {"input_prefix": "", "input_suffix": "", "stream": True})
    assert streamed.headers["content-type"] == "text/event-stream"
    assert "data: [DONE]" not in streamed.text


TYPE = "[json.exception.type_error.302] type must be "
NAMES = 'extra_context chunk\'s "filename" field must be a string'
BOTH: dict[str, Any] = {"input_prefix": "", "input_suffix": ""}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"input_suffix": ""}, 500, "[json.exception.out_of_range.403] key 'input_prefix' not found"),
        ({"input_prefix": ""}, 500, "[json.exception.out_of_range.403] key 'input_suffix' not found"),
        ({**BOTH, "input_prefix": {}}, 500, f"{TYPE}string, but is object"),
        ({**BOTH, "input_prefix": ["a", True]}, 500, f"{TYPE}number, but is boolean"),
        ({"input_prefix": [999], "input_suffix": ""}, 400, "Prompt contains invalid tokens"),
        ({"input_extra": {}}, 400, '"input_extra" must be an array of {"filename": string, "text": string}'),
        ({"input_extra": [{}]}, 400, 'extra_context chunk must contain a "text" field with a string value'),
        ({"input_extra": [1]}, 400, 'extra_context chunk must contain a "text" field with a string value'),
        ({"input_extra": [{"text": "a", "filename": 1}]}, 400, NAMES),
        ({**BOTH, "n_predict": "x"}, 400, f"Field 'n_predict': {TYPE}number, but is string"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_as_upstream_says_it(body: dict[str, Any], status: int, said: str) -> None:
    answer = await code().post("/infill", body)
    assert (answer.status_code, message(answer)) == (status, said)


async def test_a_model_without_the_tokens_names_those_it_lacks() -> None:
    answer = await bench(tokenizer=ByteTokenizer(fim=FimTokens(PRE, None, MID))).post("/infill", {})
    assert answer.status_code == 501
    assert message(answer) == "Infill is not supported by this model: suffix token is missing. "
