"""How a model's own files say that its token vectors become an embedding."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.core.info import TokenizerSource
from stoker.core.request import Pooling

GGUF = {0: Pooling.NONE, 1: Pooling.MEAN, 2: Pooling.CLS, 3: Pooling.LAST}
"""llama.cpp's numbers, as `{architecture}.pooling_type` has them."""
MODULE = "1_Pooling/config.json"
"""Where sentence-transformers says it."""
MODES = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_lasttoken": Pooling.LAST,
}


def declared_pooling(source: TokenizerSource) -> Pooling:
    """NONE where the files, GGUF metadata or a directory, say nothing."""
    if isinstance(source, Path):
        return _of_directory(source / MODULE)
    number = source.get(f"{source.get('general.architecture', '')}.pooling_type")
    return GGUF.get(number, Pooling.NONE) if isinstance(number, int) else Pooling.NONE


def _of_directory(file: Path) -> Pooling:
    if not file.exists():
        return Pooling.NONE
    try:
        config: Any = json.loads(file.read_text("utf-8"))
    except ValueError:
        return Pooling.NONE
    modes: Mapping[str, Any] = config if isinstance(config, dict) else {}
    return next((pooling for key, pooling in MODES.items() if modes.get(key) is True), Pooling.NONE)
