"""Every kind of difference is seen, and what the protocol leaves free is not one."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compat import library
from compat.answer import Answer, Frame, from_http, metrics, unpacked
from compat.frames import role_of
from compat.library import Case
from compat.shape import Comparison, Difference, compare
from compat.texts import generated

CASES = {case.id: case for name in library.PROFILES for case in library.cases(name)}
Change = Callable[[Any], object]


def against(case: Case, got: Answer) -> Comparison:
    return compare(case.expected, got, case.context)


def body_changed(name: str, change: Change) -> tuple[Difference, ...]:
    """Differences of a recorded JSON answer after `change` worked on a copy of its body."""
    case = CASES[name]
    body = copy.deepcopy(case.expected.body)
    changed = change(body)
    return against(case, replace(case.expected, body=body if changed is None else changed)).differences  # type: ignore[arg-type]


def frames_changed(name: str, change: Change) -> tuple[Difference, ...]:
    case = CASES[name]
    frames = list(copy.deepcopy(case.expected.frames))
    change(frames)
    return against(case, replace(case.expected, frames=tuple(frames))).differences


def setter(*path: str | int, to: object) -> Change:
    def change(body: Any) -> None:
        for key in path[:-1]:
            body = body.data if isinstance(body, Frame) else body[key]
        body[path[-1]] = to

    return change


def dropper(*path: str | int) -> Change:
    def change(body: Any) -> None:
        for key in path[:-1]:
            body = body[key]
        del body[path[-1]]

    return change


def found(differences: tuple[Difference, ...]) -> set[tuple[str, str]]:
    return {(one.path, one.kind) for one in differences}


@pytest.mark.parametrize("name", CASES)
def test_a_recording_equals_itself(name: str) -> None:
    case = CASES[name]
    comparison = against(case, case.expected)
    assert comparison.differences == ()
    assert comparison.agreement is None or comparison.agreement.text_equal


# --- the envelope


def test_another_status_is_a_difference() -> None:
    case = CASES["base/completion_no_prompt"]
    got = against(case, replace(case.expected, status=422)).differences
    assert got == (Difference("$status", "status", 400, 422),)


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("base/health", "server", "uvicorn, llama.cpp"),
        ("base/health", "content-type", "application/json"),
        ("base/health", "access-control-allow-origin", None),
        ("base/health", "access-control-allow-credentials", "true"),
        ("base/health", "transfer-encoding", "chunked"),
        ("base/completion_stream", "content-type", "text/event-stream; charset=utf-8"),
        ("base/completion_stream", "transfer-encoding", None),
        ("base/cors_origin", "access-control-allow-origin", "*"),
        ("base/options_cors", "access-control-allow-methods", "GET, POST"),
        ("base/metrics", "process-start-time-unix", None),
    ],
)
def test_a_header_that_counts_is_a_difference(name: str, header: str, value: str | None) -> None:
    case = CASES[name]
    headers = {**case.expected.headers, header: value} if value else dict(case.expected.headers)
    if value is None:
        del headers[header]
    got = compare(case.expected, replace(case.expected, headers=headers), case.context).differences
    assert found(got) == {(f"$headers.{header}", "header")}


def test_the_start_time_is_any_unix_time() -> None:
    case = CASES["base/metrics"]
    headers = {**case.expected.headers, "process-start-time-unix": "1700000000"}
    assert against(case, replace(case.expected, headers=headers)).differences == ()
    headers["process-start-time-unix"] = "yesterday"
    assert found(against(case, replace(case.expected, headers=headers)).differences) == {
        ("$headers.process-start-time-unix", "rule")
    }


def test_other_headers_and_ignored_ones_are_not_compared() -> None:
    case = CASES["base/completion_stream"]
    headers = {**case.expected.headers, "date": "now", "content-length": "3"}
    del headers["transfer-encoding"]
    got = replace(case.expected, headers=headers)
    assert compare(case.expected, got, case.context, ignore={"transfer-encoding"}).differences == ()


def test_a_text_where_json_belongs_is_a_difference_of_form() -> None:
    case = CASES["base/health"]
    got = replace(case.expected, form="text", text="ok")
    assert found(against(case, got).differences) == {("$", "form")}


def test_another_plain_text_is_a_difference_unless_the_recording_left_it_out() -> None:
    options = CASES["base/options_cors"]
    assert found(against(options, replace(options.expected, text="x")).differences) == {("$", "value")}
    page = CASES["api_key/key_root_public"]
    assert against(page, replace(page.expected, text="our own page", omitted=False)).differences == ()


# --- bodies

NATIVE, CHAT = "base/completion", "base/chat"


@pytest.mark.parametrize(
    ("name", "change", "want"),
    [
        (NATIVE, dropper("truncated"), {("$.truncated", "missing")}),
        (NATIVE, lambda b: b.update(extra=1), {("$.extra", "extra")}),
        (NATIVE, dropper("timings", "cache_n"), {("$.timings.cache_n", "missing")}),
        (NATIVE, lambda b: b["timings"].update(draft_n=3), {("$.timings.draft_n", "extra")}),
        (NATIVE, lambda b: {"stop": b.pop("stop"), **b}, {("$", "order")}),
        (NATIVE, setter("index", to="0"), {("$.index", "type")}),
        (NATIVE, setter("index", to=0.0), {("$.index", "type")}),
        (NATIVE, setter("stop", to=1), {("$.stop", "type")}),
        (NATIVE, setter("stop", to=False), {("$.stop", "value")}),
        (NATIVE, setter("stop_type", to="eos"), {("$.stop_type", "value")}),
        (NATIVE, setter("stopping_word", to=None), {("$.stopping_word", "type")}),
        (NATIVE, setter("prompt", to="The"), {("$.prompt", "value")}),
        (NATIVE, setter("tokens", to=[1]), {("$.tokens", "length")}),
        (NATIVE, setter("id_slot", to=2), {("$.id_slot", "rule")}),
        (NATIVE, setter("id_slot", to=-1), {("$.id_slot", "rule")}),
        (NATIVE, setter("generation_settings", "temperature", to=0), {("$.generation_settings.temperature", "type")}),
        (NATIVE, setter("generation_settings", "top_p", to=0.95), {("$.generation_settings.top_p", "value")}),
        (NATIVE, setter("generation_settings", "seed", to=7), {("$.generation_settings.seed", "value")}),
        (NATIVE, setter("generation_settings", "samplers", to=["top_k"]), {
            ("$.generation_settings.samplers", "length"), ("$.generation_settings.samplers[0]", "value")}),
        ("base/completion_sampler_settings", setter("generation_settings", "seed", to=43), {
            ("$.generation_settings.seed", "value")}),
        ("base/completion_cached_prompt", setter("id_slot", to=1), {("$.id_slot", "rule")}),
        (CHAT, setter("object", to="text_completion"), {("$.object", "value")}),
        (CHAT, setter("model", to="gpt"), {("$.model", "value")}),
        (CHAT, setter("choices", 0, "finish_reason", to="stop"), {("$.choices[0].finish_reason", "value")}),
        (CHAT, setter("choices", 0, "message", "role", to="user"), {("$.choices[0].message.role", "value")}),
        (CHAT, setter("choices", 0, "message", "content", to=None), {("$.choices[0].message.content", "rule")}),
        (CHAT, setter("id", to="cmpl-1"), {("$.id", "rule")}),
        (CHAT, setter("created", to=1.5), {("$.created", "rule")}),
        (CHAT, setter("system_fingerprint", to=""), {("$.system_fingerprint", "rule")}),
        (CHAT, setter("usage", "total_tokens", to=35), {
            ("$.usage.total_tokens", "value"), ("$.usage.total_tokens", "rule")}),
        (CHAT, setter("usage", "prompt_tokens_details", "cached_tokens", to=3), {
            ("$.usage.prompt_tokens_details.cached_tokens", "rule")}),
        ("base/tokenize", setter("tokens", 0, to=505), {("$.tokens[0]", "value")}),
        ("base/detokenize", setter("content", to="The capital"), {("$.content", "value")}),
        ("base/props", setter("media_marker", to="<__media__>"), {("$.media_marker", "rule")}),
        ("base/props", setter("total_slots", to=4), {("$.total_slots", "value")}),
        ("base/props", setter("build_info", to="stoker"), {("$.build_info", "rule")}),
        ("base/props", setter("model_path", to=""), {("$.model_path", "rule")}),
        ("base/models", setter("data", 0, "meta", "n_embd", to=577), {("$.data[0].meta.n_embd", "value")}),
        ("base/slots", dropper(-1), {("$", "length")}),
        ("base/completion_no_prompt", setter("error", "message", to="no"), {("$.error.message", "value")}),
        ("base/completion_no_prompt", setter("error", "type", to="server_error"), {("$.error.type", "value")}),
        ("base/not_found", lambda b: {"error": dict(sorted(b["error"].items()))}, {("$.error", "order")}),
        ("base/completion_context_overflow", dropper("error", "n_ctx"), {("$.error.n_ctx", "missing")}),
        ("base/v1_completions", setter("choices", 0, "logprobs", to={}), {("$.choices[0].logprobs", "type")}),
        ("draft/draft_slots", setter(0, "params", to=None), {("$[0].params", "rule")}),
        ("draft/draft_slots", setter(0, "id_task", to=-1), {("$[0].id_task", "rule")}),
        ("slot_save/save", setter("n_written", to=1.5), {("$.n_written", "rule")}),
        ("embeddings/emb_v1", setter("data", 0, "embedding", 3, to=1), {("$.data[0].embedding[3]", "rule")}),
        ("embeddings/emb_v1", dropper("data", 0, "embedding", -1), {("$.data[0].embedding", "length")}),
    ],
)  # fmt: skip
def test_a_changed_body_is_seen(name: str, change: Change, want: set[tuple[str, str]]) -> None:
    assert found(body_changed(name, change)) == want


def test_an_infinite_bias_stays_null() -> None:
    name = "base/completion_ignore_eos"
    path = ("generation_settings", "logit_bias", 0, "bias")
    assert found(body_changed(name, setter(*path, to=-1e30))) == {("$.generation_settings.logit_bias[0].bias", "type")}


# --- what depends on history and time


def test_other_times_ids_and_cache_counts_are_equal() -> None:
    def later(body: Any) -> None:
        body["created"] += 5
        body["id"] = "chatcmpl-" + "x" * 32
        body["usage"]["prompt_tokens_details"]["cached_tokens"] = 21
        body["timings"].update(cache_n=21, prompt_n=1, prompt_ms=2.0, prompt_per_token_ms=2.0, prompt_per_second=500.0)

    assert body_changed(CHAT, later) == ()


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"prompt_ms": -1.0}, {("$.timings.prompt_ms", "rule"), ("$.timings.prompt_per_token_ms", "rule"),
                               ("$.timings.prompt_per_second", "rule")}),
        ({"prompt_ms": 39}, {("$.timings.prompt_ms", "rule"), ("$.timings.prompt_per_token_ms", "rule"),
                             ("$.timings.prompt_per_second", "rule")}),
        ({"prompt_per_token_ms": 39.267}, {("$.timings.prompt_per_token_ms", "rule")}),
        ({"predicted_per_second": 8e3 / 64.787}, {("$.timings.predicted_per_second", "rule")}),
        ({"predicted_per_token_ms": 64.787 / 8}, {("$.timings.predicted_per_token_ms", "rule")}),
        ({"predicted_per_second": None}, {("$.timings.predicted_per_second", "rule")}),
        ({"cache_n": 4}, {("$.timings.prompt_n", "rule")}),
        ({"cache_n": True}, {("$.timings.cache_n", "rule")}),
    ],
)  # fmt: skip
def test_timings_must_be_consistent(changes: dict[str, Any], want: set[tuple[str, str]]) -> None:
    assert found(body_changed(NATIVE, lambda body: body["timings"].update(changes))) == want


def test_rates_of_a_single_token_are_zero() -> None:
    changed = body_changed("base/completion_n_predict_0", lambda body: body["timings"].update(predicted_per_second=1e6))
    assert found(changed) == {("$.timings.predicted_per_second", "rule")}


def test_a_repeated_prompt_must_come_from_the_cache() -> None:
    def uncached(body: Any) -> None:
        body["timings"].update(cache_n=0, prompt_n=5, prompt_ms=5.0, prompt_per_token_ms=1.0, prompt_per_second=1000.0)

    assert found(body_changed("base/completion_cached_prompt", uncached)) == {
        ("$.timings.cache_n", "value"),
        ("$.timings.prompt_n", "value"),
    }
    assert body_changed(NATIVE, uncached) == ()


def test_a_refused_cache_must_not_be_used() -> None:
    def cached(body: Any) -> None:
        body["timings"].update(cache_n=4, prompt_n=1, prompt_ms=1.0, prompt_per_token_ms=1.0, prompt_per_second=1000.0)

    assert found(body_changed("base/completion_no_cache", cached)) == {("$.timings.cache_n", "rule")}


def test_tokens_cached_is_what_the_slot_holds() -> None:
    assert found(body_changed(NATIVE, setter("tokens_cached", to=13))) == {
        ("$.tokens_cached", "value"),
        ("$.tokens_cached", "rule"),
    }


def test_there_are_no_more_rounds_than_drafts_and_at_least_one() -> None:
    for rounds, broken in ((1, False), (18, False), (0, True), (19, True)):
        changed = body_changed("draft/draft_completion", lambda body, n=rounds: body["timings"].update(draft_rounds=n))
        assert (("$.timings.draft_rounds", "rule") in found(changed)) is broken


def test_more_drafts_may_not_be_accepted_than_were_made() -> None:
    changed = body_changed("draft/draft_completion", lambda body: body["timings"].update(draft_n_accepted=19))
    assert found(changed) == {("$.timings.draft_n_accepted", "rule")}


# --- the generated text


def other_text(body: Any) -> None:
    """Another, shorter answer, consistent in itself."""
    body.update(content=" a city", tokens_predicted=2, tokens_cached=6, has_new_line=False, stop_type="eos")
    body["timings"].update(predicted_n=2, predicted_ms=4.0, predicted_per_token_ms=4.0, predicted_per_second=250.0)


def test_another_text_is_no_difference_of_shape_and_is_reported_apart() -> None:
    case = CASES[NATIVE]
    body = copy.deepcopy(case.expected.body)
    other_text(body)
    comparison = against(case, replace(case.expected, body=body))
    assert comparison.differences == ()
    told = comparison.agreement
    assert told is not None
    assert (told.text_equal, told.first_divergence, told.enough) == (False, 0, False)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (setter("stop_type", to="tired"), {("$.stop_type", "rule")}),
        (setter("content", to=5), {("$.content", "rule")}),
        (setter("has_new_line", to=0), {("$.has_new_line", "rule")}),
        (setter("tokens_predicted", to=2.0), {("$.tokens_predicted", "rule")}),
        (setter("tokens_predicted", to=3), {("$.tokens_cached", "rule"), ("$.timings.predicted_n", "rule")}),
        (setter("tokens_evaluated", to=6), {
            ("$.tokens_evaluated", "value"), ("$.tokens_cached", "rule"), ("$.timings.prompt_n", "rule")}),
        (setter("truncated", to=True), {("$.truncated", "value")}),
    ],
)  # fmt: skip
def test_another_text_must_still_be_consistent(change: Change, want: set[tuple[str, str]]) -> None:
    def both(body: Any) -> None:
        other_text(body)
        change(body)

    assert found(body_changed(NATIVE, both)) == want


def test_a_finish_reason_of_another_text_is_one_of_three() -> None:
    def change(reason: Any) -> Change:
        def both(body: Any) -> None:
            body["choices"][0].update(finish_reason=reason)
            body["choices"][0]["message"]["content"] = "Blue."

        return both

    assert body_changed(CHAT, change("stop")) == ()
    for bad in ("eos", None):
        assert found(body_changed(CHAT, change(bad))) == {("$.choices[0].finish_reason", "rule")}


def test_agreement_counts_leading_tokens() -> None:
    case = CASES[NATIVE]
    body: Any = copy.deepcopy(case.expected.body)
    body["content"] = " Paris.\n\nThe United Kingdom"
    told = compare(case.expected, replace(case.expected, body=body), case.context, split=str.split).agreement
    assert told is not None
    assert (told.first_divergence, told.tokens, told.text_equal) == (3, 5, False)


# --- probabilities


def test_other_probabilities_are_equal_and_broken_ones_are_not() -> None:
    name = "base/completion_n_probs"
    first = ("completion_probabilities", 0)

    def runner_up(body: Any) -> None:
        body["completion_probabilities"][0]["top_logprobs"][1].update(id=253, token=" a", bytes=[32, 97], logprob=-2.7)

    assert body_changed(name, runner_up) == ()
    assert body_changed(name, setter(*first, "logprob", to=-0.25)) == ()
    top = "$.completion_probabilities[0].top_logprobs"
    for change, want in (
        (setter(*first, "logprob", to=0.25), ("$.completion_probabilities[0].logprob", "rule")),
        (setter(*first, "logprob", to=-1), ("$.completion_probabilities[0].logprob", "rule")),
        (setter(*first, "id", to=7), ("$.completion_probabilities[0].id", "value")),
        (setter(*first, "top_logprobs", 1, "bytes", to=[1]), (f"{top}[1].bytes", "rule")),
        (setter(*first, "top_logprobs", 1, "logprob", to=-9.5), (top, "rule")),
        (dropper(*first, "top_logprobs", -1), (top, "length")),
        (dropper("completion_probabilities", -1), ("$.completion_probabilities", "length")),
    ):
        assert found(body_changed(name, change)) == {want}


def test_zero_probabilities_may_be_left_out_after_sampling() -> None:
    name = "base/completion_post_sampling_probs"
    assert body_changed(name, dropper("completion_probabilities", 1, "top_probs", -1)) == ()
    assert found(body_changed(name, setter("completion_probabilities", 0, "prob", to=1.5))) == {
        ("$.completion_probabilities[0].prob", "rule")
    }


# --- streams


def test_a_stream_without_its_terminator_or_with_a_foreign_one_is_seen() -> None:
    assert found(frames_changed("base/chat_stream", lambda frames: frames.pop())) == {("$frames", "frames")}
    done = Frame("[DONE]")
    assert found(frames_changed("base/completion_stream", lambda frames: frames.append(done))) == {
        ("$frames", "frames")
    }


def test_the_order_of_frames_is_seen() -> None:
    assert found(frames_changed("base/chat_stream", lambda frames: frames.insert(2, frames.pop(0)))) == {
        ("$frames", "frames")
    }


def test_merged_frames_are_seen_where_the_text_is_equal() -> None:
    def merge(frames: list[Any]) -> None:
        second = frames.pop(2)
        frames[1].data["choices"][0]["delta"]["content"] += second.data["choices"][0]["delta"]["content"]

    got = frames_changed("base/chat_stream", merge)
    assert ("$content", "frames") in found(got)


def test_fewer_frames_of_another_text_are_no_difference() -> None:
    def shorter(frames: list[Any]) -> None:
        del frames[3:7]
        frames[1].data["choices"][0]["delta"]["content"] = "Blue"

    assert frames_changed("base/chat_stream", shorter) == ()


def test_more_frames_of_another_text_are_held_against_the_last_one_recorded() -> None:
    def longer(frames: list[Any]) -> None:
        again = copy.deepcopy(frames[1])
        again.data["extra"] = 1
        frames[2:2] = [copy.deepcopy(frames[1])] * 4 + [again]

    got = frames_changed("base/chat_stream", longer)
    assert [(one.path, one.kind) for one in got] == [("$content[5].extra", "extra")]


def test_a_key_on_the_wrong_frame_is_seen() -> None:
    timings = {"cache_n": 0}
    for index, where in ((0, "$role[0]"), (1, "$content[0]")):
        got = frames_changed("base/chat_stream", setter(index, "data", "timings", to=timings))
        assert (f"{where}.timings", "extra") in found(got)


def test_a_stream_keeps_one_id() -> None:
    got = frames_changed("base/chat_stream", setter(3, "data", "id", to="chatcmpl-" + "y" * 32))
    assert found(got) == {("$content[2].id", "rule")}


def test_a_middle_frame_has_no_slot() -> None:
    assert found(frames_changed("base/completion_stream", setter(0, "data", "id_slot", to=1))) == {
        ("$content[0].id_slot", "rule")
    }


def test_tokens_are_counted_frame_by_frame() -> None:
    got = frames_changed("base/completion_stream", setter(1, "data", "tokens_predicted", to=1))
    assert found(got) == {("$content[1].tokens_predicted", "value")}


def test_a_prompt_may_be_read_in_more_steps() -> None:
    def step(frames: list[Any]) -> None:
        frames.insert(1, copy.deepcopy(frames[1]))
        frames[1].data["prompt_progress"].update(processed=128, time_ms=3)

    assert frames_changed("base/completion_return_progress", step) == ()
    assert found(
        frames_changed("base/completion_return_progress", setter(0, "data", "prompt_progress", "total", to=300))
    ) == {("$progress[0].prompt_progress.total", "value")}


def test_an_event_name_is_part_of_a_frame() -> None:
    got = frames_changed("base/completion_stream", lambda frames: frames.__setitem__(0, Frame(frames[0].data, "token")))
    assert found(got) == {("$frames", "frames")}


def test_roles_of_frames_in_every_protocol() -> None:
    assert role_of(Frame({"type": "message_start"}, "message_start")) == "message_start"
    assert role_of(Frame({"error": {"code": 500}})) == "error"
    assert role_of(Frame({"choices": [], "usage": {}})) == "usage"
    assert role_of(Frame({"choices": [{"delta": {}, "finish_reason": None}], "prompt_progress": {}})) == "progress"
    assert role_of(Frame({"something": "else"})) == "unknown"
    assert role_of(Frame({"choices": ["odd"]})) == "content"


def test_the_text_of_every_protocol_is_found() -> None:
    def streamed(*frames: Frame) -> str | None:
        return generated(Answer(200, {}, "frames", frames=frames))

    delta: Any = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
    assert streamed(Frame(delta, "content_block_delta"), Frame({"type": "message_stop"}, "message_stop")) == "a"
    item: Any = {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "b"}
    assert streamed(Frame(item, "response.output_text.delta")) == "b"
    assert streamed(Frame({"error": {}})) is None
    assert generated(Answer(200, {}, "text", text="x")) is None
    assert generated(CASES["base/responses"].expected) == "Hello! How can"
    assert generated(CASES["base/messages_anthropic"].expected) == "Hello! How can"
    assert generated(CASES["base/completion_n_cmpl"].expected) == " Paris. Paris."


# --- metrics


def test_metric_names_helps_types_and_order_are_seen() -> None:
    case = CASES["base/metrics"]

    def with_text(text: str) -> set[tuple[str, str]]:
        return found(against(case, replace(case.expected, text=text)).differences)

    text = case.expected.text
    assert with_text(text.replace("n_tokens_max 0", "n_tokens_max 12.5")) == set()
    assert with_text(text.replace("n_tokens_max 0", "n_tokens_max 1.23457e+06")) == set()
    name = "$metrics.llamacpp:n_tokens_max"
    assert with_text(text.replace("n_tokens_max 0", "n_tokens_max 12.123456789")) == {(f"{name}.samples.", "rule")}
    assert with_text(text.replace("Largest observed", "Longest")) == {(f"{name}.help", "value")}
    assert with_text(text.replace("TYPE llamacpp:n_tokens_max counter", "TYPE llamacpp:n_tokens_max gauge")) == {
        (f"{name}.type", "value")
    }
    assert with_text(text + "# HELP a b\n# TYPE a gauge\na 1\n") == {("$metrics.a", "extra")}
    assert with_text(text + "what is this?\n") == {("$metrics.unreadable", "extra")}
    first, rest = text.split("# HELP llamacpp:prompt_tokens_cached_total")
    assert with_text("# HELP llamacpp:prompt_tokens_cached_total" + rest + first) == {("$metrics", "order")}


def test_labels_belong_to_their_name() -> None:
    said = metrics('# HELP a help\n# TYPE a counter\na{position="0"} 22\n')
    assert said == {"a": {"help": "help", "type": "counter", "samples": {'{position="0"}': "22"}}}


# --- reading an answer

STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json; charset=utf-8"}


def test_a_stream_is_read_frame_by_frame_and_pings_are_skipped() -> None:
    got = from_http(200, STREAM, b':\n\nevent: go\ndata: {"a":1}\n\ndata: [DONE]\n\n')
    assert got.frames == (Frame({"a": 1}, "go"), Frame("[DONE]"))
    assert got.faults == ()


@pytest.mark.parametrize(
    ("headers", "content", "fault"),
    [
        (STREAM, b'data: {"a":1}\r\n\r\n', "carriage return"),
        (STREAM, b'data: {"a":1}\n', "ends inside a frame"),
        (STREAM, b'data:{"a":1}\n\n', "not a line"),
        (STREAM, b"id: 4\n\n", "not a line"),
        (STREAM, b"data: {\n\n", "not JSON"),
        (JSON, b'{"a":1,"a":2}', "twice"),
        (JSON, b'{"a":NaN}', "NaN is not JSON"),
        (JSON, b"Internal Server Error", "not JSON"),
        (JSON, b'{"a":"\xff"}', "not UTF-8"),
    ],
)
def test_what_a_lenient_reader_forgives_is_a_fault(headers: dict[str, str], content: bytes, fault: str) -> None:
    got = from_http(200, headers, content)
    assert any(fault in said for said in got.faults)
    case = CASES["base/health"]
    assert any(one.kind == "fault" for one in against(case, got).differences)


def test_integers_and_floats_stay_apart_when_read() -> None:
    got = from_http(200, JSON, b'{"a":1,"b":1.0}')
    assert isinstance(got.body, dict)
    assert [type(value) for value in got.body.values()] == [int, float]


def test_shortened_texts_and_vectors_are_written_out() -> None:
    assert unpacked({"prompt": {"$repeat": "ab ", "$times": 2}, "v": [{"$f32": "AACAPw=="}]}) == {
        "prompt": "ab ab ",
        "v": [[1.0]],
    }
