"""Row: what the device side knows about one sequence. Lives and dies on the device thread."""

from dataclasses import dataclass

from stoker.core.work import Join
from stoker.models.sampling import Row as Draws


@dataclass(slots=True)
class Row:
    """A sequence in its slot.

    Between ticks the slot's committed length is the number of the sequence's tokens minus one:
    the newest token, the anchor, has not been run yet (architecture, "Target, capture and rollback").
    """

    id: int
    slot: int
    prompt: tuple[int, ...]
    draws: Draws
    feedback: bool
    probs: int
    post_sampling: bool
    anchor: int
    position: int
    """Absolute index of the anchor in the sequence: the first generated token has index len(prompt)."""
    processed: int

    @classmethod
    def open(cls, join: Join, draws: Draws) -> "Row":
        """The row of a sequence whose prompt is yet to be read from `join.cached` on."""
        return cls(
            id=join.id,
            slot=join.slot,
            prompt=join.prompt,
            draws=draws,
            feedback=join.sampling.feedback,
            probs=join.probs,
            post_sampling=join.post_sampling_probs,
            anchor=join.prompt[-1],
            position=len(join.prompt) - 1,
            processed=join.cached,
        )
