import pytest

from stoker.core.counters import DraftOff, Kind, RoundCount
from stoker.core.request import Speculation
from stoker.core.work import Outcome
from stoker.scheduler.drafted import Drafted

LOOKUP = Kind.PROMPT_LOOKUP


def see(drafted: Drafted, *outcomes: Outcome) -> Drafted:
    for outcome in outcomes:
        drafted.see(outcome)
        drafted.count(outcome, len(outcome.tokens))
    return drafted


def plain(off: DraftOff | None = None, kind: Kind | None = None) -> Outcome:
    return Outcome(1, 0.0, tokens=(1,), off=off, kind=kind)


def drafted_round(accepted: int, off: DraftOff | None = None) -> Outcome:
    count = RoundCount(3, min(accepted + 1, 3), accepted)
    return Outcome(1, 0.0, (1,) * (accepted + 1), round=count, kind=LOOKUP, off=off, rule="sampler-match")


def test_rounds_add_up_and_plain_steps_add_nothing() -> None:
    seen = see(Drafted(Speculation()), plain(kind=LOOKUP), drafted_round(3), plain(kind=LOOKUP), drafted_round(0))
    assert seen.summary is not None
    assert (seen.summary.kind, seen.summary.rounds, seen.summary.proposed) == (LOOKUP, 2, 6)
    assert (seen.summary.tested, seen.summary.accepted) == (4, 3)
    assert seen.rule == "sampler-match"


def test_one_round_is_enough_to_have_been_drafted() -> None:
    seen = see(Drafted(Speculation()), drafted_round(0), plain(DraftOff.DOES_NOT_PAY, LOOKUP))
    assert seen.off is None
    assert seen.now is DraftOff.DOES_NOT_PAY


def test_the_last_reason_counts_where_no_round_ran() -> None:
    seen = see(Drafted(Speculation()), plain(DraftOff.BATCH, LOOKUP), plain(DraftOff.DOES_NOT_PAY, LOOKUP))
    assert (seen.off, seen.summary, seen.rule) == (DraftOff.DOES_NOT_PAY, None, "")
    assert see(seen, plain(kind=LOOKUP)).off is DraftOff.DOES_NOT_PAY
    assert seen.now is None


def test_without_a_word_from_the_device_there_is_no_drafter() -> None:
    assert see(Drafted(Speculation()), plain()).off is DraftOff.NO_DRAFTER


def test_a_drafter_that_gave_no_reason_had_no_proposal() -> None:
    assert see(Drafted(Speculation()), plain(kind=LOOKUP)).off is DraftOff.NO_PROPOSAL


@pytest.mark.parametrize("wish", [Speculation("none"), Speculation(most=0), Speculation("mtp", 0, asked=True)])
def test_a_request_that_forbids_drafting_is_disabled(wish: Speculation) -> None:
    assert wish.disabled
    assert Drafted(wish).now is DraftOff.DISABLED
    assert see(Drafted(wish), plain()).off is DraftOff.DISABLED
