"""Streaming and not: frames, order, several sequences, errors before and after the start, the log line."""

import asyncio
import logging
from typing import Any

import pytest

from routes.fakes import Bench, FakeScheduler, bench, finished, frames, message, piece, progress, says, timings
from stoker.core.counters import DraftSummary, Kind
from stoker.core.errors import ContextExceeded, ServerFault, Unavailable
from stoker.core.events import Failed, StopType, Tokens
from stoker.core.request import MAX_SEED, Request
from stoker.core.work import TokenProbs
from stoker.routes.service import Defaults

DRAFT = DraftSummary(Kind.PROMPT_LOOKUP, 10, 9, 8, 3)
NINE = [
    "cache_n",
    "prompt_n",
    "prompt_ms",
    "prompt_per_token_ms",
    "prompt_per_second",
    "predicted_n",
    "predicted_ms",
    "predicted_per_token_ms",
    "predicted_per_second",
]
DRAFT_KEYS = ["draft_n", "draft_n_accepted", "draft_rounds", "draft_kind"]
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def by_prompt(request: Request) -> Any:
    """Two tokens that name the prompt's last byte; the first prompt is the slowest."""
    name = chr(request.prompt[-1])
    yield progress(request)
    yield 0.02 if name == "a" else 0.0
    yield Tokens((piece(name, 1), piece("!", 2)))
    yield finished(request, name + "!", (7, 7))


async def test_several_prompts_answer_an_array_ordered_by_index() -> None:
    answers = (await bench(by_prompt).post("/completion", {"prompt": ["a", "b"]})).json()
    assert [(answer["index"], answer["content"], answer["prompt"]) for answer in answers] == [
        (0, "a!", "a"),
        (1, "b!", "b"),
    ]


async def test_streams_of_several_prompts_interleave_and_tell_their_index() -> None:
    got = frames(await bench(by_prompt).post("/completion", {"prompt": ["a", "b"], "stream": True}))
    assert [(frame["index"], frame["content"], frame["stop"]) for frame in got] == [
        (1, "b", False),
        (1, "!", False),
        (1, "", True),
        (0, "a", False),
        (0, "!", False),
        (0, "", True),
    ]


async def test_n_runs_further_seeds_of_each_prompt() -> None:
    made = bench(by_prompt)
    answer = await made.post("/v1/completions", {"prompt": ["a", "b"], "n": 2, "seed": 41})
    assert [choice["index"] for choice in answer.json()["choices"]] == [0, 1, 2, 3]
    assert [request.sampling.seed for request in made.scheduler.requests] == [41, 42, 41, 42]


async def test_a_random_seed_is_drawn_for_each_prompt_and_reported() -> None:
    made = bench(by_prompt)
    answers = (await made.post("/completion", {"prompt": ["a", "b"], "seed": -1})).json()
    seeds = [request.sampling.seed for request in made.scheduler.requests]
    assert [answer["generation_settings"]["seed"] for answer in answers] == seeds
    assert seeds[0] != seeds[1]
    assert MAX_SEED not in seeds


async def test_all_tokens_of_one_event_have_their_own_frame() -> None:
    def burst(request: Request) -> Any:
        yield progress(request)
        yield Tokens((piece("a", 1), piece("b", 2), piece("c", 3)))
        yield finished(request, "abc", (7, 7, 7))

    got = frames(await bench(burst).post("/completion", {"prompt": "p", "stream": True}))
    assert [frame["content"] for frame in got] == ["a", "b", "c", ""]
    assert [frame["tokens_predicted"] for frame in got] == [1, 2, 3, 3]
    assert [frame["id_slot"] for frame in got] == [-1, -1, -1, 1]


async def test_a_completed_stop_string_brings_timings_unasked() -> None:
    def stopped(request: Request) -> Any:
        yield progress(request)
        yield Tokens((piece("a", 1), piece("", 2, stops=True)))
        yield finished(request, "a", (7, 7), stop=StopType.WORD, stopping_word="b")

    got = frames(await bench(stopped).post("/completion", {"prompt": "p", "stream": True, "stop": "b"}))
    assert ["timings" in frame for frame in got] == [False, True, True]
    assert got[-1]["stop_type"] == "word"


async def test_draft_keys_stand_on_final_objects_only() -> None:
    made = bench(says("a", "b", draft=DRAFT))
    got = frames(await made.post("/completion", {"prompt": "p", "stream": True, "timings_per_token": True}))
    assert [list(frame["timings"]) for frame in got] == [NINE, NINE, NINE + DRAFT_KEYS]
    assert [got[-1]["timings"][key] for key in DRAFT_KEYS] == [10, 8, 3, "prompt-lookup"]
    whole = (await made.post("/completion", {"prompt": "p"})).json()
    assert list(whole["timings"]) == NINE + DRAFT_KEYS


