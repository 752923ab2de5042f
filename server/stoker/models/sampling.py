"""From the target's logits to its choices: p of every column, and the keyed draw from it.

Every draw is Gumbel-max, argmax(log p + noise), with noise hashed from (seed, position, token): a column chooses the
same token alone, in company and at any width of the tick. Nothing here looks at a value; the engine's one evaluation
a tick does, and `Choice.settle` afterwards brings the requests' histories up to date.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from weakref import WeakValueDictionary

import mlx.core as mx
import numpy as np

from stoker.core.request import Sampling
from stoker.models import noise
from stoker.models.candidates import Candidates, Column, spread, token_at
from stoker.models.chain import Chain
from stoker.models.dry import Breakers, breakers
from stoker.models.masks import Constraint
from stoker.models.noise import Purpose
from stoker.models.penalties import last
from stoker.models.selectors import Selector


@dataclass(slots=True, eq=False)
class Row:
    """What sampling remembers of one request. Lives and dies on the device thread."""

    seed: int
    chain: Chain
    history: list[int]
    """The last tokens of prompt and answer, as many as the chain looks at."""
    state: tuple[float, ...] = ()
    """The stateful rule's numbers: mirostat's mu, adaptive-p's sums."""
    constraint: Constraint | None = None
    """Its grammar; whoever builds a round masks the logits by it."""

    def column(self, position: int, draft: Sequence[int]) -> Column:
        """The column that predicts `position`, if the tokens `draft` come first."""
        history = [*self.history, *draft] if self.chain.window else ()
        return Column(self.seed, position, history, self.constraint is not None)

    def remember(self, tokens: Sequence[int]) -> None:
        if self.constraint is not None:
            self.constraint.advance(tokens)
        if self.chain.window:
            self.history = list(last([*self.history, *tokens], self.chain.window))


@dataclass(frozen=True, slots=True)
class _States:
    """States of a group's rows after 0, 1, … w tokens of this tick, float32 [G, w + 1, s]."""

    rows: Sequence[int]
    values: mx.array


@dataclass(frozen=True, slots=True)
class Choice:
    """The choices of a tick, not yet evaluated."""

    tokens: mx.array
    """int32 [B, w]."""
    rows: Sequence[Row]
    states: Sequence[_States] = field(default_factory=tuple)

    @property
    def arrays(self) -> tuple[mx.array, ...]:
        """Everything to evaluate together with `tokens`."""
        return tuple(states.values for states in self.states)

    def settle(self, emitted: Sequence[Sequence[int]]) -> None:
        """Tells each row what it really emitted: a prefix of its choices, possibly nothing. After evaluation only."""
        for row, tokens in zip(self.rows, emitted, strict=True):
            row.remember(tokens)
        for states in self.states:
            for index, steps in zip(states.rows, np.array(states.values), strict=True):
                self.rows[index].state = tuple(steps[len(emitted[index])].tolist())


class Sampler:
    """Draws for one model. Not thread-safe: device thread only."""

    def __init__(self, vocab: int, pieces: Sequence[bytes]) -> None:
        """`vocab` is the width of the logits; `pieces` the bytes of each token, for DRY's sequence breakers."""
        self._vocab = vocab
        self._chains: WeakValueDictionary[Sampling, Chain] = WeakValueDictionary()

        @lru_cache(maxsize=16)
        def known(texts: tuple[str, ...]) -> Breakers:
            return breakers(pieces, texts)

        self._breakers = known

    def open(self, sampling: Sampling, prompt: Sequence[int], constraint: Constraint | None = None) -> Row:
        """The state of a new request whose prompt is `prompt`."""
        chain = self._chain(replace(sampling, seed=0))
        start = chain.selector.start() if chain.selector else ()
        return Row(sampling.seed, chain, list(last(prompt, chain.window)), start, constraint)

    def choose(
        self,
        logits: mx.array,
        rows: Sequence[Row],
        starts: Sequence[int],
        drafts: Sequence[Sequence[int]] | None = None,
        purpose: Purpose = Purpose.DRAW,
    ) -> Choice:
        """The choice of every column of logits [B, w, V].

        Column i of row r predicts position starts[r] + i, behind the proposals drafts[r][:i]. Choices of
        another `purpose` are independent of the target's own; a stateful rule knows only one.
        """
        if all(row.chain.bare for row in rows):
            return Choice(mx.argmax(logits, axis=-1).astype(mx.int32), rows)
        width = logits.shape[1]
        columns = [
            [row.column(start + i, draft[:i]) for i in range(width)]
            for row, start, draft in zip(rows, starts, drafts or [()] * len(rows), strict=True)
        ]
        chosen: list[mx.array] = []
        states: list[_States] = []
        groups = _groups(rows)
        for chain, members in groups.items():
            part = logits if len(members) == len(rows) else logits[mx.array(members)]
            mine = [columns[index] for index in members]
            if chain.selector is None:
                chosen.append(_choose(chain, part, mine, purpose))
                continue
            walk = _Walk(chain, chain.selector, [rows[index].state for index in members])
            chosen.append(mx.concatenate([walk.draw(part[:, i], [row[i] for row in mine]) for i in range(width)], 1))
            states.append(_States(members, mx.stack(walk.states, axis=1)))
        return Choice(_in_order(chosen, list(groups.values())), rows, states)

    def distribution(self, logits: mx.array, row: Row, start: int, draft: Sequence[int] = ()) -> mx.array:
        """p of every column of one row's logits [w, V]: float32 [w, V], exactly zero outside its support.

        `choose` draws from exactly this. Greedy: one-hot. XTC's coin is tossed for its column; a stateful rule
        goes on from the tokens `draft`.
        """
        width = logits.shape[0]
        columns = [row.column(start + i, draft[:i]) for i in range(width)]
        chain = row.chain
        if chain.greedy:
            best = mx.argmax(chain.apply(logits, columns).logits, axis=-1, keepdims=True)
            return (mx.arange(logits.shape[-1])[None] == best).astype(mx.float32)
        if chain.selector is None:
            return spread(chain.apply(logits, columns))
        walk = _Walk(chain, chain.selector, [row.state])
        tokens = [*draft[:width], *[None] * width]
        return mx.concatenate([walk.follow(logits[i : i + 1], [columns[i]], tokens[i]) for i in range(width)])

    def _chain(self, settings: Sampling) -> Chain:
        chain = self._chains.get(settings)
        if chain is None:
            known = self._breakers(settings.dry_sequence_breakers) if settings.dry else Breakers({})
            chain = self._chains[settings] = Chain(settings, self._vocab, known)
        return chain


