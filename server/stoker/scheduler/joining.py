"""A sequence's order to the device: the `Join` that opens its row."""

from dataclasses import replace

from stoker.core.request import MAX_SEED, Sampling
from stoker.core.work import Join
from stoker.scheduler.sequence import Sequence
from stoker.scheduler.slots import Place

SEED_STEP = 0x9E3779B1
"""Odd, and far from the small steps between the seeds of several choices."""


def first_join(sequence: Sequence, place: Place) -> Join:
    """Of a request that has just got its slot."""
    return replace(join(sequence, sequence.cached), source=place.source, kept=place.kept)


def join(sequence: Sequence, cached: int) -> Join:
    """`cached`: columns of its prompt that the slot holds."""
    request = sequence.request
    return Join(
        id=request.id,
        slot=sequence.slot,
        prompt=sequence.prompt,
        cached=cached,
        sampling=_sampling(sequence),
        probs=request.probs,
        post_sampling_probs=request.post_sampling_probs,
        speculation=request.speculation,
        grammar=request.grammar,
        answered=max(len(sequence.prompt) - len(request.prompt), 0),
        adapters=request.adapters,
        pooling=request.pooling,
    )


def _sampling(sequence: Sequence) -> Sampling:
    """After a context shift positions come again, and must not bring their noise again."""
    sampling = sequence.request.sampling
    return replace(sampling, seed=(sampling.seed + sequence.shifts * SEED_STEP) % (MAX_SEED + 1))