async def test_a_chat_stream_has_all_timings_on_the_finish_chunk_and_nine_on_the_usage_chunk() -> None:
    body = CHAT | {"stream": True, "stream_options": {"include_usage": True}}
    got = frames(await bench(says("a", draft=DRAFT)).post("/v1/chat/completions", body))
    assert [list(frame.get("timings", ())) for frame in got[:-1]] == [[], [], NINE + DRAFT_KEYS, NINE]
    assert got[-1] == "[DONE]"
    assert got[-2]["choices"] == []
    assert [frame.get("usage") is not None for frame in got[:-1]] == [False, False, False, True]


async def test_usage_is_one_frame_whatever_n_is() -> None:
    body = CHAT | {"stream": True, "n": 2, "stream_options": {"include_usage": True}}
    got = frames(await bench(says("a")).post("/v1/chat/completions", body))
    assert sum("usage" in frame for frame in got[:-1]) == 1
    assert sorted(frame["choices"][0]["index"] for frame in got[:-2]) == [0, 0, 0, 1, 1, 1]


async def test_chat_tokens_without_text_send_no_chunk_and_leave_their_probabilities_to_the_next() -> None:
    probs = TokenProbs(-0.5, ((7, -0.5), (8, -1.5)))

    def held(request: Request) -> Any:
        yield progress(request)
        yield Tokens((piece("", 1, probs=probs), piece("ab", 2, probs=probs), piece("", 3), piece("", 4, probs=probs)))
        yield finished(request, "ab", (7, 7, 7))

    body = CHAT | {"stream": True, "logprobs": True, "top_logprobs": 2}
    got = frames(await bench(held).post("/v1/chat/completions", body))
    assert [frame["choices"][0]["delta"] for frame in got[:-1]] == [
        {"role": "assistant", "content": None},
        {"content": "ab"},
        {},
    ]
    assert len(got[1]["choices"][0]["logprobs"]["content"]) == 2


