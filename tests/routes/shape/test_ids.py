import string

from stoker.routes.shape.ids import call_id, new_id, wall_seconds


def test_ids_are_random_letters_and_digits_behind_their_prefix() -> None:
    ids = {new_id() for _ in range(50)}
    assert len(ids) == 50
    for id in ids:
        assert id.startswith("chatcmpl-")
        assert len(id) == len("chatcmpl-") + 32
        assert set(id.removeprefix("chatcmpl-")) <= set(string.ascii_letters + string.digits)
    assert len(call_id(9)) == 9


def test_created_is_unix_time() -> None:
    assert wall_seconds() > 1_700_000_000
