from stoker.core.prefix import common_prefix


def test_common_prefix_counts_leading_tokens() -> None:
    assert common_prefix((1, 2, 3), (1, 2, 4)) == 2
    assert common_prefix((1, 2), (1, 2, 3)) == 2
    assert common_prefix((), (1,)) == 0
