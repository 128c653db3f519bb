"""Kernels that turn trees and rows into gains, prices and groups.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task. All of them live in this one file because Numba's on-disk cache does
not notice a change in a function imported from another file.

A *group* is what one row has to buy once: a feature, together with the nodes (at most
one per tree) at which the row first needs it. Rows that need a feature at the same
nodes share a group, and its price is the sum of theirs. Numbers are integers
throughout, so that sums are exact and ties are ties.
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
        Place of the split above; -1 for none. Parents come before their children.
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


@kernel
def count_pairs(leaves: Indices, parent: Indices, place: Indices, buys: Flags) -> int:
    """Count the pairs of a row and a node at which it first needs something.

    Parameters
    ----------
    leaves, parent
        As in `count_errors`.
    place : ndarray of shape (n_nodes,), dtype=int32
        Place of a node among the splits of the problem; -1 if it is none of them.
    buys : ndarray of shape (n_nodes,), dtype=bool
        Nodes at which rows first need something that has a price.
    """
    n_pairs = 0
    for row in range(leaves.shape[0]):
        for tree in range(leaves.shape[1]):
            node = parent[leaves[row, tree]]
            while node >= 0:
                n_pairs += place[node] >= 0 and buys[node]
                node = parent[node]
    return n_pairs


@kernel
def _hashed(members: Indices, start: int, end: int) -> np.uint64:
    """Return a number for a list of nodes that hardly any other list has."""
    code = np.uint64(14695981039346656037)
    for k in range(start, end):
        code ^= np.uint64(members[k])
        code ^= code >> np.uint64(32)
        code *= np.uint64(0xFF51AFD7ED558CCD)
        code ^= code >> np.uint64(29)
    return code * np.uint64(0xC4CEB9FE1A85EC53)


@kernel
def _find_slot(
    slots: Indices, shift: np.uint64, offsets: Counts, members: Indices, group: int
) -> int:
    """Return the slot of a group with the same splits, or a free one."""
    start, end = offsets[group], offsets[group + 1]
    mask = np.uint64(slots.shape[0] - 1)
    slot = _hashed(members, start, end) >> shift
    while True:
        other = slots[slot]
        if other < 0:
            return int(slot)
        first = offsets[other]
        same = offsets[other + 1] - first == end - start
        k = 0
        while same and k < end - start:
            same = members[first + k] == members[start + k]
            k += 1
        if same:
            return int(slot)
        slot = (slot + np.uint64(1)) & mask


@kernel
def _grown(slots: Indices, offsets: Counts, members: Indices, n_groups: int) -> Indices:
    """Return a table of slots twice as large, with all groups in it."""
    size = 2 * slots.shape[0]
    larger = np.full(size, -1, dtype=np.int32)
    shift = _slot_shift(size)
    mask = np.uint64(size - 1)
    for group in range(n_groups):
        slot = _hashed(members, offsets[group], offsets[group + 1]) >> shift
        while larger[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        larger[slot] = group
    return larger


@kernel
def _slot_shift(size: int) -> np.uint64:
    """Return by how much a hash is shifted to number one of `size` slots."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return np.uint64(64 - bits)


