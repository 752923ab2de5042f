import json
from pathlib import Path

import pytest

from stoker.core.request import Pooling
from stoker.models.pooling_type import declared_pooling


@pytest.mark.parametrize(
    ("number", "pooling"), [(0, "none"), (1, "mean"), (2, "cls"), (3, "last"), (4, "none"), ("1", "none")]
)
def test_a_gguf_file_says_it_by_number(number: object, pooling: str) -> None:
    metadata = {"general.architecture": "qwen3", "qwen3.pooling_type": number}
    assert declared_pooling(metadata) == Pooling(pooling)
    assert declared_pooling({}) is Pooling.NONE


def test_a_directory_says_it_as_sentence_transformers_does(tmp_path: Path) -> None:
    assert declared_pooling(tmp_path) is Pooling.NONE
    (tmp_path / "1_Pooling").mkdir()
    file = tmp_path / "1_Pooling/config.json"
    for modes, pooling in (
        ({"pooling_mode_cls_token": False, "pooling_mode_lasttoken": True}, Pooling.LAST),
        ({"pooling_mode_mean_tokens": True}, Pooling.MEAN),
        ({"pooling_mode_cls_token": True}, Pooling.CLS),
        ({}, Pooling.NONE),
        ([], Pooling.NONE),
    ):
        file.write_text(json.dumps(modes))
        assert declared_pooling(tmp_path) is pooling
    file.write_text("{")
    assert declared_pooling(tmp_path) is Pooling.NONE
