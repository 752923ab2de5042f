"""llama.cpp's samplers and the noise hash once more, in plain Python, token by token: what the tests compare with.

A list of `Tok` is upstream's candidate array; a stage takes one and gives one back. Written from the behaviour of
llama-sampler.cpp, for clarity and not for speed; nothing is shared with the package.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker.core.request import Sampling

M32, M64 = 2**32 - 1, 2**64 - 1


# --- noise -----------------------------------------------------------------------------------------------------------


def key(seed: int, position: int, purpose: int) -> int:
    def mix(z: int) -> int:
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    return mix(mix(mix(seed) ^ position) ^ purpose)


def uniform(seed: int, position: int, token: int, purpose: int = 0) -> float:
    def fin(z: int) -> int:
        z ^= z >> 16
        z = z * 0x85EBCA6B % 2**32
        z ^= z >> 13
        z = z * 0xC2B2AE35 % 2**32
        return z ^ z >> 16

    k = key(seed, position, purpose)
    h = fin(fin((token * 0x9E3779B1 + (k & M32)) & M32) ^ (k >> 32))
    return ((h >> 9) + 0.5) / 2**23


def gumbel(seed: int, position: int, token: int) -> float:
    return -math.log(-math.log(uniform(seed, position, token)))


# --- candidates ------------------------------------------------------------------------------------------------------


@dataclass
class Tok:
    id: int
    logit: float


Toks = list[Tok]


def softmax(c: Toks) -> list[float]:
    most = max(t.logit for t in c)
    weights = [math.exp(t.logit - most) for t in c]
    return [w / sum(weights) for w in weights]


def ranked(c: Toks) -> Toks:
    return sorted(c, key=lambda t: -t.logit)


def entropy(p: Sequence[float]) -> float:
    return -sum(q * math.log(q) for q in p if q > 0)


def top_k(c: Toks, s: Sampling) -> Toks:
    return ranked(c)[: s.top_k] if s.top_k > 0 else c


def top_p(c: Toks, s: Sampling) -> Toks:
    if s.top_p >= 1:
        return c
    c = ranked(c)
    total = 0.0
    for i, p in enumerate(softmax(c)):
        total += p
        if total >= s.top_p and i + 1 >= s.min_keep:
            return c[: i + 1]
    return c


def min_p(c: Toks, s: Sampling) -> Toks:
    if s.min_p <= 0:
        return c
    c = ranked(c)
    least = c[0].logit + math.log(s.min_p)
    i = 1
    while i < len(c) and (c[i].logit >= least or i < s.min_keep):
        i += 1
    return c[:i]


def typical(c: Toks, s: Sampling) -> Toks:
    if s.typical_p >= 1:
        return c
    c = ranked(c)
    p = softmax(c)
    h = entropy(p)
    shifted = [abs(-math.log(q) - h) if q > 0 else math.inf for q in p]
    order = sorted(range(len(c)), key=shifted.__getitem__)
    total = 0.0
    for i, index in enumerate(order):
        total += p[index]
        if total > s.typical_p and (s.min_keep == 0 or i >= s.min_keep - 1):
            return [c[j] for j in order[: i + 1]]
    return [c[j] for j in order]


def top_n_sigma(c: Toks, s: Sampling) -> Toks:
    if s.top_n_sigma <= 0 or len(c) <= 1:
        return c
    alive = [t.logit for t in c if t.logit != -math.inf]
    mean = sum(alive) / len(alive)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in alive) / len(alive))
    least = max(alive) - s.top_n_sigma * deviation
    return ranked([Tok(t.id, t.logit if t.logit >= least else -math.inf) for t in c])


def xtc(c: Toks, s: Sampling, coin: float) -> Toks:
    if s.xtc_probability <= 0 or s.xtc_threshold > 0.5 or len(c) < 2 or coin > s.xtc_probability:
        return c
    c = ranked(c)
    last = 0
    for i, p in enumerate(softmax(c)):
        if p < s.xtc_threshold or p == 0:  # upstream would go on to a banned token at threshold 0, and choose it
            break
        last = i
    return c[last:] if last > 0 and len(c) - last >= s.min_keep else c


def temper(c: Toks, t: float) -> Toks:
    if t <= 0:
        best = max(range(len(c)), key=lambda i: c[i].logit)
        return [Tok(x.id, x.logit if i == best else -math.inf) for i, x in enumerate(c)]
    return [Tok(x.id, x.logit / t) for x in c]


def temperature(c: Toks, s: Sampling) -> Toks:
    if s.dynatemp_range <= 0:
        return temper(c, s.temperature)
    if len(c) <= 1:
        return c
    low, high = max(0.0, s.temperature - s.dynatemp_range), s.temperature + s.dynatemp_range
    relative = entropy(softmax(c)) / -math.log(1 / len(c))
    return temper(c, low + (high - low) * relative**s.dynatemp_exponent)


def penalties(c: Toks, s: Sampling, history: Sequence[int]) -> Toks:
    recent = list(history)[-s.repeat_last_n :] if s.repeat_last_n else []
    out: Toks = []
    for t in c:
        count, logit = recent.count(t.id), t.logit
        if count:
            logit = logit * s.repeat_penalty if logit <= 0 else logit / s.repeat_penalty
            logit -= count * s.frequency_penalty + s.presence_penalty
        out.append(Tok(t.id, logit))
    return out


def dry_lengths(history: Sequence[int], s: Sampling, breakers: Sequence[Sequence[int]]) -> dict[int, int]:
    """By token, the longest repeated ending it would continue; breakers are whole token sequences."""
    recent = list(history)[-s.dry_penalty_last_n :] if s.dry_penalty_last_n else []
    n = len(recent)
    if n <= s.dry_allowed_length:
        return {}
    limit = n
    for back in range(n):  # the latest token that starts a breaker; the longest that fits there counts
        start = n - 1 - back
        fits = [len(b) for b in breakers if recent[start : start + len(b)] == list(b)]
        if fits:
            limit = back - (max(fits) - 1)
            break
    if limit < s.dry_allowed_length:
        return {}
    found: dict[int, int] = {}
    for end in range(n - 1):  # an earlier occurrence that ends at `end`; recent[end + 1] followed it
        length = 0
        while length <= end and length < limit and recent[end - length] == recent[n - 1 - length]:
            length += 1
        if length >= s.dry_allowed_length:
            found[recent[end + 1]] = max(found.get(recent[end + 1], 0), length)
    return {token: length for token, length in found.items() if [token] not in [list(b) for b in breakers]}


def dry(c: Toks, s: Sampling, history: Sequence[int], breakers: Sequence[Sequence[int]]) -> Toks:
    lengths = dry_lengths(history, s, breakers)
    worst = int(88.7228391 / math.log(s.dry_base)) if s.dry_base > 1.000001 else 10**9

    def less(token: int) -> float:
        if token not in lengths:
            return 0.0
        return s.dry_multiplier * s.dry_base ** min(lengths[token] - s.dry_allowed_length, worst)

    return [Tok(t.id, t.logit - less(t.id)) for t in c]


# --- the chain -------------------------------------------------------------------------------------------------------


def chain(
    logits: Sequence[float],
    s: Sampling,
    *,
    position: int = 0,
    history: Sequence[int] = (),
    breakers: Sequence[Sequence[int]] = (),
) -> Toks:
    """What is left of one row of logits after bias and chain."""
    bias: dict[int, float] = {}
    for token, value in s.logit_bias:
        bias[token] = bias.get(token, 0.0) + value
    c = [Tok(i, float(x) + bias.get(i, 0.0)) for i, x in enumerate(logits)]
    if s.mirostat:
        return temper(c, s.temperature)
    for name in s.samplers:
        if name == "penalties":
            c = penalties(c, s, history)
        elif name == "dry" and s.dry:
            c = dry(c, s, history, breakers)
        elif name == "xtc":
            c = xtc(c, s, uniform(s.seed, position, 0, purpose=4))
        elif name in SIMPLE:
            c = SIMPLE[name](c, s)
    return c


SIMPLE = {
    "top_k": top_k,
    "top_p": top_p,
    "min_p": min_p,
    "typ_p": typical,
    "top_n_sigma": top_n_sigma,
    "temperature": temperature,
}


def by_id(c: Toks, vocab: int) -> list[float]:
    p = [0.0] * vocab
    for token, q in zip(c, softmax(c), strict=True):
        p[token.id] = q
    return p


def draw(c: Toks, seed: int, position: int) -> int:
    """Gumbel-max by the hash."""
    alive = [t for t in c if t.logit > -math.inf]
    return max(alive, key=lambda t: t.logit + gumbel(seed, position, t.id)).id


# --- stateful rules --------------------------------------------------------------------------------------------------


class Mirostat:
    def __init__(self, s: Sampling, vocab: int) -> None:
        self.s, self.vocab, self.mu = s, vocab, 2 * s.mirostat_tau

    def keep(self, c: Toks) -> Toks:
        c = ranked(c)
        p = softmax(c)
        if self.s.mirostat == 2:
            kept = [t for t, q in zip(c, p, strict=True) if q > 0 and -math.log2(q) <= self.mu]
            return kept or c[:1]
        return c[: max(self._k(p), 1)]

    def _k(self, p: Sequence[float]) -> int:
        above = below = 0.0
        for i in range(min(99, len(p) - 1)):
            if p[i + 1] == 0:
                return 1
            t = math.log((i + 2) / (i + 1))
            above += t * math.log(p[i] / p[i + 1])
            below += t * t
        zipf = above / below
        excess = zipf - 1
        return int(((excess * 2**self.mu) / (1 - self.vocab**-excess)) ** (1 / zipf))

    def accept(self, kept: Toks, token: int) -> None:
        p = dict(zip((t.id for t in kept), softmax(kept), strict=True))[token]
        self.mu -= self.s.mirostat_eta * (-math.log2(p) - self.s.mirostat_tau)


class Adaptive:
    def __init__(self, s: Sampling) -> None:
        self.s = s
        self.weight = 1 / (1 - s.adaptive_decay)
        self.sum = s.adaptive_target * self.weight
        self.p: dict[int, float] = {}

    def keep(self, c: Toks) -> Toks:
        p = softmax(c)
        self.p = dict(zip((t.id for t in c), p, strict=True))
        aim = min(max(2 * self.s.adaptive_target - self.sum / self.weight, 0.0), 1.0)
        out: Toks = []
        for t, q in zip(c, p, strict=True):
            far = abs(q - aim) / 0.3
            out.append(Tok(t.id, t.logit if t.logit == -math.inf else 5 - 10 * far * far / (1 + far)))
        return out

    def accept(self, token: int) -> None:
        self.sum = self.p[token] + self.s.adaptive_decay * self.sum
        self.weight = 1 + self.s.adaptive_decay * self.weight


# --- statistics and small things -------------------------------------------------------------------------------------


def listed(x: Any) -> Any:
    """An MLX array as nested lists, or as a number if it has no axis; its own stubs leave that open."""
    return x.tolist()


def chi_square(counts: Sequence[float], expected: Sequence[float]) -> float:
    """Cells of expectation zero must be empty; those below 5 are pooled."""
    pairs = list(zip(counts, expected, strict=True))
    if any(c > 0 and e == 0 for c, e in pairs):
        return math.inf
    big = [(c, e) for c, e in pairs if e >= 5]
    small = [(c, e) for c, e in pairs if 0 < e < 5]
    if small:
        big.append((sum(c for c, _ in small), sum(e for _, e in small)))
    return sum((c - e) ** 2 / e for c, e in big)


def chi_cut(freedom: int, z: float = 3.719) -> float:
    """The chi-square quantile by Wilson and Hilferty; z = 3.719 is 1 - 1e-4."""
    a = 2 / (9 * freedom)
    return freedom * (1 - a + z * math.sqrt(a)) ** 3
