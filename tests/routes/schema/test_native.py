"""Native bodies: every field's name, type, domain and default, and what is refused."""

import math
from typing import Any

import pytest

from routes.fakes import bench, message
from stoker.core.errors import ServerError
from stoker.core.request import MAX_SEED, Limits, Sampling
from stoker.routes.schema.job import Job
from stoker.routes.schema.native import read_job
from stoker.routes.service import Defaults


def job(body: dict[str, Any], **changes: Any) -> Job:
    return read_job(body, [(1,)], bench(**changes).service)


def refusal(body: dict[str, Any], **changes: Any) -> tuple[int, str]:
    with pytest.raises(ServerError) as caught:
        job(body, **changes)
    return caught.value.status, caught.value.message


def test_an_empty_body_is_the_servers_defaults() -> None:
    made = job({}, sampling=Sampling(seed=9, temperature=0.3), limits=Limits(50, ("x",)))
    assert made.sampling == Sampling(seed=9, temperature=0.3)
    assert made.limits == Limits(50, ("x",))
    assert not made.random_seed


@pytest.mark.parametrize(
    ("body", "name", "value"),
    [
        ({"temperature": -1}, "temperature", 0),
        ({"temperature": None}, "temperature", 0.8),
        ({"temperature": True}, "temperature", 1),
        ({"top_k": 3.9}, "top_k", 3),
        ({"top_k": -5}, "top_k", 0),
        ({"top_k": 10**12}, "top_k", 2**31 - 1),
        ({"top_p": 7}, "top_p", 1),
        ({"mirostat": 5}, "mirostat", 2),
        ({"adaptive_target": 3}, "adaptive_target", 1),
        ({"dry_base": 0.5}, "dry_base", 1.75),
        ({"dry_base": 2}, "dry_base", 2),
        ({"seed": 42}, "seed", 42),
        ({"seed": -2}, "seed", MAX_SEED - 1),
        ({"repeat_penalty": 1e300}, "repeat_penalty", 3.4028234663852886e38),
        ({"samplers": "kp?t"}, "samplers", ("top_k", "top_p", "temperature")),
        ({"samplers": ["min_p", "nonsense", 3, {}]}, "samplers", ("min_p",)),
        ({"samplers": []}, "samplers", ()),
        ({"dry_sequence_breakers": ["a"]}, "dry_sequence_breakers", ("a",)),
        ({"logit_bias": [[5, 1], [6, False], [7, True], [8], "x", [9, "1"]]}, "logit_bias", ((5, 1.0), (6, -math.inf))),
        ({"logit_bias": [["ab", -2.5], [-1, 1], [300, 1], [True, 1]]}, "logit_bias", ((97, -2.5), (98, -2.5))),
        ({"logit_bias": {"5": 1, "a": 2, "999": 1}}, "logit_bias", ((5, 1.0), (97, 2.0))),
        ({"logit_bias": {"1x": False}}, "logit_bias", ((49, -math.inf), (120, -math.inf))),
        ({"logit_bias": 3}, "logit_bias", ()),
        ({"logit_bias": [[5, 1]], "ignore_eos": True}, "logit_bias", ((5, 1.0), (256, -math.inf), (258, -math.inf))),
    ],
)  # fmt: skip
def test_sampling_fields(body: dict[str, Any], name: str, value: object) -> None:
    assert getattr(job(body).sampling, name) == value


@pytest.mark.parametrize("seed", [-1, MAX_SEED, None])
def test_no_seed_draws_one(seed: int | None) -> None:
    made = [job({"seed": seed}) for _ in range(3)]
    assert all(one.random_seed for one in made)
    assert len({one.sampling.seed for one in made}) > 1


def test_a_servers_bias_holds_until_a_request_brings_its_own() -> None:
    served = Sampling(logit_bias=((1, 1.0),))
    assert job({}, sampling=served).sampling.logit_bias == ((1, 1.0),)
    assert job({"logit_bias": []}, sampling=served).sampling.logit_bias == ()


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        ({"max_tokens": 4}, Limits(4)),
        ({"max_tokens": 4, "max_completion_tokens": 3}, Limits(3)),
        ({"max_tokens": 4, "n_predict": 0}, Limits(0)),
        ({"n_predict": None, "max_tokens": 4}, Limits(4)),
        ({"n_predict": True}, Limits(1)),
        ({"stop": "a"}, Limits(stop=("a",))),
        ({"stop": ["a", "", "b"]}, Limits(stop=("a", "b"))),
        ({"stop": []}, Limits()),
        ({"stop": None}, Limits()),
        ({"t_max_predict_ms": 5.5, "n_indent": 4}, Limits(predict_ms=5, indent=4)),
    ],
)
def test_limits(body: dict[str, Any], limits: Limits) -> None:
    assert job(body).limits == limits


