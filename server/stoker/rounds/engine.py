"""Engine: carries out a plan on the device thread. Owns the rows; isolates their faults.

Order of a tick
1. The round in flight is read, judged and settled; what it emitted goes out.
2. Rows leave; idle slots are saved, restored, erased or kept; rows join. A join copies nothing, unless
   its columns stand in another slot or among the kept contents.
3. One padded prompt forward.
4. The next round is built and started, so that the device computes while the host works. If
   nothing was in flight, it is read at once and another one started behind it.

A plain round is settled before it is read, and its successor is built from its unread tokens
meanwhile; the successor is taken back if a row ended or wants to draft instead. A row whose draws
depend on earlier tokens (`Row.feedback`) must be read first; with such a row nothing is built early.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stoker.core.clock import now
from stoker.core.counters import DraftOff
from stoker.core.errors import ServerError, ServerFault
from stoker.core.work import Join, Outcome, Plan, PrefillWork, Release, StepWork
from stoker.models.sampling import Sampler
from stoker.models.target import Target
from stoker.rounds.guard import Fault, guard
from stoker.rounds.pace import Flown
from stoker.rounds.pooling import Pool
from stoker.rounds.prefill import prefill
from stoker.rounds.row import Row
from stoker.rounds.shelf import Shelf
from stoker.rounds.speculator import Speculator
from stoker.rounds.step import Emitted, Round, Turn
from stoker.text.constraint import Constraint
from stoker.text.grammar import Grammars

log = logging.getLogger(__name__)

CATCH_UP = 512
"""Columns of one forward that reads again what could not be kept."""
CALM = 2
"""With drafters about that may propose at any time, a round is built early only after more plain ones than this."""


class Engine:
    """Implements `core.work.Ticker`. Every method must be called on the device thread."""

    def __init__(
        self,
        target: Target,
        sampler: Sampler,
        ends: Collection[int] = frozenset(),
        speculator: Speculator | None = None,
        grammars: Grammars | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        """`ends`: token ids that end an answer; a round is cut after the first of them."""
        self._target, self._sampler, self._ends = target, sampler, ends
        self._speculator = speculator or Speculator()
        self._grammars = grammars
        self._shelf = shelf or Shelf(target)
        self._rows: dict[int, Row] = {}
        self._flight: Round | Broken | None = None
        self._following: Round | None = None
        """Built behind the round in flight, not started."""
        self._early = False
        """True if the round in flight was built behind the one before it."""
        self._plain_rounds = 0
        """Rounds in a row in which nobody proposed."""

    def tick(self, plan: Plan) -> list[Outcome]:
        """Carries the plan out. A fault ends the rows it concerns, in their outcomes; it never escapes."""
        landed = self._land(plan)
        outcomes = list(landed)
        for release in plan.release:
            self._release(release)
        outcomes += [self._shelf.act(work) for work in plan.slots]
        self._shelf.drop(plan.drop)
        self._speculator.drop(plan.drop)
        for item in plan.keep:
            self._shelf.keep(item)
            self._speculator.keep(item)
        outcomes += [outcome for join in plan.join for outcome in self._join(join)]
        outcomes += self._prefill([work for work in plan.prefill if work.id in self._rows])
        self._launch(plan.step, landed)
        if not landed and self._flight is not None:
            landed = self._land(Plan(step=plan.step))
            outcomes += landed
            self._launch(plan.step, landed)
        return outcomes

    # membership

    def _release(self, release: Release) -> None:
        row = self._rows.pop(release.id, None)
        if row is not None:
            self._cut(row.slot, release.keep)
            self._speculator.close(row, self._target.lengths[row.slot])

    def _join(self, join: Join) -> list[Outcome]:
        def open_row() -> Row:
            self._shelf.bring(join)
            self._cut(join.slot, join.cached)
            drafting = self._speculator.open(join)
            sampling = self._speculator.sampling(join, drafting)
            draws = self._sampler.open(sampling, join.prompt, self._constraint(join))
            pool = Pool(join.pooling, self._target) if join.pooling else None
            row = Row.open(join, draws, drafting, pool)
            self._target.adapt(join.slot, join.adapters)
            self._catch_up(row)
            return row

        row = guard(open_row)
        if isinstance(row, Fault):
            return [self._fail(join.id, join.slot, row)]
        self._rows[join.id] = row
        return []

    def _constraint(self, join: Join) -> Constraint | None:
        if not join.grammar:
            return None
        if self._grammars is None:
            raise ServerFault("this engine has no vocabulary for grammars")
        return self._grammars.constraint(join.grammar, join.prompt[len(join.prompt) - join.answered :])

    def _catch_up(self, row: Row) -> None:
        """Reads what the slot should hold of the row's prompt and does not."""
        cached, row.processed = row.processed, self._target.lengths[row.slot]
        while row.processed < cached:
            stop = min(cached, row.processed + CATCH_UP)
            prefill(self._target, [row], [PrefillWork(row.id, stop)], self._speculator)

    def _cut(self, slot: int, length: int) -> None:
        """Leaves the first `length` columns in the slot; none where the model cannot go back to there."""
        have = self._target.lengths[slot]
        if length > have or (self._target.recurrent and length < have):
            length = 0
        if length != have:
            self._target.truncate(slot, length)

    def _fail(self, id: int, slot: int, fault: Fault) -> Outcome:
        foreseen = isinstance(fault.error, ServerError)
        log.error("request %d failed: %s", id, fault.error, exc_info=None if foreseen else fault.error)
        row = self._rows.pop(id, None)
        self._target.truncate(slot, 0)
        if row is not None:
            self._speculator.close(row, 0)
        return Outcome(id, now(), error=fault.error)

    # prompts

    def _prefill(self, work: Sequence[PrefillWork]) -> list[Outcome]:
        if not work:
            return []
        rows = [self._rows[item.id] for item in work]
        done = guard(lambda: prefill(self._target, rows, work, self._speculator))
        if isinstance(done, Fault):
            if len(work) == 1:
                return [self._fail(rows[0].id, rows[0].slot, done)]
            log.warning("a prompt forward of %d rows failed (%s); each is tried alone", len(rows), done.error)
            return [outcome for item in work for outcome in self._prefill([item])]
        at = now()
        return [Outcome(row.id, at, processed=row.processed, vectors=row.vectors) for row in rows]

    # rounds

    def _launch(self, work: Sequence[StepWork], landed: Sequence[Outcome]) -> None:
        """Builds and starts the next round of the rows that go on after what has just landed."""
        emitted = {outcome.id: len(outcome.tokens) for outcome in landed}
        left = {item.id: item.remaining - emitted.get(item.id, 0) for item in work}
        rows = [row for item in work if (row := self._rows.get(item.id)) and left[row.id] > 0 and not row.ended]
        self._speculator.pace.launched()
        intent = self._speculator.decide(rows, left)
        following = self._following
        if following is not None and intent.width == 1 and following.ids == tuple(row.id for row in rows):
            self._following, self._early = None, True
            self._fly(following)
            return
        self._early = False
        following = None  # nobody may hold a revoked round: the next write would copy the buffers that it reads
        self._drop_following()
        if not rows:
            return
        proposals = self._speculator.propose(rows, intent)
        turns = [Turn(row, row.position, row.anchor, proposal) for row, proposal in zip(rows, proposals, strict=True)]
        capture = self._speculator.capture(rows)
        diagnostic = self._speculator.diagnostic
        built = guard(lambda: Round(self._target, self._sampler, turns, capture=capture, diagnostic=diagnostic))
        if isinstance(built, Fault):
            # It comes again when each row is tried alone, in the landing of a round that never flew.
            built = Broken(tuple(row.id for row in rows), built)
        self._fly(built)

    def _fly(self, built: "Round | Broken") -> None:
        self._plain_rounds = self._plain_rounds + 1 if isinstance(built, Round) and built.plain else 0
        started = guard(built.start)
        self._flight = Broken(built.ids, started) if isinstance(started, Fault) else built

    def _land(self, plan: Plan) -> list[Outcome]:
        """Reads the round in flight for the rows that are still wanted."""
        flight, self._flight = self._flight, None
        alive = [row for item in plan.step if (row := self._rows.get(item.id)) and flight and flight.has(row.id)]
        if flight is None or not alive:
            return []
        if isinstance(flight, Broken):
            return self._alone(alive, flight.fault)
        emitted = guard(lambda: self._read(flight, alive, plan))
        if isinstance(emitted, Fault):
            self._drop_following()
            return self._alone(alive, emitted)
        sound = [row for row in alive if row.id not in flight.faults]
        rows = [self._rows[id] for id in flight.ids if id in self._rows]
        drafted = [row for row in alive if emitted[row.id].proposed]
        accepted = sum(emitted[row.id].verdict.accepted for row in drafted)
        steady = self._early or any(row.feedback for row in rows)
        self._speculator.pace.landed(rows, drafted, Flown(flight.width, accepted, steady))
        failed = [self._fail(row.id, row.slot, flight.faults[row.id]) for row in alive if row.id in flight.faults]
        return [*self._absorb(flight, sound, emitted), *failed]

    def _read(self, flight: Round, alive: Sequence[Row], plan: Plan) -> dict[int, Emitted]:
        """Reads and settles a round; a plain one is settled first, and its successor built meanwhile."""
        if flight.plain:
            flight.settle({row.id: 1 for row in alive})
            self._following = self._behind(flight, alive, plan)
            return flight.read(self._ends)
        emitted = flight.read(self._ends)
        sound = [row for row in alive if row.id not in flight.faults]
        flight.settle({row.id: len(emitted[row.id].tokens) for row in sound})
        return emitted

    def _behind(self, flight: Round, alive: Sequence[Row], plan: Plan) -> Round | None:
        """The round after a plain one, built from its unread tokens; None where that cannot be right."""
        restless = any(row.drafting.session is not None and not row.drafting.calm for row in alive)
        if plan.moves or any(row.feedback for row in alive) or (restless and self._plain_rounds <= CALM):
            return None
        left = {item.id: item.remaining for item in plan.step}
        rows = [row for row in alive if left[row.id] > 1]
        if len(left) != len(alive) or not rows:
            return None
        turns = [Turn(row, row.position + 1, None) for row in rows]
        capture = self._speculator.capture(rows)
        built = guard(lambda: Round(self._target, self._sampler, turns, behind=flight, capture=capture))
        # A fault comes again, with clean caches, when the round is built in its own time.
        return None if isinstance(built, Fault) else built

    def _drop_following(self) -> None:
        if self._following is not None:
            self._following.revoke()
            self._following = None

    def _absorb(self, flight: Round, rows: Sequence[Row], emitted: dict[int, Emitted]) -> list[Outcome]:
        at, outcomes = now(), list[Outcome]()
        for row in rows:
            it = emitted[row.id]
            row.anchor = it.tokens[-1]
            row.position += len(it.tokens)
            row.ended = row.anchor in self._ends
            self._speculator.observe(row, it, flight.features(row.id, len(it.tokens)))
            outcomes.append(
                Outcome(
                    row.id,
                    at,
                    tokens=it.tokens,
                    probs=it.probs,
                    round=it.count,
                    kind=row.drafting.kind,
                    rule=row.drafting.rule if it.count is not None else "",
                    off=row.drafting.reason,
                )
            )
        return outcomes

    def _alone(self, rows: Sequence[Row], fault: Fault) -> list[Outcome]:
        """A shared round failed: each row tries alone and plainly, so that only the guilty one ends."""
        if len(rows) > 1:
            log.warning("a round of %d rows failed (%s); each is tried alone", len(rows), fault.error)
        outcomes: list[Outcome] = []
        for row in rows:
            landed = guard(lambda row=row: self._single(row))
            if isinstance(landed, Fault):
                outcomes.append(self._fail(row.id, row.slot, landed))
            else:
                outcomes += landed
        return outcomes

    def _single(self, row: Row) -> list[Outcome]:
        if self._target.lengths[row.slot] != row.position:
            self._target.truncate(row.slot, row.position)
        self._speculator.abandon(row, DraftOff.FAULT)
        alone = Round(self._target, self._sampler, [Turn(row, row.position, row.anchor)])
        if alone.faults:
            raise alone.faults[row.id].error
        emitted = alone.read(self._ends)
        alone.settle({row.id: 1})
        return self._absorb(alone, [row], emitted)


@dataclass(frozen=True, slots=True)
class Broken:
    """Stands for a round that could not be built or started, until it lands."""

    ids: tuple[int, ...]
    fault: Fault

    def has(self, id: int) -> bool:
        return id in self.ids

    def start(self) -> None:
        pass
