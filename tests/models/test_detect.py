"""The table of spec/drafters.md section 8, in its order, over configurations and tensor names."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.models.detect import Detected, detect, inspect, require_whole

QWEN3: dict[str, Any] = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64}
WHOLE = ("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight")

TABLE: dict[str, tuple[dict[str, Any], Kind]] = {
    "gemma": ({"model_type": "gemma4_assistant"}, Kind.MTP),
    "gemma, unified": ({"model_type": "gemma4_unified_assistant", "block_size": 4}, Kind.MTP),
    "glimmer by type": ({"model_type": "muse_glimmer_assistant"}, Kind.GLIMMER),
    "glimmer by architecture": ({**QWEN3, "architectures": ["MuseGlimmerAssistantModel"]}, Kind.GLIMMER),
    "glimmer before dflash": ({"model_type": "muse_glimmer_assistant", "dflash_config": {}}, Kind.GLIMMER),
    "qwen sidecar": ({"model_type": "qwen3_5_mtp"}, Kind.MTP),
    "dspark by rank": ({**QWEN3, "markov_rank": 256}, Kind.DSPARK),
    "dspark by nested rank": ({**QWEN3, "dflash_config": {"markov_rank": 8}}, Kind.DSPARK),
    "dspark by projector": ({**QWEN3, "projector_type": "dspark"}, Kind.DSPARK),
    "dspark, lfm2": ({"model_type": "lfm2", "architectures": ["Lfm2DSparkDraftModel"]}, Kind.DSPARK),
    "dspark, qwen3": ({**QWEN3, "architectures": ["Qwen3DSparkModel"], "dflash_config": {}}, Kind.DSPARK),
    "dflash by config": ({**QWEN3, "dflash_config": {}}, Kind.DFLASH),
    "dflash by architecture": ({**QWEN3, "architectures": ["DFlashDraftModel"]}, Kind.DFLASH),
    "rank zero": ({**QWEN3, "markov_rank": 0, "dflash_config": {"markov_rank": True}}, Kind.DFLASH),
    "an ordinary small model": (QWEN3, Kind.DRAFT_MODEL),
    "architecture as a string": ({**QWEN3, "architectures": "DFlashDraftModel"}, Kind.DRAFT_MODEL),
    "dflash_config as a scalar": ({**QWEN3, "dflash_config": "yes"}, Kind.DRAFT_MODEL),
    "nothing": ({}, Kind.DRAFT_MODEL),
}


@pytest.mark.parametrize(("config", "kind"), TABLE.values(), ids=TABLE)
def test_a_configuration_is_of_its_kind(config: dict[str, Any], kind: Kind) -> None:
    found = detect(config, WHOLE)
    assert found.kind is kind
    assert found.standalone is (kind is Kind.DRAFT_MODEL)
    assert found.evidence


def test_mtp_tensors_count_when_they_are_there_and_flags_do_not() -> None:
    config = {"model_type": "qwen3_5", "mtp_num_hidden_layers": 1}
    assert detect(config, WHOLE).kind is Kind.DRAFT_MODEL
    with_head = detect(config, (*WHOLE, "mtp.fc.weight"))
    assert (with_head.kind, with_head.standalone) == (Kind.MTP, True), "a whole model that brings its own head"
    assert detect(config, ("language_model.mtp.fc.weight",)) == Detected(Kind.MTP, "mtp.* tensors", standalone=False)
    assert detect(config, (*WHOLE, "model.amtp.fc.weight")).kind is Kind.DRAFT_MODEL


def test_the_second_dflash_is_known_and_refused() -> None:
    found = detect({**QWEN3, "architectures": ["DFlash2DraftModel"]})
    assert (found.kind, found.standalone) == (Kind.DFLASH, False)
    assert "DFlash2DraftModel" in found.refused
    assert not detect({**QWEN3, "architectures": ["DFlashDraftModel"]}).refused


@pytest.mark.parametrize(
    ("config", "size"),
    [({"block_size": 16}, 16), ({"block_size": 16, "dflash_config": {"block_size": 8}}, 8), ({}, None)],
)
def test_the_block_size_is_the_configurations_and_a_nested_one_wins(config: dict[str, Any], size: int | None) -> None:
    assert detect(config).block_size == size


def directory(place: Path, config: object, *names: str) -> Path:
    """A checkpoint whose weights are empty but named."""
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config), "utf-8")
    header = json.dumps({name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in names}).encode()
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return place


def test_names_are_read_from_the_files_and_not_from_their_index(tmp_path: Path) -> None:
    here = directory(tmp_path / "a", {"model_type": "qwen3_5"}, *WHOLE)
    (here / "model.safetensors.index.json").write_text(
        '{"weight_map": {"mtp.fc.weight": "model.safetensors"}}', "utf-8"
    )
    assert inspect(here).kind is Kind.DRAFT_MODEL
    assert inspect(directory(tmp_path / "b", {"model_type": "qwen3_5"}, *WHOLE, "mtp.fc.weight")).kind is Kind.MTP


def test_names_of_folders_decide_nothing(tmp_path: Path) -> None:
    assert inspect(directory(tmp_path / "Qwen3-DFlash", QWEN3, *WHOLE)).kind is Kind.DRAFT_MODEL


@pytest.mark.parametrize("damage", [b"", b"\x10\x00\x00\x00\x00\x00\x00\x00{", b"\xff" * 16])
def test_a_damaged_weight_file_is_left_to_the_loader(damage: bytes, tmp_path: Path) -> None:
    here = directory(tmp_path / "m", QWEN3)
    (here / "model.safetensors").write_bytes(damage)
    assert inspect(here).kind is Kind.DRAFT_MODEL


def test_a_file_is_a_whole_model(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    assert inspect(tmp_path / "m.gguf").standalone


def test_a_configuration_that_is_no_object_is_an_empty_one(tmp_path: Path) -> None:
    assert inspect(directory(tmp_path / "m", [])).kind is Kind.DRAFT_MODEL


def test_what_is_not_there_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no model at"):
        inspect(tmp_path / "none")
    here = directory(tmp_path / "m", QWEN3)
    (here / "config.json").write_text("{", "utf-8")
    with pytest.raises(StartError, match=r"config\.json is no JSON"):
        inspect(here)


def test_a_drafter_is_no_target_and_the_line_says_what_it_is(tmp_path: Path) -> None:
    here = directory(tmp_path / "m", {**QWEN3, "dflash_config": {}})
    with pytest.raises(StartError, match=r"is not a standalone model but a dflash drafter .*stoker-server"):
        require_whole(here)
    require_whole(directory(tmp_path / "whole", QWEN3, *WHOLE))
