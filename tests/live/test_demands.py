"""What users of inference servers have complained about (the project's black-box demands), in small form.

Faults are injected at the engine seam of a server in this process (`test_faults.py`); all else meets a live one.
"""

import asyncio
from itertools import pairwise

import pytest

from live.client import Body, Client, Stream
from live.process import Live

pytestmark = [pytest.mark.mlx, pytest.mark.smollm2]

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "Hi"}]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
CHUNK_MAX = "stoker:prefill_chunk_seconds_max"


async def stream(client: Client, path: str, body: Body) -> Stream:
    async with client.stream(path, body) as opened:
        return await opened.rest()


async def both(client: Client, path: str, body: Body) -> tuple[Stream, Body]:
    """The same request streamed and whole."""
    return await stream(client, path, body), await client.ask(path, body)


# --- A: the streaming contract


async def test_a1_usage_comes_once_last_and_only_when_asked_for(smollm2: Client) -> None:
    body = {"model": "M", "max_tokens": 4, "temperature": 0, "messages": HI}
    whole = await smollm2.ask(CHAT, body)
    asked = await stream(smollm2, CHAT, {**body, "stream_options": {"include_usage": True}})
    *others, last = asked.frames
    assert last["choices"] == []
    assert {key: last["usage"][key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")} == {
        key: whole["usage"][key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")
    }
    assert not any(frame.get("usage") for frame in others)
    assert asked.raw[-1][1] == "data: [DONE]"
    for options in ({}, {"stream_options": {"include_usage": False}}):
        plain = await stream(smollm2, CHAT, {**body, **options})
        assert not any("usage" in frame for frame in plain.frames)


@pytest.mark.parametrize("count", [5, 12])
async def test_a2_characters_are_never_split(smollm2: Client, count: int) -> None:
    wild = {"temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 7, "return_tokens": True}
    body = {"prompt": "😀😀é漢字ď", "n_predict": count, **wild}
    streamed, whole = await both(smollm2, "/completion", body)
    assert streamed.text == whole["content"]
    read = (await smollm2.ask("/detokenize", {"tokens": whole["tokens"]}))["content"]
    assert read.rstrip(REPLACEMENT).startswith(whole["content"].rstrip(REPLACEMENT))
    for frame in streamed.frames:
        assert REPLACEMENT not in frame["content"] or REPLACEMENT in read


async def test_a2_a_character_of_several_tokens_comes_in_one_frame(smollm2: Client) -> None:
    assert len((await smollm2.ask("/tokenize", {"content": "漢"}))["tokens"]) == 3
    for count, text in ((6, "漢漢"), (8, "漢漢")):
        body = {"prompt": "漢漢漢漢漢漢漢漢", "temperature": 0, "n_predict": count, "return_tokens": True}
        streamed, whole = await both(smollm2, "/completion", body)
        assert streamed.text == whole["content"] == text
        assert len(whole["tokens"]) == count
        assert [frame["content"] for frame in streamed.frames if frame["content"]] == list(text)


async def test_a3_a_stream_is_the_answer_cut_in_pieces(smollm2: Client) -> None:
    body = {"model": "M", "prompt": "- a\n\n- b\n\n\n    code", "max_tokens": 12, "temperature": 0}
    streamed, whole = await both(smollm2, "/v1/completions", body)
    assert streamed.text == whole["choices"][0]["text"]
    assert any(character.isspace() for character in streamed.text)


async def test_a4_a_long_prompt_is_read_with_headers_first_and_comments_in_silence(smollm2: Client) -> None:
    clock = asyncio.get_running_loop().time
    body = {"prompt": "word " * 950, "n_predict": 1, "cache_prompt": False, "sse_ping_interval": 1}
    began = clock()
    async with smollm2.stream("/completion", body) as opened:
        headers = clock()
        await opened.rest()
    ended = clock()
    assert headers - began < 0.5 * (ended - began)
    comments = [at for at, line in opened.raw if line == ":"]
    assert len(comments) >= int(ended - headers) - 1
    assert max(b - a for a, b in pairwise([headers, *comments, ended])) < 2.5


async def test_a5_a_full_context_ends_with_finish_length(tiny: Client) -> None:
    slot = (await tiny.slots())[0]["n_ctx"]
    body = {"model": "M", "prompt": "ab" * (slot // 2 - 10), "max_tokens": 64, "temperature": 0, "ignore_eos": True}
    streamed, whole = await both(tiny, "/v1/completions", body)
    assert whole["choices"][0]["finish_reason"] == "length"
    assert 0 < whole["usage"]["completion_tokens"] < 64
    assert whole["usage"]["total_tokens"] == slot
    reasons = [choice["finish_reason"] for frame in streamed.frames for choice in frame["choices"]]
    assert [reason for reason in reasons if reason] == ["length"]
    assert streamed.text == whole["choices"][0]["text"]


# --- B: the life of a request


async def test_b1_a_client_that_leaves_frees_its_slot(smollm2: Client) -> None:
    body = {
        "model": "M", "max_tokens": 900, "ignore_eos": True, "messages": [{"role": "user", "content": "Write on."}],
    }  # fmt: skip
    async with smollm2.stream(CHAT, body) as opened:
        await opened.read(3)
        assert len(await smollm2.busy()) == 1
        before = await smollm2.ticks()
    assert await smollm2.until_busy(0) - before <= 2
    assert (await smollm2.metrics())["llamacpp:requests_processing"] == 0
    assert (await smollm2.complete("The capital of France is", 1))["content"] == " Paris"


async def test_b2_a_full_queue_answers_503_at_once_and_the_dropped_one_never_runs(
    tiny: Client, tiny_server: Live
) -> None:
    endless = {"prompt": "ab", "n_predict": 3900, "temperature": 0, "ignore_eos": True}
    running = [asyncio.create_task(tiny.post("/completion", endless)) for _ in range(2)]
    await tiny.until_busy(2)
    logged = len(tiny_server.requests)
    queued = [asyncio.create_task(tiny.complete(f"queued {n}", 2)) for n in range(3)]
    await tiny.until_metric("llamacpp:requests_deferred", 3)
    began = asyncio.get_running_loop().time()
    for path in ("/completion", CHAT):
        refused = await tiny.post(path, {"prompt": "x", "messages": HI, "stream": True})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "unavailable_error"
    assert asyncio.get_running_loop().time() - began < 1.0
    queued[1].cancel()
    await tiny.until_metric("llamacpp:requests_deferred", 2)
    for task in running:
        task.cancel()
    answers = await asyncio.gather(*queued, return_exceptions=True)
    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [False, True, False]
    await tiny.until_busy(0)
    assert len(tiny_server.requests) == logged + 2


# --- C: many at once


async def test_c1_rows_do_not_bleed(smollm2: Client) -> None:
    bodies = [
        {
            "model": "M",
            "messages": [{"role": "user", "content": f"Reply ONLY: WORD{n}"}],
            "temperature": 0,
            "max_tokens": 6,
            "cache_prompt": False,
        }
        for n in range(1, 7)
    ]
    serial = [(await smollm2.ask(CHAT, body))["choices"][0]["message"] for body in bodies]
    at_once = await asyncio.gather(*(smollm2.ask(CHAT, body) for body in bodies))
    assert [answer["choices"][0]["message"] for answer in at_once] == serial


async def test_c3_a_long_prompt_does_not_freeze_a_stream(smollm2: Client) -> None:
    clock = asyncio.get_running_loop().time
    body = {"prompt": "Once upon a time", "n_predict": 900, "ignore_eos": True, "temperature": 0}
    async with smollm2.stream("/completion", body) as opened:
        await opened.read(3)
        long = asyncio.create_task(smollm2.complete("word " * 400, 1, cache_prompt=False))
        stamps = [clock()]
        while not long.done():
            await opened.read(1)
            stamps.append(clock())
    assert (await long)["tokens_predicted"] == 1
    gaps = [b - a for a, b in pairwise(stamps)]
    chunk = (await smollm2.metrics())[CHUNK_MAX]
    assert 0 < max(gaps) <= 3 * chunk
    assert len(gaps) > 3, "the stream went on while the prompt was read"


async def test_c4_a_seed_gives_one_text_in_any_company(smollm2: Client) -> None:
    body: Body = {"prompt": "Once", "n_predict": 8, "temperature": 1.0, "top_k": 0, "top_p": 1, "min_p": 0}

    async def text(seed: int | None) -> str:
        answer = await smollm2.ask("/completion", {**body, **({} if seed is None else {"seed": seed})})
        told = answer["generation_settings"]["seed"]
        assert told == seed if seed is not None and seed >= 0 else 0 <= told < 2**32 - 1
        return answer["content"]

    alone = await text(42)
    company = [asyncio.create_task(text(seed)) for seed in (43, 43, 42, -1, None, None)]
    leaving = asyncio.create_task(smollm2.post("/completion", {**body, "n_predict": 500, "ignore_eos": True}))
    among = asyncio.create_task(text(42))
    await smollm2.until(lambda busy: len(busy) >= 2)
    leaving.cancel()
    others = await asyncio.gather(*company)
    assert await among == others[2] == alone
    assert others[0] == others[1] != alone
    assert len(set(others[3:])) > 1


# --- E, F: fields, limits


async def test_e2_a_field_is_obeyed_or_refused(smollm2: Client) -> None:
    base = {"model": "M", "messages": HI, "max_tokens": 4, "temperature": 0}
    plain = await smollm2.ask(CHAT, base)
    short = {key: value for key, value in base.items() if key != "max_tokens"} | {"max_completion_tokens": 3}
    assert (await smollm2.ask(CHAT, short))["usage"]["completion_tokens"] == 3
    choices = (await smollm2.ask(CHAT, {**base, "n": 3}))["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    for field in ({"stop": []}, {"stop": None}, {"no_such_key": 1}):
        answer = await smollm2.ask(CHAT, {**base, **field})
        assert answer["choices"][0]["message"] == plain["choices"][0]["message"]
    assert (await smollm2.post(CHAT, {**base, "temperature": None})).status_code == 200
    developer = {"role": "developer", "content": "Answer in one word."}
    assert (await smollm2.post(CHAT, {**base, "messages": [developer, *HI]})).status_code == 200
    refused = await smollm2.post(CHAT, {**base, "temperature": "hot"})
    assert refused.status_code == 400
    assert set(refused.json()["error"]) == {"code", "message", "type"}


async def test_e2_logprobs_of_text_completions_have_llama_servers_shape(smollm2: Client) -> None:
    """The demand asks for OpenAI's four arrays; llama-server, which the contract follows, sends `content`."""
    body = {"model": "M", "prompt": "P", "max_tokens": 4, "logprobs": 5, "temperature": 0}
    content = (await smollm2.ask("/v1/completions", body))["choices"][0]["logprobs"]["content"]
    assert len(content) == 4
    assert all(len(token["top_logprobs"]) == 5 for token in content)


async def test_f1b_a_refusal_is_not_for_ever(tiny: Client) -> None:
    body = {"prompt": "burst", "n_predict": 3900, "ignore_eos": True}
    burst = [asyncio.create_task(tiny.post("/completion", body)) for _ in range(12)]
    done, left = await asyncio.wait(burst, timeout=1.0)
    assert {task.result().status_code for task in done} == {503}
    assert len(left) == 5, "two slots and a queue of three"
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await tiny.until_busy(0)
    assert (await tiny.complete("ten tokens", 2))["tokens_predicted"] == 2


@pytest.mark.parametrize("streamed", [False, True])
async def test_f1c_a_prompt_that_overflows_is_refused_with_its_numbers(tiny: Client, streamed: bool) -> None:
    slot = (await tiny.slots())[0]["n_ctx"]
    refused = await tiny.post("/completion", {"prompt": "a" * (slot + 10), "n_predict": 1, "stream": streamed})
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["type"], error["n_prompt_tokens"], error["n_ctx"]) == ("exceed_context_size_error", slot + 10, slot)
