import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from gguf_samples import ARCHITECTURES, Kind, logits, sample, write
from stoker.commands import convert as module
from stoker.commands.convert import convert
from stoker.core.errors import StartError
from stoker.models.load import load
from stoker.text.tokenizer import from_source

pytestmark = pytest.mark.mlx


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("packed", [False, True], ids=["float32", "packed"])
def test_mlx_lm_loads_what_was_written_and_computes_the_same(architecture: str, packed: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", sample(architecture), {"embd": Kind.Q8_0, "ffn": Kind.Q4_0})
    convert(str(path), tmp_path / "out", packed=packed)
    theirs, tokenizer = mlx_lm.load(str(tmp_path / "out"))[:2]
    ours = load(str(path), packed=packed)
    np.testing.assert_array_equal(logits(theirs), logits(ours.model))
    assert tokenizer.eos_token_ids == set(from_source(ours.tokenizer).end_ids)
    assert ("quantization" in json.loads((tmp_path / "out" / "config.json").read_text())) is packed


def test_the_written_tokenizer_and_template_are_the_files(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", sample("llama"), metadata={"tokenizer.ggml.add_bos_token": True})
    convert(str(path), tmp_path / "out")
    theirs: Any = mlx_lm.load(str(tmp_path / "out"))[1]
    ours = from_source(load(str(path)).tokenizer)
    for text in ("ab ab", "<|im_start|>ab<|im_end|>", "Zz"):
        for special in (True, False):
            ids = ours.encode(text, add_special=special, parse_special=True)
            assert theirs.encode(text, add_special_tokens=special) == ids
            assert theirs.decode(ids).encode() == ours.decode(ids)
    assert theirs.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi"
    assert from_source(tmp_path / "out").end_ids == ours.end_ids


def test_the_first_layers_make_a_smaller_model(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", sample("llama"))
    convert(str(path), tmp_path / "out", layers=1)
    theirs: Any = mlx_lm.load(str(tmp_path / "out"))[0]
    assert len(theirs.layers) == 1
    np.testing.assert_array_equal(logits(theirs), logits(load(str(path), layers=1, packed=False).model))


def test_a_directory_can_be_converted_again(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", sample("qwen3"), {"blk": Kind.Q4_1})
    convert(str(path), tmp_path / "packed", packed=True)
    convert(str(tmp_path / "packed"), tmp_path / "float", layers=1)
    theirs, tokenizer = mlx_lm.load(str(tmp_path / "float"))[:2]
    # What stood beside the packed weights went through float16.
    whole = load(str(path), layers=1, packed=False).model
    np.testing.assert_allclose(logits(theirs), logits(whole), rtol=0.01, atol=0.01)
    assert tokenizer.encode("ab ab") == from_source(tmp_path / "packed").encode(
        "ab ab", add_special=True, parse_special=True
    )
    assert load(str(tmp_path / "float")).template == "{{ messages[0]['content'] }}"


def test_the_command_line_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    path = write(tmp_path / "m.gguf", sample("llama"), {"blk": Kind.Q8_0})
    line = ["-m", str(path), "--out", str(tmp_path / "out"), "--layers", "1", "--dtype", "packed"]
    assert module.run(parser.parse_args(line)) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'out'}\n"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["quantization"]["bits"] == 8


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(StartError, match="is not an empty directory"):
        convert("any.gguf", tmp_path / "out")
    (tmp_path / "file").touch()
    path = write(tmp_path / "m.gguf", sample("llama"))
    with pytest.raises(StartError, match="cannot write"):
        convert(str(path), tmp_path / "file" / "out")


@pytest.mark.smollm2
def test_smollm2_says_the_same_before_and_after(smollm2_path: Path, tmp_path: Path) -> None:
    convert(str(smollm2_path), tmp_path / "out", packed=True)
    theirs, tokenizer = mlx_lm.load(str(tmp_path / "out"))[:2]
    prompt = "<|im_start|>user\nThe capital of France is 12345  don't\n\n"
    ids = from_source(tmp_path / "out").encode(prompt, add_special=True, parse_special=True)
    assert tokenizer.encode(prompt) == ids
    ours = load(str(smollm2_path), packed=True)
    for model in (theirs, ours.model):
        model.set_dtype(mx.float32)  # MLX multiplies float16 very slowly on a CPU
    ids = tokenizer.encode("The capital of France is")
    said = _greedy(theirs, ids)
    assert said == _greedy(ours.model, ids)
    assert tokenizer.decode(said).startswith(" Paris.")
    shutil.rmtree(tmp_path / "out")


def _greedy(model: Any, prompt: list[int], count: int = 3) -> list[int]:
    cache = make_prompt_cache(model)
    tokens = mx.array([prompt])
    chosen: list[int] = []
    for _ in range(count):
        best = mx.argmax(model(tokens, cache=cache)[:, -1], axis=-1)
        chosen += np.array(best).tolist()
        tokens = best[:, None]
    return chosen
