import threading

from stoker.routes.offload import LONG, off_loop


async def test_a_long_text_is_worked_on_in_another_thread_and_a_short_one_here() -> None:
    here = threading.get_ident()
    assert await off_loop(LONG, threading.get_ident) == here
    assert await off_loop(LONG + 1, threading.get_ident) != here
