"""Grammars: compiles what requests ask for, once for each text, over one vocabulary.

llguidance does the work; its view of the vocabulary is built when the first grammar comes. Compiling is
done by whoever takes a request in (`check`); the device thread then only copies (`constraint`).
"""

import logging
from collections.abc import Collection, Sequence
from functools import cached_property
from threading import Lock
from typing import Protocol

import llguidance
import numpy as np

from stoker.core.errors import InvalidRequest
from stoker.core.request import Grammar
from stoker.text import schema
from stoker.text.constraint import Alphabet, Constraint, TriggerError, reason, watch
from stoker.text.gbnf_lark import to_lark
from stoker.text.rules import GrammarError

log = logging.getLogger(__name__)

KEPT = 32
"""Compiled grammars that are remembered."""
LONGEST_CHARACTER = 4
"""Bytes of a character."""
_COMPLAINT = "failed to compile JSON schema: "
"""llguidance's words before what is wrong with a schema."""
REFUSED = "Failed to initialize samplers: failed to parse grammar"


class Tokens(Protocol):
    """A vocabulary; `text.tokenizer.Tokenizer` is one."""

    @property
    def pieces(self) -> Sequence[bytes]: ...

    @property
    def hidden(self) -> Collection[int]: ...

    @property
    def end_ids(self) -> Collection[int]: ...

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]: ...


class Grammars:
    """Thread-safe."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._compiled: dict[str, llguidance.LLMatcher] = {}
        self._lock = Lock()
        self._building = Lock()

    def compile(self, grammar: Grammar) -> None:
        """Raises GrammarError, with the cause, for one that cannot be followed."""
        if grammar:
            watch(grammar)
            self._matcher(grammar.text)

    def check(self, grammar: Grammar) -> None:
        """Compiles a request's grammar. Raises InvalidRequest, in llama-server's words, where that cannot be."""
        try:
            self.compile(grammar)
        except GrammarError as error:
            log.info("a grammar is refused: %s", error)
            raise InvalidRequest(_words(grammar.text, error)) from None

    def constraint(self, grammar: Grammar, said: Sequence[int] = ()) -> Constraint:
        """For a new answer that begins with the tokens `said`. Raises as `check`."""
        self.check(grammar)
        matcher = self._matcher(grammar.text).deep_copy()
        constraint = Constraint(matcher, self._vocabulary.alphabet, watch(grammar))
        constraint.advance(said)
        return constraint

    def _matcher(self, text: str) -> llguidance.LLMatcher:
        with self._lock:
            known = self._compiled.get(text)
        if known is None:
            known = self._compile(text)
            with self._lock:
                while len(self._compiled) >= KEPT:
                    del self._compiled[next(iter(self._compiled))]
                self._compiled[text] = known
        return known

    def _compile(self, text: str) -> llguidance.LLMatcher:
        return self._vocabulary.matcher(
            schema.reread(text) if schema.is_schema(text) else to_lark(text, self._token_id)
        )

    def _token_id(self, text: str) -> int | None:
        ids = self._tokens.encode(text, add_special=False, parse_special=True)
        return ids[0] if len(ids) == 1 else None

    @property
    def _vocabulary(self) -> "_Vocabulary":
        with self._building:
            return self._built

    @cached_property
    def _built(self) -> "_Vocabulary":
        return _Vocabulary(self._tokens)


def _words(text: str, error: GrammarError) -> str:
    """llama-server's, which for GBNF tell no cause."""
    if isinstance(error, TriggerError):
        return f"Field 'grammar_triggers': {error}"
    return f"{schema.REFUSED}{str(error).rpartition(_COMPLAINT)[2]}" if schema.is_schema(text) else REFUSED


class _Vocabulary:
    """llguidance's view of the tokens: control tokens match only where a grammar names them by their id."""

    def __init__(self, tokens: Tokens) -> None:
        ends = sorted(tokens.end_ids)
        source = _Source(tokens, ends)
        self._tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(source), eos_token=ends or source.eos_token_id
        )
        self._ends = frozenset(ends)
        hidden = frozenset(source.special_token_ids)
        self._short = {p: n for n, p in enumerate(tokens.pieces) if 0 < len(p) <= LONGEST_CHARACTER and n not in hidden}
        self.alphabet = Alphabet(tokens.pieces.__getitem__, self._spell, self._ends, -(-len(tokens.pieces) // 32))

    def matcher(self, lark: str) -> llguidance.LLMatcher:
        """Raises GrammarError for a grammar that llguidance refuses, and for one that matches nothing."""
        matcher = llguidance.LLMatcher(self._tokenizer, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
        if not matcher.is_error():
            probe = matcher.deep_copy()
            allowed = np.unpackbits(np.frombuffer(probe.compute_bitmask(), np.uint8), bitorder="little")
            if not probe.is_error() and (
                probe.is_accepting() or not set(np.flatnonzero(allowed).tolist()) <= self._ends
            ):
                return matcher
            matcher = probe
        raise GrammarError(reason(matcher) or "no token can begin what it matches")

    def _spell(self, data: bytes) -> list[int] | None:
        """By the shortest tokens: a byte where there is one for it, else a character."""
        ids: list[int] = []
        while data:
            size = next((n for n in range(1, LONGEST_CHARACTER + 1) if data[:n] in self._short), None)
            if size is None:
                return None
            ids.append(self._short[data[:size]])
            data = data[size:]
        return ids


class _Source:
    """What llguidance asks of a tokenizer."""

    def __init__(self, tokens: Tokens, ends: Sequence[int]) -> None:
        self._tokens = tokens
        self.tokens: list[bytes] = list(tokens.pieces)
        self.special_token_ids: list[int] = sorted(set(tokens.hidden) | set(ends))
        self.bos_token_id: int | None = None
        self.eos_token_id: int = ends[0] if ends else len(self.tokens)
        if not ends:
            # A model without one never ends an answer: the id that stands for it is no token.
            self.tokens.append(b"<end>")
            self.special_token_ids.append(self.eos_token_id)

    def __call__(self, text: str | bytes) -> list[int]:
        whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        return self._tokens.encode(whole, add_special=False, parse_special=False)
