"""Boot: the only place that knows both sides of the thread boundary. Loads the model and wires the parts."""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from stoker import blas
from stoker.core import clock
from stoker.core.errors import StartError
from stoker.core.info import BudgetView, ModelInfo
from stoker.core.request import Grammar, Pooling
from stoker.core.work import Ticker, Traits
from stoker.models import fetch, hub, shipped
from stoker.models.adapters import Adapters
from stoker.models.features import final_norm
from stoker.models.identity import identity
from stoker.models.kv_types import KVTypes
from stoker.models.load import Loaded, load
from stoker.models.memory import available
from stoker.models.pooling_type import declared_pooling
from stoker.models.sampling import Sampler
from stoker.models.shelf import Subject as Measured
from stoker.models.shelf import subject
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.assembly import Assembled, assemble
from stoker.rounds.engine import Engine
from stoker.rounds.kinds import Subject
from stoker.rounds.memory import Memory
from stoker.rounds.shelf import Shelf
from stoker.rounds.sleeper import SleepingEngine
from stoker.rounds.speculator import Speculator
from stoker.rounds.warmup import warm_up
from stoker.scheduler.device import Device
from stoker.scheduler.scheduler import Policy, Scheduler, Vocabulary
from stoker.settings import Settings
from stoker.text.grammar import Grammars
from stoker.text.rules import GrammarError
from stoker.text.tokenizer import Tokenizer, from_source

log = logging.getLogger(__name__)

MIB = 2**20
GRAIN = 256
"""A context that is shrunk to fit the memory is a multiple of this."""


@dataclass(frozen=True, slots=True)
class Booted:
    """A model that is ready to serve. `scheduler.run()` is still to be started."""

    scheduler: Scheduler
    tokenizer: Tokenizer
    grammars: Grammars
    template: str | None
    info: ModelInfo
    slots: int
    context: int
    """Tokens that one slot holds."""
    budget: Callable[[], BudgetView | None]
    """What drafting costs and how it was decided, at the moment of asking; None: nothing drafts."""
    drafting: Drafting
    """What was asked for, its kind settled by the checkpoint."""
    about: Mapping[str, object]
    """What `/props` says of drafting beside the command line's own words."""
    pooling: Pooling | None = None
    """How prompts are embedded; None: they are not."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """What is born on the device thread."""

    engine: Engine
    loaded: Loaded
    tokenizer: Tokenizer
    grammars: Grammars
    traits: Traits
    assembled: Assembled
    pooling: Pooling | None


async def boot(settings: Settings, device: Device) -> Booted:
    """Loads the model on the device thread. Raises StartError with one line that says what to do."""
    begun = clock.now()
    machine = (await device.run(lambda: _build(settings))).result
    tokenizer, traits, info = machine.tokenizer, machine.traits, machine.loaded.info

    def piece(id: int, special: bool) -> bytes:
        return tokenizer.piece(id, special=special)

    def build() -> Ticker:
        return _build(settings, traits.context).engine

    engine = SleepingEngine(machine.engine, build)
    vocabulary = Vocabulary(piece, tokenizer.end_ids)
    scheduler = Scheduler(engine, device, traits, vocabulary, policy(settings), engine)
    log.info(
        "loaded %s: %s %s, weights %s, %d slots of %d tokens, in %.1f s",
        info.path, info.family, info.ftype, machine.loaded.weights, traits.slots, traits.context, clock.now() - begun,
    )  # fmt: skip
    budget = machine.assembled.budget
    return Booted(
        scheduler,
        tokenizer,
        machine.grammars,
        machine.loaded.template,
        info,
        traits.slots,
        traits.context,
        budget=lambda: None if budget is None else budget.view(),
        drafting=machine.assembled.drafting,
        about=_about(machine.assembled),
        pooling=machine.pooling,
    )


def policy(settings: Settings) -> Policy:
    """What the command line says about scheduling."""
    return Policy(
        batch=settings.n_batch,
        max_queue=settings.max_queue_depth,
        similarity=settings.slot_prompt_similarity,
        continuous=settings.cont_batching,
        cache=_cache_bytes(settings),
        idle_slots=settings.cache_idle_slots,
        shift=settings.context_shift,
        sleep_after=settings.sleep_idle_seconds,
    )


def _cache_bytes(settings: Settings) -> int:
    """The size of the prompt cache: unless it was asked for, no more than half of the memory that is left."""
    if settings.cache_ram < 0 or "cache_ram" in settings.named:
        return settings.cache_ram * MIB
    return min(settings.cache_ram * MIB, available() // 2)


def _build(settings: Settings, context: int | None = None) -> _Machine:
    """`context`: the tokens of a slot, where that is settled already."""
    path = _model_path(settings)
    with loading(path.name) as progress:
        loaded = load(str(path), progress=progress)
    tokenizer = from_source(loaded.tokenizer)
    adapters = Adapters(loaded.model, [path for path, _ in settings.adapters])
    target = _target(loaded, settings, adapters, context)
    sampler = Sampler(target.vocab, tokenizer.pieces)
    if settings.warmup:
        warm_up(target, sampler)
    pooling = _pooling(loaded, settings)
    memory = Memory(Path(settings.cache_dir).expanduser(), _subject(loaded, settings, adapters))
    whole = Subject(target, tokenizer.pieces, path)
    assembled = assemble(settings.drafting(), whole, memory, find=lambda drafting: _draft_path(drafting, settings))
    grammars = Grammars(tokenizer)
    _check(settings, grammars)
    speculator = Speculator(assembled.speculation, target.context)
    shelf = Shelf(target, identity(loaded), adapters.identity)
    engine = Engine(target, sampler, tokenizer.end_ids, speculator, grammars, shelf)
    sizes = target.bytes_per_column + assembled.bytes_per_column, target.bytes_per_slot
    traits = Traits(target.slots, target.context, target.recurrent, *sizes)
    return _Machine(engine, loaded, tokenizer, grammars, traits, assembled, pooling)


def _check(settings: Settings, grammars: Grammars) -> None:
    """The command line's own grammar must be one."""
    try:
        grammars.compile(Grammar(settings.grammar))
    except GrammarError as error:
        raise StartError(f"the grammar of the command line cannot be followed: {error}") from None


