"""How long answers take, measured on the spot: a small measurement, not a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

BATCH_ROWS = 4096
SINGLE_ROWS = 200
# Repeats in turn, of which the shortest counts, end after this many seconds.
SECONDS = 0.4
MOST_REPEATS = 15


def measure_times(classifier: Any, X: Any) -> dict[str, Any]:
    """Return microseconds per row, stopping early and with all trees.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        With `predict` and `predict_full`.
    X : array-like of shape (n_rows, n_features)
        Rows, of which the first few thousand are taken.

    Returns
    -------
    times : dict
        ``batch`` and ``batch_full`` for many rows in one call, ``single`` and
        ``single_full`` for one row at a time; None for what cannot be compared.
    """
    n_rows = min(BATCH_ROWS, _num_samples(X))
    rows = _safe_indexing(X, np.arange(n_rows))
    early, full = _shortest(
        lambda: classifier.predict(rows), lambda: classifier.predict_full(rows)
    )
    times = {
        "n_rows": n_rows,
        "batch": 1e6 * early / n_rows,
        "batch_full": 1e6 * full / n_rows,
        "n_single_rows": 0,
        "single": None,
        "single_full": None,
    }
    forest = getattr(classifier, "forest_", None)
    if forest is None or classifier._has_preprocessing():
        return times
    few = list(classifier._rows(rows)[:SINGLE_ROWS])
    one, all_trees = classifier.predictor(), forest.predictor()
    early, full = _shortest(
        lambda: [one(row) for row in few], lambda: [all_trees(row) for row in few]
    )
    return times | {
        "n_single_rows": len(few),
        "single": 1e6 * early / len(few),
        "single_full": 1e6 * full / len(few),
    }


def _shortest(*calls: Callable[[], Any]) -> list[float]:
    """Return the shortest of several times of each call, taken in turn."""
    for call in calls:
        call()  # compiles, and fills the caches
    best = [float("inf")] * len(calls)
    end = perf_counter() + SECONDS
    for _ in range(MOST_REPEATS):
        for place, call in enumerate(calls):
            begin = perf_counter()
            call()
            best[place] = min(best[place], perf_counter() - begin)
        if perf_counter() > end:
            break
    return best
