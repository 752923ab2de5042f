import pytest

from stoker import inert
from stoker.core.errors import StartError
from stoker.options.arguments import parse

TYPICAL = ["-ngl", "99", "-t", "8", "-fa", "on", "--mlock", "--no-mmap", "-ub", "256", "--cache-reuse", "256"]


def judged(*words: str, **environ: str) -> tuple[str, ...]:
    return inert.judge(parse(words, environ, inert.options()).given)


def test_a_typical_line_gets_one_warning_for_each_option_and_no_more() -> None:
    warnings = judged(*TYPICAL)
    assert [w.split()[0] for w in warnings] == ["-ngl", "-t", "-fa", "--mlock", "--no-mmap", "-ub", "--cache-reuse"]


@pytest.mark.parametrize("words", [("-t", "-1"), ("-ngl", "auto"), ("-fa", "auto"), ("-ub", "512"), ("--mmap",)])
def test_a_default_value_says_nothing(words: tuple[str, ...]) -> None:
    assert judged(*words) == ()


@pytest.mark.parametrize("words", [("-ngl", "many"), ("-fa", "maybe"), ("-t", "x"), ("-ctkd", "q9"), ("-ub", "0")])
def test_the_value_of_an_inert_option_is_checked(words: tuple[str, ...]) -> None:
    with pytest.raises(StartError, match=f"^{words[0]} takes .*, not '{words[1]}'$"):
        judged(*words)


def test_a_variable_counts_like_its_option_and_is_named() -> None:
    assert judged(LLAMA_ARG_THREADS="8")[0].startswith("LLAMA_ARG_THREADS has no effect")
    with pytest.raises(StartError, match=r"^LLAMA_ARG_RERANKING cannot be honoured: heads that rank are not built yet"):
        judged(LLAMA_ARG_RERANKING="on")
    with pytest.raises(StartError, match=r"^LLAMA_ARG_DRAFT_MAX: the argument has been removed"):
        judged(LLAMA_ARG_DRAFT_MAX="8")


def test_a_pair_is_refused_on_its_active_side_only() -> None:
    assert judged("--no-agent", "--no-ui-mcp-proxy") == ()
    with pytest.raises(StartError, match=r"^--agent cannot be honoured: the server runs no tools"):
        judged("--agent")


def test_a_single_refused_value_of_a_warned_option_is_named_with_it() -> None:
    assert judged("-dev", "MTL0") == ("-dev has no effect: MLX places the work itself",)
    with pytest.raises(StartError, match=r"^-dev none cannot be honoured: MLX always has a device"):
        judged("-dev", "none")
    with pytest.raises(StartError, match=r"^-ctkd q8_0 cannot be honoured: a draft model's KV cache is not packed"):
        judged("-ctkd", "q8_0")


def test_the_sizes_of_an_n_gram_kind_that_is_not_built_are_warned_about() -> None:
    assert judged("--spec-ngram-mod-n-min", "48") == ()
    assert judged("--spec-ngram-map-k-size-n", "8") == (
        "--spec-ngram-map-k-size-n has no effect: that kind of n-gram lookup is not built yet",
    )
    with pytest.raises(StartError, match=r"^--spec-default cannot be honoured: ngram-mod is not built yet"):
        judged("--spec-default")


def test_a_value_of_two_words_takes_both() -> None:
    assert len(judged("--control-vector-layer-range", "0", "3", "-t", "4")) == 2
    with pytest.raises(StartError, match=r"needs a value: two whole numbers"):
        judged("--control-vector-layer-range", "0")


def test_every_row_says_what_happens_and_why() -> None:
    described = list(inert.descriptions())
    assert len(described) == len(inert.options())
    for _, text in described:
        head, _, reason = text.partition(": ")
        assert head in ("refused", "no effect", "removed by llama-server too")
        assert reason
