"""The sequences of one HTTP request: submitted together, heard together, cancelled together."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

from stoker.core.counters import log_fields
from stoker.core.errors import Unavailable
from stoker.core.events import Embedded, Event, Failed, Finished, Progress, Tokens
from stoker.core.request import MAX_SEED, Request, Sampling
from stoker.routes.adapters import read_scales
from stoker.routes.schema.job import Job
from stoker.routes.schema.native import random_seed
from stoker.routes.service import EventStream, Scheduler, Service
from stoker.routes.shape.settings import generation_settings
from stoker.routes.shape.subject import Part

log = logging.getLogger("stoker.requests")

Heard = tuple[Part, Event]
Said = tuple[Part, Progress | Tokens | Finished]


class Run:
    """Raises what `submit` raises, with nothing left behind. `route` is for the log."""

    def __init__(self, route: str, job: Job, service: Service, arrived: float) -> None:
        self.route = route
        self.scheduler: Scheduler = service.scheduler
        self.ids: list[int] = []
        self.parts: list[Part] = []
        self.streams: list[EventStream] = []
        try:
            for prompt_index, prompt in enumerate(job.prompts):
                for choice, sampling in enumerate(_samplings(job, prompt_index)):
                    twin = self.ids[-choice] if choice else -1
                    self._submit(prompt, sampling, job, service, arrived, twin)
        except BaseException:
            self.cancel()
            raise

    def _submit(
        self, prompt: tuple[int, ...], sampling: Sampling, job: Job, service: Service, arrived: float, twin: int
    ) -> None:
        """`twin`: the first continuation of the same prompt, which reads it for all; -1: this is it."""
        settings = generation_settings(sampling, job.limits, job.options, service.speculative_types, job.grammar)
        request = Request(
            id=self.scheduler.next_id(),
            prompt=prompt,
            arrived=arrived,
            sampling=sampling,
            limits=job.limits,
            slot=job.options.slot if twin < 0 else -1,
            cache_prompt=job.options.cache_prompt,
            probs=job.options.probs,
            post_sampling_probs=job.options.post_sampling_probs,
            speculation=job.options.speculation,
            keep_special=service.defaults.special,
            preserved=frozenset(job.options.preserved),
            thought=job.thought,
            grammar=job.grammar,
            twin=twin,
            keep=job.options.keep + service.tokenizer.adds_bos if job.options.keep >= 0 else -1,
            discard=job.options.discard,
            report=settings,
            adapters=service.adapters.of(read_scales(job.options.lora)),
        )
        self.streams.append(self.scheduler.submit(request))
        self.ids.append(request.id)
        self.parts.append(Part(len(self.parts), prompt, settings))

    def cancel(self) -> None:
        """Idempotent, also for what has ended."""
        for id in self.ids:
            self.scheduler.cancel(id)

    async def events(self) -> AsyncGenerator[Said, None]:
        """Everything that the sequences say, each event with its part, to the last end. Raises a Failed's error."""
        source = self._one() if len(self.streams) == 1 else self._merged()
        running = len(self.streams)
        async with contextlib.aclosing(source):
            async for part, event in source:
                if isinstance(event, Failed):
                    log.warning("%s id=%d failed: %s", self.route, self.ids[part.index], event.error.message)
                    raise event.error
                assert not isinstance(event, Embedded), "a run generates"
                if isinstance(event, Finished):
                    running -= 1
                    self._log(part, event)
                yield part, event
        if running:
            raise Unavailable("The request was cancelled")

    async def finals(self) -> list[tuple[Part, Finished]]:
        """The ends of all sequences, by index."""
        ends = [(part, event) async for part, event in self.events() if isinstance(event, Finished)]
        return sorted(ends, key=lambda end: end[0].index)

    async def _one(self) -> AsyncGenerator[Heard, None]:
        async for event in self.streams[0]:
            yield self.parts[0], event

    async def _merged(self) -> AsyncGenerator[Heard, None]:
        queue: asyncio.Queue[Heard | None] = asyncio.Queue()

        async def listen(part: Part, stream: EventStream) -> None:
            try:
                async for event in stream:
                    queue.put_nowait((part, event))
            finally:
                queue.put_nowait(None)

        pairs = zip(self.parts, self.streams, strict=True)
        listeners = [asyncio.create_task(listen(part, stream)) for part, stream in pairs]
        try:
            open_streams = len(listeners)
            while open_streams:
                heard = await queue.get()
                if heard is None:
                    open_streams -= 1
                else:
                    yield heard
            await asyncio.gather(*listeners)
        finally:
            for listener in listeners:
                listener.cancel()

    def _log(self, part: Part, event: Finished) -> None:
        log.info(
            "%s id=%d slot=%d prompt=%d cached=%d predicted=%d ms=%.1f tok/s=%.2f stop=%s%s",
            self.route,
            self.ids[part.index],
            event.slot,
            event.prompt_tokens,
            event.cached_tokens,
            len(event.tokens),
            event.timings.prompt_ms + event.timings.predicted_ms,
            event.timings.predicted_per_second,
            event.stop,
            log_fields(event.draft, event.draft_off, event.rule),
        )


def _samplings(job: Job, prompt_index: int) -> Sequence[Sampling]:
    """One a choice: seed, seed + 1, …; without a seed every further prompt draws its own."""
    first = random_seed() if job.random_seed and prompt_index else job.sampling.seed
    return [replace(job.sampling, seed=(first + choice) % (MAX_SEED + 1)) for choice in range(job.options.n)]
