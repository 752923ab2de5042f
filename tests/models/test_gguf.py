"""GGUF files against mlx-lm's models of the same weights."""

from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Kind
from mlx import nn

from gguf_samples import ARCHITECTURES, VOCAB, body, finish, logits, random_blocks, sample, write, write_with
from stoker.core.errors import StartError
from stoker.models import gguf as ours
from stoker.models.gguf_file import read_header
from stoker.models.load import load
from stoker.models.packing import Packed, is_native, read_mixed, read_native
from stoker.text.tokenizer import from_source

pytestmark = pytest.mark.mlx

NATIVE = (Kind.Q4_0, Kind.Q4_1, Kind.Q8_0, Kind.F16)
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "original_max_position_embeddings": 1024}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_architecture_computes_what_mlx_lm_computes_from_the_same_weights(
    architecture: str, tmp_path: Path
) -> None:
    made = sample(architecture)
    loaded = load(str(write(tmp_path / "m.gguf", made)), packed=False)
    np.testing.assert_allclose(logits(loaded.model), logits(made.model), rtol=1e-4, atol=1e-4)
    assert loaded.info.family == made.config["model_type"]


def test_a_head_of_its_own_is_used_for_a_tied_family_too(tmp_path: Path) -> None:
    made = sample("llama", tie_word_embeddings=False)
    loaded = load(str(write(tmp_path / "m.gguf", made)), packed=False)
    np.testing.assert_allclose(logits(loaded.model), logits(made.model), rtol=1e-4, atol=1e-4)


