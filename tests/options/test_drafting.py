import pytest

from stoker.acceptance.select import Setting
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.options.arguments import parse
from stoker.options.drafting import Drafting
from stoker.settings import Settings, options, settings


def drafting(line: str = "", **environ: str) -> Drafting:
    return settings(parse(line.split(), environ, options()).given, environ).drafting()


def refused(line: str, **environ: str) -> str:
    with pytest.raises(StartError) as raised:
        drafting(line, **environ)
    return str(raised.value)


# which kind


@pytest.mark.parametrize(
    ("line", "kind", "types"),
    [
        ("", Kind.DSPARK, "none,draft-dspark"),
        ("--draft-kind none", None, "none"),
        ("--draft-kind dflash", Kind.DSPARK, "none,draft-dspark"),
        ("--spec-type draft-dspark", Kind.DSPARK, "none,draft-dspark"),
        ("--spec-draft-n-max 0", None, "none"),
        ("-m DIR", None, "none"),
        ("-hf org/repo", None, "none"),
        ("-m DIR --spec-draft-n-max 8", None, "none"),
        ("-md DIR", Kind.DRAFT_MODEL, "none,draft-simple"),
        ("--spec-draft-hf a/b", Kind.DRAFT_MODEL, "none,draft-simple"),
        ("-md DIR --draft-kind auto", Kind.DRAFT_MODEL, "none,draft-simple"),
        ("-md DIR --spec-type draft-simple", Kind.DRAFT_MODEL, "none,draft-simple"),
        ("-md DIR --draft-kind draft-model --spec-type draft-simple", Kind.DRAFT_MODEL, "none,draft-simple"),
        ("-md DIR --draft-kind dflash", Kind.DFLASH, "none,draft-dflash"),
        ("-m DIR -md DIR --spec-type draft-dflash", Kind.DFLASH, "none,draft-dflash"),
        ("-m DIR -md DIR --draft-kind dspark --spec-type draft-dspark", Kind.DSPARK, "none,draft-dspark"),
        ("-m DIR -md DIR --draft-kind glimmer", Kind.GLIMMER, "none"),
        ("-m DIR --draft-kind internal-mtp", Kind.MTP, "none,draft-mtp"),
        ("-m DIR --spec-type draft-mtp", Kind.MTP, "none,draft-mtp"),
        ("--spec-type ngram-simple", Kind.PROMPT_LOOKUP, "none,ngram-simple"),
        ("--draft-kind prompt-lookup", Kind.PROMPT_LOOKUP, "none,ngram-simple"),
        ("--draft-kind prompt-lookup --spec-type ngram-simple", Kind.PROMPT_LOOKUP, "none,ngram-simple"),
        ("--spec-type none", None, "none"),
        ("--spec-type none -md DIR", None, "none"),
        ("--spec-type ngram-mod,none", None, "none"),
        ("--draft-kind none -md DIR --spec-type draft-simple", None, "none"),
        ("-md DIR --spec-draft-n-max 0", None, "none"),
        ("--draft-kind prompt-lookup --spec-draft-n-max 0", None, "none"),
    ],
)
def test_one_kind_or_none_comes_out_of_all_spellings(line: str, kind: Kind | None, types: str) -> None:
    chosen = drafting(line)
    assert (chosen.kind, chosen.types) == (kind, types)


def test_variables_choose_too() -> None:
    assert drafting(LLAMA_ARG_SPEC_TYPE="ngram-simple").kind is Kind.PROMPT_LOOKUP
    chosen = drafting(LLAMA_ARG_SPEC_DRAFT_MODEL="DIR", LLAMA_ARG_SPEC_DRAFT_N_MAX="5")
    assert (chosen.kind, chosen.model, chosen.most) == (Kind.DRAFT_MODEL, "DIR", 5)


@pytest.mark.parametrize("name", ["draft-eagle3", "ngram-map-k", "ngram-cache"])
def test_llama_servers_other_kinds_are_refused_by_name(name: str) -> None:
    said = refused(f"--spec-type {name}")
    assert said.startswith(f"--spec-type cannot be honoured: {name} is not built; draft-simple, ngram-simple,")


