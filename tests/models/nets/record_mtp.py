"""Records what mlx-vlm 0.7.10's MTP and Glimmer drafters do on the tiny checkpoints of `published.py`.

Not run by the tests, which read what it wrote. In an environment that holds mlx 0.32.4, mlx-lm 0.32.2 and
mlx-vlm 0.7.10 (the last one without its dependencies): `PYTHONPATH=tests python tests/models/nets/record_mtp.py`.
"""

# pyright: reportMissingImports=false, reportOptionalMemberAccess=false, reportArgumentType=false
# pyright: reportIndexIssue=false

import json
import tempfile
import types
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache, RotatingKVCache
from mlx_vlm.speculative.drafters import load_drafter

from models.nets import published
from models.nets.scripts import (
    BLOCK,
    GEMMA_CASES,
    GLIMMER_CASES,
    GLIMMER_STEPS,
    PROMPT,
    QWEN_CASES,
    ROUNDS,
    final,
    gemma_columns,
    gemma_lengths,
    glimmer_features,
    residuals,
    verified,
)

HERE = Path(__file__).parent / "recorded"


def numbers(array: mx.array) -> list[Any]:
    return np.round(np.array(array.astype(mx.float32)).astype(np.float64), 4).tolist()


def greedy(logits: mx.array) -> mx.array:
    return mx.argmax(logits, axis=-1)


def qwen(path: Path, dtype: mx.Dtype) -> dict[str, Any]:
    """Proposals, own columns after each round, and the last hidden state of every forward."""
    target = published.qwen_target()
    target.set_dtype(dtype)
    drafter, kind = load_drafter(str(path))
    assert kind == "mtp"
    hiddens: list[mx.array] = []
    inner = drafter._forward_tokens

    def watched(*args: Any) -> mx.array:
        out = inner(*args)
        hiddens.append(out[0, -1])
        return out

    drafter._forward_tokens = watched
    norm = target.model.norm
    ids = mx.array([list(PROMPT[:-1])])
    drafter.reset(target)
    seen = norm(residuals(0, len(PROMPT) - 1).astype(dtype))[None]
    drafter.prefill_from_target_hidden(ids, seen, PROMPT[-1], greedy, mx.int32, greedy=True)
    proposals: list[list[int]] = []
    columns = [drafter._cache[0].offset]
    for number, accepted in enumerate(ROUNDS):
        drafted = drafter.draft_block(0, seen[:, -1:], None, BLOCK, greedy, mx.int32, greedy=True)
        proposals.append(drafted.tolist()[0])
        after = norm(verified(number).astype(dtype))[None]
        tokens = [*proposals[-1][:accepted], final(number)]
        drafter.accept_verified_tokens(after, drafted, accepted, tokens, greedy, mx.int32, greedy=True)
        columns.append(drafter._cache[0].offset)
    return {"proposals": proposals, "columns": columns, "hidden": [numbers(h) for h in hiddens]}


def gemma(path: Path, dtype: mx.Dtype, length: int) -> dict[str, Any]:
    """A block's proposals and logits, over made-up columns of the target. Rotating ones as single steps leave them."""
    target = published.gemma_target()
    target.set_dtype(dtype)
    drafter, _ = load_drafter(str(path))
    drafter.bind(target)
    shared: dict[str, tuple[mx.array, mx.array]] = {}
    for kind in published.GEMMA_TEXT["layer_types"]:
        keys, values = (array.astype(dtype) for array in gemma_columns(kind, length))
        cache = KVCache() if kind == "full_attention" else RotatingKVCache(published.tiny.WINDOW)
        for n in range(length):
            cache.update_and_fetch(keys[None, :, n : n + 1], values[None, :, n : n + 1])
        if isinstance(cache, RotatingKVCache):
            shared[kind] = cache._temporal_order(cache.keys), cache._temporal_order(cache.values)
            shared[kind] = tuple(part[:, :, : min(length, cache.max_size)] for part in shared[kind])
        else:
            shared[kind] = cache.state[:2]
    drafter.set_shared_kv(shared, length, position=length - 1, kv_valid_len=length)
    logits: list[mx.array] = []

    def sampler(given: mx.array) -> mx.array:
        logits.append(given[0, -1])
        return mx.argmax(given, axis=-1)

    hidden = target.model.norm(residuals(7, 1).astype(dtype))[None]
    tokens = drafter.draft_block(PROMPT[-1], hidden, None, BLOCK, sampler, mx.int32).tolist()[0]
    return {"proposals": tokens, "logits": [numbers(row) for row in logits]}


def glimmer(path: Path, dtype: mx.Dtype) -> dict[str, Any]:
    """Logits' best tokens and hidden states of blocks behind growing contexts.

    Single columns go through the concatenating path too: past the window the reference's ring addresses wrong keys.
    """
    target = published.glimmer_target()
    target.set_dtype(dtype)
    target.config = types.SimpleNamespace(
        model_type="muse_glimmer_text", hidden_size=published.WIDTH, num_hidden_layers=8, vocab_size=published.VOCAB
    )
    drafter, _ = load_drafter(str(path))
    drafter.bind(target)
    caches = drafter.make_cache()
    for cache in caches:
        cache.update_and_fetch = types.MethodType(lambda it, keys, values: it._update_concat(keys, values), cache)
    tokens, hidden = [], []
    for number, columns in enumerate(GLIMMER_STEPS):
        block = mx.array([[final(number), *[published.VOCAB - 1] * (published.GLIMMER_BLOCK - 1)]])
        out = drafter._hidden(block, glimmer_features(number, columns).astype(dtype)[None], caches)[:, 1:]
        tokens.append(mx.argmax(drafter._logits(out), axis=-1).tolist()[0])
        hidden.append(numbers(out[0, :, ::4]))
    return {"proposals": tokens, "hidden": hidden}


def main() -> None:
    HERE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        made = {name: qwen(case.write(Path(place) / name), case.dtype) for name, case in QWEN_CASES.items()}
        (HERE / "qwen3_5_mtp.json").write_text(json.dumps(made))
        made = {
            f"{name} {length}": gemma(case.write(Path(place) / name), case.dtype, length)
            for name, case in GEMMA_CASES.items()
            for length in gemma_lengths(name)
        }
        (HERE / "gemma4_assistant.json").write_text(json.dumps(made))
        made = {name: glimmer(case.write(Path(place) / name), case.dtype) for name, case in GLIMMER_CASES.items()}
        (HERE / "glimmer.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main()
