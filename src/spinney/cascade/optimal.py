"""Thresholds with the least mean cost, where a wrong prediction has a price.

At every exit point a row either leaves, at the cost of the trees so far and the price
of the risk that its prediction is wrong, or goes on. What going on is worth is known
once the thresholds of all later exit points are: so they are found from the last to the
first. The risk comes from curves (see `spinney.cascade.paths`) and not from counting
the few rows that would be wrong, so there is little that thresholds could overfit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.cascade.paths import Paths

Numbers = NDArray[np.float64]


def optimal_at(paths: Paths, price: float) -> tuple[Numbers, Numbers]:
    """Return the thresholds with the least mean cost at a price of a wrong prediction.

    Parameters
    ----------
    paths : Paths
        Rows on their way, and what exiting risks.
    price : float
        What a wrong prediction costs, in units of the cost of all trees.

    Returns
    -------
    lower, upper : ndarray of shape (n_points,)
        Rows leave downwards below `lower`, upwards above `upper`; ``-inf`` and ``inf``
        where they never do.

    Notes
    -----
    Each pair of thresholds is the best one given those of later exit points, over all
    rows that get this far under no thresholds at all. (A row that would have exited
    before has little weight in it: both predictions cost it about the same.)
    """
    n_points, n_paths = paths.values.shape
    price = price * float(paths.costs[-1])
    lower, upper = np.full(n_points, -np.inf), np.full(n_points, np.inf)
    going_on = np.full(n_paths, float(paths.costs[-1]))
    for k in range(n_points - 1, -1, -1):
        if not paths.slope[k] > 0.0:
            continue
        risk_down, risk_up = paths.risks(k)
        down, up = (paths.costs[k] + price * risk for risk in (risk_down, risk_up))
        sequence = np.argsort(paths.values[k], kind="stable")
        values = paths.values[k, sequence]
        # What is gained if the first i rows exit downwards, all from j on upwards.
        gain_down = np.append(0.0, np.cumsum((going_on - down)[sequence]))
        gain_up = (going_on - up)[sequence][::-1]
        gain_up = np.append(0.0, np.cumsum(gain_up))[::-1]
        if not paths.down:
            gain_down[1:] = -np.inf
        if not paths.up:
            gain_up[:-1] = -np.inf
        best_down = np.maximum.accumulate(gain_down)
        j = int(np.argmax(best_down + gain_up))
        i = int(np.argmax(gain_down[: j + 1]))
        # Beyond the values that were seen, rows go on.
        if i > 0:
            above = values[i] if i < n_paths else np.nextafter(values[-1], np.inf)
            lower[k] = 0.5 * (values[i - 1] + above)
        if j < n_paths:
            below = values[j - 1] if j > 0 else np.nextafter(values[0], -np.inf)
            upper[k] = 0.5 * (below + values[j])
        falls, rises = paths.values[k] < lower[k], paths.values[k] > upper[k]
        going_on = np.where(falls, down, np.where(rises, up, going_on))
    return lower, upper
