"""The softmax of one row in float32, which takes NumPy as long as the trees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

# Powers of larger differences have fewer digits than others, or are zero.
LARGEST_DIFFERENCE = 87.0

# By so much, relative to itself and for each number that is added up, an exponential
# of doubles may differ from another, or a sum from one in another order.
SLACK = 8 * 2.0**-52

# If no power is smaller, for each of them, doubles hold the sum in any order exactly.
LEAST_OF_EXACT_SUM = 2.0**-29


@kernel(keeps_lock=True)
def softmax_row(raw: NDArray[Any], shares: NDArray[Any]) -> bool:
    """Write ``exp(raw)`` normalised, if its bits do not depend on who computes it.

    The arithmetic is that of `spinney.forest.links.softmax`, with the exponential
    function of the C library in place of NumPy's, and another order of additions. Both
    are doubles that are rounded to float32: unless one is next to where rounding goes
    up instead of down, the outcome is the same.

    Parameters
    ----------
    raw : ndarray of shape (1, n_outputs), dtype=float32
        Raw scores.
    shares : ndarray of the same shape and type
        Overwritten.

    Returns
    -------
    is_sure : bool
        Whether the bits are those of `links.softmax`. If not, `shares` is of no use:
        scores far apart, infinite or missing are left to that function, too.
    """
    n = raw.shape[1]
    largest = least = raw[0, 0]
    for c in range(n):
        score = raw[0, c]
        if not abs(score) < np.inf:
            return False
        largest = max(largest, score)
        least = min(least, score)
    if np.float64(largest) - np.float64(least) > LARGEST_DIFFERENCE:
        return False
    more, less = 1.0 + n * SLACK, 1.0 - n * SLACK
    total, smallest = 0.0, 1.0
    is_sure = True
    for c in range(n):
        power = math.exp(np.float64(np.float32(raw[0, c] - largest)))
        rounded = np.float32(power * less)
        is_sure &= rounded == np.float32(power * more)
        shares[0, c] = rounded
        total += np.float64(rounded)
        smallest = min(smallest, np.float64(rounded))
    divisor = np.float32(total)
    if smallest < n * LEAST_OF_EXACT_SUM:
        is_sure &= np.float32(total * less) == np.float32(total * more)
    for c in range(n):
        shares[0, c] /= divisor
    return is_sure
