"""Choose after which trees to look whether rows may leave.

A look costs time: the rows that stay are put together anew, and the trees of a short
stage share few questions. So the checks are chosen that make the expected time least,
by a model of the time that depends on nothing but the forest: the same forest and the
same rows give the same checks on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.runtime.slicing import costs_of_first_trees

if TYPE_CHECKING:
    from spinney.forest import Forest

# Measured, in nanoseconds per row: what a stage costs beside its trees, and how much
# more for every column in use.
COST_STAGE, COST_COLUMN = 6.0, 0.6


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
    # Any stage of so many trees is taken to cost what the first so many do.
    n_columns = len(np.unique(forest.feature[forest.feature >= 0]))
    cost = costs_of_first_trees(forest) + COST_STAGE + COST_COLUMN * n_columns
    # The cheapest way from no tree to all of them, where a stage costs its time for
    # the rows that are left when it begins.
    best = np.zeros(len(steps))
    came_from = np.zeros(len(steps), dtype=np.int64)
    for end in range(1, len(steps)):
        ways = best[:end] + left[:end] * cost[steps[end] - steps[:end]]
        came_from[end] = int(ways.argmin())
        best[end] = ways[came_from[end]]
    checks = []
    at = int(came_from[-1])
    while at > 0:
        checks.append(int(steps[at]))
        at = int(came_from[at])
    return np.array(checks[::-1], dtype=np.int64)
