"""Host: the life of the server process between its start and its end. Fills the State when the model is there."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from stoker import blas
from stoker.boot import Booted, boot
from stoker.core.build import build_info
from stoker.core.errors import StartError
from stoker.core.request import Limits
from stoker.routes.scales import Scales
from stoker.routes.service import Defaults, Edge, Service, State, Switches
from stoker.scheduler.device import Device
from stoker.scheduler.scheduler import Scheduler
from stoker.settings import Settings
from stoker.text.builtin import resolve
from stoker.text.template import ChatTemplate

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that running requests get to finish once the process was told to end."""


class Host:
    """`give_up` is called when the model cannot be loaded; `failure` then says why."""

    def __init__(self, settings: Settings, give_up: Callable[[], None]) -> None:
        self._settings, self._give_up = settings, give_up
        self._device = Device()
        self._scheduler: Scheduler | None = None
        self.state = State(_edge(settings))
        self.failure: BaseException | None = None

    @asynccontextmanager
    async def lifespan(self, _app: object) -> AsyncIterator[None]:
        """Returns at once and loads meanwhile, so that the port answers 503 until the model is ready."""
        if self._settings.threads_http > 0:
            pool = ThreadPoolExecutor(self._settings.threads_http, thread_name_prefix="text")
            asyncio.get_running_loop().set_default_executor(pool)
        serving = asyncio.create_task(self._serve())
        serving.add_done_callback(self._ended)
        try:
            yield
        finally:
            if self._scheduler is not None:
                await self._scheduler.stop()
            else:
                serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            self._device.close()

    async def finish(self) -> None:
        """Lets running requests end for `GRACE` seconds; whoever is not done then hears that the server ends."""
        if self._scheduler is not None:
            await self._scheduler.stop(GRACE)

    async def _serve(self) -> None:
        log.info(blas.load().line)
        booted = await boot(self._settings, self._device)
        self.state.service = _service(booted, self._settings)
        self._scheduler = booted.scheduler
        log.info("ready")
        await booted.scheduler.run()

    def _ended(self, serving: asyncio.Task[None]) -> None:
        """Says what ended the engine. Without a model the process has nothing to stay for."""
        error = None if serving.cancelled() else serving.exception()
        if error is None:
            return
        if not isinstance(error, StartError):
            log.error("the engine has ended: %s", error, exc_info=error)
        if self._scheduler is None:
            self.failure = error if isinstance(error, StartError) else StartError(f"cannot start: {error}")
            self._give_up()


def _edge(settings: Settings) -> Edge:
    return Edge(
        keys=settings.keys,
        prefix=settings.api_prefix,
        cors_origins=settings.cors_origins,
        cors_credentials=settings.cors_credentials,
        cors_methods=settings.cors_methods,
        cors_headers=settings.cors_headers,
        ui=settings.ui,
        vertex=settings.vertex,
    )


def _service(booted: Booted, settings: Settings) -> Service:
    source = resolve(settings.chat_template) if settings.chat_template else booted.template
    drafting = booted.drafting
    return Service(
        scheduler=booted.scheduler,
        tokenizer=booted.tokenizer,
        template=ChatTemplate(source, booted.tokenizer.bos_text, booted.tokenizer.eos_text),
        info=booted.info,
        aliases=tuple(sorted(set(settings.alias))) or (Path(booted.info.path).name,),
        tags=tuple(sorted(set(settings.tags))),
        slots=booted.slots,
        context=booted.context,
        build=build_info(),
        started=int(time.time()),  # noqa: TID251 (the wall time of the start, for `/metrics`)
        sampling=settings.sampling(),
        limits=Limits(predict=settings.n_predict, stop=settings.stop),
        grammar=settings.grammar,
        grammars=booted.grammars,
        defaults=_defaults(settings),
        speculative_types=drafting.types,
        draft_most=drafting.most if drafting.kind is not None else 0,
        about={**drafting.about(), **booted.about},
        budget=booted.budget,
        batch=settings.n_batch,
        pooling=booted.pooling,
        adapters=Scales([path for path, _ in settings.adapters], [scale for _, scale in settings.adapters]),
        slot_save_path=settings.slot_save_path,
        switches=Switches(
            slots=settings.slots, props=settings.props, metrics=settings.metrics, slots_debug=settings.slots_debug
        ),
    )


VERBOSE = 9
"""Above this verbosity answers are verbose too, as upstream (`--verbose` is the highest)."""


def _defaults(settings: Settings) -> Defaults:
    return Defaults(
        cache_prompt=settings.cache_prompt,
        ping_interval=settings.sse_ping_interval,
        send_timeout=float(settings.timeout),
        ignore_eos=settings.ignore_eos,
        keep=settings.n_keep,
        backend_sampling=settings.backend_sampling,
        prefill_assistant=settings.prefill_assistant,
        jinja=settings.jinja,
        template_kwargs=settings.template_variables,
        reasoning_format="deepseek" if settings.reasoning_format == "auto" else settings.reasoning_format,
        reasoning_budget=settings.reasoning_budget,
        reasoning_budget_message=settings.reasoning_budget_message,
        chat_parsing=not settings.skip_chat_parsing,
        verbose=settings.verbosity > VERBOSE,
        special=settings.special,
        spm_infill=settings.spm_infill,
        embd_normalize=settings.embd_normalize,
    )
