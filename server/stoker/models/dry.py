"""DRY, the penalty on tokens that would continue a repetition (llama-sampler.cpp, after p-e-w's proposal).

A token that followed an earlier occurrence of the present ending is penalised by multiplier * base ^ (length -
allowed), where length is that of the repeated ending. A sequence breaker bounds it: nothing is matched across one.
All of it is integer work on a short list, done on the host.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.core.request import Sampling
from stoker.models.candidates import Candidates, Column
from stoker.models.penalties import LARGEST, edit, last

_LONGEST_BREAKER = 40
"""Bytes of a breaker that count, as upstream."""
_LONGEST_TAIL = 20
_LOG_LARGEST = 88.7228391


@dataclass(frozen=True, slots=True)
class Breakers:
    """Token sequences that make up a breaker: by first token, what must follow it (empty: it is one by itself)."""

    tails: Mapping[int, tuple[tuple[int, ...], ...]]

    def alone(self, token: int) -> bool:
        """True when the token by itself is (or holds) a breaker: such a token is never penalised."""
        return () in self.tails.get(token, ())

    def limit(self, newest: Sequence[int]) -> int:
        """How many tokens stand behind the latest breaker of a history given newest first."""
        for i, token in enumerate(newest):
            tails = [tail for tail in self.tails.get(token, ()) if len(tail) <= i]
            fits = [len(tail) for tail in tails if tuple(newest[i - len(tail) : i][::-1]) == tail]
            if fits:
                return i - max(fits)
        return len(newest)


def breakers(pieces: Sequence[bytes], texts: Sequence[str]) -> Breakers:
    """Maps breaker strings onto a vocabulary: some tokens hold one, others begin one that further tokens finish."""
    breaks = [text.encode(errors="replace")[:_LONGEST_BREAKER] for text in texts if text]
    ids: dict[bytes, int] = {}
    if any(len(wanted) > 1 for wanted in breaks):
        ids = {piece: token for token, piece in reversed(list(enumerate(pieces))) if piece}
    tails: dict[int, dict[tuple[int, ...], None]] = {}
    for wanted in breaks:
        for token in [token for token, piece in enumerate(pieces) if wanted[0] in piece]:
            for rest in _remainders(pieces[token], wanted):
                tails.setdefault(token, {})[tuple(_spell(rest, ids))] = None
    return Breakers({token: tuple(found) for token, found in tails.items()})


def penalise(c: Candidates, s: Sampling, known: Breakers, columns: Sequence[Column]) -> Candidates:
    """Logits lowered for the tokens that would continue a repetition within the last `dry_penalty_last_n`."""
    return edit(c, [penalties(column.history, s, known) for column in columns], lambda logits, value: logits - value)


def penalties(history: Sequence[int], s: Sampling, known: Breakers) -> dict[int, float]:
    """What to subtract from the logit of which token."""
    newest = last(history, s.dry_penalty_last_n)[::-1]
    if len(newest) <= s.dry_allowed_length:
        return {}
    limit = known.limit(newest)
    if limit < s.dry_allowed_length:
        return {}
    longest: dict[int, int] = {}
    for start, length in enumerate(_repeats(newest)):
        if start and min(length, limit) >= s.dry_allowed_length:
            follower = newest[start - 1]
            longest[follower] = max(longest.get(follower, 0), min(length, limit))
    return {token: _penalty(length, s) for token, length in longest.items() if not known.alone(token)}


def _penalty(length: int, s: Sampling) -> float:
    exponent = length - s.dry_allowed_length
    if s.dry_base > 1.000001:  # below, the power stays near 1
        exponent = min(exponent, int(_LOG_LARGEST / math.log(s.dry_base)))
    return min(max(s.dry_multiplier * s.dry_base**exponent, -LARGEST), LARGEST)


def _repeats(x: Sequence[int]) -> list[int]:
    """For each start, how many tokens from there on equal those from 0 on (the Z function; linear time)."""
    lengths = [len(x)] + [0] * (len(x) - 1)
    left = right = 0
    for start in range(1, len(x)):
        length = min(lengths[start - left], right - start) if start < right else 0
        while start + length < len(x) and x[length] == x[start + length]:
            length += 1
        lengths[start] = length
        if start + length > right:
            left, right = start, start + length
    return lengths


def _remainders(piece: bytes, wanted: bytes) -> Iterable[bytes]:
    """What must follow `piece` to complete `wanted`: nothing if it is inside, else one rest per overlap at the end."""
    if wanted in piece:
        return [b""]
    return [wanted[n:] for n in range(min(len(piece), len(wanted) - 1), 0, -1) if piece.endswith(wanted[:n])]


def _spell(text: bytes, ids: Mapping[bytes, int]) -> list[int]:
    """Tokens of `text`, longest piece first; upstream asks its tokenizer, which agrees on such short strings."""
    tokens: list[int] = []
    while text and len(tokens) < _LONGEST_TAIL:
        size = next((n for n in range(len(text), 0, -1) if text[:n] in ids), 0)
        if not size:
            break
        tokens.append(ids[text[:size]])
        text = text[size:]
    return tokens
