import pytest

from stoker.core.errors import InvalidRequest
from stoker.routes.schema.fields import (
    FLOAT_MAX,
    INT_MAX,
    Field,
    Type,
    find,
    lenient,
    lenient_int,
    read_array,
    read_bool,
    read_int,
    read_number,
    read_string,
    type_name,
    widen,
)

COUNT = Field(("n", "count"), Type.INT, -1)
SHARE = Field(("p",), Type.FLOAT, 0, 1)
CLAMPED = Field(("k",), Type.INT, 0, 9, soft=True)


def test_the_first_name_that_is_there_and_not_null_counts() -> None:
    assert find({"n": None, "count": 2}, COUNT.names) == ("count", 2)
    assert read_int({"n": 1, "count": 2}, COUNT, 7) == 1
    assert read_int({"n": None}, COUNT, 7) == 7


@pytest.mark.parametrize(("value", "read"), [(3.9, 3), (True, 1), (-0.5, 0), (2**31 - 1, INT_MAX)])
def test_an_integer_is_what_is_left_of_a_fraction(value: float, read: int) -> None:
    assert read_int({"n": value}, COUNT, 0) == read


def test_floats_stay_within_float32_and_free_integers_within_32_bits() -> None:
    assert read_number({"t": 1e300}, Field(("t",), Type.FLOAT), 0) == FLOAT_MAX
    assert read_number({"s": 2**40}, Field(("s",), Type.INT), 0) == INT_MAX
    assert read_number({"s": -(2**40)}, Field(("s",), Type.INT), 0) == -INT_MAX - 1


def test_a_soft_domain_clamps_and_a_hard_one_refuses_with_its_bounds() -> None:
    assert [read_int({"k": value}, CLAMPED, 0) for value in (-5, 5, 50)] == [0, 5, 9]
    with pytest.raises(InvalidRequest, match=r"Field 'p': Value must be between 0.000000 <= value <= 1.000000, but"):
        read_number({"p": 1.5}, SHARE, 0)
    with pytest.raises(InvalidRequest, match=r"between -1 <= value <= 2147483647, but got -2$"):
        read_number({"n": -2}, COUNT, 0)


@pytest.mark.parametrize("value", ["3", [], {}])
def test_another_type_is_named(value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"must be number, but is {type_name(value)}"):
        read_number({"count": value}, COUNT, 0)
    with pytest.raises(InvalidRequest, match="must be number, but is boolean"):
        read_number({"b": True}, Field(("b",), Type.INT, booleans=False), 0)


def test_other_types_are_read_or_refused_too() -> None:
    body = {"b": True, "s": "x", "a": [1], "null": None}
    assert (read_bool(body, "b", False), read_string(body, "s", ""), read_array(body, "a")) == (True, "x", [1])
    assert (read_bool(body, "null", True), read_string({}, "s", "d"), read_array({}, "a")) == (True, "d", None)
    with pytest.raises(InvalidRequest, match="must be boolean, but is string"):
        read_bool(body, "s", False)
    with pytest.raises(InvalidRequest, match="must be string, but is array"):
        read_string(body, "a", "")
    with pytest.raises(InvalidRequest, match="must be array, but is boolean"):
        read_array(body, "b")


def test_outside_the_schema_a_wrong_type_is_the_default() -> None:
    assert (lenient({"a": 1}, "a", "x"), lenient({"a": "y"}, "a", "x"), lenient({}, "a", True)) == ("x", "y", True)
    assert [lenient_int({"a": value}, "a", 7) for value in (3.9, True, "3", None)] == [3, 7, 7, 7]


def test_a_number_prints_as_its_float32() -> None:
    assert widen(0.1) == 0.10000000149011612
