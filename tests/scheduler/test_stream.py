import asyncio

from stoker.core.errors import ServerFault
from stoker.core.events import Failed, Piece, Progress, Tokens
from stoker.core.timings import Timings
from stoker.scheduler.stream import Stream


def tokens(*ids: int) -> Tokens:
    return Tokens(tuple(Piece(id, str(id), 1, Timings()) for id in ids))


async def read(stream: Stream) -> list[object]:
    return [event async for event in stream]


async def test_adjacent_tokens_merge_while_the_reader_is_away_and_no_piece_is_lost() -> None:
    stream = Stream(1)
    stream.push([Progress(1, 0, 0, 0.0), tokens(1)])
    stream.push([tokens(2), tokens(3)])
    stream.push([Failed(ServerFault("end"))])
    events = await read(stream)
    assert [type(event) for event in events] == [Progress, Tokens, Failed]
    merged = events[1]
    assert isinstance(merged, Tokens)
    assert [piece.token for piece in merged.pieces] == [1, 2, 3]


async def test_nothing_follows_the_last_event() -> None:
    stream = Stream(1)
    stream.push([Failed(ServerFault("end")), tokens(1)])
    stream.push([tokens(2)])
    assert [type(event) for event in await read(stream)] == [Failed]


async def test_a_reader_wakes_for_what_comes_later_and_ends_when_the_stream_is_closed() -> None:
    stream = Stream(1)
    reader = asyncio.create_task(read(stream))
    await asyncio.sleep(0)
    stream.push([tokens(1)])
    await asyncio.sleep(0)
    stream.close()
    assert [type(event) for event in await reader] == [Tokens]


async def test_closing_drops_what_nobody_will_read() -> None:
    stream = Stream(1)
    stream.push([tokens(1)])
    stream.close()
    stream.push([tokens(2)])
    assert await read(stream) == []
