"""Evidence on a bound that may be read after every row.

An e-process stays small as long as the disagreement keeps its bound, and grows without
limit once it does not. A confidence sequence is an interval that holds at all times.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, logsumexp, xlog1py, xlogy

# False alarms, ever, and failures of the confidence sequence, ever: one in twenty.
CONFIDENCE = 0.95
# Alternatives to the bound, as multiples of it, each with a weight of its inverse: the
# median number of rows to an alarm is near the least that any mixture has, from 1.5
# times the bound to 10 times.
MULTIPLES = 1.4 * np.geomspace(1.0, 500.0, 16)


def log_e_value(n_disagreements: int, n_checked: int, bound: float) -> float:
    """Return the logarithm of the evidence that a disagreement is above a bound.

    Parameters
    ----------
    n_disagreements, n_checked : int
        What was seen.
    bound : float
        The bound, in ``[0, 1)``.

    Returns
    -------
    log_e : float
        Of a mixture of likelihood ratios of larger probabilities to the bound. As long
        as the bound holds, its expectation is at most 1 at any time, and so it ever
        reaches a number with a probability of at most the inverse of it. Infinite if
        the bound is 0 and there was a disagreement.
    """
    if bound <= 0.0:
        return math.inf if n_disagreements else 0.0
    larger = bound * MULTIPLES
    larger = larger[larger < 1.0]
    if not len(larger):
        larger = np.array([0.5 * (1.0 + bound)])
    weights = 1.0 / larger
    ratio = xlogy(n_disagreements, larger / bound) + (n_checked - n_disagreements) * (
        np.log1p(-larger) - math.log1p(-bound)
    )
    return float(logsumexp(ratio, b=weights / weights.sum()))


def confidence_sequence(n_disagreements: int, n_checked: int) -> tuple[float, float]:
    """Return an interval for the disagreement that holds at all times together.

    Parameters
    ----------
    n_disagreements, n_checked : int
        What was seen.

    Returns
    -------
    lower, upper : float
        The probabilities against which a mixture of all others, with the weights of
        Jeffreys, has not gathered evidence of 20.
    """
    k, n = n_disagreements, n_checked
    if n == 0:
        return 0.0, 1.0
    mixed = betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5)
    limit = -math.log(1.0 - CONFIDENCE)

    def excess(p: float) -> float:
        return float(mixed - xlogy(k, p) - xlog1py(n - k, -p) - limit)

    middle = k / n
    lower = 0.0 if k == 0 else float(brentq(excess, 1e-300, middle))
    upper = 1.0 if k == n else float(brentq(excess, middle, 1.0 - 1e-15))
    return lower, upper
