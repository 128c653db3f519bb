"""Orders of nodes and numbers of equal rows, for laying a forest out in memory.

All of it works on the nodes of all trees at once, level by level, in NumPy: a forest is
laid out once, and nothing has to be compiled for that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Odd numbers with about as many ones as zeros, to spread keys by.
_SPREAD = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(32)


def inner_levels(
    roots: NDArray[np.integer], left: NDArray[np.int32], right: NDArray[np.int32]
) -> list[NDArray[np.int64]]:
    """Return the inner nodes of some trees, level by level, the roots first.

    Parameters
    ----------
    roots : ndarray of shape (n_trees,)
        The roots.
    left, right : ndarray of shape (n_nodes,)
        Children as in `Forest`.
    """
    levels: list[NDArray[np.int64]] = []
    nodes = np.asarray(roots, dtype=np.int64)
    while True:
        nodes = nodes[left[nodes] >= 0]
        if not len(nodes):
            return levels
        levels.append(nodes)
        nodes = np.column_stack([left[nodes], right[nodes]]).ravel().astype(np.int64)


def inner_counts(
    levels: list[NDArray[np.int64]],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Return how many inner nodes there are below each node, itself included."""
    count = np.zeros(len(left), dtype=np.int64)
    for nodes in reversed(levels):
        count[nodes] = 1 + count[left[nodes]] + count[right[nodes]]
    return count


def depth_first(
    levels: list[NDArray[np.int64]],
    begin: NDArray[np.int64],
    count: NDArray[np.int64],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
) -> NDArray[np.int64]:
    """Number the inner nodes of trees depth first.

    Parameters
    ----------
    levels : list of ndarray
        From `inner_levels`.
    begin : ndarray of shape (n_roots,)
        The number of each root that is an inner node.
    count : ndarray of shape (n_nodes,)
        From `inner_counts`.
    first, second : ndarray of shape (n_nodes,)
        The children of each inner node in the order in which they are visited.

    Returns
    -------
    place : ndarray of shape (n_nodes,)
        The number of each inner node; that of a leaf means nothing.
    """
    place = np.zeros(len(count), dtype=np.int64)
    if levels:
        place[levels[0]] = begin
    for nodes in levels:
        place[first[nodes]] = place[nodes] + 1
        place[second[nodes]] = place[nodes] + 1 + count[first[nodes]]
    return place


def arrange_nodes(
    tree_offsets: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    weight: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give every node a slot, siblings side by side, the likelier path in a row.

    Parameters
    ----------
    tree_offsets, left, right
        As in `Forest`.
    weight : ndarray of shape (n_nodes,)
        How often a node is visited, at least in proportion.

    Returns
    -------
    slot : ndarray of shape (n_nodes,)
        Slot of each node, counted from the root of its tree. Pairs of siblings begin
        at even slots, so that no pair is torn apart by a cache line; slot 1 stays
        empty.
    root : ndarray of shape (n_trees + 1,)
        Slot of each root among all nodes, and the number of slots.
    """
    # Depth first, the heavier child next: its children then lie right behind it.
    # (Level by level is far slower for deep trees.)
    inner = np.flatnonzero(left >= 0)
    is_swapped = weight[left[inner]] < weight[right[inner]]
    first, second = left.copy(), right.copy()
    swapped = inner[is_swapped]
    first[swapped], second[swapped] = right[swapped], left[swapped]
    roots = tree_offsets[:-1]
    levels = inner_levels(roots, left, right)
    place = depth_first(
        levels,
        np.zeros(len(levels[0]) if levels else 0, dtype=np.int64),
        inner_counts(levels, left, right),
        first,
        second,
    )
    slot = np.zeros(len(left), dtype=np.int64)
    slot[left[inner]] = 2 + 2 * place[inner]
    slot[right[inner]] = 3 + 2 * place[inner]
    # A tree with n inner nodes has 2 n + 1 nodes, and slot 1 beside them.
    return slot, np.concatenate([[0], np.cumsum(np.diff(tree_offsets) + 1)])


def leaves_below(
    tree_offsets: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Return the number of leaves below each node, 1 for a leaf."""
    levels = inner_levels(tree_offsets[:-1], left, right)
    return (inner_counts(levels, left, right) + 1).astype(np.float64)


def distinct_rows(bits: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Number the distinct rows of a table in the order in which they appear.

    Parameters
    ----------
    bits : ndarray of shape (n_rows, n_columns), dtype=int64
        Numbers as bit patterns, so that equal means equal to the last bit.

    Returns
    -------
    number : ndarray of shape (n_rows,)
        The number of each row's value.
    n_distinct : int
        How many there are.
    """
    first, group = _groups_of(_keys_of(bits))
    if not np.array_equal(bits[first[group]], bits):  # two values have the same key
        _, first, group = np.unique(
            bits, axis=0, return_index=True, return_inverse=True
        )
        group = group.reshape(-1)  # NumPy 2.0 gave it another shape
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[group], len(first)


def _groups_of(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each distinct key appears first, and which one each key is.

    As `numpy.unique` does, which has to sort in a stable, slower way for that.
    """
    order = np.argsort(keys)
    ordered = keys[order]
    is_new = np.ones(len(keys), dtype=bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    begins = np.flatnonzero(is_new)
    group = np.empty(len(keys), dtype=np.int64)
    group[order] = np.cumsum(is_new) - 1
    first = np.minimum.reduceat(order, begins) if len(keys) else begins
    return first, group


def _keys_of(bits: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number per row that rarely two different rows share."""
    key = np.full(len(bits), 14695981039346656037, dtype=np.uint64)
    for column in bits.view(np.uint64).T:
        key ^= column
        for spread in _SPREAD:
            key ^= key >> _HALF
            key *= spread
        key ^= key >> _HALF
    return key
