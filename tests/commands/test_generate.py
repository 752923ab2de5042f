"""`stoker generate` on a tiny model: what it prints, what it refuses before it loads, and who decides the rule."""

import argparse
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gguf_samples import sample, write
from logging_state import kept_logging
from stoker import cli
from stoker.acceptance.select import Setting
from stoker.commands import generate as module
from stoker.commands.convert import convert
from stoker.commands.generate import Generated, encode, fitted, generate, read_job
from stoker.commands.generate_job import SERVED, Job, choose_rule, resolve
from stoker.core.counters import DraftCounters
from stoker.core.errors import StartError
from stoker.core.request import Sampling
from stoker.models.load import load
from stoker.text.tokenizer import from_source

pytestmark = pytest.mark.mlx

SUMMARY = re.compile(
    r"\[Speculative acceptance\] rule=(?P<rule>\S+) rounds=\d+ proposed=\d+ positions_tested=\d+ accepted=\d+ "
    r"per_position_acceptance=\d\.\d{4} acceptance_rate=\d\.\d{4} mean_accepted_len=\d+\.\d{4} "
    r"proposals=(?P<proposals>\S+) \(.+\)"
)
DIAGNOSTIC = re.compile(
    r"\[Speculative acceptance diagnostic\] closed_form_sum_min=\d\.\d{4} closed_form_sum_prod=\d\.\d{4} "
    r"closed_form_coupled=\d\.\d{4} \(.+\)"
)
WARM = Sampling(seed=3, temperature=2.0, top_k=0, top_p=1.0, min_p=0.0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and its first layer as a draft model."""
    place = tmp_path_factory.mktemp("models")
    path = write(place / "m.gguf", sample("llama"))
    convert(str(path), place / "draft", layers=1)
    return path, place / "draft"


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    variables = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    for name in ("STOKER_", "MLXCEL_"):
        for what in ("SPECULATIVE_STOCHASTIC_ACCEPT", "SPECULATIVE_ACCEPT_DIAG"):
            monkeypatch.delenv(name + what, raising=False)
    for name in ("STOKER_LOG", "RUST_LOG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    with kept_logging():
        yield


def job(files: tuple[Path, Path], **more: Any) -> Job:
    return Job(**{"prompt": "ab ab ab", "model": str(files[0]), "count": 30, "sampling": WARM} | more)


def drafted(files: tuple[Path, Path], **more: Any) -> Job:
    return job(files, **{"draft_model": str(files[1]), "draft_tokens": 4} | more)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """Exit status, lines on standard output, and standard error of the command."""
    status = cli.main(["generate", *words])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


# the text


def test_a_plain_run_prints_the_text_alone(
    files: tuple[Path, Path], environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = said(capsys, "-m", str(files[0]), "-p", "ab ab", "-n", "12", "--temp", "0")
    assert status == 0
    text = generate(job(files, prompt="ab ab", count=12, sampling=Sampling(temperature=0)), environ=environ).text
    assert "\n".join(out) == text
    assert err == ""


def test_drafting_changes_no_token_under_sampler_match(files: tuple[Path, Path], environ: dict[str, str]) -> None:
    plain = generate(job(files), environ=environ)
    assert plain.lines == ()
    for made in (drafted(files), drafted(files, coupled=False), job(files, prompt_lookup=True)):
        assert generate(made, environ=environ).tokens == plain.tokens


def test_stochastic_repeats_itself_at_an_equal_seed_and_all_rules_agree_at_temperature_0(
    files: tuple[Path, Path], environ: dict[str, str]
) -> None:
    first = generate(drafted(files), stochastic=True, environ=environ)
    assert generate(drafted(files), stochastic=True, environ=environ).tokens == first.tokens
    cold = Sampling(temperature=0)
    greedy = [generate(drafted(files, sampling=cold), stochastic=s, environ=environ) for s in (True, False)]
    assert greedy[0] == greedy[1]
    assert "rule=greedy-argmax" in greedy[0].lines[0]


def test_the_template_is_used_unless_it_is_declined(files: tuple[Path, Path]) -> None:
    tokenizer = from_source(load(str(files[0])).tokenizer)
    template = "<|im_start|>{{ messages[0]['content'] }}<|im_end|>"
    plain = tuple(tokenizer.encode("ab", add_special=True, parse_special=True))
    framed = tuple(tokenizer.encode("<|im_start|>ab<|im_end|>", add_special=True, parse_special=True))
    assert encode(Job(prompt="ab", chat=False), tokenizer, template) == plain
    assert encode(Job(prompt="ab"), tokenizer, template) == framed != plain


def test_the_text_is_written_as_it_comes(files: tuple[Path, Path], environ: dict[str, str]) -> None:
    heard: list[str] = []
    made = generate(job(files, count=5), environ=environ, write=heard.append)
    assert "".join(heard) == made.text
    assert len(heard) == len(made.tokens) <= 5


# what is printed around it


def test_a_draft_model_is_announced_and_summed_up(
    files: tuple[Path, Path], environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", str(files[0]), "--draft-model", str(files[1]), "--num-draft-tokens", "4", "-p", "ab ab", "-n", "9"]
    status, out, err = said(capsys, *words, "--seed", "1")
    assert (status, err) == (0, "")
    assert out[0] == "Resolved drafter kind: draft-model (block_size = 4, flag)"
    assert out[1].startswith("Drafter kind was auto-detected only; running the draft-model round loop")
    match = SUMMARY.fullmatch(out[-1])
    assert match
    assert (match["rule"], match["proposals"]) == ("sampler-match", "coupled")


def test_an_explicit_kind_has_no_second_line_and_the_default_width_says_so(
    files: tuple[Path, Path], environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-m", str(files[0]), "-p", "ab ab", "-n", "3", "--draft-model", str(files[1])]
    out = said(capsys, *words, "--draft-kind", "draft-model", "--accept-rule", "stochastic", "--seed", "1")[1]
    assert out[0] == "Resolved drafter kind: draft-model (block_size = 3, default)"
    assert "auto-detected" not in "".join(out)
    assert SUMMARY.fullmatch(out[-1])["rule"] == "stochastic"  # type: ignore[index]
    out = said(capsys, "-m", str(files[0]), "-p", "zq", "-n", "1", "--prompt-lookup", "--seed", "1")[1]
    assert out[0] == "Resolved drafter kind: prompt-lookup (block_size = 7, default)"
    assert "rounds=0 proposed=0 positions_tested=0 accepted=0 per_position_acceptance=0.0000" in out[-1]
    assert "proposals=one-hot" in out[-1]


@pytest.mark.parametrize(
    ("coupling", "rule", "proposals"),
    [("on", "sampler-match", "coupled"), ("off", "sampler-match", "independent"), ("on", "stochastic", "independent")],
)
def test_the_line_tells_the_arms_of_a_comparison_apart(
    coupling: str, rule: str, proposals: str, files: tuple[Path, Path], environ: dict[str, str]
) -> None:
    made = generate(drafted(files, coupled=coupling == "on", rule=Setting(rule)), environ=environ)
    match = SUMMARY.fullmatch(made.lines[0])
    assert match
    assert (match["rule"], match["proposals"]) == (rule, proposals)


@pytest.mark.parametrize("prefix", ["STOKER_", "MLXCEL_"])
def test_the_diagnostic_adds_its_line(prefix: str, files: tuple[Path, Path], environ: dict[str, str]) -> None:
    switched = {**environ, f"{prefix}SPECULATIVE_ACCEPT_DIAG": "1"}
    made = generate(drafted(files), environ=switched)
    assert DIAGNOSTIC.fullmatch(made.lines[1])
    assert made.averages is not None
    assert made.averages.positions == made.counters.tested > 0
    assert len(generate(drafted(files), environ=environ).lines) == 1


# who decides the rule


def test_argument_before_flag_before_stoker_before_mlxcel_before_the_default() -> None:
    ours, theirs = "STOKER_SPECULATIVE_STOCHASTIC_ACCEPT", "MLXCEL_SPECULATIVE_STOCHASTIC_ACCEPT"
    match, stochastic = Setting.MATCH, Setting.STOCHASTIC
    assert choose_rule(None, None, {}) is match
    assert choose_rule(None, None, {theirs: "on"}) is stochastic
    assert choose_rule(None, None, {ours: "0", theirs: "yes"}) is match
    assert choose_rule(None, match, {ours: "true"}) is match
    assert choose_rule(None, Setting.ARGMAX, {ours: "true"}) is Setting.ARGMAX
    assert choose_rule(True, match, {ours: "0"}) is stochastic
    assert choose_rule(False, stochastic, {ours: "1"}) is match


# refusals


@pytest.mark.parametrize("kind", SERVED)
def test_a_kind_that_only_the_server_runs_ends_in_a_line_that_names_it(
    kind: str, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = said(capsys, "-m", "nowhere", "-p", "a", "--draft-kind", kind)
    assert (status, out) == (1, [])
    assert err.count("\n") == 1
    assert kind in err
    assert "stoker-server" in err


@pytest.mark.parametrize("words", [[], ["--draft-kind", "draft-model"], ["--draft-kind", "none"]])
def test_a_block_checkpoint_is_refused_with_and_without_a_kind_before_any_load(
    words: list[str], tmp_path: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"model_type": "qwen3", "architectures": ["DFlashDraftModel"], "dflash_config": {"mask_token_id": 4}}
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "config.json").write_text(json.dumps(config), "utf-8")
    status, out, err = said(capsys, "-m", "nowhere", "-p", "a", "--draft-model", str(tmp_path / "d"), *words)
    assert (status, out) == (1, [])
    assert err.count("\n") == 1
    assert "dflash" in err
    assert "stoker-server" in err
    status, out, err = said(capsys, "-m", str(tmp_path / "d"), "-p", "a")
    assert (status, out) == (1, [])
    assert "is not a standalone model" in err


def test_an_ordinary_small_model_of_that_family_drafts(tmp_path: Path, environ: dict[str, str]) -> None:
    path = write(tmp_path / "q.gguf", sample("qwen3"))
    convert(str(path), tmp_path / "small", layers=1)
    made = generate(job((path, tmp_path / "small"), draft_model=str(tmp_path / "small"), count=6), environ=environ)
    assert made.run is not None


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"draft_kind": "draft-model"}, "needs a draft model"),
        ({"prompt_lookup": True, "draft_model": "DRAFT"}, "drafts without a model"),
        ({"prompt_lookup": True, "draft_kind": "none"}, "two drafters"),
        ({"draft_model": "nowhere"}, "no model at nowhere"),
        ({"model": "nowhere"}, "no model at nowhere"),
        ({"prompt": "", "chat": False}, "holds no token"),
        ({"prompt": "ab " * 600}, "context 512: shorten"),
    ],
)
def test_what_cannot_be_done_ends_in_one_line(
    more: dict[str, Any], complaint: str, files: tuple[Path, Path], environ: dict[str, str]
) -> None:
    more = {name: str(files[1]) if value == "DRAFT" else value for name, value in more.items()}
    with pytest.raises(StartError, match=complaint):
        generate(job(files, **more), environ=environ)


def test_no_proposals_is_no_drafter(files: tuple[Path, Path], environ: dict[str, str]) -> None:
    assert resolve(drafted(files, draft_tokens=0), None, environ).lines == ()
    assert generate(drafted(files, draft_tokens=0, count=3), environ=environ).run is None


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(["-p", "x", *words])


def test_the_words_become_a_job() -> None:
    made = read_job(arguments("--temp", "0.5", "--top-k", "3", "--top-p", "0.8", "--min-p", "0", "--seed", "9"))
    assert made.sampling == Sampling(seed=9, temperature=0.5, top_k=3, top_p=0.8, min_p=0.0)
    assert (made.rule, made.coupled, made.draft_tokens, made.chat) == (None, True, None, True)
    made = read_job(arguments("--accept-rule", "argmax", "--draft-coupling", "off", "--no-chat-template"))
    assert (made.rule, made.coupled, made.chat) == (Setting.ARGMAX, False, False)
    assert read_job(arguments()).sampling.seed != read_job(arguments()).sampling.seed


@pytest.mark.parametrize("words", [("-n", "0"), ("-n", "-2"), ("--num-draft-tokens", "-1")])
def test_numbers_that_make_no_job_are_refused(words: tuple[str, str]) -> None:
    with pytest.raises(StartError, match=words[0]):
        read_job(arguments(*words))


def test_an_answer_without_a_limit_fills_the_context_and_no_more() -> None:
    asked = Job(prompt="", count=-1)
    assert fitted(asked, (1, 2, 3), 10).count == 7
    assert fitted(Job(prompt="", count=50), (1, 2, 3), 10).count == 7
    assert fitted(Job(prompt="", count=50), (1, 2, 3), 0).count == 50
    assert fitted(asked, (1, 2, 3), 0).count > 1000


def test_a_run_that_could_not_draft_has_no_lines() -> None:
    assert Generated("", (), None, DraftCounters(), None).lines == ()


# tracing


def test_tracing_says_rule_detection_and_end_on_standard_error_and_leaves_standard_output_alone(
    files: tuple[Path, Path],
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["-m", str(files[0]), "--draft-model", str(files[1]), "-p", "ab ab", "-n", "9", "--seed", "1"]
    quiet = said(capsys, *words)
    assert quiet[2] == ""
    monkeypatch.setenv("STOKER_LOG", "info")
    with kept_logging():
        status, out, err = said(capsys, *words)
    assert (status, out) == (0, quiet[1])
    assert err.count("speculative acceptance rule active: draft-model sampler-match") == 1
    assert err.count("speculative decode finished: rule=sampler-match rounds=") == 1
    assert err.count("drafter kind detected: draft-model") == 1
    assert logging.getLogger().level != logging.DEBUG
