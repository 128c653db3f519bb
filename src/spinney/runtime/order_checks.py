"""Check the order of trees and the exit points that a user gives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError


def check_order(order: ArrayLike, n_trees: int) -> NDArray[np.int64]:
    """Return an order of all trees as an array of its own, or raise.

    Parameters
    ----------
    order : array-like of shape (n_trees,)
        A permutation of the trees.
    n_trees : int
        Number of trees.
    """
    hint = f"Pass every number from 0 to {n_trees - 1} exactly once."
    given = np.asarray(order)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        msg = (
            "order must be a one-dimensional array of integers, got dtype "
            f"{given.dtype} and shape {given.shape}. {hint}"
        )
        raise InvalidArgumentError(msg)
    checked = given.astype(np.int64)
    if len(checked) != n_trees:
        msg = (
            f"order must name each of the {n_trees} trees once, got {len(checked)} "
            f"numbers. {hint}"
        )
        raise InvalidArgumentError(msg)
    if not np.array_equal(np.sort(checked), np.arange(n_trees)):
        strange = np.flatnonzero((checked < 0) | (checked >= n_trees))
        if len(strange):
            problem = f"names tree {checked[strange[0]]}, which there is not"
        else:
            twice = np.flatnonzero(np.bincount(checked) > 1)[0]
            problem = f"names tree {twice} more than once"
        msg = f"order must be a permutation of the trees, but {problem}. {hint}"
        raise InvalidArgumentError(msg)
    return checked


def check_exit_points(
    exit_points: ArrayLike | None, n_trees: int, least: int = 1
) -> NDArray[np.int64]:
    """Return the exit points as integers, or raise.

    Parameters
    ----------
    exit_points : array-like of int or None
        Numbers of trees after which a row may exit. None stands for all of them:
        after 1, 2, ..., `n_trees` - 1 trees. After the last one all rows exit anyway.
    n_trees : int
        Number of trees.
    least : int, default=1
        The smallest number allowed.
    """
    if exit_points is None:
        return np.arange(1, n_trees, dtype=np.int64)
    given = np.asarray(exit_points)
    if given.size == 0 and given.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if (
        given.dtype.kind not in "iu"
        or given.ndim != 1
        or np.any(given[1:] <= given[:-1])
        or given[0] < least
        or given[-1] >= n_trees
    ):
        msg = (
            f"exit_points must be ascending integers from {least} to the number of "
            f"trees less one ({n_trees - 1}), got {exit_points!r}. Write range(8, "
            f"{n_trees}, 8) to let rows exit after every eighth tree."
        )
        raise InvalidArgumentError(msg)
    return given.astype(np.int64)
