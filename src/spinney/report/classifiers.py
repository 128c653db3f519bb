"""What a report reads from a fitted classifier: the one place that knows how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.early_exit import positive_from, scoring_forest
from spinney.runtime.row_kernels import BETWEEN, BY_COUNT, BY_LEAD, BY_MARGIN


@dataclass(frozen=True)
class Thresholds:
    """Between which numbers a row stays, at each exit point.

    Parameters
    ----------
    what : {"votes", "score", "lead", "lead in votes"}
        What is compared.
    exit_points : ndarray of shape (n_exit_points,)
        Numbers of trees after which a row may leave.
    lower, upper : ndarray of shape (n_exit_points,) or None
        A row leaves outside of them; NaN where no number is low or high enough.
    margin : ndarray of shape (n_exit_points,) or None
        A row leaves if the best class is ahead by more.
    """

    what: str
    exit_points: NDArray[np.int64]
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None
    margin: NDArray[np.float64] | None = None


def is_hard(classifier: Any) -> bool:
    """Whether votes are added up, not scores."""
    return getattr(classifier, "voting_", None) == "hard"


def n_sums(classifier: Any) -> int:
    """Return how many sums there are for a row: one for two classes, else one each."""
    n_classes = len(classifier.classes_)
    return 1 if n_classes <= 2 else n_classes


def exits_early(classifier: Any) -> bool:
    """Whether rows may leave before the last tree."""
    return _first_of(classifier, "exit_points_", "checks_") is not None


def model_labels(classifier: Any, X: Any) -> NDArray[Any]:
    """Return the labels that the trained model's own `predict` gives."""
    labels: NDArray[Any] = _first_of(classifier, "predict_model", "_model_answers")(X)
    return labels


def at_levels(classifier: Any, X: Any, levels: list[float]) -> Iterator[Any]:
    """Yield copies fitted to rows, each to a bound of its own."""
    fit = _first_of(classifier, "at_levels", "_at_levels")
    yield from fit(X, levels)


def full_sums(classifier: Any, X: Any) -> tuple[NDArray[np.floating], float]:
    """Return what all trees add up to, and the decision threshold on it.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        With `predict_counted`.
    X : array-like of shape (n_rows, n_features)
        Rows.

    Returns
    -------
    sums : ndarray of shape (n_rows, n_sums)
        With two classes one sum: the votes for the second class, or its score.
    threshold : float
        With two classes: between the sums of the two answers.
    """
    counting = "votes" if is_hard(classifier) else "scores"
    rows = classifier._rows(X)
    forest = classifier.forest_
    if forest is None:
        sums = classifier._voters.totals(counting, rows)
        return sums, len(classifier.order_) / 2 if is_hard(classifier) else 0.0
    n_jobs = getattr(classifier, "n_jobs", None)
    sums = scoring_forest(forest, counting).engine.raw(rows, n_jobs)
    # Between the numbers of votes for either answer.
    return sums, positive_from(forest, counting) - (0.5 if is_hard(classifier) else 0.0)


def thresholds(classifier: Any) -> Thresholds | None:
    """Return when rows leave, None if never or not by simple thresholds.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        With `predict_counted`.
    """
    executed = _first_of(classifier, "_engine", "_policy")
    rule = getattr(executed, "rule", None)
    if rule is None or getattr(classifier, "_at_once", False) or not len(rule.checks):
        return None
    exit_points, table = rule.checks, rule.stops
    counts = np.arange(table.shape[1])
    if rule.kind == BY_COUNT:
        possible = counts <= exit_points[:, None]
        return Thresholds(
            "votes",
            exit_points,
            lower=_last(possible & (table == 0)),
            upper=_first(possible & (table == 1)),
        )
    if rule.kind == BETWEEN:
        lower, upper = rule.bounds
        return Thresholds("score", exit_points, lower=lower, upper=upper)
    if rule.kind == BY_MARGIN:
        return Thresholds("lead", exit_points, margin=rule.bounds[0])
    assert rule.kind == BY_LEAD
    # By how much the leader must be ahead depends on its votes; the least of it.
    possible = (table >= 0) & (counts <= exit_points[:, None])
    ahead = np.where(possible, counts - np.minimum(table, counts), np.inf)
    return Thresholds("lead in votes", exit_points, margin=ahead.min(axis=1))


def feature_costs(classifier: Any) -> tuple[NDArray[np.float64], float]:
    """Return the cost of each column, and of buying all of them.

    Columns that are bought together share one cost.
    """
    costs = getattr(classifier, "feature_costs_", None)
    if costs is not None:
        return costs, float(costs.sum())
    purchases = _first_of(classifier, "purchases_", "_purchases")
    return purchases.cost[purchases.item_of_column], float(purchases.cost.sum())


def features_used(classifier: Any, X: Any) -> NDArray[np.bool_]:
    """Return which columns each row is compared by."""
    if hasattr(classifier, "features_used"):
        used: NDArray[np.bool_] = classifier.features_used(X)
        return used
    from spinney.pruning.budgeted_growing import mark_used

    rows = classifier.forest_.engine.rows(X)
    used = np.zeros(rows.shape, dtype=bool)
    mark_used(rows, classifier.forest_, used)
    return used


def _first_of(thing: Any, *names: str) -> Any:
    """Return the first attribute that is there and not None; None without one."""
    found = (getattr(thing, name, None) for name in names)
    return next((value for value in found if value is not None), None)


def _last(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the last index in each line that is true, NaN if there is none."""
    index = true.shape[1] - 1 - np.argmax(true[:, ::-1], axis=1)
    return np.where(true.any(axis=1), index, np.nan)


def _first(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the first index in each line that is true, NaN if there is none."""
    return np.where(true.any(axis=1), np.argmax(true, axis=1), np.nan)
