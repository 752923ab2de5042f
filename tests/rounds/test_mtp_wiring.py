"""From the command line's words to an MTP or Glimmer drafter that is probed, rehearsed, and remembered."""

from pathlib import Path

import pytest

from models import tiny
from models.nets import published
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.shelf import Subject as Measured
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.rounds.assembly import assemble
from stoker.rounds.glimmer import Glimmer
from stoker.rounds.kinds import Subject
from stoker.rounds.memory import Memory
from stoker.rounds.mtp_assistant import MtpAssistant
from stoker.rounds.mtp_heads import MtpHeads

pytestmark = pytest.mark.mlx


def memory(place: Path) -> Memory:
    return Memory(place / "cache", Measured("m", "f", "w", "d", "b", "s"))


def test_an_assistant_is_detected_rehearsed_and_its_profile_remembered(tmp_path: Path) -> None:
    path = published.gemma_assistant(tmp_path / "assistant")
    subject = Subject(Target(published.gemma_target(), 2, 128), ())
    made = assemble(Drafting(kind=Kind.DRAFT_MODEL, auto=True), subject, memory(tmp_path), find=lambda _: path)
    assert made.drafting.kind is Kind.MTP
    assert isinstance(made.speculation.drafters[Kind.MTP], MtpAssistant)
    assert made.budget is not None
    assert "mtp" in made.budget.tables
    (verdict,) = made.budget.view().verdicts
    assert (verdict.drafters, verdict.standing, verdict.requests) == ("mtp", "profiling", 0)
    assert subject.target.lengths == (0, 0)
    made.budget.profiles["mtp"].acceptance.observe(3, 3)
    made.speculation.remember(made.budget)
    again = assemble(Drafting(kind=Kind.MTP), subject, memory(tmp_path), find=lambda _: path)
    assert again.budget is not None
    assert again.budget.profiles["mtp"].acceptance.right == [1.0, 1.0, 1.0]
    drafter = again.speculation.drafters[Kind.MTP]
    assert isinstance(drafter, MtpAssistant)
    assert drafter.acceptance is again.budget.profiles["mtp"].acceptance


def test_without_a_draft_model_the_targets_own_heads_are_meant(tmp_path: Path) -> None:
    path = published.qwen_native(tmp_path / "target")
    subject = Subject(Target(published.qwen_target(), 2, 128), (), path)
    made = assemble(Drafting(kind=Kind.MTP), subject, memory(tmp_path), find=lambda _: None)
    drafter = made.speculation.drafters[Kind.MTP]
    assert isinstance(drafter, MtpHeads)
    assert made.speculation.companions == (drafter,)
    assert made.bytes_per_column == 2 * 2 * 32 * 4
    limited = assemble(Drafting(kind=Kind.MTP, most=1, limited=True), subject, memory(tmp_path), find=lambda _: None)
    assert limited.speculation.drafters[Kind.MTP].width == 1


@pytest.mark.parametrize(
    ("config", "said"), [({"model_type": "qwen3_5"}, "holds no MTP heads"), (None, "holds no MTP")]
)
def test_a_target_without_heads_is_refused_with_what_to_do(
    config: dict[str, str] | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    if config is None:
        path.write_bytes(b"GGUF")
    else:
        published.save(path, config, {"model.norm.weight": published.Numbers(1).norm(4)})
    subject = Subject(Target(published.qwen_target(), 1, 64), (), path)
    with pytest.raises(StartError, match=rf"{said}.*stoker convert --mtp"):
        assemble(Drafting(kind=Kind.MTP), subject, memory(tmp_path), find=lambda _: None)


def test_glimmer_is_built_by_its_name_and_by_what_it_is(tmp_path: Path) -> None:
    path = published.glimmer_assistant(tmp_path / "assistant")
    subject = Subject(Target(published.glimmer_target(), 1, 128), ())
    for drafting in (Drafting(kind=Kind.GLIMMER), Drafting(kind=Kind.DRAFT_MODEL, auto=True)):
        made = assemble(drafting, subject, memory(tmp_path), find=lambda _: path)
        assert isinstance(made.speculation.drafters[Kind.GLIMMER], Glimmer)
        assert made.drafting.kind is Kind.GLIMMER


def test_another_kind_than_was_named_is_refused(tmp_path: Path) -> None:
    path = published.glimmer_assistant(tmp_path / "assistant")
    with pytest.raises(StartError, match=r"--draft-kind mtp: .* is a glimmer drafter"):
        assemble(
            Drafting(kind=Kind.MTP), Subject(Target(tiny.llama(), 1, 64), ()), memory(tmp_path), find=lambda _: path
        )
