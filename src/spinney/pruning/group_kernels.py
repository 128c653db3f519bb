"""Kernels that find what rows have to buy, at which splits, and for how much.

A *group* is what one row has to buy once: a feature, together with the nodes (at most
one per tree) at which the row first needs it. Rows that need a feature at the same
nodes share a group, and its price is the sum of theirs. Numbers are integers
throughout, so that sums are exact and ties are ties.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.
"""

from __future__ import annotations

import numpy as np

from spinney.pruning.kernels import Counts, Flags, Indices
from spinney.runtime.kernel_cache import kernel


@kernel
def count_pairs(
    leaves: Indices, parent: Indices, split_of: Indices, buys: Flags
) -> int:
    """Count the pairs of a row and a node at which it first needs something.

    Parameters
    ----------
    leaves, parent
        As in `count_errors`.
    split_of : ndarray of shape (n_nodes,), dtype=int32
        Index of a node among the splits of the problem; -1 if it is none of them.
    buys : ndarray of shape (n_nodes,), dtype=bool
        Nodes at which rows first need something that has a price.
    """
    n_pairs = 0
    for row in range(leaves.shape[0]):
        for tree in range(leaves.shape[1]):
            node = parent[leaves[row, tree]]
            while node >= 0:
                n_pairs += split_of[node] >= 0 and buys[node]
                node = parent[node]
    return n_pairs


@kernel
def _hashed(members: Indices, start: int, end: int) -> np.uint64:
    """Return a hash of a list of splits."""
    code = np.uint64(14695981039346656037)
    for k in range(start, end):
        code ^= np.uint64(members[k])
        code ^= code >> np.uint64(32)
        code *= np.uint64(0xFF51AFD7ED558CCD)
        code ^= code >> np.uint64(29)
    code *= np.uint64(0xC4CEB9FE1A85EC53)
    # The low bits number the slot, and a product mixes its high bits best.
    return code ^ (code >> np.uint64(32))


@kernel
def _find_slot(slots: Indices, offsets: Counts, members: Indices, group: int) -> int:
    """Return the slot of a group with the same splits, or a free one."""
    start, end = offsets[group], offsets[group + 1]
    mask = np.uint64(slots.shape[0] - 1)
    slot = _hashed(members, start, end) & mask
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
    mask = np.uint64(size - 1)
    for group in range(n_groups):
        slot = _hashed(members, offsets[group], offsets[group + 1]) & mask
        while larger[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        larger[slot] = group
    return larger


@kernel
def _room_for_groups(n_entries: int, n_groups: int) -> tuple[Counts, Counts, Indices]:
    """Return empty arrays of prices, offsets and members, with these capacities.

    Memory that is not written is not used.
    """
    price = np.empty(n_groups + 1, dtype=np.int64)
    offsets = np.empty(n_groups + 2, dtype=np.int64)
    members = np.empty(n_entries, dtype=np.int32)
    offsets[0] = 0
    return price, offsets, members


@kernel
def _merge_last(
    slots: Indices,
    price: Counts,
    offsets: Counts,
    members: Indices,
    n_groups: int,
    paid: int,
) -> tuple[Indices, int]:
    """Add the group that was written last, or its price to one with the same splits.

    Returns the table of slots, which may have grown, and the number of groups.
    """
    slot = _find_slot(slots, offsets, members, n_groups)
    if slots[slot] >= 0:
        price[slots[slot]] += paid
        return slots, n_groups
    slots[slot] = n_groups
    price[n_groups] = paid
    n_groups += 1
    if 2 * n_groups > slots.shape[0]:
        slots = _grown(slots, offsets, members, n_groups)
    return slots, n_groups


@kernel
def _without_spare_room(
    price: Counts, offsets: Counts, members: Indices, n_groups: int
) -> tuple[Counts, Counts, Indices]:
    """Return copies of prices, offsets and members that end with the last group."""
    return (
        price[:n_groups].copy(),
        offsets[: n_groups + 1].copy(),
        members[: offsets[n_groups]].copy(),
    )


@kernel
def build_groups(
    leaves: Indices,
    weights: Counts,
    parent: Indices,
    split_of: Indices,
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
    split_of, buys
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
        Indices of the splits of each group.
    """
    n_rows, n_trees = leaves.shape
    n_items = item_price.shape[0]
    need = np.empty((n_items, n_trees), dtype=np.int32)
    n_needs = np.zeros(n_items, dtype=np.int64)
    touched = np.empty(n_items, dtype=np.int64)
    price, offsets, members = _room_for_groups(n_pairs, n_pairs)
    slots = np.full(1024, -1, dtype=np.int32)
    n_groups = 0
    for row in range(n_rows):
        n_touched = 0
        for tree in range(n_trees):
            node = parent[leaves[row, tree]]
            while node >= 0:
                if split_of[node] >= 0 and buys[node]:
                    what = item[node]
                    if n_needs[what] == 0:
                        touched[n_touched] = what
                        n_touched += 1
                    need[what, n_needs[what]] = split_of[node]
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
                slots, n_groups = _merge_last(
                    slots, price, offsets, members, n_groups, paid
                )
            else:
                price[n_groups] = paid
                n_groups += 1
    return _without_spare_room(price, offsets, members, n_groups)


@kernel
def restrict_groups(
    group_price: Counts,
    group_offsets: Counts,
    group_splits: Indices,
    paid: Flags,
    new_index: Indices,
    own_price: Counts,
) -> tuple[Counts, Counts, Indices]:
    """Drop groups that are paid for and splits that are ruled out; merge again.

    Parameters
    ----------
    group_price, group_offsets, group_splits
        As `build_groups` returns them.
    paid : ndarray of shape (n_splits,), dtype=bool
        Splits that are kept in any case: their groups cost nothing more.
    new_index : ndarray of shape (n_splits,), dtype=int32
        New index of each split; -1 if it is left out.
    own_price : ndarray of shape (n_new_splits,), dtype=int64
        Increased by the price of groups with a single split left.

    Returns
    -------
    group_price, group_offsets, group_splits
        What is left.
    """
    n_old = group_price.shape[0]
    price, offsets, members = _room_for_groups(group_splits.shape[0], n_old)
    slots = np.full(64, -1, dtype=np.int32)
    n_groups = 0
    for old in range(n_old):
        start = offsets[n_groups]
        end = start
        is_paid = False
        for k in range(group_offsets[old], group_offsets[old + 1]):
            split = group_splits[k]
            if paid[split]:
                is_paid = True
                break
            if new_index[split] >= 0:
                members[end] = new_index[split]
                end += 1
        if is_paid or end == start:
            continue
        if end == start + 1:
            own_price[members[start]] += group_price[old]
            continue
        offsets[n_groups + 1] = end
        slots, n_groups = _merge_last(
            slots, price, offsets, members, n_groups, group_price[old]
        )
    return _without_spare_room(price, offsets, members, n_groups)
