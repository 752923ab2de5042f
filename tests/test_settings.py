import math
from pathlib import Path

import pytest

from stoker.core.errors import StartError
from stoker.core.request import DEFAULT_SAMPLERS, DRY_BREAKERS, Sampling
from stoker.options.arguments import parse
from stoker.settings import Settings, disarm_mlx, environment, options, settings
from stoker.text.schema import of_schema


def typed(*words: str, **environ: str) -> Settings:
    return settings(parse(words, environ, options()).given, environ)


def warnings(*words: str, **environ: str) -> tuple[str, ...]:
    return parse(words, environ, options()).warnings


# precedence


def test_nothing_given_is_the_defaults() -> None:
    assert typed() == Settings()
    assert (typed().port, typed().n_predict, typed().samplers) == (8080, -1, DEFAULT_SAMPLERS)


def test_a_variable_beats_the_default_and_the_command_line_beats_both_with_a_warning() -> None:
    assert typed(LLAMA_ARG_PORT="81").port == 81
    assert typed("--port", "82", LLAMA_ARG_PORT="81").port == 82
    assert warnings("--port", "82", LLAMA_ARG_PORT="81") == (
        "LLAMA_ARG_PORT is set, but --port on the command line overrides it",
    )
    assert warnings(LLAMA_ARG_PORT="81") == ()


def test_api_keys_add_to_those_of_the_variable() -> None:
    both = ["--api-key", "b, c"]
    assert typed(*both, LLAMA_API_KEY="a").api_keys == ("a", "b", "c")
    assert warnings(*both, LLAMA_API_KEY="a") == ()


def test_a_repeated_option_counts_with_its_last_value_and_warns() -> None:
    assert typed("-np", "2", "--parallel", "3").n_parallel == 3
    assert warnings("-np", "2", "--parallel", "3") == (
        "--parallel is given more than once: the last value counts; this is deprecated",
    )
    assert typed("--api-key", "a", "--api-key", "b", LLAMA_API_KEY="e").api_keys == ("e", "b")


def test_options_without_a_comma_form_collect() -> None:
    chosen = typed("-r", "a,b", "-r", "c", "-l", "5+1", "-l", "6-0.5,7-inf")
    assert chosen.stop == ("a,b", "c")
    assert chosen.logit_bias == ((5, 1.0), (6, -0.5), (7, -math.inf))
    assert warnings("-r", "a", "-r", "b") == ()


def test_of_two_options_for_one_field_the_last_one_counts(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages }}", encoding="utf-8")
    assert typed("--samplers", "top_k", "--sampler-seq", "pt").samplers == ("top_p", "temperature")
    assert typed("--sampler-seq", "pt", "--samplers", "top_k").samplers == ("top_k",)
    assert typed("--chat-template-file", str(template), LLAMA_ARG_CHAT_TEMPLATE="x").chat_template == "{{ messages }}"
    assert typed("-v", "-lv", "1").verbosity == 1
    assert typed("-lv", "1", "--verbose").verbosity > 5


def test_a_grammar_comes_as_gbnf_or_schema_as_text_or_file(tmp_path: Path) -> None:
    gbnf, schema = tmp_path / "x.gbnf", tmp_path / "x.json"
    gbnf.write_text('root ::= "a"\n', encoding="utf-8")
    schema.write_text('{"type": "null"}', encoding="utf-8")
    assert typed().grammar == ""
    assert typed("--grammar", 'root ::= "\\n"').grammar == 'root ::= "\\n"', "no escapes but its own"
    assert typed("--grammar-file", str(gbnf)).grammar == 'root ::= "a"\n'
    assert typed("-j", '{"type": "null"}').grammar == typed("-jf", str(schema)).grammar == of_schema({"type": "null"})
    assert typed("--json-schema", "{}", "--grammar", "x").grammar == "x"
    for words in (("-j", "[]"), ("--json-schema", "{"), ("-jf", str(gbnf))):
        with pytest.raises(StartError, match=f"{words[0]} takes a"):
            typed(*words)


# words


def test_values_may_begin_with_a_dash() -> None:
    chosen = typed("-n", "-1", "--seed", "-1", "--chat-template", "--x", "--api-key", "-k", "-r", "-m")
    assert (chosen.chat_template, chosen.api_keys, chosen.stop, chosen.model) == ("--x", ("-k",), ("-m",), "")


def test_a_single_dash_spelling_is_a_whole_word() -> None:
    assert typed("-np", "3").n_parallel == 3
    for cluster in ("-np3", "-n4", "-nx"):
        with pytest.raises(StartError, match=f"^invalid argument: {cluster}"):
            typed(cluster)


def test_long_spellings_may_be_written_with_underscores() -> None:
    assert typed("--ctx_size", "64").n_ctx == 64


def test_a_misspelt_option_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(StartError, match=r"^invalid argument: --paralel \(did you mean --parallel\?\)$"):
        typed("--paralel", "4")