def test_llama_biases_are_read_and_the_missing_one_is_zero(tmp_path: Path) -> None:
    made = sample("llama", attention_bias=True)
    for name in [name for name in made.weights if name.endswith("o_proj.bias")]:
        del made.weights[name]
    for layer in made.model.model.layers:
        layer.self_attn.o_proj.bias = mx.zeros((64,))
    loaded = load(str(write(tmp_path / "m.gguf", made)), packed=False)
    np.testing.assert_allclose(logits(loaded.model), logits(made.model), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("scaling", "metadata"),
    [
        (LLAMA3, {}),
        ({"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0}),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
            {"type": "yarn", "factor": 4.0, "original_context_length": 128},
        ),
    ],
    ids=["llama3", "linear", "yarn"],
)
def test_stretched_positions_are_stretched_the_same_way(
    scaling: dict[str, Any], metadata: dict[str, Any], tmp_path: Path
) -> None:
    made = sample("llama", rope_scaling=scaling)
    keys = {f"llama.rope.scaling.{key}": value for key, value in metadata.items()}
    loaded = load(str(write(tmp_path / "m.gguf", made, metadata=keys)), packed=False)
    far = tuple(range(90))
    np.testing.assert_allclose(logits(loaded.model, far), logits(made.model, far), rtol=1e-4, atol=1e-4)
    unstretched = logits(sample("llama").model, far)
    assert np.abs(unstretched - logits(made.model, far)).max() > 0.003


def test_frequency_factors_that_follow_no_rule_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tensor("token_embd.weight", np.zeros((8, 64), np.float32))
    writer.add_tensor("rope_freqs.weight", np.linspace(1, 9, 8, dtype=np.float32))
    finish(writer)
    with pytest.raises(StartError, match=r"rope_freqs\.weight follows no llama3 rope scaling"):
        load(str(path))


@pytest.mark.parametrize("kind", NATIVE)
def test_native_formats_hold_the_numbers_that_the_gguf_package_reads(kind: Kind, tmp_path: Path) -> None:
    made = sample("qwen3")
    path = write(tmp_path / "m.gguf", made, {"blk": kind})
    assert is_native(read_header(path))
    loaded = load(str(path), packed=False)
    stored = gguf.quants.quantize(made.weights["model.layers.1.mlp.up_proj.weight"], kind)
    np.testing.assert_allclose(
        np.array(body(loaded).layers[1].mlp.up_proj.weight), gguf.quants.dequantize(stored, kind), atol=1e-6
    )


def test_packed_weights_stay_packed_each_with_its_own_bits(tmp_path: Path) -> None:
    made = sample("llama")
    path = write(tmp_path / "m.gguf", made, {"token_embd": Kind.Q8_0, "blk": Kind.Q4_1})
    loaded = load(str(path), packed=True)
    assert isinstance(body(loaded).embed_tokens, nn.QuantizedEmbedding)
    assert (body(loaded).embed_tokens.bits, body(loaded).layers[0].self_attn.q_proj.bits) == (8, 4)
    assert loaded.config["quantization"]["bits"] == 4
    assert loaded.config["quantization"]["model.embed_tokens"]["bits"] == 8
    assert loaded.weights == "packed (4-bit)"
    unpacked = load(str(path), packed=False)
    np.testing.assert_allclose(logits(loaded.model), logits(unpacked.model), rtol=0.05, atol=0.05)
    assert "quantization" not in unpacked.config
    assert unpacked.weights == "float32"


def test_k_quants_become_what_the_gguf_package_makes_of_them(tmp_path: Path) -> None:
    """The package cannot write K-quants: random blocks with modest scales do as well."""
    made = sample("qwen3", hidden_size=256, intermediate_size=256)
    path = tmp_path / "m.gguf"
    blocks = random_blocks(Kind.Q6_K, rows=256, columns=256)
    write_with(path, made, "ffn_up", blocks, Kind.Q6_K)
    loaded = load(str(path), packed=False)
    expected = gguf.quants.dequantize(blocks, Kind.Q6_K)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_array_equal(np.array(body(loaded).layers[0].mlp.up_proj.weight), expected)
    half = load(str(path), packed=True)
    assert body(half).layers[0].mlp.up_proj.weight.dtype == mx.float16


def test_in_a_mixed_file_native_formats_stay_packed(tmp_path: Path) -> None:
    made = sample("qwen3", hidden_size=256, intermediate_size=256)
    path = tmp_path / "m.gguf"
    write_with(path, made, "ffn_up", random_blocks(Kind.Q4_K, 256, 256), Kind.Q4_K, {"ffn_down": Kind.Q8_0})
    loaded = load(str(path), packed=True)
    assert body(loaded).layers[0].mlp.down_proj.bits == 8
    assert isinstance(body(loaded).layers[0].mlp.up_proj, nn.Linear)


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0])
def test_our_packing_is_the_packing_of_mx_load(kind: Kind, tmp_path: Path) -> None:
    file = read_header(write(tmp_path / "m.gguf", sample("llama"), {"blk": kind, "embd": kind}))
    theirs = {entry.name: weight for entry, weight in read_native(file, file.tensors)}
    mixed = {entry.name: weight for entry, weight in read_mixed(file, file.tensors)}
    packed = 0
    for name, weight in mixed.items():
        other = theirs[name]
        if isinstance(weight, Packed):
            assert isinstance(other, Packed)
            packed += 1
            for left, right in ((weight.words, other.words), (weight.scales, other.scales)):
                assert mx.array_equal(left, right)
            np.testing.assert_allclose(np.array(weight.biases), np.array(other.biases), rtol=1e-3)
        else:
            assert isinstance(other, mx.array)
            assert mx.array_equal(weight, other)
    assert packed == 15


def test_bfloat16_keeps_its_type_packed_and_its_values_as_float32(tmp_path: Path) -> None:
    made = sample("qwen2")
    path = write(tmp_path / "m.gguf", made, {"blk": Kind.BF16})
    assert not is_native(read_header(path))
    assert body(load(str(path), packed=True)).layers[0].mlp.up_proj.weight.dtype == mx.bfloat16
    np.testing.assert_allclose(logits(load(str(path), packed=False).model), logits(made.model), rtol=0.1, atol=0.3)


def test_a_file_with_double_metadata_is_read_although_mx_load_cannot(tmp_path: Path) -> None:
    made = sample("llama")
    path = tmp_path / "m.gguf"
    write(path, made)
    doubled = tmp_path / "double.gguf"
    write_with(doubled, made, "no such tensor", np.zeros(0, np.uint8), Kind.F32, double=True)
    assert not is_native(read_header(doubled))
    np.testing.assert_allclose(logits(load(str(doubled), packed=False).model), logits(made.model), rtol=1e-4, atol=1e-4)


