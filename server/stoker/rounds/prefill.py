"""Prefill: prompts of several rows in one padded forward. Logits are never computed.

The last prompt token is not prefilled. It is the anchor of the row's first round, which makes the
first token like every other one, drafted or not, and costs the same forward.
"""

from collections.abc import Sequence

import mlx.core as mx

from stoker.core.work import PrefillWork
from stoker.models.target import Target
from stoker.rounds.row import Row


def prefill(target: Target, rows: Sequence[Row], work: Sequence[PrefillWork]) -> None:
    """Runs `rows[i].prompt[processed:work[i].stop]` of every row in one forward and commits it.

    Raises what the model raises; then no row has changed.
    """
    parts = [row.prompt[row.processed : item.stop] for row, item in zip(rows, work, strict=True)]
    width = max(len(part) for part in parts)
    ids = mx.array([[*part, *([0] * (width - len(part)))] for part in parts], mx.int32)
    with target.verify([row.slot for row in rows], ids) as seen:
        mx.eval(seen.state)
        seen.keep([len(part) for part in parts])
    for row, item in zip(rows, work, strict=True):
        row.processed = item.stop
