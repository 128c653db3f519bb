"""Evidence on a bound that may be read after every row.

An e-process stays small as long as the disagreement keeps its bound, and grows without
limit once it does not. A confidence sequence is an interval that holds at all times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaln, xlog1py, xlogy

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
    log_weights, grown, shrunk = _mixture(bound)
    each = (
        log_weights + n_disagreements * grown + (n_checked - n_disagreements) * shrunk
    )
    return log_sum(each.tolist())


@lru_cache(maxsize=128)
def _mixture(bound: float) -> tuple[NDArray[np.float64], ...]:
    """Return logarithms: weights, and the ratios of a disagreement and of none."""
    larger = bound * MULTIPLES
    larger = larger[larger < 1.0]
    if not len(larger):
        larger = np.array([0.5 * (1.0 + bound)])
    weights = 1.0 / larger
    log_weights = np.log(weights / weights.sum())
    return log_weights, np.log(larger / bound), np.log1p(-larger) - math.log1p(-bound)


def mean_log_e(
    counts: Mapping[Any, Sequence[int]], bounds: Mapping[Any, float]
) -> float:
    """Return the logarithm of the mean of the evidence against each of some bounds.

    Parameters
    ----------
    counts : mapping
        By class: rows checked, and disagreements among them.
    bounds : mapping
        The bound of each class.
    """
    each = [
        log_e_value(wrong, checked, bounds[label])
        for label, (checked, wrong) in counts.items()
    ]
    return log_sum(each) - math.log(len(each))


def log_sum(logs: Sequence[float]) -> float:
    """Return the logarithm of the sum of numbers, of which logarithms are given.

    Parameters
    ----------
    logs : sequence of float
        At least one; infinity if a number is.
    """
    # SciPy's takes longer than to evaluate all trees for a few rows.
    top = max(logs)
    if math.isinf(top):
        return top
    return top + math.log(sum(math.exp(one - top) for one in logs))


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
