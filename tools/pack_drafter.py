"""Packs a drafter's checkpoint: every matrix of more than one row as MLX's affine integers, the rest as float16.

python tools/pack_drafter.py CHECKPOINT OUT --bits 4 --group 32
"""

import argparse
import json
from pathlib import Path
from typing import cast

import mlx.core as mx


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group", type=int, default=64)
    given = parser.parse_args()
    tensors = cast("dict[str, mx.array]", mx.load(str(given.checkpoint / "model.safetensors")))
    config = json.loads((given.checkpoint / "config.json").read_text("utf-8"))
    config["quantization"] = {"group_size": given.group, "bits": given.bits, "mode": "affine"}
    given.out.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(given.out / "model.safetensors"), packed(tensors, given.bits, given.group))
    (given.out / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def packed(tensors: dict[str, mx.array], bits: int, group: int) -> dict[str, mx.array]:
    """The same tensors with `.scales` and `.biases` beside each packed `.weight`."""
    out: dict[str, mx.array] = {}
    for name, tensor in tensors.items():
        if tensor.ndim != 2 or tensor.shape[0] == 1:
            out[name] = tensor.astype(mx.float16)
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