def test_the_first_layers_can_be_kept(tmp_path: Path) -> None:
    made = sample("llama")
    path = str(write(tmp_path / "m.gguf", made))
    loaded = load(path, packed=False, layers=1)
    assert len(body(loaded).layers) == loaded.config["num_hidden_layers"] == 1
    made.model.model.layers = made.model.model.layers[:1]
    np.testing.assert_allclose(logits(loaded.model), logits(made.model), rtol=1e-4, atol=1e-4)
    assert loaded.info.parameters < load(path).info.parameters


@pytest.mark.parametrize(
    ("architecture", "layers", "message"),
    [
        ("llama", 3, "cannot keep 3 layers: the model has 2"),
        ("llama", 0, "cannot keep 0 layers"),
        ("lfm2", 1, "the first with full attention is number 2"),
        ("gemma3", 1, "2 form a pattern"),
    ],
)
def test_layers_that_cannot_stand_alone_are_refused(
    architecture: str, layers: int, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "m.gguf", sample(architecture))
    with pytest.raises(StartError, match=message):
        load(str(path), layers=layers)


def test_progress_rises_from_nothing_to_one(tmp_path: Path) -> None:
    heard: list[float] = []
    load(str(write(tmp_path / "m.gguf", sample("llama"))), progress=heard.append)
    assert heard == sorted(heard)
    assert 0 < heard[0] < 0.1
    assert heard[-1] == pytest.approx(1.0)


def test_an_unknown_architecture_is_refused_by_name_with_the_list(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "rwkv7")
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), np.float32))
    finish(writer)
    with pytest.raises(StartError, match="'rwkv7' is not supported; supported are gemma3, lfm2, llama, qwen2, qwen3"):
        load(str(path))


def test_mixture_files_and_partial_rotation_are_refused(tmp_path: Path) -> None:
    made = sample("llama")
    experts = write(tmp_path / "e.gguf", made, metadata={"llama.expert_count": 8})
    with pytest.raises(StartError, match="experts"):
        load(str(experts))
    partial = write(tmp_path / "p.gguf", made, metadata={"llama.rope.dimension_count": 8})
    with pytest.raises(StartError, match="part of each head"):
        load(str(partial))


def test_a_tensor_that_no_family_has_is_named(tmp_path: Path) -> None:
    made = sample("llama")
    path = tmp_path / "m.gguf"
    write_with(path, made, "no such tensor", np.zeros(0, np.uint8), Kind.F32, extra="blk.0.odd.weight")
    with pytest.raises(StartError, match=r"tensor blk\.0\.odd\.weight is unknown in llama models"):
        load(str(path))


def test_a_missing_tensor_is_one_line(tmp_path: Path) -> None:
    made = sample("llama")
    del made.weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(StartError, match="its tensors do not fit llama") as caught:
        load(str(write(tmp_path / "m.gguf", made)))
    assert "\n" not in str(caught.value)


def test_nothing_of_the_weights_is_read_to_understand_a_file(tmp_path: Path) -> None:
    source = ours.understand(write(tmp_path / "m.gguf", sample("llama")))
    made = sample("llama")
    assert source.parameters == sum(array.size for array in made.weights.values())
    assert source.size == source.parameters * 4


def test_the_vocabulary_that_was_written_is_the_tokenizers(tmp_path: Path) -> None:
    """The whole way: the gguf package's writer, our header, the tokenizer."""
    path = write(tmp_path / "m.gguf", sample("llama"))
    tokenizer = from_source(load(str(path)).tokenizer)
    assert tokenizer.vocab == VOCAB
    assert tokenizer.encode("ab ab", add_special=False, parse_special=True) == [64, 65, VOCAB - 4]
    assert gguf.GGUFReader(path).fields["tokenizer.ggml.bos_token_id"].contents() == tokenizer.bos