@contextmanager
def loading(name: str) -> Generator[Callable[[float], None]]:
    """A progress bar for one load, on a terminal only: takes fractions from 0 to 1."""
    with tqdm(total=100, desc=f"loading {name}", unit="%", disable=None, leave=False) as bar:

        def advance(fraction: float) -> None:
            bar.update(int(100 * fraction) - bar.n)

        yield advance


def _about(assembled: Assembled) -> dict[str, object]:
    exactness = assembled.exactness
    return {} if exactness is None else {"exactness": exactness.describe()}


def _draft_path(drafting: Drafting, settings: Settings) -> Path | None:
    """Where the drafter's checkpoint is; None: it has none of its own."""
    if drafting.shipped:
        return shipped.drafter()
    if drafting.model:
        return Path(drafting.model).expanduser()
    return hub.fetch(drafting.repo, hub=_hub(settings)) if drafting.repo else None


def _hub(settings: Settings) -> hub.Hub:
    return hub.Hub(token=settings.hf_token or None, offline=settings.offline)


def _model_path(settings: Settings) -> Path:
    if settings.model:
        return Path(settings.model)
    if settings.hf_repo:
        return hub.fetch(settings.hf_repo, file=settings.hf_file or None, hub=_hub(settings))
    return fetch.default_model(Path(settings.cache_dir).expanduser())


def _pooling(loaded: Loaded, settings: Settings) -> Pooling | None:
    """How prompts are embedded, if they are. StartError for a model that cannot do it."""
    if not settings.embeddings:
        return None
    final_norm(loaded.model)
    pooling = Pooling(settings.pooling) if settings.pooling else declared_pooling(loaded.tokenizer)
    log.info("embeddings: pooling %s", pooling)
    return pooling


def _subject(loaded: Loaded, settings: Settings, adapters: Adapters) -> Measured:
    """What measurements are about: the model with its adapters and its kind of cache."""
    plain = subject(loaded, blas.provider())
    more = {"adapters": adapters.identity, "keys": settings.cache_type_k, "values": settings.cache_type_v}
    said = "".join(f", {name} {value}" for name, value in more.items() if value)
    return replace(plain, weights=plain.weights + said)


def _target(loaded: Loaded, settings: Settings, adapters: Adapters, context: int | None) -> Target:
    """Slot caches of the size that was asked for; refused, with the numbers, where the memory cannot hold them.

    `context`: what was settled at the first start. Every slot begins with the command line's adapters, so that
    what is measured now is measured with them.
    """
    types = KVTypes.of(settings.cache_type_k, settings.cache_type_v)
    scales = tuple(scale for _, scale in settings.adapters)

    def make(context: int) -> Target:
        target = Target(loaded.model, settings.n_slots, context, adapters=adapters, types=types)
        for slot in range(target.slots):
            target.adapt(slot, scales)
        return target

    if context is not None:
        return make(context)
    wanted = settings.slot_context(loaded.info.context)
    target = make(wanted)
    room = available()
    if target.bytes_when_full <= room:
        return target
    fitting = int(wanted * room / target.bytes_when_full) // GRAIN * GRAIN
    numbers = (
        f"{settings.n_slots} slots of {wanted} tokens need {_mib(target.bytes_when_full)} MiB for keys and values "
        f"and {_mib(room)} MiB are free"
    )
    if settings.n_ctx or fitting <= 0:
        raise StartError(f"{numbers}: choose a smaller --ctx-size or fewer --parallel")
    log.warning("%s: each slot gets %d tokens instead (--ctx-size chooses)", numbers, fitting)
    return make(fitting)


def _mib(size: int) -> int:
    return size // MIB