def test_a_missing_value_names_the_option_and_the_domain() -> None:
    with pytest.raises(StartError, match=r"^--port needs a value: a whole number from 0 to 65535$"):
        typed("--port")


# switches and pairs


@pytest.mark.parametrize("text", ["on", "enabled", "true", "1"])
def test_four_words_switch_a_variable_on(text: str) -> None:
    assert typed(LLAMA_ARG_ENDPOINT_METRICS=text).metrics is True
    assert typed(LLAMA_ARG_ENDPOINT_SLOTS=text).slots is True


@pytest.mark.parametrize("text", ["ON", "True", "yes", "", "0", "off"])
def test_any_other_word_leaves_a_plain_switch_alone(text: str) -> None:
    assert typed(LLAMA_ARG_ENDPOINT_METRICS=text).metrics is False


@pytest.mark.parametrize("text", ["off", "disabled", "false", "0"])
def test_four_words_switch_a_pair_off(text: str) -> None:
    assert typed(LLAMA_ARG_ENDPOINT_SLOTS=text).slots is False


@pytest.mark.parametrize("text", ["OFF", "no", ""])
def test_a_pair_refuses_any_other_word(text: str) -> None:
    with pytest.raises(StartError, match=r"^LLAMA_ARG_JINJA takes one of on, .*, not"):
        typed(LLAMA_ARG_JINJA=text)


def test_a_present_no_variable_means_off_whatever_it_says_and_is_looked_at_first() -> None:
    for text in ("", "0", "false", "on"):
        assert typed(LLAMA_ARG_NO_JINJA=text, LLAMA_ARG_JINJA="on").jinja is False
    assert typed("--jinja", LLAMA_ARG_NO_JINJA="1").jinja is True


def test_both_spellings_of_a_pair_work_and_the_last_one_counts() -> None:
    assert typed("--no-slots").slots is False
    assert typed("-nocb").cont_batching is False
    assert typed("--no-slots", "--slots").slots is True
    assert typed("--no-webui").ui is False


# domains


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "70000"), "--port takes a whole number from 0 to 65535, not '70000'"),
        (("--port", "8o"), "--port takes a whole number from 0 to 65535, not '8o'"),
        (("-np", "0"), "-np takes a whole number, at least -1, not 0, not '0'"),
        (("-c", "-1"), "-c takes a whole number, at least 0, not '-1'"),
        (("-c", "1_000"), "-c takes a whole number, at least 0, not '1_000'"),
        (("--temp", "hot"), "--temp takes a number, not 'hot'"),
        (("--temp", "1_0"), "--temp takes a number, not '1_0'"),
        (("--temp", "nan"), "--temp takes a number, not 'nan'"),
        (("-sps", "2"), "-sps takes a number from 0 to 1, not '2'"),
        (("--dry-base", "0.5"), "--dry-base takes a number, at least 1, not '0.5'"),
        (("--seed", "4294967296"), "--seed takes a whole number from -1 to 4294967295, not '4294967296'"),
        (("--mirostat", "3"), "--mirostat takes a whole number from 0 to 2, not '3'"),
        (("--log-colors", "pink"), "--log-colors takes on, off or auto, not 'pink'"),
        (("--chat-template-kwargs", "[1]"), "--chat-template-kwargs takes a JSON object, not '[1]'"),
        (("--chat-template-kwargs", "{"), "--chat-template-kwargs takes a JSON object, not '{'"),
        (("-l", "x+1"), "-l takes a token id, a sign and an amount (15043+1), not 'x+1'"),
        (("--sampler-seq", "kz"), "--sampler-seq takes letters out of edskypmxta, not 'kz'"),
    ],
)
def test_a_value_outside_its_domain_is_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(StartError) as refusal:
        typed(*words)
    assert str(refusal.value) == message


def test_a_variable_outside_its_domain_is_refused_by_its_own_name() -> None:
    with pytest.raises(StartError, match=r"^LLAMA_ARG_PORT takes a whole number from 0 to 65535, not ''$"):
        typed(LLAMA_ARG_PORT="")


@pytest.mark.parametrize("value", [70000, True, "8080"])
def test_settings_made_in_code_are_checked_too(value: object) -> None:
    with pytest.raises(StartError, match=r"^--port takes a whole number from 0 to 65535, not"):
        Settings(port=value)  # pyright: ignore[reportArgumentType]


def test_values_that_a_request_would_clamp_are_clamped_here_too() -> None:
    chosen = typed("--temp", "-1", "--top-k", "-5", "--top-p", "2", "--adaptive-target", "3")
    assert (chosen.temperature, chosen.top_k, chosen.top_p, chosen.adaptive_target) == (0, 0, 1, 1)


def test_an_unknown_sampler_is_refused_and_other_names_are_understood() -> None:
    assert typed("--samplers", "top-k;nucleus; temp;adaptive-p").samplers == (
        *("top_k", "top_p", "temperature", "adaptive_p"),
    )
    with pytest.raises(StartError, match=r"^--samplers takes names out of penalties, .*, not 'top_k;magic'$"):
        typed("--samplers", "top_k;magic")


