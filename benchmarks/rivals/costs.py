"""Features that cost something: LightGBM's cost-aware training beside pruning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney
from benchmarks import data
from spinney.pruning.lazy import predict_lazily

DATASETS = ("spambase", "magic", "miniboone_5k_partial")
N_TREES = {"forest": 40, "lightgbm": 40}
# Of LightGBM's cegb_tradeoff, with a penalty of 1 for every column of every row.
TRADE_OFFS = (0.0, *np.geomspace(1e-6, 1e-1, 11))
# Points of the frontier of pruned forests that are measured.
N_POINTS = 60
# Columns bought per row for which the least error is told.
SHARES = (0.1, 0.2, 0.3, 0.5)


def measure(dataset: str) -> dict[str, Any]:
    """Return (columns bought per row, error) along both frontiers.

    Trained and pruned on 60 % of the rows, measured on the others. Every column costs
    1, bought once per row for all trees.
    """
    table = data.load(dataset)
    order = np.random.default_rng(0).permutation(len(table.y))
    train, new = np.split(order, [int(0.6 * len(order))])
    X, y = table.X, table.y
    return {
        "dataset": dataset,
        "n_columns": X.shape[1],
        "pruned forest": _pruned(X[train], y[train], X[new], y[new]),
        "LightGBM, CEGB": _boosted(X[train], y[train], X[new], y[new]),
    }


def least_error(points: list[tuple[float, float]], budget: float) -> float | None:
    """Return the least error among points that cost at most a budget."""
    return min((error for cost, error in points if cost <= budget), default=None)


def _pruned(
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    X_new: NDArray[np.float32],
    y_new: NDArray[np.int64],
) -> list[tuple[float, float]]:
    forest = RandomForestClassifier(N_TREES["forest"], random_state=0).fit(X, y)
    pruner = spinney.FeatureCostPruner(FrozenEstimator(forest), trade_off=0.0)
    pruner.fit(X, y)
    # Points of the frontier at costs that are evenly spread.
    cost = pruner.frontier_.cost
    wanted = np.linspace(cost.min(), cost.max(), N_POINTS)
    kept = np.unique(np.abs(cost[:, None] - wanted).argmin(axis=0))
    return [_point(pruner.forest_at(int(k)), X_new, y_new) for k in kept]


def _boosted(
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    X_new: NDArray[np.float32],
    y_new: NDArray[np.int64],
) -> list[tuple[float, float]]:
    import lightgbm

    points = []
    for trade_off in TRADE_OFFS:
        model = lightgbm.LGBMClassifier(
            n_estimators=N_TREES["lightgbm"],
            cegb_tradeoff=trade_off,
            cegb_penalty_feature_lazy=[1.0] * X.shape[1] if trade_off else None,
            n_jobs=1,
            verbose=-1,
        ).fit(X, y)
        points.append(_point(spinney.read_model(model), X_new, y_new))
    return points


def _point(
    forest: spinney.Forest, X: NDArray[np.float32], y: NDArray[np.int64]
) -> tuple[float, float]:
    """Return columns bought per row, and the error."""
    found = predict_lazily(forest, lambda column, rows: X[rows, column], len(X))
    return float(found.bought.sum(axis=1).mean()), float((found.labels != y).mean())
