"""From a Job to a response: the same way for every route that generates."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from starlette.requests import Request
from starlette.responses import Response

from stoker.core.events import Finished, Progress, Tokens
from stoker.routes.disconnect import while_connected
from stoker.routes.respond import json_response
from stoker.routes.run import Run, Said
from stoker.routes.schema.job import Job
from stoker.routes.service import Service
from stoker.routes.shape.ids import new_id, wall_seconds
from stoker.routes.shape.subject import Part, Subject
from stoker.routes.speakers import Speaker
from stoker.routes.sse import DONE, FrameResponse, Frames, encode


def subject_of(job: Job, service: Service) -> Subject:
    return Subject(
        id=new_id(),
        created=wall_seconds(),
        model=service.model,
        build=service.build,
        options=job.options,
        tokenizer=service.tokenizer,
        special=service.defaults.special,
        prefill=job.prefill,
        prefill_thought=job.prefill_thought,
        lead=job.lead,
        parsing=job.parsing,
    )


async def answer(request: Request, job: Job, speaker: Speaker, service: Service, arrived: float) -> Response:
    """Generates and says it. Whoever leaves early cancels what is queued or running."""
    if job.grammar and service.grammars is not None:
        await asyncio.to_thread(service.grammars.check, job.grammar)
    run = Run(f"{request.method} {request.url.path}", job, service, arrived)
    if job.options.reasoning_control:
        service.controls.enter(speaker.subject.id, run.ids)

    def close() -> None:
        run.cancel()
        service.controls.leave(speaker.subject.id)

    if job.options.stream:
        return await _stream(request, speaker, service, run, close)
    try:
        return json_response(speaker.whole(await while_connected(request.receive, run.finals())))
    finally:
        close()


async def _stream(
    request: Request, speaker: Speaker, service: Service, run: Run, close: Callable[[], None]
) -> Response:
    """The first-event rule: headers wait for the prompt to start, so that an earlier error has its own status."""
    events = run.events()
    try:
        first = await while_connected(request.receive, anext(events))
    except BaseException:
        close()
        raise
    return FrameResponse(
        _frames(first, events, speaker),
        close,
        ping=speaker.subject.options.ping_interval,
        send_timeout=service.defaults.send_timeout,
        voice=speaker.voice,
    )


async def _frames(first: Said, rest: AsyncGenerator[Said, None], speaker: Speaker) -> Frames:
    ends: list[tuple[Part, Finished]] = []
    if opening := _say(first, speaker, ends):
        yield opening
    async with contextlib.aclosing(rest):
        async for heard in rest:
            if said := _say(heard, speaker, ends):
                yield said
    ends.sort(key=lambda end: end[0].index)
    if closing := encode(speaker.close(ends)) + (DONE if speaker.says_done else b""):
        yield closing


def _say(heard: Said, speaker: Speaker, ends: list[tuple[Part, Finished]]) -> bytes:
    """The frames of one event, joined: one write, as many frames as tokens."""
    part, event = heard
    if isinstance(event, Progress):
        return encode(speaker.progress(part, event))
    if isinstance(event, Tokens):
        return encode(speaker.pieces(part, event.pieces))
    ends.append((part, event))
    return encode(speaker.finished(part, event))
