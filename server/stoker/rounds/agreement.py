"""How often two distributions agree under each rule, from their arrays: the closed forms of one position.

On the host in float64, for diagnostics only: a sort of the vocabulary a position, 7 ms at 50,000 tokens.
"""

import numpy as np
from numpy.typing import NDArray

from stoker.acceptance.closed_forms import ClosedForms

Floats = NDArray[np.floating]


def closed_forms(p: Floats, q: Floats) -> ClosedForms:
    """Of p and q [V], not normalised here: what is no distribution must show in the order of the results."""
    p, q = p.astype(np.float64), q.astype(np.float64)
    return ClosedForms(float(np.minimum(p, q).sum()), float(p @ q), coupled(p, q), float(q[np.argmax(p)]))


def coupled(p: Floats, q: Floats) -> float:
    """sum_x 1 / sum_y max(p_y/p_x, q_y/q_x), the probability that Gumbel-max draws with shared noise agree.

    With r = p/q, p_y/p_x is the larger of the two ratios exactly where r_y >= r_x. So for x the inner
    sum is A_x/p_x + B_x/q_x with A_x the p of all y at or before x in falling order of r, and B_x the q
    behind it: one sort and two running sums. At ties both ratios are equal, whichever is taken.
    """
    either = (p > 0) | (q > 0)
    p, q = p[either].astype(np.float64), q[either].astype(np.float64)
    falling = np.argsort(-np.divide(p, q, out=np.full_like(p, np.inf), where=q > 0))
    p, q = p[falling], q[falling]
    above, below = np.cumsum(p), q.sum() - np.cumsum(q)
    both = (p > 0) & (q > 0)
    p, q, above, below = p[both], q[both], above[both], below[both]
    return float((p * q / (q * above + p * below)).sum())
