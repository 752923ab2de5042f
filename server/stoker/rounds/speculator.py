"""Speculator: whether and how a row drafts. Chooses the rule, opens sessions, collects proposals.

A drafter's fault costs its row its proposals, never its tokens: every call into a drafter goes
through `_trust`, and a row whose drafter fails goes on plainly.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from stoker.acceptance.select import Rule, Selected, Setting, select
from stoker.core.clock import Clock, now
from stoker.core.counters import DraftOff, Kind
from stoker.core.request import Sampling
from stoker.core.work import Join, Keep
from stoker.rounds.base import NOTHING, Ask, Companion, Drafter, Drawing, Features, Opening, Proposal
from stoker.rounds.budget import Budget
from stoker.rounds.diagnostic import Diagnostic
from stoker.rounds.guard import Fault, guard
from stoker.rounds.pace import Intent, Pace
from stoker.rounds.row import Drafting, Row
from stoker.rounds.step import Emitted

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Speculation:
    """How the server speculates. Without drafters, nothing does."""

    drafters: Mapping[Kind, Drafter] = field(default_factory=dict[Kind, Drafter])
    default: Kind | None = None
    """The drafter of requests that name none."""
    setting: Setting = Setting.MATCH
    coupled: bool = True
    least: int = 0
    """A shorter proposal is not verified (`--spec-draft-n-min`)."""
    widest: Callable[[int], int] = field(default=lambda width: width)
    """The widest forward, in columns, that is exact enough and not above the given width."""
    budget: Budget | None = None
    """None: every proposal is verified, whatever it costs."""
    remember: Callable[[Budget], None] = field(default=lambda budget: None)
    """Keeps what the budget has learned; called now and then."""
    diagnostic: Diagnostic | None = None
    """Holds acceptance against its closed forms."""
    companions: Sequence[Companion] = ()
    """Drafters with columns of their own, which are kept when a slot's are."""


