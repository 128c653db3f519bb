"""Step orders through a table that tells how good every state is.

A table has one axis per tree and one entry per number of steps taken in it, the root
included: ``table[1, 0, 2]`` is the number of rows that are classified correctly after
one step in the first tree, none in the second and two in the third.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError


def best_order(table: ArrayLike, *, worst: bool = False) -> NDArray[np.int64]:
    """Return the step order with the largest sum over the states it passes.

    Parameters
    ----------
    table : array-like of int, one axis per tree
        Correctly classified rows in every state.
    worst : bool, default=False
        Return the order with the smallest sum instead.

    Returns
    -------
    order : ndarray of shape (n_steps,), dtype=int64
        Tree to step in. Among equally good next steps that of the first tree.
    """
    from spinney.anytime.search_kernels import choose_steps

    counts = _checked(table)
    n_levels = np.array(counts.shape, dtype=np.int64)
    best = np.zeros(counts.size // counts.shape[0], dtype=np.int64)
    choices = np.empty(counts.size, dtype=np.uint8)
    sign = -1 if worst else 1
    choose_steps(counts.ravel(), 0, n_levels, sign, best, choices)
    return follow(choices, n_levels)


def follow(
    choices: NDArray[np.uint8], n_levels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the order that the choices of all states lead through.

    Parameters
    ----------
    choices : ndarray of shape (n_states,), dtype=uint8
        Tree to step in, by the number of the state (steps as digits).
    n_levels : ndarray of shape (n_trees,)
        Levels of each tree, the root included.
    """
    stride = np.append(np.cumprod(n_levels[:0:-1])[::-1], 1).astype(np.int64)
    order = np.empty(int((n_levels - 1).sum()), dtype=np.int64)
    state = 0
    for k in range(len(order)):
        order[k] = choices[state]
        state += int(stride[order[k]])
    return order


def greedy_order(table: ArrayLike, *, backward: bool = False) -> NDArray[np.int64]:
    """Return the order that takes the best single step each time.

    Parameters
    ----------
    table : array-like of int, one axis per tree
        Correctly classified rows in every state.
    backward : bool, default=False
        Begin at the leaves and take back one step after another, each time the one
        that leaves the best state behind.

    Returns
    -------
    order : ndarray of shape (n_steps,), dtype=int64
        Tree to step in, from the roots to the leaves. Among equally good steps that of
        the first tree is taken (backward: taken back).
    """
    counts = _checked(table)
    ends = np.array(counts.shape) - 1
    state = ends.copy() if backward else np.zeros_like(ends)
    goal = np.zeros_like(ends) if backward else ends
    way = -1 if backward else 1
    order = []
    while (state != goal).any():
        best_tree, best_count = -1, -1
        for tree in np.flatnonzero(state != goal):
            state[tree] += way
            count = int(counts[tuple(state)])
            state[tree] -= way
            if count > best_count:
                best_tree, best_count = int(tree), count
        state[best_tree] += way
        order.append(best_tree)
    return np.array(order[::way], dtype=np.int64)


def states_along(order: ArrayLike, n_trees: int) -> NDArray[np.int64]:
    """Return the steps taken in each tree, before and after every step of an order.

    Parameters
    ----------
    order : array-like of int
        Tree to step in.
    n_trees : int
        Number of trees.

    Returns
    -------
    states : ndarray of shape (n_steps + 1, n_trees), dtype=int64
        The initial state first.
    """
    trees = np.asarray(order, dtype=np.int64)
    states = np.zeros((len(trees) + 1, n_trees), dtype=np.int64)
    for k, (before, after) in enumerate(pairwise(states)):
        after[:] = before
        after[trees[k]] += 1
    return states


def sum_along(table: ArrayLike, order: ArrayLike) -> int:
    """Return the sum of a table over the states of an order, both ends included."""
    counts = _checked(table)
    return int(counts[tuple(states_along(order, counts.ndim).T)].sum())


def _checked(table: ArrayLike) -> NDArray[np.int64]:
    counts = np.asarray(table)
    if counts.ndim < 1 or counts.size == 0 or counts.dtype.kind not in "iub":
        msg = (
            "table must hold the number of correctly classified rows in every state, "
            f"one axis per tree, got {counts.dtype} of shape {counts.shape}. Multiply "
            "accuracies by the number of rows."
        )
        raise InvalidArgumentError(msg)
    if (counts < 0).any():
        msg = "table holds a negative number of rows; counts are 0 or more."
        raise InvalidArgumentError(msg)
    return np.ascontiguousarray(counts, dtype=np.int64)
