"""Choose the exit points: after which trees rows may exit.

An exit point costs time: a stage has to be begun, its rows are read again, and the
trees of a short stage share few splits. So those exit points are chosen that make the
expected time of a batch least, by a model of the time that depends on nothing but the
forest: the same forest and the same rows give the same exit points on every machine.

Where the trees come in random order and a promise is about that order, nothing may be
planned from the order drawn: exit points that lie where the small trees end would be a
hint at how those have voted. Any so many trees are then taken to cost what they do on
average over all orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.runtime.tree_costs import (
    costs_of_first_trees,
    mean_costs_of_trees,
    shares_met,
)

if TYPE_CHECKING:
    from spinney.forest import Forest

# Measured, in nanoseconds: what a stage costs beside its trees, for a batch, for each
# row, for each row and column in use, and for each row and class if there are several.
# Bitsliced trees take less (3,000 and 3 for a batch and a row) and walked ones more (up
# to 40 for a row); these make batches of either take the least time.
COST_BATCH, COST_ROW, COST_COLUMN, COST_CLASS = 10_000.0, 10.0, 0.6, 3.0

# The batches that exit points are chosen for. Rows are evaluated by the hundred, and a
# stage of fewer costs as if it had some more.
BATCH_ROWS, MORE_ROWS = 10_000, 128

# Where a batch may take longer, exit points are planned as if a stage cost less beside
# its trees: by these weights, as long as the time allows it.
WEIGHTS = (0.8, 0.65, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05)


def plan_exit_points(
    forest: Forest,
    steps: ArrayLike,
    undecided: ArrayLike,
    order: NDArray[np.int64] | None = None,
    slack: float = 0.0,
) -> NDArray[np.int64]:
    """Return the exit points that make a batch take the least time.

    Parameters
    ----------
    forest : Forest
        The forest.
    steps : array-like of shape (n_steps,)
        Numbers of trees, ascending, after which rows could leave.
    undecided : array-like of shape (n_steps,)
        Share of the rows that are still undecided after each.
    order : ndarray of shape (n_trees,), optional
        Order in which the trees are evaluated; None if it is drawn at random.
    slack : float, default=0.0
        By what part a batch may take longer where fewer trees are evaluated for it.

    Returns
    -------
    exit_points : ndarray of shape (n_exit_points,), dtype=int64
        Some of the steps. None at all if they cost more than they save.
    """
    steps = np.concatenate([[0], np.asarray(steps, dtype=np.int64), [forest.n_trees]])
    left = np.concatenate([[1.0], np.asarray(undecided, dtype=np.float64), [0.0]])
    trees, beside = _costs_of_stages(forest, order)
    n_rows = BATCH_ROWS * left + MORE_ROWS

    def time_of(plan: list[int]) -> float:
        n_trees = np.diff(steps[plan])
        stages = n_rows[plan[:-1]] * (trees[n_trees] + beside[n_trees])
        return float(stages.sum()) + COST_BATCH * len(stages)

    chosen = _cheapest_way(steps, n_rows, trees, beside, 1.0)
    longest = (1.0 + slack) * time_of(chosen)
    for weight in WEIGHTS if slack > 0.0 else ():
        tried = _cheapest_way(steps, n_rows, trees, beside, weight)
        if time_of(tried) > longest:
            break
        chosen = tried
    return steps[chosen[1:-1]]


def _cheapest_way(
    steps: NDArray[np.int64],
    n_rows: NDArray[np.float64],
    trees: NDArray[np.float64],
    beside: NDArray[np.float64],
    weight: float,
) -> list[int]:
    """Return the cheapest way from no tree to all of them, as indices of steps.

    A stage costs its time for the rows that are left when it begins; what it takes
    beside its trees counts by the weight.
    """
    best = np.zeros(len(steps))
    came_from = np.zeros(len(steps), dtype=np.int64)
    for end in range(1, len(steps)):
        n_trees = steps[end] - steps[:end]
        per_row = trees[n_trees] + weight * beside[n_trees]
        ways = best[:end] + weight * COST_BATCH + n_rows[:end] * per_row
        came_from[end] = int(ways.argmin())
        best[end] = ways[came_from[end]]
    way = [len(steps) - 1]
    while way[-1] > 0:
        way.append(int(came_from[way[-1]]))
    return way[::-1]


def _costs_of_stages(
    forest: Forest, order: NDArray[np.int64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what 0, 1, ..., all trees cost for a row, and a stage of them beside.

    Any stage of so many trees is taken to cost what the first so many do, or, without
    an order, so many on average.
    """
    if order is None:
        costs = mean_costs_of_trees(forest)
        n_columns: NDArray[Any] = _mean_columns_of_trees(forest)
    else:
        forest = forest.take(order)
        costs = costs_of_first_trees(forest)
        n_columns = _columns_of_first_trees(forest)
    n_sums = len(forest.classes_) if forest.classes_ is not None else 1
    per_row = COST_ROW + (COST_CLASS * n_sums if n_sums > 2 else 0.0)
    return costs, per_row + COST_COLUMN * n_columns


def _mean_columns_of_trees(forest: Forest) -> NDArray[np.float64]:
    """Return how many columns 0, 1, ..., all trees look at, on average."""
    n_trees, n_features = forest.n_trees, forest.n_features
    inner = np.flatnonzero(forest.feature >= 0)
    tree = np.searchsorted(forest.tree_offsets, inner, side="right") - 1
    pairs = np.unique(forest.feature[inner].astype(np.int64) * n_trees + tree)
    n_having = np.bincount(pairs // n_trees, minlength=n_features)
    distinct, times = np.unique(n_having, return_counts=True)
    return times @ shares_met(n_trees, distinct)


def _columns_of_first_trees(forest: Forest) -> NDArray[np.int64]:
    """Return how many columns the first 0, 1, ..., all trees look at."""
    inner = np.flatnonzero(forest.feature >= 0)
    _, first = np.unique(forest.feature[inner], return_index=True)
    tree = np.searchsorted(forest.tree_offsets, inner[first], side="right") - 1
    n_new = np.bincount(tree, minlength=forest.n_trees)
    return np.concatenate([[0], np.cumsum(n_new)])
