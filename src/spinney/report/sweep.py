"""What another level of allowed disagreement would give."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from spinney.calibration.limits import largest_bound
from spinney.calibration.row_splits import split_rows
from spinney.errors import SpinneyWarning
from spinney.report.classifiers import (
    exits_early,
    n_sums,
)

# Levels as multiples of the classifier's own, up to the largest that makes sense.
MULTIPLES = (0.1, 0.3, 3.0, 10.0, 30.0, 100.0)
LARGEST = 0.2
WITHOUT_OWN = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
MOST_ROWS = 20_000
# Where every voter is a call, fewer will have to do.
MOST_CALLED_ROWS = 1_000
# Soft votes are solved for over many orders of the trees: seconds for more scores.
MOST_SOFT_SCORES = 400_000
FEWEST_SOFT_ROWS = 1_000
FEWEST_ROWS = 50


def levels_around(own: float) -> list[float]:
    """Return the levels to try: the classifier's own, none at all, and others.

    Parameters
    ----------
    own : float
        The classifier's `max_disagreement`.
    """
    if own <= 0.0:
        return [0.0, *WITHOUT_OWN]
    others = (float(f"{multiple * own:.3g}") for multiple in MULTIPLES)
    return sorted({0.0, own, *(level for level in others if level <= LARGEST)})


def sweep_levels(classifier: Any, X: Any) -> dict[str, Any]:
    """Fit at several levels on one half of some rows, and measure on the other.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        One that stops early at a level of disagreement.
    X : array-like of shape (n_rows, n_features)
        Rows; of many, a random part is taken.

    Returns
    -------
    sweep : dict
        ``points``, one for each level, and the numbers of rows; without points there
        is a ``reason``.
    """
    nothing = {"points": [], "n_fitted": 0, "n_measured": 0, "reason": None}
    if not exits_early(classifier):
        return nothing | {"reason": "All trees are always evaluated, at any level."}
    if len(classifier.classes_) == 1:
        return nothing | {"reason": "There is one class only, and nothing to decide."}
    n_rows = _num_samples(X)
    if n_rows < FEWEST_ROWS:
        reason = (
            "Other levels are fitted on one half of the rows and measured on the "
            f"other, and {n_rows} rows are too few for that: pass {FEWEST_ROWS} or "
            "more."
        )
        return nothing | {"reason": reason}
    limit = MOST_ROWS if classifier.forest_ is not None else MOST_CALLED_ROWS
    rng = np.random.RandomState(0)
    kept = rng.permutation(n_rows)[:limit]
    first, second = split_rows(len(kept), (1.0, 1.0), rng)
    if getattr(classifier, "voting_", None) == "soft":
        n_scores = len(classifier.order_) * n_sums(classifier)
        first = first[: max(FEWEST_SOFT_ROWS, MOST_SOFT_SCORES // n_scores)]
    to_fit = _safe_indexing(X, np.sort(kept[first]))
    to_measure = _safe_indexing(X, np.sort(kept[second]))
    own = largest_bound(classifier.max_disagreement)
    levels = levels_around(own)
    with warnings.catch_warnings():
        # Few rows, or one answer for all of them: the numbers show it.
        warnings.simplefilter("ignore", SpinneyWarning)
        fitted = list(classifier.at_levels(to_fit, levels))
    expected = classifier.predict_model(to_measure)
    n_trees = len(classifier.order_)
    points = []
    for level, candidate in zip(levels, fitted, strict=True):
        labels, n_evaluated = candidate.predict_counted(to_measure)
        differing = int(np.count_nonzero(labels != expected))
        trees = float(n_evaluated.mean())
        points.append(
            {
                "level": level,
                "is_own": level == own,
                "trees": trees,
                "share": trees / n_trees,
                "n_disagreements": differing,
                "disagreement": differing / len(second),
                "speed_up": n_trees / trees if trees else None,
            }
        )
    return nothing | {
        "points": points,
        "n_fitted": len(first),
        "n_measured": len(second),
    }