async def test_an_empty_chat_answer_still_opens_with_the_role() -> None:
    got = frames(await bench(says()).post("/v1/chat/completions", CHAT | {"stream": True}))
    assert got[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert got[1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("path", "body"),
    [("/completion", {"prompt": "p"}), ("/v1/completions", {"prompt": "p"}), ("/v1/chat/completions", CHAT)],
)
async def test_progress_is_told_when_asked_for(path: str, body: dict[str, Any]) -> None:
    made = bench(says("a"))
    assert "prompt_progress" not in (await made.post(path, body | {"stream": True})).text
    got = frames(await made.post(path, body | {"stream": True, "return_progress": True}))
    assert list(got[0])[-1] == "prompt_progress"
    assert list(got[0]["prompt_progress"]) == ["total", "cache", "processed", "time_ms"]


async def test_text_chunks_carry_probabilities_and_timings_when_asked_for() -> None:
    probs = TokenProbs(-0.5, ((97, -0.5),))

    def script(request: Request) -> Any:
        yield progress(request)
        yield Tokens((piece("a", 1, token=97, probs=probs),))
        yield finished(request, "a", (97,), pieces=(piece("a", 1, token=97, probs=probs),))

    made = bench(script)
    body = {"prompt": "p", "stream": True, "logprobs": 1, "timings_per_token": True}
    chunk, last, done = frames(await made.post("/v1/completions", body))
    assert list(chunk) == ["choices", "created", "model", "system_fingerprint", "object", "id", "timings"]
    assert chunk["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["token"] == "a"
    assert list(last) == ["choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings"]
    assert done == "[DONE]"
    native = frames(await made.post("/completion", {"prompt": "p", "stream": True, "n_probs": 1}))
    assert list(native[0])[-1] == "completion_probabilities"


async def test_a_verbose_server_is_verbose_unless_a_request_says_otherwise() -> None:
    made = bench(defaults=Defaults(verbose=True))
    said = [
        (await made.post("/v1/chat/completions", {"messages": [], **more})).json() for more in ({}, {"verbose": False})
    ]
    assert ["__verbose" in answer for answer in said] == [True, False]


async def test_verbose_streams_show_the_native_object_at_the_end() -> None:
    for path, body in (("/v1/completions", {"prompt": "p"}), ("/v1/chat/completions", CHAT)):
        got = frames(await bench(says("a")).post(path, body | {"stream": True, "verbose": True}))
        assert got[-2]["__verbose"]["content"] == ""
        assert list(got[-2])[-2:] == ["__verbose", "timings"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refused_request_is_plain_json_with_its_own_status(stream: bool) -> None:
    made = bench()
    made.scheduler.refusal = ContextExceeded(3001, 1024)
    answer = await made.post("/completion", {"prompt": "p", "stream": stream})
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "code": 400,
            "message": "request (3001 tokens) exceeds the available context size (1024 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 3001,
            "n_ctx": 1024,
        }
    }


async def test_a_full_queue_answers_503_and_when_to_come_back_and_leaves_nothing_behind() -> None:
    made = bench()
    made.scheduler.refusal, made.scheduler.refuse_from = Unavailable("All slots are busy", 3), 2
    answer = await made.post("/completion", {"prompt": ["a", "b"]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")
    assert made.scheduler.cancelled == [0]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_before_the_start_has_its_own_status(stream: bool) -> None:
    made = bench(lambda _: [Failed(ServerFault("the engine failed"))])
    answer = await made.post("/v1/completions", {"prompt": "p", "stream": stream})
    assert (answer.status_code, message(answer)) == (500, "the engine failed")
    assert made.scheduler.cancelled == [0]


async def test_a_failure_after_the_start_is_the_last_frame_and_no_done_follows() -> None:
    def broken(request: Request) -> Any:
        yield progress(request)
        yield Tokens((piece("a", 1), piece("b", 2)))
        yield Failed(ServerFault("the engine failed"))

    for path, body in (("/v1/completions", {"prompt": "p"}), ("/v1/chat/completions", CHAT)):
        got = frames(await bench(broken).post(path, body | {"stream": True}))
        assert got[-1] == {"error": {"code": 500, "message": "the engine failed", "type": "server_error"}}
        assert "[DONE]" not in got


async def test_one_failed_sequence_ends_the_whole_request() -> None:
    def second_fails(request: Request) -> Any:
        yield progress(request)
        if request.prompt[-1] == ord("b"):
            yield Failed(ServerFault("no"))
        yield 5.0
        yield finished(request, "late")

    made = bench(second_fails)
    answer = await asyncio.wait_for(made.post("/completion", {"prompt": ["a", "b"]}), 2)
    assert answer.status_code == 500
    assert made.scheduler.cancelled == [0, 1]


@pytest.mark.parametrize("prompt", ["a", ["a", "b"]])
async def test_a_stream_that_ends_without_an_end_is_an_error(prompt: Any) -> None:
    answer = await bench(lambda request: [progress(request)]).post("/completion", {"prompt": prompt})
    assert (answer.status_code, message(answer)) == (503, "The request was cancelled")


async def test_a_fault_in_a_stream_of_several_does_not_hang() -> None:
    def explodes(request: Request) -> Any:
        yield progress(request)
        raise ZeroDivisionError

    answer = await asyncio.wait_for(bench(explodes).post("/completion", {"prompt": ["a", "b"]}), 2)
    assert answer.status_code == 500


async def test_silence_after_the_start_is_filled_with_comments() -> None:
    def slow(request: Request) -> Any:
        yield progress(request)
        yield 1.2
        yield finished(request, "")

    answer = await bench(slow).post("/completion", {"prompt": "p", "stream": True, "sse_ping_interval": 1})
    assert answer.text.startswith(":\n\ndata: ")


async def test_the_request_has_its_arrival_its_report_and_its_wishes() -> None:
    made = bench()
    body = {"prompt": "p", "id_slot": 99, "cache_prompt": False, "n_probs": 3, "post_sampling_probs": True}
    await made.post("/completion", body | {"n_predict": 3, "stop": ["x", ""], "n_indent": 2, "t_max_predict_ms": 9})
    (request,) = made.scheduler.requests
    assert (request.slot, request.cache_prompt, request.probs, request.post_sampling_probs) == (1, False, 3, True)
    limits = request.limits
    assert (limits.predict, limits.stop, limits.indent, limits.predict_ms) == (3, ("x",), 2, 9)
    assert len(request.report) == 49
    assert request.arrived > 0


async def test_a_finished_request_leaves_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "stoker.requests"):
        await bench(says("a", "b", timings=timings(1, 2))).post("/completion", {"prompt": "p"})
    assert [record.getMessage() for record in caplog.records] == [
        "POST /completion id=0 slot=1 prompt=1 cached=0 predicted=2 ms=14.0 tok/s=250.00 stop=limit"
    ]


async def test_long_bodies_are_parsed_off_the_loop() -> None:
    answer = await bench(says("a")).post("/completion", {"prompt": "x" * 5000})
    assert answer.json()["tokens_evaluated"] == 5000


async def test_response_fields_pick_paths_also_of_a_streams_last_frame() -> None:
    body = {"prompt": "p", "response_fields": ["content", "timings/predicted_n", "prompt/x", "nothing"]}
    made = Bench(FakeScheduler(says("a")))
    assert (await made.post("/completion", body)).json() == {"content": "a", "timings/predicted_n": 1}
    assert frames(await made.post("/completion", body | {"stream": True}))[-1] == {
        "content": "",
        "timings/predicted_n": 1,
    }
