"""What the scheduler is told at the start: the command line's wishes, and two things about tokens."""

from dataclasses import dataclass

from stoker.scheduler.admission import Terms
from stoker.scheduler.sequence import PieceText


@dataclass(frozen=True, slots=True)
class Policy:
    """What the command line says about scheduling."""

    batch: int = 2048
    max_queue: int = 0
    """Requests that may wait for a slot; 0 = no bound."""
    similarity: float = 0.1
    continuous: bool = True
    """False: one request at a time (`--no-cont-batching`)."""
    cache: int = 0
    """Bytes of the prompt cache in memory; 0 = none, negative = no limit."""
    idle_slots: bool = False
    """A prompt may begin with a copy from an idle slot that is not its own."""
    shift: bool = False
    """A full slot gives up some of its tokens and goes on (`--context-shift`)."""
    sleep_after: float = -1.0
    """Idle seconds after which the model is given up; negative = never."""

    @property
    def terms(self) -> Terms:
        return Terms(self.similarity, self.idle_slots, self.continuous, self.cache)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The two things about tokens that the scheduler must know."""

    piece: PieceText
    ends: frozenset[int]
