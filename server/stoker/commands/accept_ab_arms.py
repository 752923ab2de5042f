"""The arms of the acceptance A/B: each rule measured against its closed form, on the engine itself.

Whatever pair of models is used, an arm's measured acceptance must sit at the closed form of the rule
that ran, averaged over the positions that the arm tested; how much the arms differ depends on the pair.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from stoker.acceptance.closed_forms import Averages
from stoker.acceptance.proposals import Proposals, proposals
from stoker.acceptance.select import Rule, Setting
from stoker.acceptance.summary import Run
from stoker.commands.offline import Wish, play
from stoker.commands.offline_model import Parts, engine
from stoker.core.counters import DraftCounters, Kind
from stoker.core.request import Sampling
from stoker.models.exactness_gate import Exactness
from stoker.options.drafting import Drafting

TEMPERATURES = (0.7, 1.0, 1.5)
ERRORS = 4.0
"""Standard errors that a measured rate may lie from its closed form."""
PURE = Sampling(top_k=0, top_p=1.0, min_p=0.0)
"""No filter: p and q are whole distributions, as in the mission's figures."""


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    setting: Setting
    coupled: bool
    rule: Rule
    proposals: Proposals
    """What must show at temperature > 0."""


ARMS = (
    Arm("coupled", Setting.MATCH, True, Rule.MATCH, Proposals.COUPLED),
    Arm("independent", Setting.MATCH, False, Rule.MATCH, Proposals.INDEPENDENT),
    Arm("stochastic", Setting.STOCHASTIC, True, Rule.STOCHASTIC, Proposals.INDEPENDENT),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One arm at one temperature."""

    arm: Arm
    temperature: float
    tokens: tuple[tuple[int, ...], ...]
    rules: frozenset[str]
    """Those that judged its rounds."""
    counters: DraftCounters
    averages: Averages

    @property
    def run(self) -> Run:
        rule = Rule(next(iter(sorted(self.rules)), Rule.MATCH))
        return Run(rule, proposals(Kind.DRAFT_MODEL, rule, coupled=self.arm.coupled))

    @property
    def expected(self) -> float:
        return self.averages.mean[self.run.form]

    @property
    def error(self) -> float:
        return self.averages.error(self.run.form)

    @property
    def deviation(self) -> float:
        """Of the measured rate from its closed form, in standard errors."""
        return (self.averages.measured - self.expected) / self.error if self.error else 0.0


@dataclass(frozen=True, slots=True)
class Course:
    """What every arm runs: the same prompts, each with a seed of its own."""

    parts: Parts
    prompts: Sequence[tuple[int, ...]]
    count: int
    """Tokens of an answer, at most."""
    widths: Exactness | None = None
    most: int = 4
    """Proposals of a round."""
    temperatures: Sequence[float] = TEMPERATURES
    seed: int = 1234

    def measure(self, arm: Arm, temperature: float) -> Measured:
        """Runs one arm; rows are the prompts, as many at a time as there are slots."""
        drafting = Drafting(
            kind=Kind.DRAFT_MODEL, most=self.most, rule=arm.setting, coupled=arm.coupled, diagnostic=True
        )
        offline = engine(self.parts, drafting, self.widths)
        counters, tokens, rules = DraftCounters(), list[tuple[int, ...]](), set[str]()
        for wishes in self._sets(temperature):
            for answer in play(offline.engine, wishes, self.parts.ends):
                counted = answer.drafted.counters
                counters.proposed += counted.proposed
                counters.tested += counted.tested
                counters.accepted += counted.accepted
                counters.rounds += counted.rounds
                rules |= {answer.drafted.rule} - {""}
                tokens.append(tuple(answer.tokens))
        averages = offline.diagnostic.total if offline.diagnostic is not None else Averages()
        return Measured(arm, temperature, tuple(tokens), frozenset(rules), counters, averages)

    def _sets(self, temperature: float) -> Iterator[list[Wish]]:
        slots = self.parts.target.slots
        for first in range(0, len(self.prompts), slots):
            yield [
                Wish(prompt, self.count, replace(PURE, temperature=temperature, seed=self.seed + n))
                for n, prompt in enumerate(self.prompts[first : first + slots], first)
            ]


@dataclass(frozen=True, slots=True)
class Report:
    measured: list[Measured]
    """At the temperatures of the course."""
    faults: list[str]
    """Whole sentences; none: everything is as it must be."""


def compare(course: Course, step: Callable[[], object]) -> Report:
    """Runs everything and judges it; `step` is told of each of `steps(course)` runs."""

    def measure(arm: Arm, temperature: float) -> Measured:
        measured = course.measure(arm, temperature)
        step()
        return measured

    warm = [measure(arm, temperature) for temperature in course.temperatures for arm in ARMS]
    cold = [measure(arm, 0.0) for arm in ARMS]
    stochastic = next(it for it in warm if it.arm.rule is Rule.STOCHASTIC)
    again = measure(stochastic.arm, stochastic.temperature)
    faults = [fault for it in warm for fault in judge(it)]
    return Report(warm, [*faults, *told_apart(warm), *same_when_cold(cold), *repeats(stochastic, again)])


def steps(course: Course) -> int:
    return len(ARMS) * (len(course.temperatures) + 1) + 1


def judge(it: Measured) -> list[str]:
    """What is wrong with one arm."""
    name = f"{it.arm.name} at temperature {it.temperature}"
    if it.rules != {it.arm.rule} or it.run.proposals is not it.arm.proposals:
        said = f"rule={','.join(sorted(it.rules))} proposals={it.run.proposals}"
        return [f"{name}: ran {said}, not rule={it.arm.rule} proposals={it.arm.proposals}"]
    faults: list[str] = []
    if it.averages.violations:
        faults.append(f"{name}: sum_prod <= coupled <= sum_min is violated at {it.averages.violations} positions")
    if (it.averages.positions, it.averages.accepted) != (it.counters.tested, it.counters.accepted):
        faults.append(f"{name}: {it.averages.positions} positions were watched, {it.counters.tested} tested")
    if not it.averages.positions:
        faults.append(f"{name}: nothing was tested")
    if abs(it.deviation) > ERRORS:
        faults.append(
            f"{name}: measured {it.averages.measured:.4f}, {it.deviation:+.1f} standard errors from "
            f"{it.run.form.label} = {it.expected:.4f}"
        )
    return faults


def told_apart(measured: Sequence[Measured]) -> list[str]:
    """Whether the log lines of the arms differ: otherwise one may silently be another."""
    said = {(it.run.rule, it.run.proposals) for it in measured}
    return [] if len(said) == len(ARMS) else [f"the arms show only {len(said)} pairs of rule= and proposals="]


def same_when_cold(cold: Sequence[Measured]) -> list[str]:
    """At temperature 0 every arm is greedy decoding."""
    faults = [f"{it.arm.name} at temperature 0 ran {set(it.rules)}" for it in cold if it.rules != {Rule.GREEDY}]
    if len({it.tokens for it in cold}) != 1:
        faults.append("at temperature 0 the arms do not emit the same tokens")
    return faults


def repeats(first: Measured, again: Measured) -> list[str]:
    """Modified rejection's stream depends on its proposals: at an equal seed it must come again all the same."""
    return [] if again.tokens == first.tokens else ["stochastic does not repeat itself at an equal seed"]
