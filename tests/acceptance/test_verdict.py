from stoker.acceptance.verdict import Verdict


def test_an_end_token_inside_a_round_cuts_it_there_and_clips_the_counts() -> None:
    verdict = Verdict((5, 6, 0, 7), accepted=3, tested=4)
    assert verdict.until({0}) == Verdict((5, 6, 0), accepted=3, tested=3)
    assert Verdict((0, 6, 7), accepted=2, tested=2).until({0}) == Verdict((0,), accepted=1, tested=1)


def test_an_end_token_as_the_bonus_changes_nothing() -> None:
    verdict = Verdict((5, 0), accepted=1, tested=1)
    assert verdict.until({0}) == verdict


def test_without_an_end_token_the_verdict_stands() -> None:
    verdict = Verdict((5, 6), accepted=1, tested=2)
    assert verdict.until(frozenset()) is verdict
