"""What was asked for becomes a drafter, or one clear line."""

import json
from pathlib import Path

import mlx.core as mx
import pytest

from gguf_samples import sample, write
from models import tiny
from rounds.drafters import checkpoint
from stoker.acceptance.governor import Gated, Graded
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.load import load
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.kinds import BUILDERS, Order, Subject, build, draft_model, lookup, settle
from stoker.text.tokenizer import from_source

pytestmark = pytest.mark.mlx


def subject() -> Subject:
    return Subject(Target(tiny.llama(), 2, 64), ())


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in BUILDERS])
def test_a_kind_that_is_not_built_is_refused_by_name(kind: Kind) -> None:
    with pytest.raises(StartError, match=f"{kind} is not built yet: prompt-lookup, draft-model, "):
        build(Order(Drafting(kind=kind), subject(), None))


@pytest.mark.parametrize("kind", [Kind.DFLASH, Kind.DSPARK, Kind.DRAFT_MODEL])
def test_a_kind_with_a_checkpoint_needs_one(kind: Kind) -> None:
    with pytest.raises(StartError, match="needs a draft model"):
        build(Order(Drafting(kind=kind), subject(), None))


@pytest.mark.parametrize("name", ["dflash", "dspark"])
def test_a_block_drafter_goes_by_its_checkpoint_and_no_further_than_the_user_says(name: str, tmp_path: Path) -> None:
    whole = subject()
    path = checkpoint(name, whole.target, tmp_path)
    asked = settle(Drafting(kind=Kind.DRAFT_MODEL, auto=True), path)
    assert asked.kind == name
    own = build(Order(asked, whole, path))
    assert own.drafter.kind == name
    assert own.companions == (own.drafter,)
    assert own.drafter.needs.capture == (0, 1, 3)
    assert own.drafter.needs.forwards
    assert own.drafter.width == (7 if name == "dflash" else 5)
    limited = Drafting(kind=Kind(name), most=2, limited=True)
    assert build(Order(limited, whole, path)).drafter.width == 2


def test_whoever_says_dflash_means_what_the_checkpoint_is(tmp_path: Path) -> None:
    path = checkpoint("dspark", subject().target, tmp_path)
    assert settle(Drafting(kind=Kind.DFLASH), path).kind is Kind.DSPARK
    assert settle(Drafting(kind=Kind.DSPARK), path).kind is Kind.DSPARK
    for kind in (Kind.GLIMMER, Kind.MTP, Kind.DRAFT_MODEL):
        with pytest.raises(StartError, match=rf"--draft-kind {kind}: .* is a dspark drafter"):
            settle(Drafting(kind=kind), path)


def test_a_whole_model_stays_a_draft_model(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.touch()
    for auto in (True, False):
        assert settle(Drafting(kind=Kind.DRAFT_MODEL, auto=auto), path).kind is Kind.DRAFT_MODEL
    with pytest.raises(StartError, match=r"--draft-kind dflash: .* is a draft-model drafter"):
        settle(Drafting(kind=Kind.DFLASH), path)


def test_dflash2_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["DFlash2DraftModel"], "dflash_config": {}}))
    with pytest.raises(StartError, match="DFlash2DraftModel"):
        settle(Drafting(kind=Kind.DRAFT_MODEL, auto=True), tmp_path)


def test_impossible_sizes_of_prompt_lookup_are_refused() -> None:
    with pytest.raises(StartError, match="17"):
        lookup(Drafting(kind=Kind.PROMPT_LOOKUP, ngram_max=17))


@pytest.mark.parametrize(
    ("cuda", "adaptive", "floor", "expected"),
    [
        (False, True, True, Graded(7)),
        (False, False, True, Graded(7)),
        (True, True, True, Gated(7)),
        (True, False, True, Gated(7, floor=0.0)),
        (True, True, False, Gated(7, floor=0.0)),
    ],
)
def test_the_governor_is_the_backends(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, adaptive: bool, floor: bool, expected: object
) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: cuda)
    drafter = lookup(Drafting(kind=Kind.PROMPT_LOOKUP, most=7, adaptive=adaptive), floor=floor)
    assert drafter.governor(7) == expected


def test_a_block_drafter_is_not_taken_for_a_draft_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "dflash_config": {"mask_token_id": 1}}))
    with pytest.raises(StartError, match="dflash drafter"):
        draft_model(Drafting(kind=Kind.DRAFT_MODEL), subject(), tmp_path)


def test_a_draft_model_must_share_the_targets_tokens(tmp_path: Path) -> None:
    path = tmp_path / "draft.gguf"
    write(path, sample("llama"))
    loaded = load(str(path))
    pieces = from_source(loaded.tokenizer).pieces
    target = Target(loaded.model, 1, 64)
    drafting = Drafting(kind=Kind.DRAFT_MODEL, most=2)
    assert draft_model(drafting, Subject(target, pieces), path).width == 2
    with pytest.raises(StartError, match="other tokens"):
        draft_model(drafting, Subject(target, [b"?", *pieces[1:]]), path)
