"""Thresholds with an equal risk of a wrong prediction at every exit point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from spinney.cascade.paths import Paths

Numbers = NDArray[np.float64]


def thresholds_at(paths: Paths, tolerance: float) -> tuple[Numbers, Numbers]:
    """Return thresholds beyond which the risk of exiting is at most a tolerance.

    There is one number to be chosen for all exit points together, the tolerance, and
    nothing else that could follow single rows.

    Parameters
    ----------
    paths : Paths
        Curves that tell the risk.
    tolerance : float
        Risk of a single prediction, above 0 and below 1.

    Returns
    -------
    lower, upper : ndarray of shape (n_points,)
        Rows leave downwards below `lower`, upwards above `upper`; ``-inf`` and ``inf``
        where they never do.
    """
    rising = paths.slope > 0.0
    slope = np.where(rising, paths.slope, 1.0)
    odds = float(logit(tolerance))
    lower = np.where(rising & paths.down, (odds - paths.intercept) / slope, -np.inf)
    upper = np.where(rising & paths.up, (-odds - paths.intercept) / slope, np.inf)
    # With a tolerance above one half the two would cross.
    return np.minimum(lower, upper), upper
