"""Counting what a model says, on a tiny random one."""

import random
from pathlib import Path

import numpy as np
import pytest

from gguf_samples import sample, write
from stoker.models.load import load
from stoker.models.target import Target
from tools import count_tokens

pytestmark = pytest.mark.mlx


def test_a_request_is_one_whole_sentence() -> None:
    rng = random.Random(0)
    asked = {count_tokens._request(rng) for _ in range(200)}
    assert len(asked) > 100
    assert not any(set("{}\n") & set(request) for request in asked)


def test_every_answer_is_counted_up_to_its_end_and_the_slots_are_empty_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_tokens, "LONGEST", 12)
    loaded = load(str(write(tmp_path / "tiny.gguf", sample("llama", max_position_embeddings=1024))))
    target = Target(loaded.model, 3, 1024)
    counts = np.zeros(target.vocab, np.int64)
    count_tokens._answers(loaded, target, random.Random(0), counts)
    assert 0 < counts.sum() <= 3 * 12
    assert target.lengths == (0, 0, 0)
