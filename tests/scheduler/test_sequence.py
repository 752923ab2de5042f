from stoker.core.errors import ServerFault
from stoker.core.events import Event, Failed, Finished, Progress, StopType, Tokens
from stoker.core.request import Limits, Request
from stoker.core.work import Outcome, TokenProbs
from stoker.scheduler.sequence import Phase, Sequence

PIECES = {1: b"a", 2: b"b", 3: "é".encode()[:1], 4: "é".encode()[1:], 5: b"<end>", 6: b"ab", 7: b"c"}
ENDS = frozenset({5})


def piece(token: int, special: bool) -> bytes:
    return b"" if token in ENDS and not special else PIECES[token]


def sequence(prompt: tuple[int, ...] = (1, 2, 1), cached: int = 0, probs: int = 0, **limits: object) -> Sequence:
    request = Request(1, prompt, arrived=10.0, limits=Limits(**limits), probs=probs)  # type: ignore[arg-type]
    return Sequence(request, 0, cached, context=100, started=10.5)


def absorb(seq: Sequence, *tokens: int, at: float = 12.0, probs: tuple[TokenProbs, ...] = ()) -> list[Event]:
    return seq.absorb(Outcome(1, at, tokens=tokens, probs=probs), piece, ENDS)


def frames(events: list[Event]) -> list[tuple[int, str]]:
    return [(it.token, it.text) for event in events if isinstance(event, Tokens) for it in event.pieces]


def test_a_sequence_reads_its_prompt_but_the_last_token_then_decodes() -> None:
    seq = sequence()
    assert seq.begin() == Progress(3, 0, 0, 0.0)
    assert seq.phase is Phase.PREFILL
    assert seq.absorb(Outcome(1, 11.0, processed=1), piece, ENDS) == [Progress(3, 0, 1, 500.0)]
    assert seq.absorb(Outcome(1, 11.5, processed=2), piece, ENDS) == []
    assert seq.phase is Phase.DECODE
    assert absorb(seq, 1)[0] == Progress(3, 0, 3, 1500.0)


def test_progress_tells_the_time_since_the_arrival_and_no_generation() -> None:
    seq = sequence(cached=1, prompt=(1, 2, 1, 2))
    told = [seq.begin(), *seq.absorb(Outcome(1, 11.0, processed=2), piece, ENDS), absorb(seq, 1)[0]]
    timings = [event.timings for event in told if isinstance(event, Progress)]
    assert [(it.cached, it.prompt, it.prompt_ms, it.predicted_ms) for it in timings] == [
        *((1, 0, 0.0, 0.0), (1, 1, 1000.0, 0.0), (1, 3, 2000.0, 0.0))
    ]  # fmt: skip


def test_a_wholly_cached_prompt_decodes_at_once() -> None:
    seq = sequence(cached=2)
    assert seq.phase is Phase.DECODE
    absorb(seq, 1)
    assert (seq.timings.cached, seq.timings.prompt) == (2, 1)


def test_a_token_inside_a_character_makes_no_frame_and_its_bytes_come_with_the_next() -> None:
    seq = sequence(cached=2)
    assert frames(absorb(seq, 3)) == []
    assert frames(absorb(seq, 4)) == [(4, "é")]


def test_a_character_cut_at_the_end_is_withheld_in_the_stream_and_in_the_answer() -> None:
    seq = sequence(cached=2, predict=2)
    first = absorb(seq, 1)
    last = absorb(seq, 3)
    finished = last[-1]
    assert isinstance(finished, Finished)
    assert "".join(text for _, text in frames(first + last)) == finished.text == "a"
    assert finished.tokens == (1, 3)


def test_an_end_token_has_its_own_empty_frame() -> None:
    seq = sequence(cached=2)
    absorb(seq, 1)
    events = absorb(seq, 5)
    assert frames(events) == [(5, "")]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.stop is StopType.EOS
    assert finished.tokens == (1, 5)


def test_tokens_behind_the_last_one_of_a_round_are_dropped() -> None:
    seq = sequence(cached=2, predict=2)
    finished = absorb(seq, 1, 2, 1, 1)[-1]
    assert isinstance(finished, Finished)
    assert finished.tokens == (1, 2)
    assert absorb(seq, 1) == []


def test_all_tokens_of_a_round_share_one_stamp() -> None:
    seq = sequence(cached=2)
    absorb(seq, 1, at=12.0)
    events = absorb(seq, 1, 2, at=13.0)
    stamps = {it.timings.predicted_ms for event in events if isinstance(event, Tokens) for it in event.pieces}
    assert stamps == {1000.0}


def test_the_content_is_every_token_but_the_newest() -> None:
    seq = sequence()
    seq.absorb(Outcome(1, 11.0, processed=1), piece, ENDS)
    assert seq.content == (1,)
    seq.absorb(Outcome(1, 11.0, processed=2), piece, ENDS)
    absorb(seq, 1, 2)
    assert seq.content == (1, 2, 1, 1)


def test_probabilities_of_a_stop_strings_tokens_are_left_out() -> None:
    probs = TokenProbs(-0.5, ((1, -0.5),))
    seq = sequence(cached=2, probs=1, stop=("bab",))
    events = absorb(seq, 1, 2, 6, probs=(probs, probs, probs))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.text == "a"
    assert [it.token for it in finished.pieces] == [1]
    assert [it.completes_stop for event in events if isinstance(event, Tokens) for it in event.pieces][-1]


def test_a_failed_sequence_takes_no_more_outcomes() -> None:
    seq = sequence()
    failed = Failed(ServerFault("x"))
    assert seq.fail(failed) is failed
    assert absorb(seq, 1) == []
