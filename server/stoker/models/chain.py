"""A request's sampler chain, made once: logit bias, then the stages of `samplers` that do anything, in its order."""

from collections.abc import Callable, Sequence

import mlx.core as mx

from stoker.core.request import Sampling
from stoker.models import dry, filters, penalties
from stoker.models.candidates import Candidates, Column, everything
from stoker.models.dry import Breakers
from stoker.models.selectors import selector

Stage = Callable[[Candidates, Sequence[Column]], Candidates]


class Chain:
    """From logits to candidates. Requests with equal settings (but for the seed) share one, and so one call."""

    def __init__(self, s: Sampling, vocab: int, known: Breakers) -> None:
        self.greedy = s.greedy
        self.selector = selector(s)
        self.stages = tuple(_stages(s, known))
        self.bias = _bias(s, vocab)
        self.bans = any(bias == -float("inf") for _, bias in s.logit_bias)
        self.window = _window(s)
        """How many earlier tokens the stages look at; -1 = all."""

    @property
    def bare(self) -> bool:
        """True when the choice is the argmax of the logits as they are."""
        return self.greedy and not self.stages and self.bias is None

    def apply(self, logits: mx.array, columns: Sequence[Column]) -> Candidates:
        """Candidates of logits [N, V], any float type, one of `columns` for each row."""
        logits = logits.astype(mx.float32)
        c = everything(logits if self.bias is None else self._biased(logits, self.bias, columns))
        for stage in self.stages:
            c = stage(c, columns)
        return c

    def _biased(self, logits: mx.array, bias: mx.array, columns: Sequence[Column]) -> mx.array:
        """Where a grammar leaves only tokens that the bias bans, the bias gives way: every answer fits its grammar."""
        biased = logits + bias
        if not self.bans or not any(column.constrained for column in columns):
            return biased
        constrained = mx.array([column.constrained for column in columns])[:, None]
        nothing = mx.isinf(mx.max(biased, axis=-1, keepdims=True))
        return mx.where(nothing & constrained, logits, biased)


def _stages(s: Sampling, known: Breakers) -> list[Stage]:
    """Mirostat replaces the chain, as upstream; a greedy request needs only what can change the best token."""
    if s.mirostat:
        return [lambda c, _: filters.temperature(c, s.temperature)]
    active = _active(s, known)
    names = [name for name in s.samplers if not s.greedy or name in ("penalties", "dry")]
    return [active[name] for name in names if name in active]


def _active(s: Sampling, known: Breakers) -> dict[str, Stage]:
    """The stages that change anything under these settings, by llama-server's names (`infill` has none)."""
    stages: dict[str, tuple[bool, Stage]] = {
        "penalties": (s.penalised, lambda c, columns: penalties.penalise(c, s, columns)),
        "dry": (s.dry, lambda c, columns: dry.penalise(c, s, known, columns)),
        "top_n_sigma": (s.top_n_sigma > 0, lambda c, _: filters.top_n_sigma(c, s.top_n_sigma)),
        "top_k": (s.top_k > 0, lambda c, _: filters.top_k(c, s.top_k)),
        "typ_p": (s.typical_p < 1, lambda c, _: filters.typical(c, s.typical_p, s.min_keep)),
        "top_p": (s.top_p < 1, lambda c, _: filters.top_p(c, s.top_p, s.min_keep)),
        "min_p": (s.min_p > 0, lambda c, _: filters.min_p(c, s.min_p, s.min_keep)),
        "xtc": (
            s.xtc_probability > 0 and s.xtc_threshold <= 0.5,
            lambda c, columns: filters.xtc(c, s.xtc_probability, s.xtc_threshold, s.min_keep, columns),
        ),
        "temperature": (s.temperature != 1 or s.dynatemp_range > 0, lambda c, _: _temperature(c, s)),
    }
    return {name: stage for name, (on, stage) in stages.items() if on}


def _temperature(c: Candidates, s: Sampling) -> Candidates:
    if s.dynatemp_range > 0:
        return filters.dynamic_temperature(c, s.temperature, s.dynatemp_range, s.dynatemp_exponent)
    return filters.temperature(c, s.temperature)


def _bias(s: Sampling, vocab: int) -> mx.array | None:
    """The logit biases as one row, float32 [1, V]; repeated ids add up, -inf wins over everything."""
    biases: dict[int, float] = {}
    for token, bias in s.logit_bias:
        if 0 <= token < vocab and biases.get(token) != -float("inf"):
            biases[token] = min(biases.get(token, 0.0) + bias, penalties.LARGEST)
    if not biases:
        return None
    row = mx.zeros((1, vocab))
    row[0, mx.array(list(biases))] = mx.array(list(biases.values()), dtype=mx.float32)
    return row


def _window(s: Sampling) -> int:
    if s.mirostat:
        return 0
    spans = [n for n, on in ((s.repeat_last_n, s.penalised), (s.dry_penalty_last_n, s.dry)) if on]
    return -1 if any(n < 0 for n in spans) else max(spans, default=0)
