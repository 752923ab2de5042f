"""Warm-up: run what the first request will run, so that it does not pay for allocation and compilation.

MLX compiles the noise's fused expressions with g++ the first time on a machine, which takes seconds,
and keeps them on disk.
"""

import mlx.core as mx

from stoker.core.request import Sampling
from stoker.models.sampling import Sampler
from stoker.models.target import Target

COLUMNS = 8


def warm_up(target: Target, sampler: Sampler) -> None:
    """One prompt forward and one round of draws on slot 0, of which nothing is kept."""
    columns = max(min(COLUMNS, target.context - 1), 1)
    with target.verify([0], mx.zeros((1, columns), mx.int32)) as seen:
        mx.eval(seen.state)
    with target.verify([0], mx.zeros((1, 1), mx.int32)) as seen:
        settings = (Sampling(), Sampling(xtc_probability=1.0), Sampling(temperature=0))
        choices = [sampler.choose(seen.logits, [sampler.open(sampling, (0,))], [1]) for sampling in settings]
        mx.eval([choice.tokens for choice in choices], seen.state)
