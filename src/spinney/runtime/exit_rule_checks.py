"""What may be wrong with the parts of an exit rule: kernels do not validate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.runtime.count_tables import PER_WORD, n_ranks, unpacked
from spinney.runtime.exit_kinds import (
    BETWEEN,
    BY_ALL_COUNTS,
    BY_BIN,
    BY_COUNT,
    BY_LEAD,
    BY_MARGIN,
    DROPPING,
)

if TYPE_CHECKING:
    from spinney.runtime.exit_rule import ExitRule

VOTINGS = ("hard", "soft")
# A prediction of four bits is one of so many classes, or to stay.
MOST_CLASSES = 15


def problem_of(rule: ExitRule, n_trees: int, n_sums: int) -> str | None:
    """Return what is wrong with the parts of this rule, None if nothing is."""
    points, table = rule.exit_points, rule.table
    n_points = len(points)
    ends = np.concatenate([[0], points, [n_trees]]) if points.ndim == 1 else points
    if points.ndim != 1 or (ends[1:] <= ends[:-1]).any():
        return f"exit points must rise from 1 to at most {n_trees - 1}"
    if rule.voting not in VOTINGS:
        return f"voting must be one of {', '.join(VOTINGS)}"
    if rule.kind in (BETWEEN, BY_MARGIN):
        if rule.bounds.shape != (2, n_points) or np.isnan(rule.bounds).any():
            return "there must be two bounds for each exit point, none of them NaN"
    elif rule.kind == DROPPING:
        if rule.voting != "soft":
            return "classes are dropped by scores, not by votes"
    elif rule.kind == BY_BIN:
        if rule.bins is None or not rule.bins.fit_together(n_points):
            return "its bins do not fit together"
    elif rule.kind not in (BY_COUNT, BY_LEAD, BY_ALL_COUNTS) or rule.voting != "hard":
        return "a rule by votes needs votes to be counted"
    elif rule.kind == BY_ALL_COUNTS:
        return _problem_of_count_tables(rule, n_sums)
    elif table.ndim != 2 or len(table) != n_points or table.shape[1] <= n_trees:
        return "there must be an entry for each exit point and each number of votes"
    elif rule.kind == BY_COUNT and ((table < -1) | (table > 1)).any():
        return "answers must be -1, 0 or 1"
    return None


def _problem_of_count_tables(rule: ExitRule, n_sums: int) -> str | None:
    """Return what is wrong with tables by the votes of all classes."""
    table, points = rule.table, rule.exit_points
    if not 1 < n_sums <= MOST_CLASSES:
        return f"a rule by all votes is for up to {MOST_CLASSES} classes"
    if table.ndim != 2 or len(table) != len(points):
        return "there must be a table of predictions for each exit point"
    width = PER_WORD * table.shape[1]
    for k, point in enumerate(points.tolist()):
        if n_ranks(point, n_sums) > width:
            return "there must be a prediction for all that votes can come to"
        if unpacked(table[k], np.arange(width)).max() >= n_sums:
            return "answers must be classes"
    return None


def problem_of_dropping(
    rule: ExitRule, n_sums: int, tree_class: ArrayLike | None
) -> str | None:
    """Return what is wrong with the parts of a rule that drops classes."""
    shape = (len(rule.exit_points), n_sums * n_sums)
    if n_sums < 2 or tree_class is None:
        return "classes can be dropped only where each tree adds to one of several"
    if rule.bounds.shape != shape or np.isnan(rule.bounds).any():
        return "there must be a lead for each exit point and pair of classes"
    stages = trees_of_stages(rule.order, rule.exit_points, tree_class, n_sums)
    if not np.array_equal(rule.table, stages):
        return "it counts the trees of the classes otherwise than they are"
    return None


def trees_of_stages(
    order: ArrayLike, exit_points: ArrayLike, tree_class: ArrayLike, n_classes: int
) -> NDArray[np.int32]:
    """Return how many trees add to each class between exit points.

    Parameters
    ----------
    order : array-like of shape (n_trees,)
        Trees in the order in which they are evaluated.
    exit_points : array-like of int
        Exit points.
    tree_class : array-like of shape (n_trees,)
        The one class that each tree adds to.
    n_classes : int
        Number of classes.

    Returns
    -------
    n_trees : ndarray of shape (n_exit_points + 1, n_classes), dtype=int32
        The last stage goes from the last exit point to the end.
    """
    classes = np.asarray(tree_class)[np.asarray(order)]
    of_class = classes[:, None] == np.arange(n_classes)
    ends = np.concatenate(
        [[0], np.asarray(exit_points, dtype=np.int64), [len(classes)]]
    )
    so_far = np.concatenate([np.zeros((1, n_classes)), np.cumsum(of_class, axis=0)])
    return np.diff(so_far[ends], axis=0).astype(np.int32)
