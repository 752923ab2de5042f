from stoker.text.fim import FimTokens, find


def test_tokens_are_known_by_their_text_and_the_first_of_a_kind_counts() -> None:
    ids = {"<fim_prefix>": 3, "<|fim_prefix|>": 1, "<PRE>": 9, "<|fim_suffix|>": 4, "<|file_sep|>": 7, "<REPO>": 8}
    assert find(ids, {}) == FimTokens(prefix=1, suffix=4, repository=8, file=7)


def test_what_the_files_declare_wins_the_first_token_included() -> None:
    assert find({"<|fim_prefix|>": 1}, {"fim_pre": 0, "fim_mid": None, "fim_sep": 5}) == FimTokens(prefix=0, file=5)


def test_three_of_them_are_needed() -> None:
    assert FimTokens().missing == ("prefix", "suffix", "middle")
    assert FimTokens(prefix=0, middle=2).missing == ("suffix",)
    assert FimTokens(0, 1, 2).missing == ()
