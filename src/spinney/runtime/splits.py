"""Trees as lists of splits of sets of rows.

All rows begin with code 0. A split changes the code of the rows that go right, so at
the end each leaf has a code of its own. It differs from the old one in a single bit
where such a code is free: each bit that changes costs an operation.

The set of rows at a node is kept at a slot that counts from 0, like a stack: the rows
that go left stay where they are, those that go right are put on top and are split
first. So there are never more sets than levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.building import depth_first, inner_counts, inner_levels


class Splits(NamedTuple):
    """The splits of some trees, tree after tree, parents first."""

    offsets: NDArray[np.int64]  # per tree, and one more, into the next four
    node: NDArray[np.int64]  # the inner node
    slot: NDArray[np.int64]  # of its set of rows
    plane: NDArray[np.int64]  # the lowest bit of the code that changes
    flips: NDArray[np.int64]  # all other bits that change
    code: NDArray[np.int64]  # per node of the forest: the code of its rows


def list_splits(
    roots: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    n_planes: NDArray[np.int64],
    by_level: NDArray[np.bool_],
) -> Splits:
    """Write trees as lists of splits.

    Parameters
    ----------
    roots, left, right
        The trees; children as in `Forest`.
    n_planes : ndarray of shape (n_trees,)
        Number of bits of a code, enough for all leaves.
    by_level : ndarray of shape (n_trees,), dtype=bool
        Whether there is a bit for every level, so that each split changes its own.
    """
    levels = inner_levels(roots, left, right)
    count = inner_counts(levels, left, right)
    offsets = np.concatenate([[0], np.cumsum(count[roots])])
    place = depth_first(levels, offsets[:-1][count[roots] > 0], count, right, left)
    node = np.empty(offsets[-1], dtype=np.int64)
    slot, code = np.zeros((2, len(left)), dtype=np.int64)
    # The bit of the next level; 0 in trees that have no bits of levels.
    bit = np.zeros(len(left), dtype=np.int64)
    bit[roots] = np.where(by_level, 1 << np.maximum(n_planes - 1, 0), 0)
    for nodes in levels:
        node[place[nodes]] = nodes
        below_left, below_right = left[nodes], right[nodes]
        slot[below_left], slot[below_right] = slot[nodes], slot[nodes] + 1
        # Leaves that are close in the tree get codes that are, too.
        code[below_left], code[below_right] = code[nodes], code[nodes] ^ bit[nodes]
        bit[below_left] = bit[below_right] = bit[nodes] >> 1
    searched = np.flatnonzero(~by_level)
    if len(searched):
        _search_codes(
            code,
            node,
            offsets[searched],
            count[roots[searched]],
            n_planes[searched],
            left,
            right,
        )
    changed = code[left[node]] ^ code[right[node]]
    lowest = changed & -changed
    return Splits(
        offsets,
        node,
        slot[node],
        bit_lengths(lowest) - 1,
        changed ^ lowest,
        code,
    )


def bit_lengths(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many bits it takes to write each number, 0 for 0."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def _search_codes(
    code: NDArray[np.int64],
    node: NDArray[np.int64],
    begin: NDArray[np.int64],
    n_splits: NDArray[np.int64],
    n_planes: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> None:
    """Give the nodes of trees codes that differ in as few bits as are free.

    Parameters
    ----------
    code : ndarray of shape (n_nodes,)
        Overwritten for the nodes of these trees.
    node : ndarray of shape (n_splits,)
        The inner node of each split of any tree.
    begin, n_splits, n_planes : ndarray of shape (n_searched,)
        Per tree: its first split, their number, the number of bits.
    left, right
        Children as in `Forest`.
    """
    # One split of each tree at a time, trees with many splits first: those that are
    # not done yet are then always the first ones.
    order = np.argsort(-n_splits, kind="stable")
    begin, n_splits, n_planes = begin[order], n_splits[order], n_planes[order]
    bits = 1 << np.arange(int(n_planes.max()))
    taken = np.arange(1 << len(bits)) >= (1 << n_planes)[:, np.newaxis]
    taken[:, 0] = True
    n_open = np.searchsorted(-n_splits, -np.arange(n_splits[0]), side="left")
    trees = np.arange(len(order))
    for split in range(int(n_splits[0])):
        rows = trees[: n_open[split]]
        nodes = node[begin[rows] + split]
        old = code[nodes]
        close = old[:, np.newaxis] ^ bits
        is_free = ~taken[rows[:, np.newaxis], close]
        which = is_free.argmax(axis=1)
        new = close[rows, which]
        far = np.flatnonzero(~is_free[rows, which])
        if len(far):
            new[far] = taken[far].argmin(axis=1)  # the lowest that is free
        taken[rows, new] = True
        code[left[nodes]], code[right[nodes]] = old, new
