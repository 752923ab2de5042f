"""What the handlers know: plain values behind protocols, filled by `boot`, and the holder that is empty till then."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stoker.core.errors import Unavailable
from stoker.core.events import Event
from stoker.core.info import BudgetView, ModelInfo
from stoker.core.request import MAX_SEED, Grammar, Limits, Pooling, Request, Sampling
from stoker.core.work import Filed, SlotAction
from stoker.options.vertex import Vertex
from stoker.routes.controls import Controls
from stoker.routes.scales import Scales
from stoker.scheduler.views import SlotView, Totals
from stoker.text.fim import FimTokens
from stoker.text.template import ChatTemplate

LOADING = "Loading model"


class EventStream(Protocol):
    """The events of one request; it ends after `Finished` or `Failed`."""

    def __aiter__(self) -> AsyncIterator[Event]: ...


class Scheduler(Protocol):
    @property
    def healthy(self) -> bool: ...

    def next_id(self) -> int: ...

    def submit(self, request: Request) -> EventStream:
        """Raises ContextExceeded or Unavailable at once."""
        ...

    def cancel(self, id: int) -> None:
        """Idempotent; also for a request that waits or has ended."""
        ...

    def end_thought(self, id: int) -> bool:
        """Makes a request stop thinking; False where it does not think, or cannot be stopped."""
        ...

    async def act(self, slot: int, action: SlotAction, path: str = "", adapters: tuple[float, ...] = ()) -> Filed:
        """Saves, restores or erases a slot once it is idle. Raises the ServerError that prevents it.

        `adapters`: the scales that a restored content must have been made under.
        """
        ...

    @property
    def sleeping(self) -> bool:
        """True while the model is given up for want of requests."""
        ...

    async def rouse(self) -> None:
        """Brings back a model that was given up, and waits for it; at once where it is there."""
        ...

    def slots(self) -> list[SlotView]: ...

    def totals(self) -> Totals: ...


class Grammars(Protocol):
    def check(self, grammar: Grammar) -> None:
        """Raises InvalidRequest for one that cannot be followed. May take long: for a worker thread."""
        ...


class Tokenizer(Protocol):
    @property
    def vocab(self) -> int: ...

    @property
    def end_ids(self) -> Collection[int]: ...

    @property
    def adds_bos(self) -> bool: ...

    @property
    def bos_text(self) -> str: ...

    @property
    def eos_text(self) -> str: ...

    @property
    def fim(self) -> FimTokens: ...

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]: ...

    def piece(self, id: int, *, special: bool = True) -> bytes: ...

    def decode(self, ids: list[int], *, special: bool = True) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Edge:
    """What holds before a model is loaded."""

    keys: tuple[str, ...] = ()
    prefix: str = ""
    """`--api-prefix`, put before every route."""
    cors_origins: str = "*"
    cors_credentials: bool = True
    cors_methods: str = "GET, POST, DELETE, OPTIONS"
    cors_headers: str = "*"
    ui: bool = True
    vertex: Vertex | None = None
    """The routes of Vertex AI, where the server runs there."""


@dataclass(frozen=True, slots=True)
class Switches:
    """Which endpoints are on."""

    slots: bool = True
    props: bool = False
    metrics: bool = False
    slots_debug: bool = False
    """`/slots` shows all 49 settings."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """The server's values for request fields that are neither sampling nor limits."""

    cache_prompt: bool = True
    ping_interval: int = 30
    """Seconds of silence after which a stream sends a comment; 0 or less = never."""
    send_timeout: float = 600.0
    """Seconds that a client may refuse to take a frame before it counts as gone."""
    ignore_eos: bool = False
    keep: int = 0
    """`--keep`: prompt tokens that a context shift spares."""
    cache_reuse: int = 0
    backend_sampling: bool = False
    reasoning_format: str = "deepseek"
    reasoning_budget: int = -1
    """Tokens that a thought may have; -1 = no bound."""
    reasoning_budget_message: str = ""
    """Said before a thought is ended by force."""
    chat_parsing: bool = True
    """False (`--skip-chat-parsing`): thoughts and calls stay in the content."""
    prefill_assistant: bool = True
    jinja: bool = True
    """False (`--no-jinja`): the template is used all the same, but requests with tools are refused."""
    template_kwargs: Mapping[str, object] = field(default_factory=dict[str, object])
    verbose: bool = False
    """OpenAI's answers have the native one beside them, unless a request says otherwise."""
    special: bool = False
    """`--special`: control tokens show in the text."""
    spm_infill: bool = False
    """`--spm-infill`: what stands behind the gap comes first."""
    embd_normalize: int = 2


@dataclass(frozen=True, slots=True)
class Service:
    """Everything that answers need. `sampling.seed` equal to MAX_SEED means: draw one per request."""

    scheduler: Scheduler
    tokenizer: Tokenizer
    template: ChatTemplate
    info: ModelInfo
    aliases: tuple[str, ...]
    """Names the model is served under; the first stands in every answer."""
    slots: int
    context: int
    """Tokens that one slot holds."""
    build: str
    """`build_info` and `system_fingerprint`."""
    tags: tuple[str, ...] = ()
    """`--tags`, shown in `/v1/models`."""
    started: int = 0
    """Unix time of the start, seconds."""
    sampling: Sampling = field(default_factory=lambda: Sampling(seed=MAX_SEED))
    limits: Limits = field(default_factory=Limits)
    grammar: str = ""
    """That of requests that bring none."""
    grammars: Grammars | None = None
    """None: a bad grammar is found by the engine."""
    defaults: Defaults = field(default_factory=Defaults)
    switches: Switches = field(default_factory=Switches)
    slot_save_path: str = ""
    """The folder of slot files; empty: slots are not to be acted on."""
    speculative_types: str = "none"
    draft_most: int = 0
    """Tokens of a proposal at most, unless a request says otherwise; 0 where nothing drafts."""
    """llama-server's word for the drafter, as in `none,draft-simple`; `none` without one."""
    about: Mapping[str, object] = field(default_factory=dict[str, object])
    budget: Callable[[], BudgetView | None] = field(default=lambda: None)
    """The `stoker` object of `/props`: the drafter, its rule, what its exactness probe found."""
    batch: int = 2048
    """`--batch-size`, by which the context of an infill is trimmed."""
    pooling: Pooling | None = None
    """How prompts are embedded; None: they are not (`--embeddings`)."""
    adapters: Scales = field(default_factory=Scales)
    controls: Controls = field(default_factory=Controls)

    @property
    def model(self) -> str:
        return self.aliases[0]

    @property
    def speculative(self) -> bool:
        return self.speculative_types != "none"


class State:
    """The only thing at the edge that changes: the service arrives when the model is loaded."""

    def __init__(self, edge: Edge, service: Service | None = None) -> None:
        self.edge = edge
        self.service = service
        self.scraped = Totals()
        """The figures of the last `/metrics`, for its two rates."""

    def ready(self) -> Service:
        if self.service is None:
            raise Unavailable(LOADING)
        return self.service

    async def awake(self) -> Service:
        """The same for work that needs no model: it wakes a sleeping one all the same, as upstream."""
        service = self.ready()
        await service.scheduler.rouse()
        return service