def test_on_and_off_have_upstreams_other_words() -> None:
    assert [typed("--log-colors", w).log_colors for w in ("1", "disabled", "-1")] == ["on", "off", "auto"]


def test_tls_needs_both_halves() -> None:
    assert typed("--ssl-key-file", "k", "--ssl-cert-file", "c").ssl_key_file == "k"
    with pytest.raises(StartError, match=r"--ssl-cert-file need each other"):
        typed("--ssl-key-file", "k")


def test_a_file_of_a_repository_needs_the_repository() -> None:
    with pytest.raises(StartError, match=r"give --hf-repo too"):
        typed("--hf-file", "x.gguf")


# files


def test_a_key_file_adds_its_lines_without_comments(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# ours\nk1\n\n  k2 \n", encoding="utf-8")
    assert typed("--api-key", "k0", "--api-key-file", str(keys)).keys == ("k0", "k1", "k2")


def test_a_file_that_cannot_be_read_is_named_with_its_option(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(StartError, match=f"^--api-key-file: cannot read {missing}: No such file or directory$"):
        typed("--api-key-file", str(missing))


# what is made of them


def test_the_default_chain_is_upstreams() -> None:
    assert Settings().sampling() == Sampling(seed=4294967295)


def test_the_chain_takes_every_sampling_option() -> None:
    chain = typed("--seed", "7", "--temp", "0.5", "--min-p", "0.2", "-l", "5+1", "--sampler-seq", "mt").sampling()
    assert (chain.seed, chain.temperature, chain.min_p) == (7, 0.5, 0.2)
    assert (chain.logit_bias, chain.samplers) == (((5, 1.0),), ("min_p", "temperature"))


def test_breakers_replace_the_default_ones_and_none_clears_them() -> None:
    assert Settings().sampling().dry_sequence_breakers == DRY_BREAKERS
    assert typed("--dry-sequence-breaker", "none").sampling().dry_sequence_breakers == ()
    two = typed("--dry-sequence-breaker", r"\n", "--dry-sequence-breaker", ";").sampling()
    assert two.dry_sequence_breakers == ("\n", ";")


def test_escapes_are_read_unless_switched_off() -> None:
    assert typed("-r", r"a\n\x41\\\q").stop == ("a\nA\\\\q",)
    assert typed("-r", r"a\n", "--no-escape").stop == (r"a\n",)


@pytest.mark.parametrize(
    ("words", "slots", "context"),
    [
        ((), 4, 2048),
        (("-np", "2"), 2, 1024),
        (("-np", "2", "-c", "600"), 2, 300),
        (("-np", "2", "-kvu"), 2, 2048),
        (("-no-kvu",), 4, 512),
    ],
)
def test_the_context_is_shared_by_the_slots_unless_unified(words: tuple[str, ...], slots: int, context: int) -> None:
    chosen = typed(*words)
    assert (chosen.n_slots, chosen.slot_context(trained=2048)) == (slots, context)


def test_lists_are_split_at_commas_outside_quotes() -> None:
    assert typed("-a", 'a, "b,c",,', "--tags", "x").alias == ("a", "b,c")


def test_the_cache_directory_follows_xdg_where_it_is_absolute() -> None:
    assert typed(XDG_CACHE_HOME="/var/cache").cache_dir == "/var/cache/stoker"
    assert typed(XDG_CACHE_HOME="relative").cache_dir == typed().cache_dir == "~/.cache/stoker"


def test_the_slots_debug_variable_is_read() -> None:
    assert typed(LLAMA_SERVER_SLOTS_DEBUG="1").slots_debug is True
    assert typed(LLAMA_SERVER_SLOTS_DEBUG="0").slots_debug is typed().slots_debug is False


def test_the_folder_of_slot_files_must_be_there(tmp_path: Path) -> None:
    assert typed("--slot-save-path", str(tmp_path)).slot_save_path == str(tmp_path)
    with pytest.raises(StartError, match=r"^--slot-save-path: .*none is not a directory; make it first$"):
        typed("--slot-save-path", str(tmp_path / "none"))


def test_secrets_stay_out_of_the_repr() -> None:
    assert "s3cret" not in repr(typed("--api-key", "s3cret", "-hft", "s3cret"))


def test_the_environment_is_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_PORT", "99")
    assert environment()["LLAMA_ARG_PORT"] == "99"


# MLX's own variables


def test_mlxs_fuse_for_cache_misses_is_off_unless_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLX_ENABLE_CACHE_THRASHING_CHECK", raising=False)
    disarm_mlx()
    assert environment()["MLX_ENABLE_CACHE_THRASHING_CHECK"] == "0"
    monkeypatch.setenv("MLX_ENABLE_CACHE_THRASHING_CHECK", "1")
    disarm_mlx()
    assert environment()["MLX_ENABLE_CACHE_THRASHING_CHECK"] == "1"
