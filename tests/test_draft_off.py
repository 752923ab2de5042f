"""Why a request was not drafted: every reason, told by timings, /slots, /metrics and the log.

The routes, the scheduler, the engine and the speculator are the real ones; the model is a table, the drafter a script.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import mlx.core as mx
import pytest

from fakes import FakeClock, Inline
from rounds.table import TableTarget
from routes.fakes import Bench, ByteTokenizer, bench
from stoker.acceptance.governor import Graded
from stoker.acceptance.select import Setting
from stoker.acceptance.verdict import Verdict
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Request, Sampling
from stoker.core.request import Speculation as Wish
from stoker.core.work import Traits
from stoker.models.sampling import Sampler
from stoker.rounds.base import Ask, Drafter, Features, Needs, Opening, Proposal
from stoker.rounds.budget import Budget
from stoker.rounds.costs import Cell, CostTable
from stoker.rounds.engine import Engine
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation, Speculator
from stoker.scheduler.device import Ran
from stoker.scheduler.scheduler import Scheduler, Vocabulary
from stoker.text.grammar import Grammars

pytestmark = pytest.mark.mlx

T = TypeVar("T")

VOCAB, CONTEXT, COUNT, OTHER = 300, 2**20, 12, 10**6
BODY: Mapping[str, Any] = {"prompt": "abc", "n_predict": COUNT, "temperature": 0, "speculative": {}}


def follower(token: int) -> int:
    """The table's model says the alphabet, again and again."""
    return ord("a") + (token - ord("a") + 1) % 26


class Tokens(ByteTokenizer):
    """The same vocabulary, as grammars see it."""

    @property
    def pieces(self) -> list[bytes]:
        return [self.piece(id) for id in range(VOCAB)]

    @property
    def hidden(self) -> frozenset[int]:
        return frozenset({256, 257, 258})


class Unhurried(Inline):
    """Leaves the routes time to work while another request keeps the engine busy."""

    async def run(self, call: Callable[[], T]) -> Ran[T]:
        await asyncio.sleep(0.001)
        return await super().run(call)


def fails(*_: object) -> None:
    raise RuntimeError("the drafter is lost")


def passes(*_: object) -> None:
    pass


@dataclass
class Session:
    """Proposes the next letters, or `says` instead of each."""

    last: int
    script: "Script"

    @property
    def wants_round(self) -> bool:
        return True

    @property
    def off(self) -> DraftOff | None:
        return self.script.off

    def reach(self, limit: int) -> Sequence[float]:
        return [1.0] * min(limit, self.script.width)

    def read(self, stop: int, features: Features) -> None:
        self.script.read()

    def observe(self, verdict: Verdict, proposed: int, features: Features) -> None:
        self.script.observe()
        self.last = verdict.emitted[-1]

    def close(self, keep: int) -> None:
        pass


@dataclass
class Script:
    """A drafter that is right unless told otherwise; each of its calls may be made to fail."""

    kind: Kind = Kind.DRAFT_MODEL
    width: int = 3
    off: DraftOff | None = None
    most: int = 99
    """Proposals that it really makes."""
    open_fails: Callable[[], None] = passes
    read: Callable[[], None] = passes
    observe: Callable[[], None] = passes
    draft_fails: Callable[[], None] = passes
    needs: Needs = field(default_factory=Needs)
    has_q: bool = True

    def open(self, opening: Opening) -> Session:
        self.open_fails()
        return Session(opening.prompt[-1], self)

    def propose(self, asks: Sequence[Ask]) -> list[Proposal]:
        self.draft_fails()
        made: list[Proposal] = []
        for ask in asks:
            tokens = [follower(ask.anchor)]
            while len(tokens) < self.width:
                tokens.append(follower(tokens[-1]))
            made.append(Proposal(tuple(tokens[: min(ask.limit, self.most)])))
        return made


Costs = Mapping[tuple[int, int], float]
"""Seconds of a forward by rows and columns."""


