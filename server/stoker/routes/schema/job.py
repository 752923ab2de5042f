"""What a parsed body amounts to: prompts, sampling, limits, and how to shape the answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.core.request import Grammar, Limits, Sampling, Speculation, ThoughtLimit
from stoker.text.reply import Parsing

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Options:
    """Request fields that neither change the distribution nor end the answer."""

    stream: bool = False
    include_usage: bool = False
    return_tokens: bool = False
    return_progress: bool = False
    timings_per_token: bool = False
    verbose: bool = False
    echo: bool = False
    ping_interval: int = 30
    n: int = 1
    response_fields: tuple[str, ...] = ()
    keep: int = 0
    discard: int = 0
    ignore_eos: bool = False
    backend_sampling: bool = False
    lora: tuple[Mapping[str, object], ...] = ()
    reasoning_format: str = "deepseek"
    chat_format: str = "Content-only"
    generation_prompt: str = ""
    reasoning_in_content: bool = False
    reasoning_control: bool = False
    preserved: tuple[int, ...] = ()
    """Control tokens that show in the text."""
    slot: int = -1
    cache_prompt: bool = True
    probs: int = 0
    post_sampling_probs: bool = False
    speculation: Speculation = field(default_factory=Speculation)


@dataclass(frozen=True, slots=True)
class Job:
    """One HTTP request's work: `len(prompts) * options.n` sequences."""

    prompts: tuple[Ids, ...]
    sampling: Sampling
    limits: Limits
    options: Options
    random_seed: bool
    """True: `sampling.seed` was drawn, so each further prompt draws its own."""
    prefill: str = ""
    """The start of the answer that the client itself gave (chat)."""
    prefill_thought: str = ""
    """The same of its reasoning."""
    lead: str = ""
    """What a stream's content begins with, before anything is generated."""
    parsing: Parsing = field(default_factory=Parsing)
    thought: ThoughtLimit | None = None
    grammar: Grammar = field(default_factory=Grammar)
