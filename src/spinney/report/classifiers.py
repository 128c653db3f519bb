"""Access to the fitted attributes that a report needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.count_tables import counts_of_ranks, unpacked
from spinney.runtime.exit_kinds import (
    BETWEEN,
    BY_ALL_COUNTS,
    BY_COUNT,
    BY_LEAD,
    BY_MARGIN,
    DROPPING,
)
from spinney.runtime.exit_rule import ExitRule


@dataclass(frozen=True)
class Thresholds:
    """Between which numbers a row stays, at each exit point.

    Parameters
    ----------
    what : {"votes", "score", "lead", "lead in votes"}
        What is compared.
    exit_points : ndarray of shape (n_exit_points,)
        Numbers of trees after which a row may exit.
    lower, upper : ndarray of shape (n_exit_points,) or None
        A row exits outside of them; NaN where no number is low or high enough.
    margin : ndarray of shape (n_exit_points,) or None
        A row exits if the best class is ahead by more.
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
    """Whether rows may exit before the last tree."""
    return hasattr(classifier, "exit_points_")


def thresholds(classifier: Any) -> Thresholds | None:
    """Return when rows exit, None if never or not by simple thresholds.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        With `predict_counted`.
    """
    rule = getattr(classifier, "rule_", None)
    if rule is None or rule.at_once or rule.bins or not len(rule.exit_points):
        return None
    if rule.kind == DROPPING:
        return None
    exit_points, table = rule.exit_points, rule.table
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
    if rule.kind == BY_ALL_COUNTS:
        margin = _least_leads(rule, len(classifier.classes_))
        return Thresholds("lead in votes", exit_points, margin=margin)
    assert rule.kind == BY_LEAD
    # By how much the leader must be ahead depends on its votes; the least of it.
    possible = (table >= 0) & (counts <= exit_points[:, None])
    ahead = np.where(possible, counts - np.minimum(table, counts), np.inf)
    return Thresholds("lead in votes", exit_points, margin=ahead.min(axis=1))


def _least_leads(rule: ExitRule, n_classes: int) -> NDArray[np.float64]:
    """Return the least lead with which rows exit, at each exit point."""
    margin = np.full(len(rule.exit_points), np.inf)
    for k, point in enumerate(rule.exit_points.tolist()):
        counts = counts_of_ranks(point, n_classes)
        leaves = unpacked(rule.table[k], np.arange(len(counts))) >= 0
        if leaves.any():
            ordered = np.sort(counts[leaves], axis=1)
            margin[k] = (ordered[:, -1] - ordered[:, -2]).min()
    return margin


def feature_costs(classifier: Any) -> tuple[NDArray[np.float64], float]:
    """Return the cost of each column, and of buying all of them.

    Columns that are bought together share one cost.
    """
    costs = getattr(classifier, "feature_costs_", None)
    if costs is not None:
        return costs, float(costs.sum())
    purchases = classifier.purchases_
    return purchases.cost[purchases.item_of_column], float(purchases.cost.sum())


def _last(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the last index in each line that is true, NaN if there is none."""
    index = true.shape[1] - 1 - np.argmax(true[:, ::-1], axis=1)
    return np.where(true.any(axis=1), index, np.nan)


def _first(true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the first index in each line that is true, NaN if there is none."""
    return np.where(true.any(axis=1), np.argmax(true, axis=1), np.nan)