@dataclass(frozen=True)
class Situation:
    reason: DraftOff
    drafter: Drafter | None = field(default_factory=Script)
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])
    company: bool = False
    """True: another request runs meanwhile."""
    setting: Setting = Setting.MATCH
    widest: Callable[[int], int] = lambda width: width
    costs: Costs | None = None
    """None: there is no budget."""
    text: str | None = "defghijklmno"
    """The answer; None where it is drawn by chance."""


WARM: Mapping[str, Any] = {"temperature": 1.0, "seed": 3}
CHEAP: Costs = {(1, 1): 1.0, (1, 2): 1.1, (1, 3): 1.1, (1, 4): 1.1}
DEAR: Costs = {(1, 1): 1.0, (1, 2): 9.0, (1, 3): 9.0, (1, 4): 9.0}
SITUATIONS: Mapping[str, Situation] = {
    "the server has no drafter": Situation(DraftOff.NO_DRAFTER, drafter=None),
    "the request wants a drafter that the server has not": Situation(
        DraftOff.NO_DRAFTER, body={"speculative": {"kind": "mtp"}}
    ),
    "the request wants none": Situation(DraftOff.DISABLED, body={"speculative": {"kind": "none"}}),
    "the request wants no proposals": Situation(DraftOff.DISABLED, body={"speculative": {"n_max": 0}}),
    "mirostat carries state": Situation(DraftOff.SAMPLER, body={**WARM, "mirostat": 2}, text=None),
    "adaptive-p carries state": Situation(
        DraftOff.SAMPLER, body={**WARM, "adaptive_target": 0.5, "samplers": ["temperature", "adaptive_p"]}, text=None
    ),
    "dspark samples under the argmax rule": Situation(
        DraftOff.SAMPLER, Script(Kind.DSPARK), body=WARM, setting=Setting.ARGMAX, text=None
    ),
    "the grammar forbids every proposal": Situation(
        DraftOff.GRAMMAR, body={"grammar": 'root ::= "Z"+'}, text="Z" * COUNT
    ),
    "among two rows it does not pay": Situation(
        DraftOff.BATCH, company=True, costs={**CHEAP, **{(2, width): s for (_, width), s in DEAR.items()}}
    ),
    "it does not pay at all": Situation(DraftOff.DOES_NOT_PAY, costs=DEAR),
    "no width is exact": Situation(DraftOff.INEXACT, widest=lambda width: 1),
    "the drafter cannot open": Situation(DraftOff.FAULT, Script(open_fails=fails)),
    "the drafter fails on the prompt": Situation(DraftOff.FAULT, Script(read=fails)),
    "the drafter fails as it drafts": Situation(DraftOff.FAULT, Script(draft_fails=fails)),
    "the drafter paused itself": Situation(DraftOff.DOES_NOT_PAY, Script(most=0, off=DraftOff.DOES_NOT_PAY)),
    "nothing like it stood in the prompt": Situation(DraftOff.NO_PROPOSAL, Lookup(Sizes(most=3), Graded)),
    "there is room for one token": Situation(DraftOff.NO_PROPOSAL, body={"n_predict": 1}, text="d"),
}


