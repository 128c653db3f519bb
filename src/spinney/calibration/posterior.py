"""How likely an event is at a partial score: a logistic curve through rows.

Thresholds that are fitted to the few rows on which an early answer would be wrong
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
PRECISION = 1e-8
# A step is halved until it gains this part of what its slope promises.
LEAST_GAIN = 1e-4
SHORTEST_STEP = 1e-9


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
    loss = _loss(weights, scaled, events)
    for _ in range(MAX_STEPS):
        # tanh does not overflow, and exp of a large number would.
        chance = 0.5 + 0.5 * np.tanh(0.5 * (weights[0] + weights[1] * scaled))
        off = chance - events
        gradient = np.array([off.sum(), off @ scaled]) + SHRINKAGE * weights
        bend = chance * (1.0 - chance)
        mixed = bend @ scaled
        curvature = np.array([[bend.sum(), mixed], [mixed, bend @ scaled**2]])
        curvature += SHRINKAGE * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        if np.abs(step).max() < PRECISION:
            break
        length, gain = 1.0, LEAST_GAIN * float(gradient @ step)
        while length > SHORTEST_STEP:
            tried = weights - length * step
            new_loss = _loss(tried, scaled, events)
            if new_loss <= loss - length * gain:
                break
            length *= 0.5
        else:
            break  # as low as rounding lets it be
        weights, loss = tried, new_loss
    slope = float(weights[1]) / spread
    return float(weights[0]) - slope * centre, slope


def _loss(weights: Numbers, scaled: Numbers, events: Numbers) -> float:
    """Return what is minimised: the negative log-likelihood, and the ridge."""
    odds = weights[0] + weights[1] * scaled
    fit = float(np.logaddexp(0.0, odds).sum() - odds @ events)
    return fit + 0.5 * SHRINKAGE * float(weights @ weights)
