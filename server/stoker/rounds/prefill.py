"""Prefill: prompts of several rows in one padded forward. Logits are never computed.

The last prompt token is not prefilled. It is the anchor of the row's first round, which makes the
first token like every other one, drafted or not, and costs the same forward. Only a row that generates
nothing reads it here, and pools what it finds behind the last layer.
"""

from collections.abc import Sequence

import mlx.core as mx

from stoker.core.work import PrefillWork
from stoker.models.target import Target
from stoker.rounds.row import Row
from stoker.rounds.speculator import Speculator


def prefill(target: Target, rows: Sequence[Row], work: Sequence[PrefillWork], speculator: Speculator) -> None:
    """Runs `rows[i].prompt[processed:work[i].stop]` of every row in one forward and commits it.

    Raises what the model raises; then no row has changed. Drafters read along.
    """
    parts = [row.prompt[row.processed : item.stop] for row, item in zip(rows, work, strict=True)]
    width = max(len(part) for part in parts)
    ids = mx.array([[*part, *([0] * (width - len(part)))] for part in parts], mx.int32)
    last = {target.depth - 1} if any(row.pool for row in rows) else set[int]()
    capture = sorted({*speculator.capture(rows), *last})
    with target.verify([row.slot for row in rows], ids, capture) as seen:
        seen.keep([len(part) for part in parts])
        mx.eval(seen.state)
    for n, (row, item, part) in enumerate(zip(rows, work, parts, strict=True)):
        row.processed = item.stop
        features = {layer: stream[n, : len(part)] for layer, stream in seen.features.items()}
        if row.pool is not None:
            row.pool.read(features[target.depth - 1])
        speculator.read(row, item.stop, features)
