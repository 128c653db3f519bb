"""Exits that cannot be wrong: the trees left cannot change the prediction any more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.cascade.dropping import can_drop_classes
from spinney.forest import Forest
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.scoring import (
    decision_threshold,
    rounding_tolerance,
    scoring_forest,
)

Numbers = NDArray[np.float64]


def certain_rule(
    forest: Forest,
    order: NDArray[np.int64],
    points: NDArray[np.int64],
    early_exit: str = "both",
) -> ExitRule:
    """Return a rule whose predictions are those of the forest, on any row.

    Parameters
    ----------
    forest : Forest
        A classifier.
    order : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    points : ndarray of int
        Exit points.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which predictions may be given early.

    Notes
    -----
    What the trees after an exit point can still add lies between the sums of their
    least and of their largest leaf values. Room is left for all that rounding can do,
    both to these sums and to those of the forest, which adds up in its own order and
    precision.
    """
    scoring = scoring_forest(forest, "soft")
    tolerance = rounding_tolerance(forest, scoring, "soft")
    n_sums = scoring.n_outputs
    if not np.isfinite(tolerance) or len(forest.classes_) < 2:  # type: ignore[arg-type]
        return ExitRule.never(order, n_sums)
    least, most = _left_to_add(scoring, order)
    least, most = least[points], most[points]
    reach = np.abs(scoring.value).max() * (forest.n_trees + 2)
    room = tolerance + (forest.n_trees + 2) * 2.0**-52 * reach
    if n_sums == 1:
        threshold = decision_threshold(forest, "soft")
        lower = threshold - most[:, 0] - room
        upper = threshold - least[:, 0] + room
        if early_exit == "negative":
            upper[:] = np.inf
        if early_exit == "positive":
            lower[:] = -np.inf
        return ExitRule.between(order, points, lower, upper)
    # What each class can gain on each that is in front.
    rise = most[:, None, :] - least[:, :, None]
    if can_drop_classes(scoring):
        assert scoring.tree_output is not None
        leads = rise + 2.0 * room
        return ExitRule.dropping(order, points, leads, scoring.tree_output)
    # The class in front has to stay there whichever class it is, and whichever other
    # class gains the most on it.
    rise[:, np.arange(n_sums), np.arange(n_sums)] = -np.inf
    return ExitRule.by_margin(order, points, rise.max(axis=(1, 2)) + 2.0 * room)


def _left_to_add(scoring: Forest, order: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Return the least and the most that trees add after 0, 1, ..., all trees.

    Each of shape (n_trees + 1, n_outputs).
    """
    leaves = (scoring.feature < 0)[:, None]
    starts = scoring.tree_offsets[:-1]
    value = scoring.value
    least = np.minimum.reduceat(np.where(leaves, value, np.inf), starts)
    most = np.maximum.reduceat(np.where(leaves, value, -np.inf), starts)
    if scoring.tree_output is not None:
        of_tree = scoring.tree_output[:, None] == np.arange(scoring.n_outputs)
        least, most = least * of_tree, most * of_tree
    ends = []
    for end in (least, most):
        after = np.zeros((scoring.n_trees + 1, scoring.n_outputs))
        after[:-1] = np.cumsum(end[order][::-1], axis=0)[::-1]
        ends.append(after)
    return ends[0], ends[1]
