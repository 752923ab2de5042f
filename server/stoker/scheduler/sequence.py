"""Sequence: what the scheduler knows about one request. Plain Python, it never holds an array."""

from collections.abc import Callable
from enum import StrEnum

from stoker.core.counters import DraftOff
from stoker.core.events import Embedded, Event, Failed, Finished, Piece, Progress, StopType, Tokens
from stoker.core.request import Request
from stoker.core.timings import Stopwatch, Timings
from stoker.core.work import Outcome, TokenProbs
from stoker.scheduler.drafted import Drafted
from stoker.scheduler.ending import Ending
from stoker.scheduler.thinking import ThoughtWatch
from stoker.text.detokenizer import Detokenizer

MAX_ROOM = 2**31 - 1
"""Tokens, where the slot is no limit."""
LEAST_SHIFTED = 4
"""So many tokens of a full slot at least can be given up, as upstream."""

PieceText = Callable[[int, bool], bytes]
"""(token id, show control tokens) → the token's bytes."""


class Phase(StrEnum):
    TURN = "turn"
    """Words were put into its mouth: it leaves its row in this plan and joins again, to read them as a prompt."""
    PREFILL = "prefill"
    DECODE = "decode"
    DONE = "done"


class Sequence:
    """A request that has a slot. Outcomes go in, events come out."""

    def __init__(
        self, request: Request, slot: int, cached: int, *, context: int, started: float, shifts: bool = False
    ) -> None:
        """`shifts`: a full slot gives up tokens and goes on, instead of ending the answer."""
        self.request, self.slot, self.cached = request, slot, cached
        self._context, self._shifts = context, shifts
        self.shifts = 0
        """How often that has happened."""
        self.dropped = 0
        """Tokens that were given up, all of them behind the spared ones."""
        self.processed = cached
        self._reading: int | None = None
        """Length of the prompt that its row has; None while that is the request's own."""
        self._columns: int | None = None
        """What the slot holds while forced words are still to be read; None else."""
        self.started = started
        self.tokens: list[int] = []
        self.phase = Phase.DECODE if cached >= self.prefill_end else Phase.PREFILL
        self.ending = Ending(request.limits, MAX_ROOM if shifts else context - len(request.prompt))
        self.drafted = Drafted(request.speculation)
        self.overrun = False
        """True: the last round went past the end that the text then had, so the slot holds more than `content`."""
        self._stopwatch = Stopwatch(request.arrived)
        self._read_until = started
        """When the last part of the prompt had been read."""
        self._detokenizer = Detokenizer()
        self.thought = ThoughtWatch(request.thought) if request.thought is not None else None
        self._reported: list[tuple[int, Piece]] = []
        """Pieces with probabilities, each with the place in the text where its token begins."""

    @property
    def id(self) -> int:
        return self.request.id

    @property
    def prompt(self) -> tuple[int, ...]:
        """What its row has to read: the request's prompt, and after forced words or a shift all that there is."""
        return self.request.prompt if self._reading is None else self._all[: self._reading]

    @property
    def _all(self) -> tuple[int, ...]:
        """Prompt and answer, without what was given up."""
        whole = (*self.request.prompt, *self.tokens)
        return whole[: self._spared] + whole[self._spared + self.dropped :] if self.dropped else whole

    @property
    def _length(self) -> int:
        return len(self.request.prompt) + len(self.tokens) - self.dropped

    @property
    def _spared(self) -> int:
        """Leading tokens that no shift gives up."""
        wish = self.request.keep if self.request.keep >= 0 else len(self.request.prompt)
        return max(min(wish, self._context - LEAST_SHIFTED), 0)

    @property
    def remaining(self) -> int:
        """Tokens that its row may emit before it must stop or shift."""
        return min(self.ending.remaining, self._context - self._length) if self._shifts else self.ending.remaining

    @property
    def prefill_end(self) -> int:
        """The last prompt token is not prefilled, unless nothing follows: it is the anchor of the first round."""
        return (len(self.request.prompt) if self._reading is None else self._reading) - self.request.generates

    @property
    def start(self) -> int:
        """The next token of `prompt` that its row has to run."""
        return self.processed if self._columns is None else self._columns

    @property
    def kept(self) -> int:
        """Columns of the slot that hold the request's tokens: all but the newest one."""
        return len(self.content)

    @property
    def content(self) -> tuple[int, ...]:
        """The tokens whose keys and values the slot holds: all but the newest one."""
        if self._columns is not None:
            return self._all[: self._columns]
        if not self.tokens:
            return self.request.prompt[: self.processed]
        return self._all[:-1]

    @property
    def draft_off(self) -> DraftOff | None:
        """Why nothing was drafted; None if something was, or as long as nothing was generated."""
        return self.drafted.off if self.tokens else None

    @property
    def timings(self) -> Timings:
        counted = len(self.request.prompt) - self.cached if self.tokens else self.processed - self.cached
        return self._stopwatch.read(cached=self.cached, prompt=counted, predicted=len(self.tokens))

    def serves(self, prompt: tuple[int, ...], *, recurrent: bool) -> bool:
        """True if its slot holds all but the last token of this prompt now."""
        if self.request.prompt != prompt or self.dropped or (recurrent and self.tokens):
            return False
        return self.start >= len(prompt) - 1

    def begin(self) -> Progress:
        """The event that opens the stream: the prompt is about to be read."""
        return self._progress(self.started)

    def absorb(self, outcome: Outcome, piece: PieceText, ends: frozenset[int]) -> list[Event]:
        """Takes over what a tick did. After the last event the phase is `DONE`."""
        if self.phase in (Phase.DONE, Phase.TURN):
            return []
        if outcome.processed:
            return self._read(outcome)
        self.drafted.see(outcome)
        opening: list[Event] = []
        if outcome.tokens and not self.tokens:
            self.processed = len(self.request.prompt)
            self._stopwatch.reading(outcome.at)
            if outcome.round is not None:
                # Its time is that of a round: as part of the prompt's, several tokens would have taken none.
                self._stopwatch.prompt_read(self._read_until)
            opening = [self._progress(outcome.at)]
        return [*opening, *self._emit(outcome, piece, ends)]

    def turn(self, *, lost: bool) -> None:
        """The row that said the last word is gone. `lost`: and the slot is empty."""
        if lost:
            self._columns = 0
        self.phase = Phase.PREFILL

    def _read(self, outcome: Outcome) -> list[Event]:
        """A part of the prompt has been read; that of forced words is nobody's business."""
        if self._columns is not None:
            self._columns = outcome.processed
        else:
            self.processed, self._read_until = outcome.processed, outcome.at
            self._stopwatch.reading(outcome.at)
        if outcome.processed < self.prefill_end:
            return [self._progress(outcome.at)] if self._columns is None else []
        if outcome.vectors:
            self._stopwatch.prompt_read(outcome.at)
            self.phase = Phase.DONE
            return [Embedded(outcome.vectors, len(self.request.prompt))]
        self.phase, self._columns = Phase.DECODE, None
        return []

    def fail(self, failed: Failed) -> Failed:
        self.phase = Phase.DONE
        return failed

    def _emit(self, outcome: Outcome, piece: PieceText, ends: frozenset[int]) -> list[Event]:
        pieces: list[Piece] = []
        before = len(self.tokens)
        stop = self._take(outcome, piece, ends, pieces)
        delivered = len(self.tokens) - before
        self.drafted.count(outcome, delivered)
        self.overrun = delivered < len(outcome.tokens)
        if stop is None and self._must_turn:
            stop = self._turn(outcome.at, piece, pieces)
        if stop is None and self._shifts and self._length >= self._context:
            self._shift()
        events: list[Event] = [Tokens(tuple(pieces))] if pieces else []
        if stop is None:
            return events
        self.phase = Phase.DONE
        return [*events, self._finish(stop)]

    def _take(self, outcome: Outcome, piece: PieceText, ends: frozenset[int], pieces: list[Piece]) -> StopType | None:
        """The outcome's tokens, up to the one that ends the answer."""
        for n, token in enumerate(outcome.tokens):
            if self._must_turn:
                break
            probs = outcome.probs[n] if n < len(outcome.probs) else None
            stop = self._token(token, outcome.at, piece, pieces, probs=probs, end=token in ends)
            if stop is not None:
                return stop
        return None

    @property
    def _must_turn(self) -> bool:
        return self.thought is not None and self.thought.over and self._detokenizer.whole

    def _turn(self, at: float, piece: PieceText, pieces: list[Piece]) -> StopType | None:
        """Says the words that end a thought. They become part of the prompt of a row that then goes on behind them."""
        assert self.thought is not None
        self._columns = self._length - 1
        for token in self.thought.ending:
            stop = self._token(token, at, piece, pieces)
            if stop is not None:
                return stop
        self.phase = Phase.TURN
        self._reading = self._length
        self.thought.inside = False
        return None

    def _shift(self) -> None:
        """Gives tokens up. A new row reads what stood behind them: they are as if they had never been."""
        behind = self._length - self._spared
        least = self._length - self._context + 1
        discard = min(max(self.request.discard or behind // 2, least), behind - 2)
        self.dropped += discard
        self.shifts += 1
        self._columns, self._reading = self._spared, self._length
        self.phase, self.overrun, self.ending.shifted = Phase.TURN, True, True

    def _token(
        self,
        token: int,
        at: float,
        piece: PieceText,
        pieces: list[Piece],
        *,
        probs: TokenProbs | None = None,
        end: bool = False,
    ) -> StopType | None:
        shows = self.request.keep_special or token in self.request.preserved
        self._stopwatch.token(at)
        self.tokens.append(token)
        return self._push(token, probs, piece(token, shows), end, pieces)

    def _push(
        self, token: int, probs: TokenProbs | None, data: bytes, end: bool, pieces: list[Piece]
    ) -> StopType | None:
        timings, begins = self.timings, self.ending.length
        text = self._detokenizer.push(data)
        if self.thought is not None:
            self.thought.push(text)
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
        return Progress(len(self.request.prompt), self.cached, self.processed, elapsed, self.timings)

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
            dropped=self.dropped,
        )
