"""Packs a drafter's checkpoint: every matrix of more than one row as MLX's affine integers, the rest as float16.

python tools/pack_drafter.py CHECKPOINT OUT --bits 4 --group 32 [--tokens 20480 --said SAID.npy --read READ.npy]

With `--tokens` it proposes only so many tokens: those that the target was heard to say (`tools/count_tokens.py`),
then those with the lowest ids, which are the oldest merges; one that stands often in texts (READ.npy, int64 [V])
counts as older.
"""

import argparse
import json
from pathlib import Path
from typing import cast

import mlx.core as mx
import numpy as np

OFTEN = 5
OLDER = 12_000
"""Ids by which a token counts as older that was read more often than that."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--said", type=Path)
    parser.add_argument("--read", type=Path)
    given = parser.parse_args()
    tensors = cast("dict[str, mx.array]", mx.load(str(given.checkpoint / "model.safetensors")))
    config = json.loads((given.checkpoint / "config.json").read_text("utf-8"))
    config["quantization"] = {"group_size": given.group, "bits": given.bits, "mode": "affine"}
    if given.tokens:
        ids = chosen(np.load(given.said), np.load(given.read), given.tokens)
        tensors |= shortened(tensors, ids)
        config["draft_vocab_size"] = given.tokens
    given.out.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(given.out / "model.safetensors"), packed(tensors, given.bits, given.group))
    (given.out / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def chosen(said: np.ndarray, read: np.ndarray, number: int) -> np.ndarray:
    """The ids of the tokens to propose, ascending."""
    age = np.arange(len(said)) - OLDER * (read > OFTEN)
    return np.sort(np.lexsort((age, said == 0))[:number])


def shortened(tensors: dict[str, mx.array], ids: np.ndarray) -> dict[str, mx.array]:
    """`d2t`, and what has a row for each token that is proposed."""
    offsets = mx.array(ids - np.arange(len(ids)), mx.int32)
    rows = {name: tensors[name][mx.array(ids)] for name in ("markov_head.markov_w2.weight",) if name in tensors}
    return {"d2t": offsets, **rows}


def packed(tensors: dict[str, mx.array], bits: int, group: int) -> dict[str, mx.array]:
    """The same tensors with `.scales` and `.biases` beside each packed `.weight`."""
    out: dict[str, mx.array] = {}
    for name, tensor in tensors.items():
        if tensor.ndim != 2 or tensor.shape[0] == 1:
            out[name] = tensor if tensor.dtype == mx.int32 else tensor.astype(mx.float16)
            continue
        stem = name.removesuffix(".weight")
        # Rounded from float32, so that scales are the best that float16 can say.
        words, scales, biases = mx.quantize(tensor.astype(mx.float32), group_size=group, bits=bits)
        out[name], out[f"{stem}.scales"], out[f"{stem}.biases"] = (
            words,
            scales.astype(mx.float16),
            biases.astype(mx.float16),
        )
    return out


if __name__ == "__main__":
    main()
