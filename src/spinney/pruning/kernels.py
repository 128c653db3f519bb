"""Kernels that turn trees and rows into errors and gains.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task. Numbers are integers, so that sums are exact and ties are ties;
`best_closure` alone also takes floats, for the decomposition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

Counts = NDArray[np.int64]
Indices = NDArray[np.int32]
Flags = NDArray[np.bool_]


@kernel
def describe_trees(
    tree_offsets: Counts, left: Indices, right: Indices, item: Indices
) -> tuple[Counts, Indices, Flags]:
    """Find parents, an order from the roots down, and where features are first used.

    Parameters
    ----------
    tree_offsets, left, right
        As in `Forest`.
    item : ndarray of shape (n_nodes,), dtype=int32
        What an inner node makes a row buy; -1 at a leaf.

    Returns
    -------
    order : ndarray of shape (n_nodes,), dtype=int64
        All nodes, parents before their children, tree after tree.
    parent : ndarray of shape (n_nodes,), dtype=int32
        -1 for a root.
    is_first : ndarray of shape (n_nodes,), dtype=bool
        Inner nodes with no node of the same item above them.
    """
    n_nodes = left.shape[0]
    order = np.empty(n_nodes, dtype=np.int64)
    parent = np.full(n_nodes, -1, dtype=np.int32)
    is_first = np.zeros(n_nodes, dtype=np.bool_)
    stack = np.empty(n_nodes + 1, dtype=np.int64)
    n_done = 0
    for tree in range(tree_offsets.shape[0] - 1):
        stack[0] = tree_offsets[tree]
        height = 1
        while height > 0:
            height -= 1
            node = stack[height]
            order[n_done] = node
            n_done += 1
            if left[node] < 0:
                continue
            above = parent[node]
            while above >= 0 and item[above] != item[node]:
                above = parent[above]
            is_first[node] = above < 0
            parent[left[node]] = node
            parent[right[node]] = node
            stack[height] = right[node]
            stack[height + 1] = left[node]
            height += 2
    return order, parent, is_first


@kernel
def count_errors(
    leaves: Indices,
    codes: Counts,
    weights: Counts,
    counted: Flags,
    parent: Indices,
    prediction: Indices,
) -> Counts:
    """Count the weight of the rows that each node would get wrong as a leaf.

    Parameters
    ----------
    leaves : ndarray of shape (n_rows, n_trees), dtype=int32
        Where each row ends in each tree.
    codes, weights : ndarray of shape (n_rows,), dtype=int64
        Classes and weights of the rows.
    counted : ndarray of shape (n_rows, n_trees) or (0, 0), dtype=bool
        Which rows count in which tree; empty if all count in all.
    parent : ndarray of shape (n_nodes,), dtype=int32
        As `describe_trees` returns it.
    prediction : ndarray of shape (n_nodes,), dtype=int32
        Class that a node predicts.

    Returns
    -------
    errors : ndarray of shape (n_nodes,), dtype=int64
        Weight of the rows that come to, or through, a node and are of another class.
    """
    errors = np.zeros(parent.shape[0], dtype=np.int64)
    some = counted.shape[0] > 0
    for row in range(leaves.shape[0]):
        for tree in range(leaves.shape[1]):
            if some and not counted[row, tree]:
                continue
            node = leaves[row, tree]
            while node >= 0:
                if prediction[node] != codes[row]:
                    errors[node] += weights[row]
                node = parent[node]
    return errors


@kernel
def best_closure(
    parent: Indices, gain: NDArray[np.number], allowed: Flags
) -> tuple[Flags, int]:
    """Keep the splits with the largest sum of gains, and as few as possible.

    A split can only be kept if the split above it is kept. This is a dynamic
    programme from the leaves to the roots.

    Parameters
    ----------
    parent : ndarray of shape (n_splits,), dtype=int32
        Index of the split above; -1 for none. Parents come before their children.
    gain : ndarray of shape (n_splits,), dtype=int64 or float64
        Gain of each split, of either sign.
    allowed : ndarray of shape (n_splits,), dtype=bool
        Splits that may be kept at all.

    Returns
    -------
    kept : ndarray of shape (n_splits,), dtype=bool
        The smallest of the best choices.
    total : int or float
        Sum of the gains kept.
    """
    n_splits = parent.shape[0]
    best = gain.copy()
    kept = np.zeros(n_splits, dtype=np.bool_)
    for split in range(n_splits - 1, -1, -1):
        if best[split] > 0 and allowed[split] and parent[split] >= 0:
            best[parent[split]] += best[split]
    total = 0
    for split in range(n_splits):
        above = parent[split]
        if best[split] > 0 and allowed[split] and (above < 0 or kept[above]):
            kept[split] = True
            total += gain[split]
    return kept, total
