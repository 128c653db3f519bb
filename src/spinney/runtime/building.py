"""Compiled loops that lay a forest out in memory.

This happens once per forest and type of rows, but on every node of it: as plain Python
a forest of a million nodes would take minutes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

# What is done to the set of rows at a node, see `schedule_splits`; and, last, marking
# rows for other bits of the code beforehand.
MARK, FINISH, KEEP, SPLIT, EXTRA = 0, 1, 2, 3, 4


@kernel
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
    n_trees = tree_offsets.shape[0] - 1
    slot = np.zeros(left.shape[0], dtype=np.int64)
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
                slot[left[node]] = free
                slot[right[node]] = free + 1
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
    return slot, root


@kernel
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


@kernel
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


@kernel
def list_splits(
    root: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    n_planes: int,
    by_level: bool,
    split_node: NDArray[np.int64],
    split_slot: NDArray[np.int64],
    split_plane: NDArray[np.int64],
    split_flips: NDArray[np.int64],
    leaf_node: NDArray[np.int64],
) -> int:
    """Write a tree as a list of splits of sets of rows.

    All rows begin with code 0. A split changes the code of the rows that go right, so
    at the end each leaf has a code of its own. It differs from the old one in a
    single bit where such a code is free: each bit that changes costs an operation.

    The set of rows at a node is kept at a slot that counts from 0, like a stack: the
    rows that go left stay where they are, those that go right are put on top and are
    split first. So there are never more sets than levels.

    Parameters
    ----------
    root, left, right
        The tree; children as in `Forest`.
    n_planes : int
        Number of bits of a code, enough for all leaves.
    by_level : bool
        Whether there is a bit for every level, so that each split changes its own.
    split_node, split_slot, split_plane, split_flips
        Overwritten, per split, parents first: the inner node, the slot of its set,
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
    stack = np.empty((n_codes + 1, 4), dtype=np.int64)
    stack[0] = 0
    stack[0, 0] = root
    height = 1
    n_splits = 0
    lowest = 0  # no code below this one is free
    while height > 0:
        height -= 1
        node, code, slot, level = stack[height]
        if left[node] < 0:
            leaf_node[code] = node
            continue
        new_code = -1
        if by_level:
            # Leaves that are close in the tree get codes that are, too.
            new_code = code ^ (1 << (n_planes - 1 - level))
        else:
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
        split_slot[n_splits] = slot
        flips = code ^ new_code
        split_plane[n_splits] = 0
        while not (flips >> split_plane[n_splits]) & 1:
            split_plane[n_splits] += 1
        split_flips[n_splits] = flips & (flips - 1)
        n_splits += 1
        stack[height, 0], stack[height, 1] = left[node], code
        stack[height, 2], stack[height, 3] = slot, level + 1
        height += 1
        stack[height, 0], stack[height, 1] = right[node], new_code
        stack[height, 2], stack[height, 3] = slot + 1, level + 1
        height += 1
    return n_splits


@kernel
def _operation_at(
    node: int,
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    split_of: NDArray[np.int64],
    split_plane: NDArray[np.int64],
    split_flips: NDArray[np.int64],
) -> int:
    """Return what is done to the set of rows at a node."""
    n_inner, n_last = 0, 0
    plane_below = -1
    agree = True
    for child in (left[node], right[node]):
        if left[child] < 0:
            continue
        n_inner += 1
        i = split_of[child]
        if left[left[child]] < 0 and left[right[child]] < 0 and split_flips[i] == 0:
            n_last += 1
            agree &= plane_below < 0 or plane_below == split_plane[i]
            plane_below = split_plane[i]
    if n_inner == 0:
        return MARK
    # The planes of a node and its children are read together, before any is written.
    agree &= plane_below != split_plane[split_of[node]]
    if n_last == n_inner and agree:
        return FINISH
    return SPLIT if n_inner == 2 else KEEP


@kernel
def _write(
    operations: NDArray[np.uint32],
    n: int,
    condition: int,
    no_condition: int,
    plane: int,
    slot: int,
    last: int,
) -> None:
    """Write one operation on one set that takes one condition."""
    operations[n, 0] = condition
    operations[n, 1] = no_condition
    operations[n, 2] = no_condition
    operations[n, 3] = plane
    operations[n, 4] = slot
    operations[n, 5] = last


@kernel
def _write_extras(
    operations: NDArray[np.uint32],
    n: int,
    condition: int,
    no_condition: int,
    flips: int,
    slot: int,
) -> int:
    """Mark rows for every bit in `flips`; return how many operations there are now."""
    plane = 0
    while flips:
        if flips & 1:
            _write(operations, n, condition, no_condition, plane, slot, 0)
            n += 1
        flips >>= 1
        plane += 1
    return n


@kernel
def _wait(
    waiting: NDArray[np.int64],
    n_waiting: NDArray[np.int64],
    kind: int,
    split: int,
    slot: int,
) -> None:
    """Remember that something is to be done to the set of a split."""
    waiting[kind, n_waiting[kind], 0] = split
    waiting[kind, n_waiting[kind], 1] = slot
    n_waiting[kind] += 1