@asynccontextmanager
async def serving(it: Situation) -> AsyncIterator[Bench]:
    rows = [[0.0] * VOCAB for _ in range(VOCAB)]
    for token, row in enumerate(rows):
        row[follower(token)] = 9.0
    tokens, clock = Tokens(), FakeClock()
    target = TableTarget(mx.array(rows), 2, CONTEXT)
    costs, budget = it.costs, None
    if costs is not None:
        target.evaluated = lambda rows, width: clock.pass_by(costs[rows, width])
        budget = Budget({"": CostTable({shape: Cell(seconds, 50) for shape, seconds in costs.items()})})
    drafters = {} if it.drafter is None else {it.drafter.kind: it.drafter}
    how = Speculation(drafters, next(iter(drafters), None), it.setting, widest=it.widest, budget=budget)
    grammars = Grammars(tokens)
    speculator = Speculator(how, target.context, clock)
    engine = Engine(target, Sampler(VOCAB, tokens.pieces), tokens.end_ids, speculator, grammars)

    def piece(id: int, special: bool) -> bytes:
        return tokens.piece(id, special=special)

    vocabulary = Vocabulary(piece, tokens.end_ids)
    scheduler = Scheduler(engine, Unhurried(clock), Traits(2, CONTEXT), vocabulary)
    running = asyncio.create_task(scheduler.run())
    try:
        yield bench(scheduler=scheduler, grammars=grammars, tokenizer=tokens)
    finally:
        await scheduler.stop()
        await asyncio.wait_for(running, 10)


@asynccontextmanager
async def company(made: Bench, wanted: bool) -> AsyncIterator[None]:
    """Another request runs meanwhile, if wanted."""
    scheduler = made.service.scheduler
    if wanted:
        scheduler.submit(Request(OTHER, (120, 121), 0.0, Sampling(temperature=0), speculation=Wish("none")))
    yield
    if wanted:
        assert scheduler.totals().busy == 1, "it was there all the time"
        scheduler.cancel(OTHER)


async def counts(made: Bench) -> dict[str, int]:
    """`stoker:draft_off_total` by reason, those above zero."""
    lines = [line for line in (await made.get("/metrics")).text.splitlines() if line.startswith("stoker:draft_off")]
    found = {line.split('"')[1]: int(line.rpartition(" ")[2]) for line in lines}
    assert set(found) == set(DraftOff)
    return {reason: count for reason, count in found.items() if count}


@pytest.mark.parametrize("name", SITUATIONS)
async def test_the_reason_is_told_everywhere(name: str, caplog: pytest.LogCaptureFixture) -> None:
    it = SITUATIONS[name]
    async with serving(it) as made:
        with caplog.at_level(logging.INFO):
            async with company(made, it.company):
                answer = (await made.post("/completion", {**BODY, **it.body})).json()
                (slot,) = [one for one in (await made.get("/slots")).json() if one["id"] == answer["id_slot"]]
                counted = await counts(made)
    assert "draft_n" not in answer["timings"]
    assert answer["timings"]["draft_off"] == it.reason
    assert slot["draft_off"] == it.reason
    assert counted == {it.reason: 1}
    (line, *_) = [record.getMessage() for record in caplog.records if record.name == "stoker.requests"]
    assert line.endswith(f" off={it.reason}")
    assert it.text in (None, answer["content"])


def test_every_reason_has_a_situation() -> None:
    assert {it.reason for it in SITUATIONS.values()} == set(DraftOff)
    assert len(SITUATIONS) >= 10


async def test_who_did_not_ask_finds_the_reason_in_the_log_and_in_slots_only(caplog: pytest.LogCaptureFixture) -> None:
    silent = {key: value for key, value in BODY.items() if key != "speculative"}
    async with serving(SITUATIONS["no width is exact"]) as made:
        with caplog.at_level(logging.INFO, "stoker.requests"):
            answer = (await made.post("/completion", silent)).json()
        slots = (await made.get("/slots")).json()
    assert "draft_off" not in answer["timings"]
    assert slots[answer["id_slot"]]["draft_off"] == "inexact"
    assert caplog.records[-1].getMessage().endswith(" off=inexact")


async def test_a_drafted_request_has_no_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Situation(DraftOff.FAULT)) as made:
        with caplog.at_level(logging.INFO, "stoker.requests"):
            answer = (await made.post("/completion", BODY)).json()
        assert await counts(made) == {}
    assert answer["content"] == "defghijklmno"
    assert answer["timings"]["draft_n_accepted"] > 0
    assert "draft_off" not in answer["timings"]
    assert " off=" not in caplog.records[-1].getMessage()
