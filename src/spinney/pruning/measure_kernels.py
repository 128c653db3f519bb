"""Kernels that measure pruned forests on rows: errors, costs, features used.

The pruned forests of a frontier lie inside one another, so a single pass over the rows
measures them all: a node is kept as a split up to some point of the frontier, and a row
stops in a tree at the first node that is not kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.pruning.kernels import Counts, Flags, Indices
from spinney.runtime.kernel_cache import kernel


@kernel
def measure_points(
    leaves: Indices,
    codes: Counts,
    weights: Counts,
    counted: Flags,
    parent: Indices,
    item: Indices,
    item_price: Counts,
    prediction: Indices,
    value: NDArray[np.floating],
    kept_until: Indices,
    n_points: int,
    tree_errors: Counts,
    forest_errors: Counts,
    prices: Counts,
) -> int:
    """Measure all pruned forests of a frontier on the same rows.

    Parameters
    ----------
    leaves : ndarray of shape (n_rows, n_trees), dtype=int32
        Where each row ends in each tree of the full forest.
    codes, weights : ndarray of shape (n_rows,), dtype=int64
        Classes and weights of the rows.
    counted : ndarray of shape (n_rows, n_trees) or (0, 0), dtype=bool
        Which trees count for which rows; empty if all do.
    parent, item : ndarray of shape (n_nodes,), dtype=int32
        The node above, and what a node makes a row buy.
    item_price : ndarray of shape (n_items,), dtype=int64
        Price of each item for a row of weight 1.
    prediction : ndarray of shape (n_nodes,), dtype=int32
        The class that a node predicts.
    value : ndarray of shape (n_nodes, n_classes)
        What a node adds to the scores of the classes, in the type in which they are
        added up.
    kept_until : ndarray of shape (n_nodes,), dtype=int32
        The last point at which a node is a split; -1 if it is at none. Points are
        numbered from the largest forest to the smallest.
    n_points : int
        Number of points.
    tree_errors, forest_errors, prices : ndarray of shape (n_points + 1,), int64
        Overwritten with the weight of the rows that the trees get wrong (added up
        over the trees), of those that the forest gets wrong, and with what all rows
        pay. The last entry is scratch.

    Returns
    -------
    weight : int
        Weight of the rows that any tree counts for.
    """
    n_rows, n_trees = leaves.shape
    n_classes = value.shape[1]
    some = counted.shape[0] > 0
    room = 64
    level = np.empty(room, dtype=np.int64)  # of a move: the point from which it counts
    mover = np.empty(room, dtype=np.int64)  # its tree
    target = np.empty(room, dtype=np.int64)  # and the node the row moves to
    stop = np.empty(n_trees, dtype=np.int64)
    bought_until = np.full(item_price.shape[0], -1, dtype=np.int64)
    total = np.empty(n_classes, dtype=value.dtype)
    weight = 0
    tree_errors[:] = 0
    forest_errors[:] = 0
    prices[:] = 0
    for row in range(n_rows):
        n_moves = 0
        n_counting = 0
        for tree in range(n_trees):
            counts = not some or counted[row, tree]
            n_counting += counts
            node = np.int64(leaves[row, tree])
            above = np.int64(parent[node])
            below = -1  # the point up to which the row continues below `node`
            while True:
                last = int(kept_until[above]) if above >= 0 else n_points - 1
                # The row stops at `node` at the points from `below` + 1 to `last`.
                if counts and last > below:
                    if prediction[node] != codes[row]:
                        tree_errors[below + 1] += weights[row]
                        tree_errors[last + 1] -= weights[row]
                    if above >= 0:
                        if n_moves == room:
                            room *= 2
                            level = np.append(level, level)
                            mover = np.append(mover, mover)
                            target = np.append(target, target)
                        level[n_moves] = last
                        mover[n_moves] = tree
                        target[n_moves] = node
                        n_moves += 1
                if above < 0:
                    break
                what = item[above]
                bought_until[what] = max(bought_until[what], last)
                below = max(below, last)
                node = above
                above = np.int64(parent[node])
            stop[tree] = node  # the root
        for what in range(item_price.shape[0]):
            if bought_until[what] >= 0:
                prices[0] += weights[row] * item_price[what]
                prices[bought_until[what] + 1] -= weights[row] * item_price[what]
                bought_until[what] = -1
        if n_counting == 0:
            continue
        weight += weights[row]
        # From the smallest forest to the largest: moves in the order of their levels.
        moves = np.argsort(level[:n_moves])
        last = n_points - 1
        k = n_moves
        while True:
            following = level[moves[k - 1]] if k > 0 else -1
            if following < last:
                total[:] = 0
                for tree in range(n_trees):
                    if not some or counted[row, tree]:
                        for c in range(n_classes):
                            total[c] += value[stop[tree], c]
                winner = 0
                for c in range(n_classes):
                    # As the forest does it: the mean can make equal what was not.
                    total[c] /= value.dtype.type(n_counting)
                    if total[c] > total[winner]:
                        winner = c
                if winner != codes[row]:
                    forest_errors[following + 1] += weights[row]
                    forest_errors[last + 1] -= weights[row]
                last = following
            if k == 0:
                break
            k -= 1
            stop[mover[moves[k]]] = target[moves[k]]
    for point in range(1, n_points + 1):
        tree_errors[point] += tree_errors[point - 1]
        forest_errors[point] += forest_errors[point - 1]
        prices[point] += prices[point - 1]
    return weight


@kernel
def mark_features(
    leaves: Indices, parent: Indices, feature: Indices, used: Flags
) -> None:
    """Mark the columns that each row needs on its way to its leaves.

    Parameters
    ----------
    leaves : ndarray of shape (n_rows, n_trees), dtype=int32
        Where each row ends in each tree.
    parent, feature : ndarray of shape (n_nodes,), dtype=int32
        The node above, and the column that a node compares.
    used : ndarray of shape (n_rows, n_columns), dtype=bool
        Set to true where a column is used.
    """
    for row in range(leaves.shape[0]):
        for tree in range(leaves.shape[1]):
            node = parent[leaves[row, tree]]
            while node >= 0:
                used[row, feature[node]] = True
                node = parent[node]