def test_the_checkpoint_decides_where_nobody_named_a_kind() -> None:
    assert drafting("-md DIR").auto
    assert drafting("-md DIR --draft-kind auto").auto
    assert not drafting("-md DIR --draft-kind draft-model").auto
    assert not drafting("-md DIR --spec-type draft-dflash").auto
    assert not drafting("--draft-kind prompt-lookup").auto


def test_the_default_models_drafter_is_used_only_with_the_default_model() -> None:
    assert drafting().shipped
    assert drafting("--draft-kind dspark").shipped
    for line in ("-m DIR", "-hf a/b", "-md DIR", "--draft-kind none", "--draft-kind prompt-lookup", "--spec-type none"):
        assert not drafting(line).shipped, line


def test_an_unknown_kind_has_upstreams_message() -> None:
    assert refused("--spec-type draft-mtp,magic").endswith("unknown speculative type: magic")
    assert refused("--draft-kind magic").startswith("--draft-kind takes one of auto, none, prompt-lookup, draft-model")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--draft-kind draft-model", "--draft-kind draft-model needs a draft model: give --draft-model (-md)"),
        ("--spec-type draft-simple", "--spec-type draft-simple needs a draft model: give --draft-model (-md)"),
        ("--spec-type draft-simple,ngram-simple -md DIR", "draft-simple and --spec-type ngram-simple are two drafters"),
        ("--draft-kind prompt-lookup --spec-type draft-simple -md DIR", "are two drafters: choose one"),
        ("--draft-kind prompt-lookup -md DIR", "--draft-kind prompt-lookup drafts without a model"),
        ("--spec-type ngram-simple --spec-draft-hf a/b", "--spec-type ngram-simple drafts without a model"),
        ("--draft-kind prompt-lookup --spec-type none", "prompt-lookup and --spec-type none contradict each other"),
        ("-m DIR --draft-kind dspark", "--draft-kind dspark needs a draft model: give --draft-model (-md)"),
        ("-m DIR --spec-type draft-dflash", "--spec-type draft-dflash needs a draft model: give --draft-model (-md)"),
        ("--draft-kind glimmer", "--draft-kind glimmer: the default model comes with a dspark drafter"),
        ("-md DIR --draft-kind dspark --spec-type draft-dflash", "are two drafters: choose one"),
        ("-md DIR --spec-draft-hf a/b", "--draft-model (-md) and --spec-draft-hf name two draft models"),
    ],
)
def test_what_contradicts_itself_does_not_start(line: str, said: str) -> None:
    assert said in refused(line)


# sizes


def test_a_draft_model_has_llama_servers_limits() -> None:
    chosen = drafting("-md DIR")
    assert (chosen.model, chosen.repo, chosen.most, chosen.least, chosen.p_min) == ("DIR", "", 3, 0, 0.0)
    chosen = drafting("-hfd a/b:Q4 --spec-draft-n-max 8 --spec-draft-n-min 2 --draft-p-min 0.75")
    assert (chosen.model, chosen.repo, chosen.most, chosen.least, chosen.p_min) == ("", "a/b:Q4", 8, 2, 0.75)


def test_a_limit_counts_only_if_it_was_given() -> None:
    assert not drafting("-md DIR --draft-kind dflash").limited
    assert drafting("-md DIR --draft-kind dflash --spec-draft-n-max 3").limited


