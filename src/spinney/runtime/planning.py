"""Choose after which trees to look whether rows may leave.

A look costs time: a stage has to be begun, its rows are read again, and the trees of a
short stage share few questions. So the checks are chosen that make the expected time of
a batch least, by a model of the time that depends on nothing but the forest: the same
forest and the same rows give the same checks on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.runtime.bitslicing import costs_of_first_trees

if TYPE_CHECKING:
    from spinney.forest import Forest

# Measured, in nanoseconds: what a stage costs beside its trees, for a batch, for each
# row, and for each row and column in use. The first is from when every stage was a call
# of its own; within one call a stage costs less, so somewhat too few looks are planned.
COST_BATCH, COST_ROW, COST_COLUMN = 40_000.0, 6.0, 0.6

# The batches that checks are chosen for. Rows are asked by the hundred, and a stage of
# fewer costs as if it had some more.
BATCH_ROWS, MORE_ROWS = 10_000, 128


def plan_checks(
    forest: Forest, steps: ArrayLike, undecided: ArrayLike
) -> NDArray[np.int64]:
    """Return the steps at which to look whether rows may leave.

    Parameters
    ----------
    forest : Forest
        The forest, its trees in the order in which they are asked.
    steps : array-like of shape (n_steps,)
        Numbers of trees, ascending, after which a look is possible.
    undecided : array-like of shape (n_steps,)
        Share of the rows that are still undecided after a look at each.

    Returns
    -------
    checks : ndarray of shape (n_checks,), dtype=int64
        Some of the steps. None at all if looking costs more than it saves.
    """
    steps = np.concatenate([[0], np.asarray(steps, dtype=np.int64), [forest.n_trees]])
    left = np.concatenate([[1.0], np.asarray(undecided, dtype=np.float64), [0.0]])
    cost = _costs_of_stages(forest)
    n_rows = BATCH_ROWS * left + MORE_ROWS
    # The cheapest way from no tree to all of them, where a stage costs its time for
    # the rows that are left when it begins.
    best = np.zeros(len(steps))
    came_from = np.zeros(len(steps), dtype=np.int64)
    for end in range(1, len(steps)):
        n_trees = steps[end] - steps[:end]
        ways = best[:end] + COST_BATCH + n_rows[:end] * cost[n_trees]
        came_from[end] = int(ways.argmin())
        best[end] = ways[came_from[end]]
    checks = []
    at = int(came_from[-1])
    while at > 0:
        checks.append(int(steps[at]))
        at = int(came_from[at])
    return np.array(checks[::-1], dtype=np.int64)


def expected_time(forest: Forest, checks: ArrayLike, undecided: ArrayLike) -> float:
    """Return the time of a batch by the model that `plan_checks` goes by.

    Parameters
    ----------
    forest : Forest
        The forest, its trees in the order in which they are asked.
    checks : array-like of shape (n_checks,)
        Numbers of trees, ascending, after which rows may leave.
    undecided : array-like of shape (n_checks,)
        Share of the rows that are still undecided after each.

    Returns
    -------
    time : float
        In nanoseconds, for `BATCH_ROWS` rows.
    """
    ends = np.concatenate([[0], np.asarray(checks, dtype=np.int64), [forest.n_trees]])
    left = np.concatenate([[1.0], np.asarray(undecided, dtype=np.float64)])
    cost = _costs_of_stages(forest)[np.diff(ends)]
    return float(np.sum(COST_BATCH + (BATCH_ROWS * left + MORE_ROWS) * cost))


def _costs_of_stages(forest: Forest) -> NDArray[np.float64]:
    """Return what a stage of 0, 1, ..., all trees costs for a row.

    Any stage of so many trees is taken to cost what the first so many do.
    """
    costs = costs_of_first_trees(forest) + COST_ROW
    return costs + COST_COLUMN * _columns_of_first_trees(forest)


def _columns_of_first_trees(forest: Forest) -> NDArray[np.int64]:
    """Return how many columns the first 0, 1, ..., all trees look at."""
    inner = np.flatnonzero(forest.feature >= 0)
    _, first = np.unique(forest.feature[inner], return_index=True)
    tree = np.searchsorted(forest.tree_offsets, inner[first], side="right") - 1
    n_new = np.bincount(tree, minlength=forest.n_trees)
    return np.concatenate([[0], np.cumsum(n_new)])
