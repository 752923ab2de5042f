"""Runs mlx-vlm 0.7.10 on the cases and keeps what it says; not needed to run the tests.

python -m venv .parity && .parity/bin/pip install 'mlx[cpu]==0.32.4' 'mlx-lm==0.32.2' requests Pillow
.parity/bin/pip install --no-deps mlx-vlm==0.7.10
cd tests && ../.parity/bin/python -m parity.record
"""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn

from parity import cases
from parity.cases import CASES, Case


def main() -> None:
    from mlx_vlm.speculative.drafters import load_drafter  # pyright: ignore[reportMissingImports]

    cases.RECORDINGS.mkdir(exist_ok=True)
    for case in CASES:
        with tempfile.TemporaryDirectory() as place:
            drafter, _ = load_drafter(str(cases.write(case, Path(place))))
            drafter.bind(_target(case))
            said = {}
            for row, fresh in enumerate(case.fresh):
                cache = drafter.make_cache()
                for n in range(len(fresh)):
                    said[f"{row}-{n}"] = _round(drafter, case, cases.features(case, row, n), cache)
        np.savez_compressed(cases.RECORDINGS / f"{case.name}.npz", **said)


def _round(drafter: Any, case: Case, features: mx.array, cache: Any) -> np.ndarray:
    """The logits that the drafter drew greedy proposals from, float32 [proposals, V]."""
    seen: list[mx.array] = []

    def sampler(logits: mx.array) -> mx.array:
        seen.append(logits.reshape(-1, logits.shape[-1]))
        return mx.argmax(logits, axis=-1)

    tokens = drafter.draft_block(cases.ANCHOR, features[None], cache, case.proposals + 1, sampler)
    mx.eval(tokens, seen)
    return np.array(mx.concatenate(seen).astype(mx.float32))


def _target(case: Case) -> SimpleNamespace:
    """As much of a target as the reference looks at."""
    embedding = nn.Embedding(cases.VOCAB, cases.WIDTH)
    embedding.weight = cases.table(case)
    settings = {"hidden_size": cases.WIDTH, "vocab_size": cases.VOCAB, "num_hidden_layers": cases.DEPTH}
    inner = SimpleNamespace(embed_tokens=embedding, layers=[None] * cases.DEPTH)
    return SimpleNamespace(model=inner, config=settings, rollback_speculative_cache=None)


if __name__ == "__main__":
    main()