class Speculator:
    def __init__(self, speculation: Speculation | None = None, context: int = 0, clock: Clock = now) -> None:
        """`context`: columns that a slot may keep. `clock` times the rounds, for the budget."""
        self._how = how = speculation or Speculation()
        self._context = context
        self._said: set[str] = set()
        self.pace = Pace(how.drafters, how.widest, how.budget, how.remember, clock)

    @property
    def diagnostic(self) -> Diagnostic | None:
        return self._how.diagnostic

    # one row

    def open(self, join: Join) -> Drafting:
        """A new row's drafting; its `off` says why if it does not draft."""
        asked, sampling = join.speculation, join.sampling
        if asked.disabled:
            return Drafting(off=DraftOff.DISABLED)
        drafter = self._drafter(asked.kind)
        if drafter is None:
            return Drafting(off=DraftOff.NO_DRAFTER)
        selected = select(drafter.kind, self._how.setting, greedy=sampling.greedy, has_q=drafter.has_q)
        self._say(drafter.kind, selected)
        if sampling.stateful or selected.rule is None:
            return Drafting(off=DraftOff.SAMPLER)
        if self._how.widest(2) < 2:
            return Drafting(off=DraftOff.INEXACT)
        most = drafter.width if asked.most < 0 else min(asked.most, drafter.width)
        opening = Opening(join.id, join.slot, join.prompt, join.cached, sampling, most, join.source, join.kept)
        session = guard(lambda: drafter.open(opening))
        if isinstance(session, Fault):
            log.warning("%s failed for request %d: %s", drafter.kind, join.id, session.error)
            return Drafting(off=DraftOff.FAULT)
        return Drafting(session, drafter.kind, selected.rule, None)

    def sampling(self, join: Join, drafting: Drafting) -> Sampling:
        """The target's sampling of a row: greedy under the biased argmax rule, else the request's."""
        return replace(join.sampling, temperature=0.0) if drafting.rule is Rule.ARGMAX else join.sampling

    def read(self, row: Row, stop: int, features: Features) -> None:
        """The row's prompt has been run up to `stop`."""
        session = row.drafting.session
        if session is not None:
            self._trust(row, lambda: session.read(stop, features))

    def observe(self, row: Row, emitted: Emitted, features: Features) -> None:
        """A round of the row ended, plain or not."""
        session = row.drafting.session
        if session is not None:
            self._trust(row, lambda: session.observe(emitted.verdict, emitted.proposed, features))
        diagnostic = self._how.diagnostic
        if diagnostic is not None:
            self._trust(row, lambda: diagnostic.observe(row, emitted.watched, emitted.verdict))

    def close(self, row: Row, keep: int) -> None:
        """The row leaves its slot, where `keep` of its tokens stay."""
        session = row.drafting.session
        if session is not None:
            self.pace.ended(row)
            self._trust(row, lambda: session.close(keep))
        if self._how.diagnostic is not None:
            self._how.diagnostic.close(row)

    def abandon(self, row: Row, reason: DraftOff) -> None:
        """The row goes on plainly; nothing of what its drafter holds is trusted any more."""
        session = row.drafting.session
        if session is not None:
            row.drafting.session, row.drafting.off = None, reason
            guard(lambda: session.close(0))

    def keep(self, item: Keep) -> None:
        """A slot's content is copied aside; a drafter that fails to do so too drafts worse later."""
        for companion in self._how.companions:
            done = guard(lambda companion=companion: companion.keep(item.slot, item.key))
            if isinstance(done, Fault):
                log.warning("a drafter's columns of slot %d could not be kept: %s", item.slot, done.error)

    def drop(self, keys: Iterable[int]) -> None:
        """Kept contents are given up."""
        for companion in self._how.companions:
            companion.drop(keys)

    # a tick

    def capture(self, rows: Sequence[Row]) -> tuple[int, ...]:
        """The layers whose residual streams the rows' drafters read."""
        kinds = {row.drafting.kind for row in rows if row.drafting.session is not None and row.drafting.kind}
        return tuple(sorted({layer for kind in kinds for layer in self._how.drafters[kind].needs.capture}))

    def decide(self, rows: Sequence[Row], left: Mapping[int, int]) -> Intent:
        """Whether the next round drafts, and how wide. `left`: tokens a row may still emit, by id. Host only."""
        return self.pace.decide(rows, {row.id: self._limit(row, left[row.id]) for row in rows})

    def propose(self, rows: Sequence[Row], intent: Intent) -> list[Proposal]:
        """Proposals for each row of the next round, most of them empty."""
        proposals: dict[int, Proposal] = {}
        if intent.width > 1:
            limits = {id: min(limit, intent.width - 1) for id, limit in intent.limits.items()}
            for kind in {row.drafting.kind: None for row in intent.asking}:
                mine = [row for row in intent.asking if row.drafting.kind is kind]
                if kind is not None:
                    proposals |= self._ask(self._how.drafters[kind], mine, limits)
        fitted = self._fitted([proposals.get(row.id, NOTHING) for row in rows])
        self.pace.promised(intent, rows, fitted)
        return fitted

    def _ask(self, drafter: Drafter, rows: Sequence[Row], limits: Mapping[int, int]) -> dict[int, Proposal]:
        asks = [
            Ask(row.drafting.session, row.anchor, row.position, limits[row.id], self._drawing(row))
            for row in rows
            if row.drafting.session is not None
        ]
        made = guard(lambda: drafter.propose(asks))
        if isinstance(made, Fault):
            log.warning("%s failed: %s; %d rows go on plainly", drafter.kind, made.error, len(rows))
            for row in rows:
                self.abandon(row, DraftOff.FAULT)
            return {}
        least = max(self._how.least, 1)
        usable = {row.id: _usable(row, it) for row, it in zip(rows, made, strict=True)}
        for row, it in zip(rows, made, strict=True):
            row.drafting.forbidden = len(it) > 0 and not usable[row.id]
        return {id: it for id, it in usable.items() if len(it) >= least}

    def _drawing(self, row: Row) -> Drawing:
        stochastic = row.drafting.rule is Rule.STOCHASTIC
        with_q = stochastic or self._how.diagnostic is not None
        return Drawing(coupled=self._how.coupled and not stochastic, with_q=with_q)

    def _limit(self, row: Row, left: int) -> int:
        """Proposals that cannot overrun the row's budget or its slot: the bonus token needs a place too."""
        return min(left, self._context - row.position) - 1

    def _fitted(self, proposals: list[Proposal]) -> list[Proposal]:
        """The proposals cut to a width that is exact enough: a drafter may have made fewer than it offered."""
        width = 1 + max((len(it) for it in proposals), default=0)
        most = self._how.widest(width) - 1
        return proposals if most >= width - 1 else [it.first(most) for it in proposals]

    def _drafter(self, asked: str) -> Drafter | None:
        kind = self._how.default if not asked else next((k for k in self._how.drafters if k == asked), None)
        return None if kind is None else self._how.drafters.get(kind)

    def _trust(self, row: Row, call: Callable[[], None]) -> None:
        done = guard(call)
        if isinstance(done, Fault):
            log.warning("%s failed for request %d: %s; it goes on plainly", row.drafting.kind, row.id, done.error)
            self.abandon(row, DraftOff.FAULT)

    def _say(self, kind: Kind, selected: Selected) -> None:
        """The rule, once per kind; the warning of a setting that does not apply, once."""
        for line in (f"speculative acceptance rule active: {kind} {selected.rule}", selected.warning):
            if line and line not in self._said:
                self._said.add(line)
                log.log(logging.WARNING if line == selected.warning else logging.INFO, line)


def _usable(row: Row, made: Proposal) -> Proposal:
    """The proposals as the round needs them.

    Penalties and grammars look at those before a column, on the host: such a row costs a second synchronisation.
    What a grammar forbids is not verified. Under modified rejection the first such one is: the target's chance of
    it is zero, and the token in its place must come from the residual, or the stream would not follow p.
    """
    if not row.feedback:
        return made
    made = made.on_host()
    constraint = row.draws.constraint
    if constraint is None:
        return made
    allowed = constraint.allowed(cast("Sequence[int]", made.tokens))
    return made.first(allowed + (row.drafting.rule is Rule.STOCHASTIC))
