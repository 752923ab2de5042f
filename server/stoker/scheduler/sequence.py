"""Sequence: what the scheduler knows about one request. Plain Python, it never holds an array."""

from collections.abc import Callable
from enum import StrEnum

from stoker.core.counters import DraftOff
from stoker.core.events import Event, Failed, Finished, Piece, Progress, StopType, Tokens
from stoker.core.request import Request
from stoker.core.timings import Stopwatch, Timings
from stoker.core.work import Outcome, TokenProbs
from stoker.scheduler.drafted import Drafted
from stoker.scheduler.ending import Ending
from stoker.text.detokenizer import Detokenizer

PieceText = Callable[[int, bool], bytes]
"""(token id, show control tokens) → the token's bytes."""


class Phase(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"
    DONE = "done"


class Sequence:
    """A request that has a slot. Outcomes go in, events come out."""

    def __init__(self, request: Request, slot: int, cached: int, *, context: int, started: float) -> None:
        self.request, self.slot, self.cached = request, slot, cached
        self.processed = cached
        self.started = started
        self.tokens: list[int] = []
        self.phase = Phase.DECODE if cached >= self.prefill_end else Phase.PREFILL
        self.ending = Ending(request.limits, context - len(request.prompt))
        self.drafted = Drafted(request.speculation)
        self.overrun = False
        """True: the last round went past the end that the text then had, so the slot holds more than `content`."""
        self._stopwatch = Stopwatch(request.arrived)
        self._read_until = started
        """When the last part of the prompt had been read."""
        self._detokenizer = Detokenizer()
        self._reported: list[tuple[int, Piece]] = []
        """Pieces with probabilities, each with the place in the text where its token begins."""

    @property
    def id(self) -> int:
        return self.request.id

    @property
    def prefill_end(self) -> int:
        """The last prompt token is not prefilled: it is the anchor of the first round."""
        return len(self.request.prompt) - 1

    @property
    def kept(self) -> int:
        """Columns of the slot that hold the request's tokens: all but the newest one."""
        return len(self.content)

    @property
    def content(self) -> tuple[int, ...]:
        """The tokens whose keys and values the slot holds: all but the newest one."""
        if not self.tokens:
            return self.request.prompt[: self.processed]
        return (*self.request.prompt, *self.tokens[:-1])

    @property
    def draft_off(self) -> DraftOff | None:
        """Why nothing was drafted; None if something was, or as long as nothing was generated."""
        return self.drafted.off if self.tokens else None

    @property
    def timings(self) -> Timings:
        counted = len(self.request.prompt) - self.cached if self.tokens else self.processed - self.cached
        return self._stopwatch.read(cached=self.cached, prompt=counted, predicted=len(self.tokens))

    def begin(self) -> Progress:
        """The event that opens the stream: the prompt is about to be read."""
        return self._progress(self.started)

    def absorb(self, outcome: Outcome, piece: PieceText, ends: frozenset[int]) -> list[Event]:
        """Takes over what a tick did. After the last event the phase is `DONE`."""
        if self.phase is Phase.DONE:
            return []
        if outcome.processed:
            self.processed, self._read_until = outcome.processed, outcome.at
            if self.processed < self.prefill_end:
                return [self._progress(outcome.at)]
            self.phase = Phase.DECODE
            return []
        self.drafted.see(outcome)
        opening: list[Event] = []
        if outcome.tokens and not self.tokens:
            self.processed = len(self.request.prompt)
            if outcome.round is not None:
                # Its time is that of a round: as part of the prompt's, several tokens would have taken none.
                self._stopwatch.prompt_read(self._read_until)
            opening = [self._progress(outcome.at)]
        return [*opening, *self._emit(outcome, piece, ends)]

    def fail(self, failed: Failed) -> Failed:
        self.phase = Phase.DONE
        return failed

    def _emit(self, outcome: Outcome, piece: PieceText, ends: frozenset[int]) -> list[Event]:
        pieces: list[Piece] = []
        before = len(self.tokens)
        stop = self._take(outcome, piece, ends, pieces)
        delivered = len(self.tokens) - before
        self.drafted.count(outcome, delivered)
        events: list[Event] = [Tokens(tuple(pieces))] if pieces else []
        if stop is None:
            return events
        self.phase = Phase.DONE
        self.overrun = delivered < len(outcome.tokens)
        return [*events, self._finish(stop)]

    def _take(self, outcome: Outcome, piece: PieceText, ends: frozenset[int], pieces: list[Piece]) -> StopType | None:
        """The outcome's tokens, up to the one that ends the answer."""
        for n, token in enumerate(outcome.tokens):
            probs = outcome.probs[n] if n < len(outcome.probs) else None
            self._stopwatch.token(outcome.at)
            self.tokens.append(token)
            stop = self._push(token, probs, piece(token, self.request.keep_special), token in ends, pieces)
            if stop is not None:
                return stop
        return None

    def _push(
        self, token: int, probs: TokenProbs | None, data: bytes, end: bool, pieces: list[Piece]
    ) -> StopType | None:
        timings, begins = self.timings, self.ending.length
        text = self._detokenizer.push(data)
        step = self.ending.push(text, end=end, elapsed_ms=timings.predicted_ms)
        if self._detokenizer.whole or step.shown.text:
            word = step.stop is StopType.WORD
            made = Piece(token, step.shown.text, len(self.tokens), timings, probs, completes_stop=word)
            pieces.append(made)
            if probs is not None:
                self._reported.append((begins, made))
        return step.stop

    def _progress(self, at: float) -> Progress:
        elapsed = max(round((at - self.started) * 1e3, 3), 0.0)
        return Progress(len(self.request.prompt), self.cached, self.processed, elapsed)

    def _finish(self, stop: StopType) -> Finished:
        ending, text = self.ending, self.ending.text
        cut = len(text) if stop is StopType.WORD else ending.length + 1
        return Finished(
            stop=stop,
            stopping_word=ending.word,
            text=text,
            tokens=tuple(self.tokens),
            pieces=tuple(piece for begins, piece in self._reported if begins < cut),
            slot=self.slot,
            prompt_tokens=len(self.request.prompt),
            cached_tokens=self.cached,
            truncated=ending.truncated,
            has_new_line=ending.has_new_line,
            timings=self.timings,
            draft=self.drafted.summary,
            draft_off=self.draft_off,
            rule=self.drafted.rule,
        )
