from hypothesis import given
from hypothesis import strategies as st

from stoker.scheduler.dispatch import CHUNK_SECONDS, FIRST_CHUNK, PACK, PrefillPolicy, Waiting


def test_short_prompts_are_read_together_in_one_padded_forward() -> None:
    policy = PrefillPolicy(2048)
    policy.spent(FIRST_CHUNK, 0.64)
    assert policy.chunk == 100, "SmolLM2 on 2 cores reads 200 tokens a second"
    waiting = [Waiting(n, 0, 29) for n in range(16)]
    assert {grant.id for grant in policy.grant(waiting, decoding=False)} == set(range(16))


def test_a_short_prompt_is_not_padded_to_a_much_longer_one() -> None:
    grants = PrefillPolicy(512).grant([Waiting(1, 0, 100), Waiting(2, 0, 5), Waiting(3, 0, 7)], decoding=False)
    assert [grant.id for grant in grants] == [2, 3]


def test_a_long_prompt_is_read_in_chunks() -> None:
    (grant,) = PrefillPolicy(512).grant([Waiting(1, 64, 2000)], decoding=False)
    assert grant.stop == 64 + FIRST_CHUNK


def test_a_long_prompt_and_short_ones_take_turns() -> None:
    policy = PrefillPolicy(512)
    waiting = [Waiting(1, 0, 5000), Waiting(2, 0, 10)]
    turns = [policy.grant(waiting, decoding=False)[0].id for _ in range(4)]
    assert turns == [2, 1, 2, 1]


def test_decoding_rows_get_their_share_of_the_time_between_chunks() -> None:
    policy, waiting = PrefillPolicy(512), [Waiting(1, 0, 5000)]
    assert policy.grant(waiting, decoding=True)
    policy.spent(FIRST_CHUNK, 0.5)
    ticks = 0
    while not policy.grant(waiting, decoding=True):
        policy.decoded(0.0625)
        ticks += 1
    assert ticks == 8


def test_a_debt_is_forgotten_when_nobody_decodes() -> None:
    policy, waiting = PrefillPolicy(512), [Waiting(1, 0, 5000)]
    policy.spent(FIRST_CHUNK, 9.0)
    assert not policy.grant(waiting, decoding=True)
    assert policy.grant(waiting, decoding=False)


def test_the_chunk_follows_the_machine_between_its_bounds() -> None:
    slow, fast = PrefillPolicy(2048), PrefillPolicy(2048)
    for _ in range(10):
        slow.spent(slow.chunk, slow.chunk / 100)
        fast.spent(fast.chunk, fast.chunk / 100_000)
    assert slow.chunk == int(100 * CHUNK_SECONDS)
    assert fast.chunk == 2048


def test_a_small_forward_does_not_move_the_chunk() -> None:
    policy = PrefillPolicy(512)
    policy.spent(5, 0.1)
    assert policy.chunk == FIRST_CHUNK


@given(st.lists(st.integers(1, 900), min_size=1, max_size=12), st.integers(8, 300))
def test_every_prompt_is_read_to_its_end_whatever_the_mix(lengths: list[int], batch: int) -> None:
    policy, at = PrefillPolicy(batch), dict.fromkeys(range(len(lengths)), 0)
    for _ in range(sum(lengths) + 1):
        waiting = [Waiting(n, at[n], lengths[n]) for n in at if at[n] < lengths[n]]
        grants = policy.grant(waiting, decoding=False)
        if not waiting:
            break
        assert grants
        columns = len(grants) * max(grant.stop - at[grant.id] for grant in grants)
        assert columns <= (policy.chunk if len(grants) == 1 else min(PACK * policy.chunk, batch))
        for grant in grants:
            assert at[grant.id] < grant.stop <= lengths[grant.id]
            at[grant.id] = grant.stop
    assert all(at[n] == lengths[n] for n in at)
