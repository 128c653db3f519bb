"""Fewer trees with other weights, that predict the same on the rows at hand.

FIPE (2024) and PINE (2026) look for the fewest trees of a boosted model, with new
weights, that predict as the model does everywhere, or in a region that new rows fall
into with a set probability. Both begin with the problem solved here, to predict the
same on given points, and then add points that a mixed-integer program finds. With
hundreds of trees of 31 leaves that program is out of reach, so only the first half is
here: the fewest trees, by the L1 norm of their weights, that keep all predictions on
calibration rows. Every further point can only add trees, so this is the most that
either method could save; its disagreement on new rows is then measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack

import spinney
from spinney.runtime.scoring import decision_threshold, scoring_forest

# Rows that are added to the problem at once, and rounds of that.
MOST_ADDED, MOST_ROUNDS = 300, 30


def signed_scores(model: Any, X: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return each tree's contribution towards the class that the model predicts.

    Parameters
    ----------
    model : fitted model of two classes
        The model.
    X : ndarray of shape (n_rows, n_features)
        Rows.

    Returns
    -------
    scores : ndarray of shape (n_rows, n_trees + 1)
        The last column is a constant: base score and threshold. Sums of rows are
        positive.
    """
    forest = spinney.read_model(model)
    scoring = scoring_forest(forest, "soft")
    rest = float(np.sum(scoring.base_score)) - decision_threshold(forest, "soft")
    scores = scoring.scores(X).astype(np.float64)
    scores = np.column_stack([scores, np.full(len(X), rest)])
    sign = np.where(scores.sum(axis=1) > 0, 1.0, -1.0)
    return scores * sign[:, None]


def fewest_weights(
    scores: NDArray[np.float64], price: float | None
) -> NDArray[np.float64]:
    """Return weights of the trees, most of them zero, that keep the predictions.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_trees + 1)
        As `signed_scores` returns them.
    price : float or None
        What a row costs whose prediction is not kept by the margin, beside a weight
        of 1; None if all have to be kept.
    """
    n_trees = scores.shape[1] - 1
    full = scores.sum(axis=1)
    # The weights of the model itself are all 1 and keep every margin at this size.
    margin = np.minimum(full, np.median(np.abs(full)) * 0.05)
    chosen = np.argsort(full)[:MOST_ADDED]
    weights = np.ones(n_trees + 1)
    for _ in range(MOST_ROUNDS):
        weights = _solved(scores[chosen], margin[chosen], price)
        wrong = np.flatnonzero(scores @ weights <= 0)
        wrong = np.setdiff1d(wrong, chosen)
        if not len(wrong):
            break
        worst = wrong[np.argsort(scores[wrong] @ weights)[:MOST_ADDED]]
        chosen = np.concatenate([chosen, worst])
    return weights


def _solved(
    scores: NDArray[np.float64], margin: NDArray[np.float64], price: float | None
) -> NDArray[np.float64]:
    """Return the weights of least sum, the constant's free of charge and of sign."""
    n_rows, n_weights = scores.shape
    cost = np.r_[np.ones(n_weights - 1), 0.0]
    bounds: list[tuple[float | None, float | None]] = [(0.0, None)] * (n_weights - 1)
    bounds.append((None, None))
    matrix = csr_array(-scores)
    if price is not None:
        matrix = hstack([matrix, -eye_array(n_rows)])
        cost = np.r_[cost, price * np.ones(n_rows) / np.maximum(margin, 1e-12)]
        bounds += [(0.0, None)] * n_rows
    found = linprog(cost, A_ub=matrix, b_ub=-margin, bounds=bounds, method="highs")
    if found.x is None:
        msg = f"the linear program was not solved: {found.message}"
        raise RuntimeError(msg)
    return found.x[:n_weights]
