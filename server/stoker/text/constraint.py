"""Constraint: where one answer stands in its grammar, and which tokens may come next.

Host work on the device thread, done while the forward runs. A mask is bits, 32 tokens a word, the lowest
id in the lowest bit; a set bit allows its token.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import llguidance
import numpy as np
from numpy.typing import NDArray

from stoker.core.errors import ServerFault
from stoker.core.request import Grammar, Trigger, TriggerKind
from stoker.text.rules import GrammarError


class TriggerError(GrammarError):
    """A trigger is no regular expression."""


Words = NDArray[np.uint32]
FREE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Alphabet:
    """What a constraint must know of the vocabulary."""

    piece: Callable[[int], bytes]
    """A token's bytes, those of control tokens too."""
    spell: Callable[[bytes], list[int] | None]
    """Some tokens that make up these bytes, no control tokens among them; None if there are none."""
    ends: Collection[int]
    words: int
    """Of a mask."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Waits for a lazy grammar's trigger in the answer so far."""

    tokens: frozenset[int]
    patterns: tuple[re.Pattern[str], ...]
    said: bytes = b""

    def heard(self, token: int, piece: bytes) -> bytes | None:
        """One more token: what the grammar has to match already, if this wakes it."""
        if token in self.tokens:
            return piece
        text = (self.said + piece).decode("utf-8", "surrogateescape")
        for pattern in self.patterns:
            if found := pattern.search(text):
                groups = (n for n in range(1, pattern.groups + 1) if found.start(n) < found.end(n))
                return text[found.start(next(groups, 0)) :].encode("utf-8", "surrogateescape")
        return None

    def after(self, piece: bytes) -> "Watch":
        return replace(self, said=self.said + piece)


def watch(grammar: Grammar) -> Watch | None:
    """None for a grammar that holds from the start. Raises TriggerError for a pattern that is none."""
    if not grammar.lazy:
        return None
    tokens = frozenset(trigger.token for trigger in grammar.triggers if trigger.kind is TriggerKind.TOKEN)
    others = (trigger for trigger in grammar.triggers if trigger.kind is not TriggerKind.TOKEN)
    try:
        return Watch(tokens, tuple(re.compile(_pattern(trigger)) for trigger in others))
    except re.error as error:
        raise TriggerError(str(error)) from None


def _pattern(trigger: Trigger) -> str:
    if trigger.kind is TriggerKind.WORD:
        return re.escape(trigger.text)
    return trigger.text if trigger.kind is TriggerKind.PATTERN else rf"\A(?:{trigger.text})\Z"


@dataclass(slots=True)
class Constraint:
    matcher: llguidance.LLMatcher
    """Nobody else's."""
    alphabet: Alphabet
    watch: Watch | None = None
    """None once the grammar is awake."""
    over: bool = False
    """True once an end token has come."""
    fault: str = ""

    def masks(self, draft: Sequence[int]) -> Words:
        """uint32 [len(draft) + 1, words]: what may come next, and what after each of the tokens `draft`.

        Behind one of them that is not allowed, or that ends the answer, everything is: nothing can come
        there. Raises ServerFault where the grammar can go no further.
        """
        rows = np.full((len(draft) + 1, self.alphabet.words), FREE, np.uint32)
        self.fill(rows[0])
        if self.fault:
            raise ServerFault(self.fault)
        ahead = self._copy() if draft else self
        for row, token in zip(rows[1:], draft, strict=True):
            if token in self.alphabet.ends or not ahead.step(token):
                break
            ahead.fill(row)
        return rows

    def allowed(self, draft: Sequence[int]) -> int:
        """How many of the tokens `draft` may come one after the other, up to the first that ends the answer."""
        ahead = self._copy()
        for n, token in enumerate(draft):
            if token in self.alphabet.ends:
                return n + ahead.may_end
            if not ahead.step(token):
                return n
        return len(draft)

    @property
    def may_end(self) -> bool:
        """True if the answer may end here."""
        return self.watch is not None or self.matcher.is_accepting()

    def advance(self, tokens: Sequence[int]) -> None:
        """The answer goes on by these tokens. Never raises: the next `masks` says what is wrong."""
        for token in tokens:
            if self.over or self.fault:
                return
            if token in self.alphabet.ends:
                self.over = True
            elif not self.step(token):
                self.fault = self.fault or f"the answer has left its grammar at token {token}"

    def step(self, token: int) -> bool:
        """One token that ends nothing. False if it does not fit."""
        if self.watch is None:
            return self.matcher.try_consume_tokens([token]) == 1
        piece = self.alphabet.piece(token)
        begun = self.watch.heard(token, piece)
        self.watch = self.watch.after(piece) if begun is None else None
        spelt = self.alphabet.spell(begun or b"")
        return spelt is not None and self.matcher.try_consume_tokens(spelt) == len(spelt)

    def fill(self, row: Words) -> None:
        """Writes what may come next into a free mask; where nothing may, remembers the fault."""
        if self.watch is not None or self.over or self.fault:
            return
        row[:] = np.frombuffer(self.matcher.compute_bitmask(), np.uint32)[: len(row)]
        if not row.any() or (self.matcher.is_stopped() and not self.matcher.is_accepting()):
            self.fault = f"the grammar allows no further token: {reason(self.matcher)}".removesuffix(": ")

    def _copy(self) -> "Constraint":
        """Shares what the matcher has learnt; copying takes microseconds."""
        return replace(self, matcher=self.matcher.deep_copy())


def reason(matcher: llguidance.LLMatcher) -> str:
    """What a matcher complains of, on one line; nothing if only that no token goes on from here."""
    said = matcher.get_error().partition("\n")[0]
    return "" if said.startswith("NoExtension") else said
