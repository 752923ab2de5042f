import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import save_config, save_model

from gguf_samples import Kind, body, logits, sample, write
from stoker.core.errors import StartError
from stoker.models import load as module
from stoker.models.load import load

pytestmark = pytest.mark.mlx


def _directory(path: Path, *, bits: int | None = None, dtype: mx.Dtype = mx.float32) -> tuple[Path, Any]:
    """An MLX directory of a tiny qwen3 model, and that model."""
    made = sample("qwen3")
    made.model.set_dtype(dtype)
    config = dict(made.config)
    if bits is not None:
        nn.quantize(made.model, 32, bits)
        config["quantization"] = {"group_size": 32, "bits": bits, "mode": "affine"}
    save_model(path, made.model)
    save_config(config, path / "config.json")
    return path, made.model


def test_a_directory_is_loaded_as_float32(tmp_path: Path) -> None:
    path, model = _directory(tmp_path / "m", dtype=mx.bfloat16)
    loaded = load(str(path), packed=False)
    model.set_dtype(mx.float32)
    np.testing.assert_allclose(logits(loaded.model), logits(model), rtol=1e-4, atol=1e-4)
    assert (loaded.weights, loaded.info.ftype, loaded.info.family) == ("float32", "BF16", "qwen3")
    assert loaded.tokenizer == path


def test_a_packed_directory_can_stay_packed_or_be_unpacked(tmp_path: Path) -> None:
    path, model = _directory(tmp_path / "m", bits=4)
    packed, unpacked = load(str(path), packed=True), load(str(path), packed=False)
    np.testing.assert_array_equal(logits(packed.model), logits(model))
    np.testing.assert_allclose(logits(unpacked.model), logits(model), rtol=1e-3, atol=1e-3)
    assert (packed.weights, unpacked.weights) == ("packed (4-bit)", "float32")
    assert packed.info == unpacked.info
    assert packed.info.ftype == "4-bit"
    assert packed.info.parameters == sum(array.size for array in sample("qwen3").weights.values())
    assert packed.info.size < packed.info.parameters * 4
    assert isinstance(body(unpacked).layers[0].mlp.up_proj, nn.Linear)
    assert "quantization" not in unpacked.config


def test_the_first_layers_of_a_directory_can_be_kept(tmp_path: Path) -> None:
    path, model = _directory(tmp_path / "m")
    loaded = load(str(path), layers=1)
    model.model.layers = model.model.layers[:1]
    np.testing.assert_allclose(logits(loaded.model), logits(model), rtol=1e-4, atol=1e-4)
    with pytest.raises(StartError, match="cannot keep 5 layers: the model has 2"):
        load(str(path), layers=5)


def test_on_a_cpu_weights_are_float32_if_they_fit_and_packed_with_a_warning_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(write(tmp_path / "m.gguf", sample("llama"), {"blk": Kind.Q4_0}))
    monkeypatch.setattr(module, "is_cpu", lambda: True)
    with caplog.at_level(logging.WARNING):
        assert load(path).weights == "float32"
        assert not caplog.records
        monkeypatch.setattr(module, "available", lambda: 200_000)
        loaded = load(path)
        monkeypatch.setattr(module, "available", lambda: 1000)
        tight = load(path)
    assert loaded.weights == tight.weights == "packed (4-bit)"
    assert "do not fit in memory" in caplog.text
    # Half precision is slow on a CPU: only a memory that is very short leaves the scales in it.
    scales = [body(each).layers[0].mlp.up_proj.scales.dtype for each in (loaded, tight)]
    assert scales == [mx.float32, mx.float16]


def test_on_a_gpu_weights_stay_as_they_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_cpu", lambda: False)
    loaded = load(str(write(tmp_path / "m.gguf", sample("llama"), {"blk": Kind.Q4_0})))
    assert loaded.weights == "packed (4-bit)"
    assert body(loaded).norm.weight.dtype == mx.float16


def test_memory_counts_what_is_free_and_what_the_container_allows(tmp_path: Path) -> None:
    from stoker.models.memory import available

    meminfo, cgroup = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text("MemTotal: 900 kB\nMemAvailable: 500 kB\n")
    cgroup.mkdir()
    assert available(meminfo, cgroup) == 500 * 1024
    (cgroup / "memory.max").write_text("max\n")
    (cgroup / "memory.current").write_text("1000\n")
    assert available(meminfo, cgroup) == 500 * 1024
    (cgroup / "memory.max").write_text("5000\n")
    assert available(meminfo, cgroup) == 4000
    assert available(tmp_path / "none", tmp_path / "none") > 1 << 20


