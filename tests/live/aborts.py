"""Clients that break off: raw connections, closed at every moment that a connection has."""

import asyncio
import json
import socket
import struct
from random import Random

REQUEST = {"prompt": "one two three", "n_predict": 40, "ignore_eos": True, "cache_prompt": False}
LONG_PROMPT = "one two three four " * 40
ANSWER_BYTES = 3000
PATIENCE = 5.0


def _request(random: Random) -> bytes:
    path = random.choice(["/completion", "/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses"])
    text = random.choice(["Hi", LONG_PROMPT])
    fields = {"messages": [{"role": "user", "content": text}], "input": text, "max_tokens": 40, "max_output_tokens": 40}
    body = json.dumps({**REQUEST, **fields, "prompt": text, "stream": random.random() < 0.7}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def abort(host: str, port: int, seed: int) -> str:
    """Connects, sends some of a request, reads some of the answer, and is gone: at which moment that was."""
    random = Random(seed)
    whole = _request(random)
    head = whole.index(b"\r\n\r\n") + 4
    moment, sent, read = random.choice(
        [
            ("connected", 0, 0),
            ("in the head", random.randrange(1, head), 0),
            ("before the body", head, 0),
            ("in the body", random.randrange(head + 1, len(whole)), 0),
            ("all was said", len(whole), 0),
            ("in the answer", len(whole), random.randrange(1, 400)),
            ("far in the answer", len(whole), random.randrange(400, ANSWER_BYTES)),
        ]
    )
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(whole[:sent])
        await writer.drain()
        if sent:
            await asyncio.sleep(random.choice([0, 0, 0.002, 0.02]))
        if read:
            async with asyncio.timeout(PATIENCE):
                await reader.read(read)
        if random.random() < 0.5:  # a reset instead of a farewell
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    finally:
        writer.transport.abort() if random.random() < 0.5 else writer.close()
    return moment
