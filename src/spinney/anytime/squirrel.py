"""Squirrel orders: always the best single step, from the roots or from the leaves.

Each step tries every tree that can still move on every row, by one addition to the
present sums. The time is proportional to the steps of all trees times the number of
trees times the rows times the classes: ``d * t ** 2 * n * c``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.anytime.ordering_rows import OrderingRows, Progress
from spinney.anytime.paths import Paths
from spinney.runtime.sharing import in_threads, threads_for


def squirrel_steps(
    data: OrderingRows,
    *,
    backward: bool,
    n_jobs: int | None = None,
    on_progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Return the order that takes the best single step each time.

    Parameters
    ----------
    data : OrderingRows
        The forest and the rows to rate steps on.
    backward : bool
        Begin at the leaves, each time taking back the step that is missed least.
    n_jobs : int or None, default=None
        Number of threads; None means one, -1 all cores.
    on_progress : callable, optional
        Called after each step with the number of steps done and of all steps.

    Returns
    -------
    order : ndarray of shape (n_steps,), dtype=int64
        Tree to step in, from the roots to the leaves. Among equally good steps that of
        the first tree is taken (backward: taken back).
    """
    from spinney.anytime.search_kernels import count_after_moves, find_leads, move_tree

    sums, paths, leaf, labels = data.sums, data.paths, data.leaf, data.labels
    n_trees, n_rows = leaf.shape
    depth = paths.depth
    if sums.n_classes == 1:  # nothing to gain: ties everywhere
        trees = np.arange(n_trees)
        return np.repeat(trees, depth)[::-1] if backward else np.repeat(trees, depth)
    values = sums.by_class()
    nothing = len(values)
    change = np.zeros((nothing + 1, sums.n_classes), dtype=np.int64)
    change[:-1] = values - values[paths.parent]
    if backward:
        change *= -1
    if sums.n_classes == 2:
        swing = change[:, 1] - change[:, 0]
    else:
        swing = change.max(axis=1) - change.min(axis=1)

    if backward:
        node = _leaf_nodes(paths, leaf)
        level = depth.copy()
        goal = np.zeros_like(depth)
        stays = paths.level[node] < np.maximum(level, 1)[:, None]
        move = np.where(stays, nothing, node).astype(np.int32)
    else:
        node = np.repeat(paths.root[:, None], n_rows, axis=1)
        level = np.zeros_like(depth)
        goal = depth
        goes_left = leaf < paths.boundary[node]
        after = np.where(goes_left, paths.left[node], paths.right[node])
        move = np.where(after == node, nothing, after).astype(np.int32)
    totals = np.tile(sums.base, (n_rows, 1))
    for tree in range(n_trees):
        totals += values[node[tree]]
    lead = np.empty(n_rows, dtype=np.int64)
    find_leads(totals, labels, lead)

    n_steps = int(depth.sum())
    order = np.empty(n_steps, dtype=np.int64)
    n_threads = threads_for(n_rows, n_jobs)
    for k in range(n_steps):
        trees = np.flatnonzero(level != goal)
        shares: list[NDArray[np.int64]] = []

        def try_all(
            start: int,
            end: int,
            trees: NDArray[np.intp] = trees,
            shares: list[NDArray[np.int64]] = shares,
        ) -> None:
            counts = np.zeros(n_trees, dtype=np.int64)
            count_after_moves(
                start,
                end,
                trees,
                move,
                change,
                swing,
                totals,
                labels,
                lead,
                counts,
            )
            shares.append(counts)

        in_threads(try_all, n_rows, n_threads)
        counts = np.sum(shares, axis=0)
        tree = int(trees[np.argmax(counts[trees])])
        level[tree] += -1 if backward else 1
        move_tree(
            backward,
            int(level[tree]),
            paths,
            leaf[tree],
            change,
            labels,
            node[tree],
            move[tree],
            totals,
            lead,
        )
        order[n_steps - 1 - k if backward else k] = tree
        if on_progress is not None:
            on_progress(k + 1, n_steps)
    return order


def _leaf_nodes(paths: Paths, leaf: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the leaf of each number as a node, walking down all trees at once."""
    node = np.repeat(paths.root[:, None], leaf.shape[1], axis=1)
    for _ in range(int(paths.depth.max(initial=0))):
        node = np.where(
            leaf < paths.boundary[node], paths.left[node], paths.right[node]
        )
    return node
