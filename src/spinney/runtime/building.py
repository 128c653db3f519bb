"""Compiled loops that lay a forest out in memory."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def place_nodes(
    tree_offsets: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    weight: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give every node a place, siblings side by side, the likelier path in a row.

    Parameters
    ----------
    tree_offsets, left, right
        As in `Forest`.
    weight : ndarray of shape (n_nodes,)
        How often a node is visited, at least in proportion.

    Returns
    -------
    place : ndarray of shape (n_nodes,)
        Place of each node, counted from the root of its tree. Pairs of siblings begin
        at even places, so that no pair is torn apart by a cache line; place 1 stays
        empty.
    root : ndarray of shape (n_trees + 1,)
        Place of each root among all nodes, and the number of places.
    """
    n_trees = tree_offsets.shape[0] - 1
    place = np.zeros(left.shape[0], dtype=np.int64)
    root = np.zeros(n_trees + 1, dtype=np.int64)
    stack = np.empty(left.shape[0] + 1, dtype=np.int64)
    for tree in range(n_trees):
        stack[0] = tree_offsets[tree]
        height = 1
        free = 2
        while height > 0:
            height -= 1
            node = stack[height]
            if left[node] >= 0:
                place[left[node]] = free
                place[right[node]] = free + 1
                free += 2
                # Depth first, the heavier child next: its children then lie right
                # behind it. (Level by level is far slower for deep trees.)
                if weight[left[node]] >= weight[right[node]]:
                    stack[height] = right[node]
                    stack[height + 1] = left[node]
                else:
                    stack[height] = left[node]
                    stack[height + 1] = right[node]
                height += 2
        root[tree + 1] = root[tree] + free
    return place, root


@njit(cache=True, nogil=True)
def leaves_below(
    tree_offsets: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Return the number of leaves below each node, 1 for a leaf."""
    count = np.zeros(left.shape[0], dtype=np.float64)
    stack = np.empty(2 * left.shape[0] + 2, dtype=np.int64)
    for tree in range(tree_offsets.shape[0] - 1):
        stack[0] = tree_offsets[tree]
        height = 1
        while height > 0:
            height -= 1
            node = stack[height]
            if node < 0:  # second visit, the children are done
                node = -1 - node
                count[node] = count[left[node]] + count[right[node]]
            elif left[node] < 0:
                count[node] = 1.0
            else:
                stack[height] = -1 - node
                stack[height + 1] = left[node]
                stack[height + 2] = right[node]
                height += 3
    return count


@njit(cache=True, nogil=True)
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
    n_rows, n_columns = bits.shape
    size = 16
    while size < 2 * n_rows:
        size *= 2
    slot_row = np.full(size, -1, dtype=np.int64)  # the row that took this slot first
    number = np.empty(n_rows, dtype=np.int64)
    n_distinct = 0
    mask = np.uint64(size - 1)
    for row in range(n_rows):
        code = np.uint64(14695981039346656037)
        for column in range(n_columns):
            # Two rounds of multiplying and folding: the low bits of a double that was
            # a float32 or a small integer are all zero, and slots are low bits.
            code ^= np.uint64(bits[row, column])
            code ^= code >> np.uint64(32)
            code *= np.uint64(0xFF51AFD7ED558CCD)
            code ^= code >> np.uint64(32)
            code *= np.uint64(0xC4CEB9FE1A85EC53)
            code ^= code >> np.uint64(32)
        slot = code & mask
        while True:
            other = slot_row[slot]
            if other < 0:
                slot_row[slot] = row
                number[row] = n_distinct
                n_distinct += 1
                break
            same = True
            for column in range(n_columns):
                if bits[other, column] != bits[row, column]:
                    same = False
                    break
            if same:
                number[row] = number[other]
                break
            slot = (slot + np.uint64(1)) & mask
    return number, n_distinct


@njit(cache=True, nogil=True)
def list_splits(
    root: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    n_planes: int,
    split_node: NDArray[np.int64],
    split_place: NDArray[np.int64],
    split_plane: NDArray[np.int64],
    split_flips: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
) -> int:
    """Write a tree as a list of splits of sets of rows.

    All rows begin with code 0. A split changes the code of the rows that go right, so
    at the end each leaf has a code of its own. It differs from the old one in a
    single bit where such a code is free: each bit that changes costs an operation.

    The set of rows at a node is kept at a place that counts from 0, like a stack: the
    rows that go left stay where they are, those that go right are put on top and are
    split first. So there are never more sets than levels.

    Parameters
    ----------
    root, left, right
        The tree; children as in `Forest`.
    n_planes : int
        Number of bits of a code, enough for all leaves.
    split_node, split_place, split_plane, split_flips
        Overwritten, per split, parents first: the inner node, the place of its set,
        the lowest bit of the code that changes, all other bits that change.
    leaf_node : ndarray of shape (2 ** n_planes,)
        Overwritten with the leaf of each code in use; -1 for the rest.

    Returns
    -------
    n_splits : int
        Number of splits.
    """
    n_codes = 1 << n_planes
    taken = np.zeros(n_codes, dtype=np.bool_)
    taken[0] = True
    leaf_node[:n_codes] = -1
    stack = np.empty((n_codes + 1, 3), dtype=np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = root, 0, 0
    height = 1
    n_splits = 0
    lowest = 0  # no code below this one is free
    while height > 0:
        height -= 1
        node, code, place = stack[height, 0], stack[height, 1], stack[height, 2]
        if left[node] < 0:
            leaf_node[code] = node
            continue
        new_code = -1
        for plane in range(n_planes):
            if not taken[code ^ (1 << plane)]:
                new_code = code ^ (1 << plane)
                break
        if new_code < 0:
            while taken[lowest]:
                lowest += 1
            new_code = lowest
        taken[new_code] = True
        split_node[n_splits] = node
        split_place[n_splits] = place
        flips = code ^ new_code
        split_plane[n_splits] = 0
        while not (flips >> split_plane[n_splits]) & 1:
            split_plane[n_splits] += 1
        split_flips[n_splits] = flips & (flips - 1)
        n_splits += 1
        stack[height, 0], stack[height, 1], stack[height, 2] = left[node], code, place
        height += 1
        stack[height, 0], stack[height, 1] = right[node], new_code
        stack[height, 2] = place + 1
        height += 1
    return n_splits
