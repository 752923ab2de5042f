"""Sampling settings that several tests share."""

import math

import numpy as np

from stoker.core.request import Sampling

OFF = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
"""A chain in which nothing is active."""


def some_settings(seed: int) -> Sampling:
    """Everything on, moderately: most settings leave several tokens."""
    rng = np.random.default_rng(1000 + seed)
    return Sampling(
        seed=seed,
        temperature=float(rng.uniform(0.3, 2.0)),
        dynatemp_range=float(rng.choice([0.0, 0.5])),
        dynatemp_exponent=float(rng.uniform(0.5, 2.0)),
        top_k=int(rng.choice([0, 12, 30])),
        top_p=float(rng.uniform(0.7, 1.0)),
        min_p=float(rng.uniform(0.0, 0.05)),
        top_n_sigma=float(rng.choice([-1.0, 2.0, 3.0])),
        typical_p=float(rng.uniform(0.7, 1.1)),
        xtc_probability=float(rng.choice([0.0, 0.5, 1.0])),
        xtc_threshold=float(rng.uniform(0.02, 0.2)),
        min_keep=int(rng.choice([0, 1, 3])),
        logit_bias=((3, 2.0), (4, -math.inf), (3, -0.5)),
    )
