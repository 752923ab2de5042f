from stoker.core.request import Request
from stoker.scheduler.slots import Place, SlotTable


def ask(*prompt: int, slot: int = -1, cache_prompt: bool = True) -> Request:
    return Request(1, prompt, arrived=0.0, slot=slot, cache_prompt=cache_prompt)


def table(count: int = 2, similarity: float = 0.1, recurrent: bool = False) -> SlotTable:
    return SlotTable(count, similarity=similarity, recurrent=recurrent)


def test_a_fresh_server_of_two_slots_begins_with_slot_1() -> None:
    slots = table()
    assert slots.take(ask(1, 2)) == Place(1, 0)
    assert slots.take(ask(1, 2)) == Place(0, 0)
    assert slots.take(ask(1, 2)) is None
    assert slots.idle == 0


def test_the_least_recently_used_slot_is_next() -> None:
    slots = table(3)
    for n in (2, 1, 0):
        slots.take(ask(9, slot=n))
    for n in (1, 2, 0):
        slots.leave(n, ())
    assert [slots.take(ask(7)), slots.take(ask(7)), slots.take(ask(7))] == [Place(1, 0), Place(2, 0), Place(0, 0)]


def test_the_slot_that_shares_most_of_the_prompt_wins_over_the_oldest() -> None:
    slots = table()
    slots.take(ask(1, slot=0))
    slots.take(ask(1, slot=1))
    slots.leave(0, (1, 2, 3, 4))
    slots.leave(1, (1, 2))
    assert slots.take(ask(1, 2, 3, 9)) == Place(0, 3)


def test_a_share_at_or_below_the_threshold_does_not_count() -> None:
    slots = table(similarity=0.5)
    slots.take(ask(1, slot=0))
    slots.leave(0, (1, 2))
    assert slots.take(ask(1, 2, 3, 4)) == Place(1, 0)


def test_a_wished_slot_is_taken_modulo_the_count_or_waited_for() -> None:
    slots = table()
    assert slots.take(ask(1, slot=99)) == Place(1, 0)
    assert slots.take(ask(1, slot=1)) is None


def test_the_last_prompt_token_is_always_run_again() -> None:
    slots = table()
    slots.take(ask(1, slot=0))
    slots.leave(0, (1, 2, 3))
    assert slots.take(ask(1, 2, 3, slot=0)) == Place(0, 2)


def test_a_request_may_decline_the_cache() -> None:
    slots = table()
    slots.take(ask(1, slot=0))
    slots.leave(0, (1, 2, 3))
    assert slots.take(ask(1, 2, 3, 4, slot=0, cache_prompt=False)) == Place(0, 0)


def test_a_recurrent_slot_serves_only_a_prompt_that_goes_on_from_its_end() -> None:
    slots = table(recurrent=True)
    slots.take(ask(1, slot=0))
    slots.leave(0, (1, 2, 3))
    assert slots.take(ask(1, 2, 9, 9, slot=0)) == Place(0, 0)
    slots.leave(0, (1, 2, 3))
    assert slots.take(ask(1, 2, 3, 9, slot=0)) == Place(0, 3)