def test_facts_of_a_gguf_file_are_reported(tmp_path: Path) -> None:
    path = str(write(tmp_path / "m.gguf", sample("gemma3"), {"blk": Kind.Q8_0}, {"general.file_type": 7}))
    loaded = load(path)
    info = loaded.info
    assert (info.path, info.family, info.ftype, info.vocab, info.context, info.width) == (
        *(path, "gemma3_text", "Q8_0"),
        *(96, 512, 64),
    )
    assert loaded.template == "{{ messages[0]['content'] }}"
    assert loaded.tool_template is None


@pytest.mark.parametrize(
    ("metadata", "kinds", "name"),
    [
        ({}, {"blk": Kind.Q4_0}, "Q4_0 (guessed)"),
        ({"general.file_type": 15}, {}, "Q4_K - Medium"),
        ({"general.file_type": 1024 + 2}, {}, "Q4_0 (guessed)"),
        ({"general.file_type": 555}, {}, "unknown, may not work"),
    ],
)
def test_formats_have_llama_servers_names(
    metadata: dict[str, Any], kinds: dict[str, Kind], name: str, tmp_path: Path
) -> None:
    assert load(str(write(tmp_path / "m.gguf", sample("llama"), kinds, metadata))).info.ftype == name


def test_chat_templates_are_found_wherever_a_directory_keeps_them(tmp_path: Path) -> None:
    path, _ = _directory(tmp_path / "m")
    assert load(str(path)).template is None
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    loaded = load(str(path))
    assert (loaded.template, loaded.tool_template) == ("plain", "tools")
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "alone"}))
    assert load(str(path)).template == "alone"
    (path / "chat_template.jinja").write_text("own file")
    assert load(str(path)).template == "own file"


def test_what_is_no_model_is_refused_with_one_line(tmp_path: Path) -> None:
    path, _ = _directory(tmp_path / "m")
    cases: list[tuple[str, str]] = [(str(tmp_path / "none"), "no model at"), (str(tmp_path), r"holds no config\.json")]

    def broken(name: str) -> Path:
        cases.append((str(tmp_path / name), ""))
        return shutil.copytree(path, tmp_path / name)

    (broken("no-weights") / "model.safetensors").unlink()
    cases[-1] = (cases[-1][0], r"holds no weights \(model\*\.safetensors\)")
    (broken("bad-json") / "config.json").write_text("{")
    cases[-1] = (cases[-1][0], "is no JSON")
    (broken("bad-family") / "config.json").write_text(json.dumps({"model_type": "nonesuch"}))
    cases[-1] = (cases[-1][0], "nonesuch not supported")
    (broken("bad-config") / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    cases[-1] = (cases[-1][0], "cannot load")
    (broken("cut") / "model.safetensors").write_bytes((path / "model.safetensors").read_bytes()[:5000])
    cases[-1] = (cases[-1][0], "cannot load")
    for place, says in cases:
        with pytest.raises(StartError, match=says) as caught:
            load(place)
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def loaded(smollm2_path: Path) -> module.Loaded:
    return load(str(smollm2_path))


@pytest.mark.smollm2
class TestSmolLM2:
    def test_the_facts_equal_the_recordings(self, loaded: module.Loaded) -> None:
        info = loaded.info
        assert (info.vocab, info.context, info.width) == (49152, 8192, 576)
        assert (info.parameters, info.size, info.ftype) == (134515008, 96576768, "Q4_1")

    def test_paris_is_the_capital_of_france(self, loaded: module.Loaded) -> None:
        cache = make_prompt_cache(loaded.model)
        tokens = mx.array([[504, 3575, 282, 4649, 314]])
        words: list[str] = []
        texts: Any = loaded.tokenizer
        for _ in range(2):
            chosen = mx.argmax(loaded.model(tokens, cache=cache)[:, -1], axis=-1)
            words.append(texts["tokenizer.ggml.tokens"][chosen.item()])
            tokens = chosen[:, None]
        assert words == ["ĠParis", "."]


def test_a_path_to_a_tokenizer_needs_no_mlx() -> None:
    """Fetching and reading headers happen before MLX is loaded, and texts are handled without it."""
    code = (
        "import sys; import stoker.models.fetch, stoker.models.gguf_file, stoker.text.tokenizer;"
        "sys.exit('mlx.core' in sys.modules or 'transformers' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
