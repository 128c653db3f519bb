"""Exit points of a cascade: those trees after which checking rows pays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.runtime.planning import plan_exit_points

Points = NDArray[np.int64]

# Each possible exit point is at least so much further than the one before: a finer
# choice gains nothing on new rows.
RATIO = 1.1


def spread_exit_points(n_trees: int) -> Points:
    """Return numbers of trees, each a tenth more than the one before.

    Parameters
    ----------
    n_trees : int
        Number of trees; the exit points end before it.
    """
    points = []
    point = 1
    while point < n_trees:
        points.append(point)
        point = max(point + 1, round(point * RATIO))
    return np.array(points, dtype=np.int64)


def spread_by_rounds(forest: Forest, order: NDArray[np.int64]) -> Points:
    """Return exit points between rounds, where each has a tree for every class.

    Parameters
    ----------
    forest : Forest
        The forest.
    order : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.

    Returns
    -------
    points : ndarray of int
        As `spread_exit_points` has them, of rounds; of trees, if there are no rounds.
    """
    output, n_trees = forest.tree_output, forest.n_trees
    if output is not None and n_trees % forest.n_outputs == 0:
        rounds = np.sort(output[order].reshape(-1, forest.n_outputs), axis=1)
        if np.all(rounds == np.arange(forest.n_outputs)):
            return spread_exit_points(len(rounds)) * forest.n_outputs
    return spread_exit_points(n_trees)


def paying_exit_points(
    forest: Forest,
    points: Points,
    undecided: NDArray[np.float64],
    order: NDArray[np.int64] | None,
    slack: float = 0.0,
) -> Points:
    """Return those of the exit points that pay.

    Parameters
    ----------
    forest : Forest
        The forest.
    points : ndarray of int
        The exit points to choose from.
    undecided : ndarray of shape (n_points,)
        Share of the rows that are still undecided after each.
    order : ndarray of shape (n_trees,) or None
        Trees in the order in which they are evaluated; None if it is drawn at random,
        and which trees come first counts for nothing.
    slack : float, default=0.0
        By what part a batch may take longer where fewer trees are evaluated for it.
    """
    planned = plan_exit_points(forest, points, undecided, order, slack)
    if len(planned) == 0 and len(points):
        # All trees at once are as quick. Evaluating fewer is still what one is here
        # for: one exit point, where it spares most trees.
        evaluated = points + undecided * (forest.n_trees - points)
        planned = points[[int(np.argmin(evaluated))]]
    return planned
