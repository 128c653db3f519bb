"""Numbers of forests with feature costs: pruned ones, and those grown on a budget."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest.frames import rows_at
from spinney.pruning.frontier import spread_over_costs
from spinney.report.classifiers import feature_costs
from spinney.report.histograms import of_numbers
from spinney.report.values import text_of

# Points of the frontier that are measured on the given rows, and rows for that.
MOST_POINTS = 12
MOST_ROWS = 20_000
# Features that are listed by name.
MOST_FEATURES = 20


def collect_pruner(classifier: Any, X: Any, y: NDArray[Any] | None) -> dict[str, Any]:
    """Return what pruning saves on rows, and what other trade-offs would save.

    Parameters
    ----------
    classifier : FeatureCostPruner
        Fitted.
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,) or None
        True labels.
    """
    before = _with_forest(classifier, classifier.full_forest_)
    labels, full = classifier.predict(X), classifier.predict_full(X)
    used, used_before = classifier.features_used(X), before.features_used(X)
    cost = classifier.feature_cost(X)
    frontier = classifier.frontier_
    costs, cost_of_all = feature_costs(classifier)
    return {
        "kind": "pruning",
        "method": "pruned by feature cost",
        "settings": {"trade_off": classifier.trade_off, "budget": classifier.budget},
        "cost": {
            "mean": cost.mean(),
            "full": before.feature_cost(X).mean(),
            "all_features": cost_of_all,
            "histogram": of_numbers(cost),
        },
        "nodes": {
            "pruned": classifier.forest_.n_nodes,
            "full": classifier.full_forest_.n_nodes,
        },
        "disagreement": _disagreement(labels, full),
        "error": None
        if y is None
        else {"pruned": np.mean(labels != y), "full": np.mean(full != y)},
        "frontier": {
            "cost": frontier.cost,
            "error": frontier.error,
            "ensemble_error": frontier.ensemble_error,
            "trade_off": frontier.trade_off,
            "n_nodes": frontier.n_nodes,
            "chosen": classifier.point_._asdict(),
            "gap": classifier.gap_,
            "measured": [] if y is None else _measured(classifier, X, y),
        },
        "features": _features(
            classifier,
            costs,
            used.mean(axis=0),
            used_before.mean(axis=0),
        ),
    }


def collect_budgeted(classifier: Any, X: Any, y: NDArray[Any] | None) -> dict[str, Any]:
    """Return the features that a forest grown on a budget uses, and its error.

    Parameters
    ----------
    classifier : BudgetedForestClassifier
        Fitted.
    X : array-like of shape (n_rows, n_features)
        Rows.
    y : ndarray of shape (n_rows,) or None
        True labels.
    """
    used = classifier.features_used(X)
    cost = classifier.feature_cost(X)
    costs, cost_of_all = feature_costs(classifier)
    return {
        "kind": "budgeted forest",
        "method": "grown with cheap features first",
        "settings": {"budget": classifier.budget},
        "cost": {
            "mean": cost.mean(),
            "full": None,
            "all_features": cost_of_all,
            "histogram": of_numbers(cost),
        },
        "growth": {"mean_cost": classifier.mean_costs_},
        "error": None if y is None else {"full": np.mean(classifier.predict(X) != y)},
        "features": _features(classifier, costs, used.mean(axis=0), None),
    }


def _with_forest(classifier: Any, forest: Any) -> Any:
    """Return the same classifier with another forest instead of its own."""
    other = copy.copy(classifier)
    other.forest_ = forest
    return other


def _disagreement(labels: NDArray[Any], full: NDArray[Any]) -> dict[str, Any]:
    differing = int(np.count_nonzero(labels != full))
    return {"n_disagreements": differing, "share": differing / len(labels)}


def _measured(classifier: Any, X: Any, y: NDArray[Any]) -> list[dict[str, float]]:
    """Return cost and error on the given rows at points spread over the frontier."""
    if len(y) > MOST_ROWS:
        some = np.sort(np.random.RandomState(0).permutation(len(y))[:MOST_ROWS])
        X, y = rows_at(X, some), y[some]
    spread = spread_over_costs(classifier.frontier_.cost, MOST_POINTS)
    # The forest in use lies on the line, too; it may be none of the frontier.
    forests = [classifier.forest_at(point) for point in spread] + [classifier.forest_]
    points = set()
    for forest in forests:
        other = _with_forest(classifier, forest)
        cost = float(other.feature_cost(X).mean())
        points.add((cost, float(np.mean(other.predict(X) != y))))
    return [
        {"cost": cost, "error": error, "n_rows": len(y)}
        for cost, error in sorted(points, reverse=True)
    ]


def _features(
    classifier: Any,
    costs: NDArray[np.float64],
    bought: NDArray[np.float64],
    before: NDArray[np.float64] | None,
) -> dict[str, Any]:
    """Return the features with the highest total cost, and how many rows need them."""
    names = getattr(classifier, "feature_names_in_", None)
    if names is None or len(names) != len(bought):
        names = classifier.forest_.feature_names
    if names is None or len(names) != len(bought):
        names = [f"column {column}" for column in range(len(bought))]
    spent = costs * (bought if before is None else np.maximum(bought, before))
    order = np.argsort(-spent, kind="stable")
    listed = [column for column in order.tolist() if spent[column] > 0][:MOST_FEATURES]
    return {
        "n_bought": int(np.count_nonzero(bought)),
        "listed": [
            {
                "name": text_of(names[column]),
                "cost": costs[column],
                "bought": bought[column],
                "before": None if before is None else before[column],
            }
            for column in listed
        ],
    }
