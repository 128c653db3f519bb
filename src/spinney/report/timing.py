"""How long predictions take: a short measurement, not a benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from spinney.acceleration.timing import Timer, rows_for_predictor, run_in_turn
from spinney.base.estimator import unwrapped
from spinney.forest import Forest
from spinney.forest.frames import rows_at

BATCH_ROWS = 4096
SINGLE_ROWS = 200
# Rows that the original model predicts one at a time; most take a millisecond and more.
ORIGINAL_ROWS = 10
# Samples in turn, of which the shortest counts, end after this many seconds.
SECONDS = 0.4
MOST_SAMPLES = 15


def measure_times(classifier: Any, X: Any) -> dict[str, Any]:
    """Return microseconds per row: with early exit, all trees, and the original model.

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
        ``single_full`` for one row at a time; ``batch_original`` and
        ``single_original`` for the own `predict` of the model, called ``original``, if
        it is available. None for what cannot be compared.
    """
    n_rows = min(BATCH_ROWS, _num_samples(X))
    rows = rows_at(X, np.arange(n_rows))
    batch, batch_full = _microseconds(
        Timer(classifier.predict, [rows], n_calls=1),
        Timer(classifier.predict_full, [rows], n_calls=1),
    )
    times = {
        "n_rows": n_rows,
        "batch": batch / n_rows,
        "batch_full": batch_full / n_rows,
        "n_single_rows": 0,
        "single": None,
        "single_full": None,
        **_times_of_original(classifier, rows, n_rows),
    }
    if classifier.forest_ is None:
        return times
    few = rows_for_predictor(classifier, rows, SINGLE_ROWS)
    if few is None:
        return times
    single, single_full = _microseconds(
        Timer(classifier.predictor(), list(few), n_calls=len(few)),
        Timer(classifier.forest_.predictor(), list(few), n_calls=len(few)),
    )
    return times | {
        "n_single_rows": len(few),
        "single": single,
        "single_full": single_full,
    }


def _times_of_original(classifier: Any, rows: Any, n_rows: int) -> dict[str, Any]:
    """Return how long the model's own `predict` takes, if the model is available.

    It is not if the model or the classifier was read from a file.
    """
    nothing = {"original": None, "batch_original": None, "single_original": None}
    model = getattr(classifier, "estimator_", None)
    if model is None or classifier.forest_ is None:
        return nothing
    model = unwrapped(model)
    if isinstance(model, Forest) or not callable(getattr(model, "predict", None)):
        return nothing
    few = [rows_at(rows, [k]) for k in range(min(n_rows, ORIGINAL_ROWS))]
    # A library may refuse rows that spinney takes, with any exception.
    try:
        batch, single = _microseconds(
            Timer(model.predict, [rows], n_calls=1),
            Timer(model.predict, few, n_calls=len(few)),
            min_samples=2,
        )
    except Exception:
        return nothing
    return {
        "original": type(model).__name__,
        "batch_original": batch / n_rows,
        "single_original": single,
    }


def _microseconds(*timers: Timer, min_samples: int = 3) -> list[float]:
    """Return the shortest of several times of each call, taken in turn."""
    run_in_turn(timers, SECONDS, min_samples=min_samples, max_samples=MOST_SAMPLES)
    return [1e6 * one.shortest for one in timers]
