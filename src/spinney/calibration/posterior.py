"""How likely an event is at a partial score: a logistic curve through rows.

Thresholds that are fitted to the few rows on which an early prediction would be wrong
follow those rows. A curve with two parameters is fitted to all rows and follows none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MAX_STEPS = 100
# Pulls both parameters to zero, in units of the spread of the values: it keeps a curve
# finite where the values part the events without a single exception.
SHRINKAGE = 1e-3
# A step that gains no more than this is the last one, and is taken whole.
LAST_GAIN = 1e-9
# Others are halved until they gain this part of what their slope promises.
LEAST_GAIN, SHORTEST_STEP = 1e-4, 1e-6


def logistic_curve(values: Numbers, happened: NDArray[np.bool_]) -> tuple[float, float]:
    """Return intercept and slope of the log-odds of an event as a line in values.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Values, at least one; those that are not finite are left out.
    happened : ndarray of shape (n_rows,), dtype=bool
        Whether the event happened.

    Returns
    -------
    intercept, slope : float
        The event has probability ``expit(intercept + slope * value)``. The slope is 0
        if all values are the same.

    Notes
    -----
    Maximum likelihood with a slight ridge, by Newton's method. Steps are halved where
    they would overshoot: where values all but part the events, and most rows lie on
    one side, whole steps never come to rest.
    """
    finite = np.isfinite(values)
    values, events = values[finite], happened[finite].astype(np.float64)
    if not len(values):
        return 0.0, 0.0
    centre, spread = float(values.mean()), float(values.std())
    if not spread > 0.0 or not np.isfinite(spread):
        spread = np.inf
    scaled = (values - centre) / spread
    weights = np.zeros(2)
    loss, chance = _loss(weights, scaled, events)
    for _ in range(MAX_STEPS):
        off = chance - events
        gradient = np.array([off.sum(), off @ scaled]) + SHRINKAGE * weights
        bend = chance * (1.0 - chance)
        mixed = bend @ scaled
        curvature = np.array([[bend.sum(), mixed], [mixed, bend @ scaled**2]])
        curvature += SHRINKAGE * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        slope_of_loss = float(gradient @ step)
        if slope_of_loss < LAST_GAIN:
            weights = weights - step
            break
        length = 1.0
        while True:
            tried = weights - length * step
            new_loss, chance = _loss(tried, scaled, events)
            enough = new_loss <= loss - LEAST_GAIN * length * slope_of_loss
            if enough or length < SHORTEST_STEP:
                break
            length *= 0.5
        weights, loss = tried, new_loss
    slope = float(weights[1]) / spread
    return float(weights[0]) - slope * centre, slope


def _loss(weights: Numbers, scaled: Numbers, events: Numbers) -> tuple[float, Numbers]:
    """Return the negative log-likelihood with the ridge, and the chance of each row."""
    odds = weights[0] + weights[1] * scaled
    # Of a negative number, so that it does not overflow.
    small = np.exp(-np.abs(odds))
    chance = np.where(odds < 0.0, small, 1.0) / (1.0 + small)
    fit = np.log1p(small).sum() + np.maximum(odds, 0.0).sum() - odds @ events
    return float(fit) + 0.5 * SHRINKAGE * float(weights @ weights), chance
