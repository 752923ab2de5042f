import asyncio
import threading
import time
from itertools import pairwise

import pytest

from stoker.scheduler.device import Device


async def test_every_call_runs_on_one_thread_that_is_not_the_loops() -> None:
    device = Device()
    threads = {(await device.run(threading.get_ident)).result for _ in range(3)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}
    device.close()


async def test_calls_come_one_after_the_other_in_their_order() -> None:
    device, order = Device(), list[int]()

    def slow(n: int) -> int:
        time.sleep(0.01 * (3 - n))
        order.append(n)
        return n

    ran = await asyncio.gather(*(device.run(lambda n=n: slow(n)) for n in range(3)))
    assert order == [0, 1, 2]
    assert [one.result for one in ran] == [0, 1, 2]
    assert all(one.started < one.ended for one in ran)
    assert all(a.ended <= b.started for a, b in pairwise(ran))
    device.close()


async def test_the_loop_goes_on_while_a_call_runs() -> None:
    device, released = Device(), threading.Event()
    running = asyncio.create_task(device.run(released.wait))
    await asyncio.sleep(0.01)
    assert not running.done()
    released.set()
    assert (await running).result
    device.close()


async def test_what_a_call_raises_comes_back_and_the_thread_lives_on() -> None:
    device = Device()
    with pytest.raises(ZeroDivisionError):
        await device.run(lambda: 1 // 0)
    assert (await device.run(lambda: 5)).result == 5
    device.close()


async def test_closing_waits_for_the_calls_that_were_made() -> None:
    device, done = Device(), list[int]()
    running = asyncio.create_task(device.run(lambda: (time.sleep(0.02), done.append(1))))
    await asyncio.sleep(0)
    await asyncio.to_thread(device.close)
    assert done == [1]
    await running
