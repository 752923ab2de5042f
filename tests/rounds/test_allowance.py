"""What trials of a drafter that does not pay may cost, to the second."""

from stoker.rounds.allowance import PROBE_SHARE, Allowance


def test_a_trial_waits_until_the_share_of_the_time_bears_it() -> None:
    allowance = Allowance()
    assert not allowance.take("dflash", 1.0)
    allowance.grow("dflash", 0.99 / PROBE_SHARE)
    assert not allowance.take("dflash", 1.0)
    allowance.grow("dflash", 0.02 / PROBE_SHARE)
    assert allowance.take("dflash", 1.0)
    assert not allowance.take("dflash", 0.1), "it is spent"


def test_a_trial_that_costs_nothing_more_is_always_borne() -> None:
    assert Allowance().take("dflash", -0.1)


def test_what_a_trial_overran_is_owed_and_what_it_fell_short_of_is_not_credited() -> None:
    allowance = Allowance()
    allowance.owe("dflash", 2.0)
    allowance.owe("dflash", -5.0)
    allowance.grow("dflash", 2.5 / PROBE_SHARE)
    assert not allowance.take("dflash", 1.0)
    allowance.grow("dflash", 0.6 / PROBE_SHARE)
    assert allowance.take("dflash", 1.0)


def test_each_company_has_its_own() -> None:
    allowance = Allowance()
    allowance.grow("dflash", 1.0 / PROBE_SHARE)
    assert not allowance.take("mtp", 0.5)
    assert allowance.take("dflash", 0.5)
