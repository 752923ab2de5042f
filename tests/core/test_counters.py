from stoker.core.counters import DraftCounters, DraftSummary, Kind, RoundCount


def test_counters_are_sums_over_rounds() -> None:
    counters = DraftCounters()
    counters.add(RoundCount(proposed=7, tested=4, accepted=3), delivered=4)
    counters.add(RoundCount(proposed=2, tested=1, accepted=0), delivered=1)
    assert counters.summary(Kind.DFLASH) == DraftSummary(Kind.DFLASH, 9, 5, 3, 2)
    assert counters.by_position == (1, 1, 1)


def test_what_did_not_reach_the_client_is_not_accepted() -> None:
    counters = DraftCounters()
    counters.add(RoundCount(proposed=7, tested=7, accepted=7), delivered=3)
    assert counters.summary(Kind.MTP) == DraftSummary(Kind.MTP, 7, 3, 3, 1)


def test_without_a_round_there_is_nothing_to_tell() -> None:
    assert DraftCounters().summary(Kind.MTP) is None
    counters = DraftCounters()
    counters.add(RoundCount(1, 1, 1), delivered=2)
    assert counters.summary(None) is None
