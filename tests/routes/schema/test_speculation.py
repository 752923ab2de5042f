from typing import Any

import pytest

from stoker.core.errors import InvalidRequest
from stoker.core.request import Speculation
from stoker.routes.schema.speculation import read_speculation


@pytest.mark.parametrize(
    ("body", "wish"),
    [
        ({}, Speculation()),
        ({"speculative": None}, Speculation()),
        ({"speculative": {}}, Speculation(asked=True)),
        ({"speculative": {"kind": "auto"}}, Speculation(asked=True)),
        ({"speculative": {"kind": "none"}}, Speculation("none", asked=True)),
        ({"speculative": {"kind": "draft-model", "n_max": 2}}, Speculation("draft-model", 2, asked=True)),
        ({"speculative": {"n_max": 0}}, Speculation("", 0, asked=True)),
        ({"speculative": {"kind": None, "n_max": None}}, Speculation(asked=True)),
    ],
)
def test_a_request_may_speak_of_drafting(body: dict[str, Any], wish: Speculation) -> None:
    assert read_speculation(body) == wish


def test_llama_servers_flat_fields_are_ignored() -> None:
    flat = {"speculative.n_max": "many", "speculative.n_min": 3, "speculative.p_min": 0.5, "speculative.type": 7}
    assert read_speculation(flat) == Speculation()
    assert read_speculation(flat | {"speculative": {"kind": "mtp"}}) == Speculation("mtp", asked=True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "Field 'speculative': [json.exception.type_error.302] type must be object, but is boolean"),
        ("none", "Field 'speculative': [json.exception.type_error.302] type must be object, but is string"),
        ({"kind": 1}, "Field 'speculative.kind': [json.exception.type_error.302] type must be string, but is number"),
        (
            {"n_max": "4"},
            "Field 'speculative.n_max': [json.exception.type_error.302] type must be number, but is string",
        ),
        (
            {"n_max": True},
            "Field 'speculative.n_max': [json.exception.type_error.302] type must be number, but is boolean",
        ),
        ({"n_max": -2}, "Field 'speculative.n_max': Value must be between -1 <= value <= 2147483647, but got -2"),
        (
            {"kind": "magic"},
            "Field 'speculative.kind': Unknown kind of drafter: magic. Known are auto, none, prompt-lookup, "
            "draft-model, mtp, dflash, glimmer, dspark",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_llama_servers_words(value: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_speculation({"speculative": value})
    assert refused.value.message == said
