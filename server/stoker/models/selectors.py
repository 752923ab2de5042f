"""Mirostat and adaptive-p: the last step of a chain whose rule depends on the tokens chosen before (llama-sampler.cpp).

Each keeps a few numbers per request. Here they are arrays [N, s], so that a column's can follow from the column
before it without a look at the device; between ticks the request holds them as plain floats.
"""

from dataclasses import replace
from typing import NamedTuple, Protocol

import mlx.core as mx

from stoker.core.request import Sampling
from stoker.models.candidates import Candidates, keep_first, keep_where, positions, probabilities, rank


class Choosable(NamedTuple):
    """What to draw from, and by candidate the probability that the state is to be told of the one chosen."""

    candidates: Candidates
    told: mx.array


class Selector(Protocol):
    """A stateful rule. `state` is float32 [N, s]."""

    def start(self) -> tuple[float, ...]: ...
    def choosable(self, c: Candidates, state: mx.array) -> Choosable: ...
    def next(self, state: mx.array, told: mx.array) -> mx.array:
        """The state after a token whose `told` entry [N, 1] was this."""
        ...


class Mirostat2:
    """Version 2: tokens more surprising than mu go. The state is mu, in bits."""

    def __init__(self, s: Sampling) -> None:
        self.tau, self.eta = s.mirostat_tau, s.mirostat_eta

    def start(self) -> tuple[float, ...]:
        return (2.0 * self.tau,)

    def choosable(self, c: Candidates, state: mx.array) -> Choosable:
        calm = -mx.log2(probabilities(c)) <= state
        best = positions(c) == mx.argmax(c.logits, axis=-1, keepdims=True)
        kept = keep_where(c, calm | best)
        return Choosable(kept, probabilities(kept))

    def next(self, state: mx.array, told: mx.array) -> mx.array:
        surprise = -mx.log2(mx.maximum(told, 1e-30))
        return state - self.eta * (surprise - self.tau)


class Mirostat1(Mirostat2):
    """Version 1: a top-k whose k follows from mu and from an estimate of Zipf's exponent over the 100 best tokens."""

    def choosable(self, c: Candidates, state: mx.array) -> Choosable:
        c = rank(c)
        exponent = _zipf(probabilities(c)[:, :100])
        excess = exponent - 1.0
        spread = excess * mx.power(2.0, state) / (1.0 - mx.power(float(c.vocab), -excess))
        k = mx.power(spread, 1.0 / exponent)
        # Not a number where fewer tokens have any probability than the estimate needs: one token then, as upstream.
        k = mx.where(mx.isnan(k), 1.0, mx.clip(k, 1.0, float(c.logits.shape[-1]))).astype(mx.int32)
        kept = keep_first(c, k)
        return Choosable(kept, probabilities(kept))


def _zipf(prob: mx.array) -> mx.array:
    """Least-squares slope of log probability against log rank, [N, 1], from the best m tokens [N, m]."""
    pairs = prob.shape[-1] - 1
    ranks = mx.arange(1, pairs + 1, dtype=mx.float32)[None]
    steps = mx.log((ranks + 1.0) / ranks)
    falls = mx.log(prob[:, :-1] / prob[:, 1:])
    return (steps * falls).sum(axis=-1, keepdims=True) / mx.square(steps).sum(axis=-1, keepdims=True)


class AdaptiveP:
    """Adaptive-p: logits become a bump around a target probability that corrects for what was chosen lately.

    The state is a decaying sum of the chosen tokens' probabilities and its weight.
    """

    WIDTH, PEAK, SHARPNESS = 0.3, 5.0, 10.0

    def __init__(self, s: Sampling) -> None:
        self.target = min(s.adaptive_target, 1.0)
        self.decay = min(max(s.adaptive_decay, 0.0), 0.99)

    def start(self) -> tuple[float, ...]:
        weight = 1.0 / (1.0 - self.decay)
        return (self.target * weight, weight)

    def choosable(self, c: Candidates, state: mx.array) -> Choosable:
        prob = probabilities(c)
        aim = mx.clip(2.0 * self.target - state[:, 0:1] / state[:, 1:2], 0.0, 1.0)
        distance = mx.abs(prob - aim) / self.WIDTH
        bump = self.PEAK - self.SHARPNESS * mx.square(distance) / (1.0 + distance)
        bumped = mx.where(c.logits > -mx.inf, bump, -mx.inf)
        return Choosable(replace(c, logits=bumped, ranked=False), prob)

    def next(self, state: mx.array, told: mx.array) -> mx.array:
        return mx.concatenate([told + self.decay * state[:, 0:1], 1.0 + self.decay * state[:, 1:2]], axis=-1)


def selector(s: Sampling) -> Selector | None:
    """The stateful rule that ends this request's chain, if it has one."""
    if s.mirostat:
        return Mirostat1(s) if s.mirostat == 1 else Mirostat2(s)
    return AdaptiveP(s) if s.adaptive else None