class _Walk:
    """The columns of a stateful rule, taken in order: each state follows from the token before it, on the device."""

    def __init__(self, chain: Chain, selector: Selector, states: Sequence[tuple[float, ...]]) -> None:
        self.chain, self.selector = chain, selector
        self.states = [mx.array(list(states), dtype=mx.float32)]

    def draw(self, logits: mx.array, columns: Sequence[Column]) -> mx.array:
        """Tokens int32 [G, 1] drawn from logits [G, V], and the state moves on by them."""
        found = self.selector.choosable(self.chain.apply(logits, columns), self.states[-1])
        index = _draw(found.candidates, columns)
        self._move(mx.take_along_axis(found.told, index, axis=-1))
        return token_at(found.candidates, index)

    def follow(self, logits: mx.array, columns: Sequence[Column], token: int | None) -> mx.array:
        """p [1, V] at this state, which then moves on by `token`."""
        found = self.selector.choosable(self.chain.apply(logits, columns), self.states[-1])
        if token is not None:
            ids = mx.arange(logits.shape[-1])[None] if found.candidates.ids is None else found.candidates.ids
            self._move(mx.where(ids == token, found.told, 0.0).sum(axis=-1, keepdims=True))
        return spread(found.candidates)

    def _move(self, told: mx.array) -> None:
        self.states.append(self.selector.next(self.states[-1], told))


def _choose(chain: Chain, logits: mx.array, columns: Sequence[Sequence[Column]], purpose: Purpose) -> mx.array:
    """Tokens int32 [G, w] of logits [G, w, V] under a chain without state."""
    flat = [column for row in columns for column in row]
    c = chain.apply(logits.reshape(len(flat), -1), flat)
    index = mx.argmax(c.logits, axis=-1, keepdims=True) if chain.greedy else _draw(c, flat, purpose)
    return token_at(c, index).reshape(logits.shape[:2])


def _draw(c: Candidates, columns: Iterable[Column], purpose: Purpose = Purpose.DRAW) -> mx.array:
    """Gumbel-max over the candidates, column indices [N, 1]. Logits serve as log p: a constant changes no argmax."""
    keys = noise.keys([(column.seed, column.position) for column in columns], purpose)
    ids = mx.arange(c.logits.shape[-1], dtype=mx.int32)[None] if c.ids is None else c.ids
    return mx.argmax(c.logits + noise.gumbel(keys, ids), axis=-1, keepdims=True)


def _groups(rows: Sequence[Row]) -> dict[Chain, list[int]]:
    groups: dict[Chain, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.chain, []).append(index)
    return groups


def _in_order(parts: Sequence[mx.array], members: Sequence[Sequence[int]]) -> mx.array:
    """Rows of the groups' results [G, w] put back where they came from, [B, w]."""
    if len(parts) == 1:
        return parts[0]
    places = [index for group in members for index in group]
    back = sorted(range(len(places)), key=places.__getitem__)
    return mx.concatenate(list(parts))[mx.array(back)]