def test_the_least_is_no_more_than_the_most() -> None:
    assert drafting("-md DIR --spec-draft-n-max 2 --spec-draft-n-min 5").least == 2


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("--draft-kind prompt-lookup", (3, 2, 7, 1)),
        ("--draft-kind prompt-lookup --spec-draft-n-max 3", (3, 2, 3, 1)),
        ("--draft-kind prompt-lookup --spec-ngram-simple-size-n 4", (4, 4, 7, 1)),
        ("--draft-kind prompt-lookup --spec-ngram-simple-size-m 48", (3, 2, 48, 1)),
        ("--spec-type ngram-simple", (12, 12, 48, 1)),
        ("--spec-type ngram-simple --spec-draft-n-max 3", (12, 12, 48, 1)),
        ("--spec-type ngram-simple --spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 7", (3, 3, 7, 1)),
        ("--spec-type ngram-simple --spec-ngram-simple-min-hits 2", (12, 12, 48, 2)),
    ],
)
def test_lookup_has_its_own_sizes_and_ngram_simple_llama_servers(line: str, sizes: tuple[int, ...]) -> None:
    chosen = drafting(line)
    assert (chosen.ngram_max, chosen.ngram_min, chosen.most, chosen.min_hits) == sizes


@pytest.mark.parametrize("line", ["--spec-ngram-simple-size-n 0", "--spec-ngram-simple-size-m 1025"])
def test_sizes_have_upstreams_bounds(line: str) -> None:
    assert "takes a whole number from 1 to 1024" in refused(line)


# rule, coupling, exactness


def test_the_defaults_are_lossless() -> None:
    chosen = drafting()
    assert (chosen.rule, chosen.coupled, chosen.adaptive, chosen.exactness) == (Setting.MATCH, True, True, "decided")
    assert not chosen.diagnostic


def test_flags_change_rule_coupling_pauses_and_exactness() -> None:
    chosen = drafting("--accept-rule argmax --draft-coupling off --no-prompt-lookup-adaptive --exactness bitwise")
    assert (chosen.rule, chosen.coupled, chosen.adaptive, chosen.exactness) == (Setting.ARGMAX, False, False, "bitwise")


ACCEPT, DIAG = "SPECULATIVE_STOCHASTIC_ACCEPT", "SPECULATIVE_ACCEPT_DIAG"


@pytest.mark.parametrize("word", ["1", "true", "yes", "on", "ON"])
def test_a_variable_switches_stochastic_acceptance_on(word: str) -> None:
    assert drafting(**{f"MLXCEL_{ACCEPT}": word}).rule is Setting.STOCHASTIC
    assert drafting(**{f"STOKER_{ACCEPT}": word}).rule is Setting.STOCHASTIC
    assert drafting(**{f"MLXCEL_{DIAG}": word}).diagnostic


@pytest.mark.parametrize("word", ["0", "false", "no", "off"])
def test_stokers_variable_beats_mlxcels(word: str) -> None:
    both = {f"STOKER_{ACCEPT}": word, f"MLXCEL_{ACCEPT}": "1", f"STOKER_{DIAG}": word, f"MLXCEL_{DIAG}": "1"}
    assert drafting(**both).rule is Setting.MATCH
    assert not drafting(**both).diagnostic


def test_the_flag_beats_the_variables_and_an_argument_all() -> None:
    environ = {f"STOKER_{ACCEPT}": "1", f"MLXCEL_{ACCEPT}": "1"}
    assert drafting("--accept-rule argmax", **environ).rule is Setting.ARGMAX
    assert drafting("--accept-rule sampler-match", **environ).rule is Setting.MATCH
    assert Settings(accept_rule="stochastic").drafting().rule is Setting.STOCHASTIC


@pytest.mark.parametrize("name", [f"STOKER_{ACCEPT}", f"MLXCEL_{ACCEPT}", f"STOKER_{DIAG}", f"MLXCEL_{DIAG}"])
@pytest.mark.parametrize("word", ["", "2", "enabled"])
def test_any_other_word_is_an_error_that_names_the_variable(name: str, word: str) -> None:
    assert refused("", **{name: word}) == f"{name} takes 1, true, yes, on or 0, false, no, off, not {word!r}"


def test_props_are_told_what_the_command_line_knows() -> None:
    assert drafting("--draft-kind prompt-lookup --draft-coupling off").about() == {
        "draft_kind": "prompt-lookup",
        "accept_rule": "sampler-match",
        "draft_coupling": False,
        "exactness": {"wanted": "decided"},
    }
