"""What a client asked for, as frozen data. Nothing here knows HTTP, the scheduler or an array."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

DEFAULT_SAMPLERS = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
"""llama-server's default chain, in order (`/props` of b10622)."""

DRY_BREAKERS = ("\n", ":", '"', "*")
MAX_SEED = 2**32 - 1
"""The uint32 that llama-server prints and reads for "random"."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target's logits become the distribution p, and which noise draws from it.

    Names, domains and defaults are llama-server's (spec/llama-server.md, section 4), clamped
    and validated before they arrive here. `seed` is always concrete: a random one was drawn
    when the request asked for none. `logit_bias` is resolved to token ids, `-inf` bans one.
    """

    seed: int = 0
    temperature: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    typical_p: float = 1.0
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = DRY_BREAKERS
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    min_keep: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS

    @property
    def greedy(self) -> bool:
        """True when p is one-hot on the argmax, so that no distribution is ever built."""
        if self.mirostat or self.adaptive:
            return False
        cold = self.temperature <= 0 and "temperature" in self.samplers
        return cold or (self.top_k == 1 and "top_k" in self.samplers)

    @property
    def penalised(self) -> bool:
        """True when repetition, presence or frequency penalties change any logit."""
        active = self.repeat_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0
        return "penalties" in self.samplers and self.repeat_last_n != 0 and active

    @property
    def dry(self) -> bool:
        """True when the DRY repetition penalty can change a logit."""
        active = self.dry_multiplier != 0.0 and self.dry_base >= 1.0 and self.dry_penalty_last_n != 0
        return "dry" in self.samplers and active

    @property
    def adaptive(self) -> bool:
        """True when adaptive-p chooses the token (it carries state from token to token)."""
        return "adaptive_p" in self.samplers and self.adaptive_target >= 0.0

    @property
    def stateful(self) -> bool:
        """True when a draw depends on state that only the draw before it produces."""
        return self.mirostat != 0 or self.adaptive

    @property
    def feedback(self) -> bool:
        """True when a draw depends on earlier tokens: its row cannot be queued before they are read."""
        return self.penalised or self.dry or self.stateful


@dataclass(frozen=True, slots=True)
class Limits:
    """Where an answer ends. -1 and 0 mean unlimited in the fields that say so."""

    predict: int = -1
    """Tokens; -1 = until an end token or a full context. 0 yields one token, as upstream."""
    stop: tuple[str, ...] = ()
    predict_ms: int = -1
    """Milliseconds of generation after which a new line ends the answer; -1 = no limit."""
    indent: int = 0
    """Least indentation, in columns, that a new line must have; 0 = no limit."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """What a request says about drafting; by default the server decides."""

    kind: str = ""
    """A drafter's name, `none`, or empty for the server's own."""
    most: int = -1
    """Proposals a round may hold at most; -1 = as the drafter is set."""
    asked: bool = False
    """True: the request spoke of drafting itself, so its answer also says why it was not drafted."""

    @property
    def disabled(self) -> bool:
        """True when the request forbids drafting."""
        return self.kind == "none" or self.most == 0


class TriggerKind(IntEnum):
    """What wakes a lazy grammar; the numbers are llama-server's."""

    TOKEN = 0
    WORD = 1
    PATTERN = 2
    """A regular expression that is found in the answer so far."""
    PATTERN_FULL = 3
    """One that matches the whole answer so far."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The constraint begins with the trigger's own text, with a pattern at its first group that took part."""

    kind: TriggerKind
    text: str
    token: int = -1


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the answer must look like; false: like anything."""

    text: str = ""
    """GBNF, or what `text.schema` makes of a JSON schema."""
    lazy: bool = False
    """True: everything is allowed until a trigger is seen."""
    triggers: tuple[Trigger, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class ThoughtLimit:
    """A bound on reasoning: after `budget` tokens of a thought, `ending` is put into the model's mouth."""

    opens: str
    """The text that begins a thought."""
    closes: tuple[str, ...]
    """Texts that end one."""
    ending: tuple[int, ...]
    """Token ids of the words that end it by force, the closing tag among them."""
    budget: int = -1
    """Tokens; -1 = no bound, but the thought can be ended from outside."""
    inside: bool = False
    """True: the prompt stops inside a thought."""


class Pooling(StrEnum):
    """How the vectors of a prompt's tokens become its embedding; llama-server's names."""

    NONE = "none"
    """A vector for each token."""
    MEAN = "mean"
    CLS = "cls"
    """That of the first token."""
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to generate, or with `pooling` to embed. `arrived` is a stamp of `core.clock`."""

    id: int
    prompt: tuple[int, ...]
    arrived: float
    sampling: Sampling = field(default_factory=Sampling)
    limits: Limits = field(default_factory=Limits)
    slot: int = -1
    """The slot the client wishes, already modulo the slot count; -1 = any."""
    cache_prompt: bool = True
    probs: int = 0
    """How many alternatives to report for each token; 0 = none."""
    post_sampling_probs: bool = False
    speculation: Speculation = field(default_factory=Speculation)
    keep_special: bool = False
    """True: control tokens show in the text (`--special`)."""
    preserved: frozenset[int] = frozenset()
    """Control tokens that show all the same, because the answer cannot be read without them."""
    thought: ThoughtLimit | None = None
    grammar: Grammar = field(default_factory=Grammar)
    twin: int = -1
    """An earlier request with the same prompt: its slot is copied when it has read it. -1: none."""
    keep: int = 0
    """Tokens at the beginning that a context shift spares."""
    discard: int = 0
    """Tokens that a context shift drops; 0 = half of those it may."""
    report: Mapping[str, object] = field(default_factory=dict[str, object])
    """The request's `generation_settings`, for `/slots`."""
    adapters: tuple[float, ...] = ()
    """The scale of each adapter that the server has loaded."""
    pooling: Pooling | None = None
    """Not None: no token is generated, the prompt's embedding is the answer."""

    @property
    def generates(self) -> bool:
        return self.pooling is None