@kernel
def schedule_splits(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    split_node: NDArray[np.int64],
    split_condition: NDArray[np.int64],
    split_plane: NDArray[np.int64],
    split_flips: NDArray[np.int64],
    split_of: NDArray[np.int64],
    no_condition: int,
    first_operation: int,
    first_run: int,
    operations: NDArray[np.uint32],
    run_kind: NDArray[np.int64],
    run_end: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Put the splits of a tree into a few long runs of the same operation.

    A set is only written if its rows are split again. If both children of a node are
    leaves, its rows are *marked*. If they are leaves or nodes of two leaves, it and
    they are *finished* in one go. If one is a leaf, the set *keeps* the rows of the
    other, and else it is *split* in two. Sets that do not change any more can wait, so
    all that are finished or marked come last: every change from one kind of operation
    to another costs the processor a wrong guess.

    Parameters
    ----------
    left, right
        Children as in `Forest`.
    split_node, split_condition, split_plane, split_flips
        The splits of the tree, parents first; see `list_splits`.
    split_of : ndarray of shape (n_nodes,)
        Scratch.
    no_condition : int
        Number of a condition that no row meets.
    first_operation, first_run : int
        How many operations and runs there are of trees before this one.
    operations : ndarray of shape (n_operations, 6)
        Overwritten: the conditions of the node and, for `FINISH`, of its children; the
        plane and the slot of the set; for `FINISH` the plane of the children, for
        `KEEP` whether the rows that do not meet it are those to keep, for `SPLIT` the
        slot of the new set.
    run_kind, run_end
        Overwritten, per run: the kind of operation; where the operations end.

    Returns
    -------
    n_operations, n_runs : int
        Those of this tree and all before.
    n_slots : int
        Number of slots for sets that are needed.
    """
    n_splits = split_node.shape[0]
    for i in range(n_splits):
        split_of[split_node[i]] = i
    kind_of = np.empty(n_splits, dtype=np.int64)
    for i in range(n_splits):
        kind_of[i] = _operation_at(
            split_node[i], left, right, split_of, split_plane, split_flips
        )
    # Splits and the slots of their sets, by what is to be done to them next.
    waiting = np.empty((5, n_splits + 1, 2), dtype=np.int64)
    n_waiting = np.zeros(5, dtype=np.int64)
    n, run, n_slots = first_operation, first_run, 1
    if n_splits > 0:
        is_changed = kind_of[0] == KEEP or kind_of[0] == SPLIT
        kind = EXTRA if is_changed and split_flips[0] else kind_of[0]
        _wait(waiting, n_waiting, kind, 0, 0)
    while n_waiting[EXTRA] + n_waiting[SPLIT] + n_waiting[KEEP] > 0:
        for kind in (EXTRA, SPLIT, KEEP):
            start = n
            while n_waiting[kind] > 0:
                n_waiting[kind] -= 1
                i, slot = waiting[kind, n_waiting[kind]]
                condition = split_condition[i]
                if kind == EXTRA:
                    flips = split_flips[i]
                    n = _write_extras(
                        operations, n, condition, no_condition, flips, slot
                    )
                    _wait(waiting, n_waiting, kind_of[i], i, slot)
                    continue
                below_left, below_right = left[split_node[i]], right[split_node[i]]
                goes_left = left[below_left] >= 0
                last = n_slots if kind == SPLIT else int(goes_left)
                plane = split_plane[i]
                _write(operations, n, condition, no_condition, plane, slot, last)
                n += 1
                for child in (below_left, below_right):
                    if left[child] < 0:
                        continue
                    j = split_of[child]
                    is_new = kind == SPLIT and child == below_right
                    is_changed = kind_of[j] == KEEP or kind_of[j] == SPLIT
                    then = EXTRA if is_changed and split_flips[j] else kind_of[j]
                    _wait(waiting, n_waiting, then, j, n_slots if is_new else slot)
                n_slots += int(kind == SPLIT)
            if n > start:
                run_kind[run] = MARK if kind == EXTRA else kind
                run_end[run] = n
                run += 1
    start = n
    for k in range(n_waiting[FINISH]):
        i, slot = waiting[FINISH, k]
        condition, plane = split_condition[i], split_plane[i]
        _write(operations, n, condition, no_condition, plane, slot, 0)
        for side, child in enumerate((left[split_node[i]], right[split_node[i]])):
            if left[child] >= 0:
                operations[n, 1 + side] = split_condition[split_of[child]]
                operations[n, 5] = split_plane[split_of[child]]
        n += 1
    if n > start:
        run_kind[run], run_end[run] = FINISH, n
        run += 1
    start = n
    for kind in (FINISH, MARK):
        for k in range(n_waiting[kind]):
            i, slot = waiting[kind, k]
            flips = split_flips[i]
            if kind == MARK:
                flips |= 1 << split_plane[i]
            condition = split_condition[i]
            n = _write_extras(operations, n, condition, no_condition, flips, slot)
    if n > start:
        run_kind[run], run_end[run] = MARK, n
        run += 1
    return n, run, n_slots
