import pytest

from stoker.rounds.guard import Fault, guard

pytestmark = pytest.mark.mlx


def test_what_a_guarded_call_returns_comes_through() -> None:
    assert guard(lambda: 3) == 3


def test_what_it_raises_becomes_a_value_and_keeps_its_traceback() -> None:
    caught = guard(lambda: 1 // 0)
    assert isinstance(caught, Fault)
    assert isinstance(caught.error, ZeroDivisionError)
    assert caught.error.__traceback__ is not None


def test_an_order_to_end_the_process_is_not_a_fault_of_the_call() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guard(interrupted)
