"""The checks, each of which can fail: distribution, support, equality. One engine, the one that serves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stoker.acceptance.select import Rule
from stoker.commands.selftest_arms import Arm
from stoker.commands.selftest_fit import WRONG, fit
from stoker.commands.selftest_play import Company, Job, Played, Tokens
from stoker.commands.selftest_subject import Beliefs, Subject, Support
from stoker.core import clock
from stoker.core.request import MAX_SEED, Sampling

COUNT = 3
"""Tokens of a request whose distribution is tested."""
TOP_K = 4
POWER = 0.9
"""A smaller one is worth a note."""
SEEDS = 1_000_000
"""Between the first seeds of two arms."""
PURE = Sampling(temperature=1.0, top_k=TOP_K, top_p=1.0, min_p=0.0)
NARROW = replace(PURE, top_k=2)
NARROW_COUNT = 5
"""Tokens of a request in the support check."""
DEFAULTS, GREEDY = Sampling(temperature=1.0), Sampling(temperature=0.0)
EQUAL_COUNT, ALONE = 12, 1
"""Tokens of a request that must be equal, and how many requests also run alone."""

Done = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table."""

    arm: Arm
    check: str
    passed: bool
    statistic: float
    """Chi-square, or how many tokens were wrong."""
    limit: float
    n: int
    """Tokens tested; for the distribution the requests, each of which gives several."""
    dof: int = 0
    powers: dict[str, float] = field(default_factory=dict[str, float])
    """Probability that the check calls a named wrong rule wrong."""
    tested: int = 0
    accepted: int = 0
    """Proposals, of those that were tested."""
    note: str = ""

    @property
    def acceptance(self) -> float | None:
        return self.accepted / self.tested if self.tested else None


@dataclass(slots=True)
class Checks:
    """Everything that a check needs of the others: models, seeds, what was already computed."""

    subject: Subject
    seed: int
    p: Beliefs
    q: Beliefs | None
    two: Support
    """What `NARROW` leaves."""
    plain: dict[Sampling, list[Tokens]] = field(default_factory=dict[Sampling, list[Tokens]])

    @classmethod
    def of(cls, subject: Subject, seed: int) -> "Checks":
        """`seed` is that of the first request of every check."""
        draft, prompt = subject.draft, subject.prompt
        q = None if draft is None else Beliefs(draft, prompt, TOP_K)
        model = subject.target.model
        return cls(subject, seed, Beliefs(model, prompt, TOP_K), q, Support(model, prompt, NARROW.top_k))

    def distribution(self, arm: Arm, samples: int, deadline: float, done: Done) -> Result:
        """Chi-square of at most `samples` requests, none of which begins after `deadline`."""
        # Sampler-match emits the same for the same seed, whoever drafts: only other seeds make another sample.
        pure = replace(PURE, seed=arm.number * SEEDS)
        jobs = self._jobs(pure, [self.subject.prompt] * samples, COUNT)
        played = self._company(arm).play(jobs, done, lambda: clock.now() >= deadline)
        names = ["argmax", "resample-p"] if arm.rule is Rule.STOCHASTIC else ["argmax"]
        found = fit(played.streams, self.p, self.q, {name: WRONG[name] for name in names})
        notes = "" if found.dof else "too few samples for two bins"
        if weak := [name for name, power in found.powers.items() if power < POWER]:
            notes = f"power below {POWER} against {', '.join(weak)}: give it more --seconds or --samples"
        result = Result(
            arm, "distribution", found.passed, found.statistic, found.limit,
            len(played.streams), found.dof, found.powers, note=notes,
        )  # fmt: skip
        return _with_rounds(result, played)

    def support(self, arm: Arm, done: Done) -> Result:
        """No token outside the target's two likeliest, wherever it stands."""
        jobs = self._jobs(NARROW, [self.subject.prompt] * self.subject.rows, NARROW_COUNT)
        played = self._company(arm).play(jobs, done)
        wrong = self.two.outside(played.streams)
        return _with_rounds(Result(arm, "support top_k=2", not wrong, wrong, 0, played.tokens), played)

    def equality(self, arm: Arm, done: Done) -> list[Result]:
        """The tokens of plain decoding: greedy, or from the same seeds; in company and alone."""
        sampling = GREEDY if arm.rule is Rule.GREEDY else DEFAULTS
        jobs = self._jobs(sampling, self.subject.prompts(), EQUAL_COUNT)
        if sampling not in self.plain:
            self.plain[sampling] = Company(self.subject.target, None, self.subject.rows).play(jobs).streams
        plain = self.plain[sampling]
        together = self._company(arm).play(jobs, done)
        alone = Company(self.subject.target, arm.how, 1).play(jobs[:ALONE], done)
        rows = f"equal, {self.subject.rows} rows" if self.subject.rows > 1 else "equal"
        return [_equal(arm, rows, plain, together), _equal(arm, "equal, alone", plain[:ALONE], alone)]

    def _company(self, arm: Arm) -> Company:
        return Company(self.subject.target, arm.how, self.subject.rows)

    def _jobs(self, sampling: Sampling, prompts: Sequence[Tokens], count: int) -> list[Job]:
        first = self.seed + sampling.seed
        return [Job(prompt, replace(sampling, seed=(first + n) % MAX_SEED), count) for n, prompt in enumerate(prompts)]


def _equal(arm: Arm, check: str, plain: Sequence[Tokens], played: Played) -> Result:
    pairs = list(zip(plain, played.streams, strict=True))
    wrong = sum(_differing(ours, theirs) for theirs, ours in pairs)
    first = next(
        (f"row {n} differs from token {_same(*pair)}" for n, pair in enumerate(pairs) if len(set(pair)) > 1), ""
    )
    return _with_rounds(Result(arm, check, not wrong, wrong, 0, played.tokens, note=first), played)


def _differing(ours: Tokens, theirs: Tokens) -> int:
    """Tokens from the first different one on."""
    return max(len(ours), len(theirs)) - _same(ours, theirs)


def _same(ours: Tokens, theirs: Tokens) -> int:
    return next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))


def _with_rounds(result: Result, played: Played) -> Result:
    """Adds what drafting did. A check that tested no proposal, or of another rule, has shown nothing."""
    counters = played.counters
    notes = [result.note] if result.note else []
    if not counters.tested:
        notes.append("no proposal was tested")
    if not result.arm.injected and played.rules - {result.arm.rule}:
        notes.append(f"judged by {', '.join(sorted(played.rules))}")
    shown = counters.tested > 0 and (bool(result.arm.injected) or played.rules == {result.arm.rule})
    return replace(
        result,
        passed=result.passed and shown,
        tested=counters.tested,
        accepted=counters.accepted,
        note="; ".join(notes),
    )


def checks_of(arm: Arm) -> tuple[str, ...]:
    """The checks that an arm has: `equality`, `support`, `distribution`."""
    if arm.rule is Rule.GREEDY:
        return ("equality",)
    return ("support", "distribution") if arm.rule is Rule.STOCHASTIC else ("equality", "support", "distribution")