def test_the_servers_stops_and_length_fill_what_is_missing() -> None:
    served = Limits(7, ("User:",))
    assert job({"n_predict": -1, "stop": [""]}, limits=served).limits == served
    assert job({"stop": ["x"]}, limits=served).limits.stop == ("x",)


def test_options() -> None:
    options = job(
        {
            "stream": True,
            "stream_options": {"include_usage": True},
            "id_slot": 5.7,
            "n": 2,
            "logprobs": 1000,
            "lora": [{"id": 3, "scale": 1}, {"scale": "x"}],
            "response_fields": ["content"],
            "reasoning_format": "none",
            "n_keep": 4,
            "n_discard": 5,
            "backend_sampling": True,
            "echo": 1,
        }
    ).options
    assert (options.stream, options.include_usage, options.slot, options.n) == (True, True, 1, 2)
    assert options.probs == 300
    assert options.lora == ({"id": 3, "scale": 1.0}, {"id": -1, "scale": 0.0})
    assert (options.response_fields, options.reasoning_format) == (("content",), "none")
    assert (options.keep, options.discard, options.backend_sampling, options.echo) == (4, 5, True, False)


def test_fields_outside_the_schema_fall_back() -> None:
    options = job({"id_slot": "x", "stream_options": 5, "n_probs": -3}).options
    assert (options.slot, options.include_usage, options.probs) == (-1, False, 0)
    assert job({}, defaults=Defaults(cache_prompt=False)).options.cache_prompt is False


TYPE = "[json.exception.type_error.302] type must be "
ARRAY = "Error: 'lora' must be an array of objects with 'id' and 'scale' fields"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"n_predict": "many"}, f"Field 'n_predict': {TYPE}number, but is string"),
        ({"max_tokens": []}, f"Field 'max_tokens': {TYPE}number, but is array"),
        ({"temperature": {}}, f"Field 'temperature': {TYPE}number, but is object"),
        ({"t_max_predict_ms": True}, f"Field 't_max_predict_ms': {TYPE}number, but is boolean"),
        ({"stream": 1}, f"Field 'stream': {TYPE}boolean, but is number"),
        ({"grammar": 1}, f"Field 'grammar': {TYPE}string, but is number"),
        ({"response_fields": "a"}, f"Field 'response_fields': {TYPE}array, but is string"),
        ({"response_fields": [1]}, f"Field 'response_fields': {TYPE}string, but is number"),
        ({"stop": 1}, f"Field 'stop': {TYPE}array, but is number"),
        ({"stop": [None]}, f"Field 'stop': {TYPE}string, but is null"),
        ({"samplers": 1}, f"Field 'samplers': {TYPE}array, but is number"),
        ({"n_predict": -2}, "Field 'n_predict': Value must be between -1 <= value <= 2147483647, but got -2"),
        ({"n": 3}, "Field 'n': Value must be between 1 <= value <= 2, but got 3"),
        (
            {"adaptive_decay": 1},
            "Field 'adaptive_decay': Value must be between 0.000000 <= value <= 0.990000, but got 1.000000",
        ),
        (
            {"repeat_last_n": -1},
            "Field 'repeat_last_n': Value must be between 0 <= value <= 2147483647, but got -1",
        ),
        (
            {"dry_sequence_breakers": []},
            "Field 'dry_sequence_breakers': Error: dry_sequence_breakers must be a non-empty array of strings",
        ),
        (
            {"dry_sequence_breakers": [1]},
            "Field 'dry_sequence_breakers': Error: dry_sequence_breakers must be a non-empty array of strings",
        ),
        ({"lora": 5}, f"Field 'lora': {ARRAY}"),
        ({"lora": [5]}, f"Field 'lora': {ARRAY}"),
        ({"reasoning_format": "x"}, "Field 'reasoning_format': Unknown reasoning format: x"),
    ],
)
def test_wrong_types_and_domains_are_400_in_llama_servers_words(body: dict[str, Any], said: str) -> None:
    assert refusal(body) == (400, said)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"samplers": "i"}, "samplers"),
    ],
)
def test_what_is_not_built_is_refused_by_name(body: dict[str, Any], name: str) -> None:
    status, said = refusal(body)
    assert status == 501
    assert f"'{name}'" in said
    assert "not built yet" in said


@pytest.mark.parametrize(
    "body", [{"grammar": ""}, {"grammar": None, "json_schema": {}}, {"reasoning_budget_tokens": -1}]
)
def test_a_constraint_that_constrains_nothing_passes(body: dict[str, Any]) -> None:
    assert job(body)


async def test_prompt_faults_come_before_field_faults() -> None:
    assert "key 'prompt' not found" in message(await bench().post("/completion", {"n_predict": "x"}))