@kernel
def build_groups(
    leaves: Indices,
    weights: Counts,
    parent: Indices,
    place: Indices,
    buys: Flags,
    item: Indices,
    item_price: Counts,
    n_pairs: int,
    merge: bool,
    own_price: Counts,
) -> tuple[Counts, Counts, Indices]:
    """Find what rows have to buy, and at which splits, in one pass over the rows.

    Parameters
    ----------
    leaves, weights, parent
        As in `count_errors`.
    place, buys
        As in `count_pairs`.
    item : ndarray of shape (n_nodes,), dtype=int32
        What an inner node makes a row buy.
    item_price : ndarray of shape (n_items,), dtype=int64
        Price of each item for a row of weight 1.
    n_pairs : int
        As `count_pairs` returns it.
    merge : bool
        Whether rows with equal needs share a group, and needs of a single split are
        added to its own price. Otherwise every row has a group for each item.
    own_price : ndarray of shape (n_splits,), dtype=int64
        Increased by the price of needs that a single split has.

    Returns
    -------
    group_price : ndarray of shape (n_groups,), dtype=int64
        Price of each group.
    group_offsets : ndarray of shape (n_groups + 1,), dtype=int64
        Where the splits of each group begin.
    group_splits : ndarray of shape (n_entries,), dtype=int32
        Splits of the groups, by their places.
    """
    n_rows, n_trees = leaves.shape
    n_items = item_price.shape[0]
    need = np.empty((n_items, n_trees), dtype=np.int32)
    n_needs = np.zeros(n_items, dtype=np.int64)
    touched = np.empty(n_items, dtype=np.int64)
    # Room for the case that nothing merges; memory that is not written is not used.
    members = np.empty(n_pairs, dtype=np.int32)
    offsets = np.empty(n_pairs + 2, dtype=np.int64)
    price = np.empty(n_pairs + 1, dtype=np.int64)
    offsets[0] = 0
    n_groups = 0
    slots = np.full(1024, -1, dtype=np.int32)
    shift = _slot_shift(1024)
    for row in range(n_rows):
        n_touched = 0
        for tree in range(n_trees):
            node = parent[leaves[row, tree]]
            while node >= 0:
                if place[node] >= 0 and buys[node]:
                    what = item[node]
                    if n_needs[what] == 0:
                        touched[n_touched] = what
                        n_touched += 1
                    need[what, n_needs[what]] = place[node]
                    n_needs[what] += 1
                node = parent[node]
        for k in range(n_touched):
            what = touched[k]
            size = n_needs[what]
            n_needs[what] = 0
            paid = weights[row] * item_price[what]
            if merge and size == 1:
                own_price[need[what, 0]] += paid
                continue
            start = offsets[n_groups]
            for m in range(size):
                members[start + m] = need[what, m]
            offsets[n_groups + 1] = start + size
            if merge:
                slot = _find_slot(slots, shift, offsets, members, n_groups)
                if slots[slot] >= 0:
                    price[slots[slot]] += paid
                    continue
                slots[slot] = n_groups
            price[n_groups] = paid
            n_groups += 1
            if merge and 2 * n_groups > slots.shape[0]:
                slots = _grown(slots, offsets, members, n_groups)
                shift = _slot_shift(slots.shape[0])
    return (
        price[:n_groups].copy(),
        offsets[: n_groups + 1].copy(),
        members[: offsets[n_groups]].copy(),
    )


@kernel
def restrict_groups(
    group_price: Counts,
    group_offsets: Counts,
    group_splits: Indices,
    paid: Flags,
    place: Indices,
    own_price: Counts,
) -> tuple[Counts, Counts, Indices]:
    """Leave out what is paid already and splits that are out of question; merge anew.

    Parameters
    ----------
    group_price, group_offsets, group_splits
        As `build_groups` returns them.
    paid : ndarray of shape (n_splits,), dtype=bool
        Splits that are kept in any case: their groups cost nothing more.
    place : ndarray of shape (n_splits,), dtype=int32
        New place of each split; -1 if it is left out.
    own_price : ndarray of shape (n_new_splits,), dtype=int64
        Increased by the price of groups with a single split left.

    Returns
    -------
    group_price, group_offsets, group_splits
        What is left.
    """
    n_old = group_price.shape[0]
    members = np.empty(group_splits.shape[0], dtype=np.int32)
    offsets = np.empty(n_old + 2, dtype=np.int64)
    price = np.empty(n_old + 1, dtype=np.int64)
    offsets[0] = 0
    n_groups = 0
    slots = np.full(64, -1, dtype=np.int32)
    shift = _slot_shift(64)
    for old in range(n_old):
        start = offsets[n_groups]
        end = start
        is_paid = False
        for k in range(group_offsets[old], group_offsets[old + 1]):
            split = group_splits[k]
            if paid[split]:
                is_paid = True
                break
            if place[split] >= 0:
                members[end] = place[split]
                end += 1
        if is_paid or end == start:
            continue
        if end == start + 1:
            own_price[members[start]] += group_price[old]
            continue
        offsets[n_groups + 1] = end
        slot = _find_slot(slots, shift, offsets, members, n_groups)
        if slots[slot] >= 0:
            price[slots[slot]] += group_price[old]
            continue
        slots[slot] = n_groups
        price[n_groups] = group_price[old]
        n_groups += 1
        if 2 * n_groups > slots.shape[0]:
            slots = _grown(slots, offsets, members, n_groups)
            shift = _slot_shift(slots.shape[0])
    return (
        price[:n_groups].copy(),
        offsets[: n_groups + 1].copy(),
        members[: offsets[n_groups]].copy(),
    )
