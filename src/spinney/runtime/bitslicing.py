"""Bitslicing: small trees as operations on sets of rows, one bit per row.

Every distinct condition of the trees (column, threshold, where missing values go) is
evaluated for a whole block of rows at once, and a tree becomes a list of splits of sets
of rows. `Bitsliced` has the trees as such; `Schedule` is how the kernels of a batch go
about them.

A column with many conditions is a *chain*: its thresholds are sorted, and a row that
exceeds one of them exceeds all before it. So each row only has to be ranked among them,
and the outcomes of one condition are those of the condition before it, less the rows
whose value lies between the two thresholds.

Each split moves the rows that go right to a code of their own by flipping one bit of
the old code (or, where no such code is free, several). Codes are kept as bit planes and
become one number per row at the end. A set of rows is written only if it is split
again: a node of two leaves *marks* its rows; a node above such nodes *finishes* itself
and them in one go; a node with one leaf *keeps* part of its set; only what remains is
*split*. Operations of one kind follow one another, because each change of kind is a
branch that the processor guesses wrong.

The layout estimates what walking and bitslicing cost from the number of conditions,
splits and levels, and chooses. On Adult, 500 LightGBM trees of 31 leaves have 577
distinct conditions at 15,000 nodes, 500 trees of depth 10 have 18,930 at 169,000;
bitslicing takes about a seventeenth and a third of the time of walking there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.building import list_splits, schedule_splits
from spinney.runtime.conditions import (
    MISSING_LEFT,
    distinct_conditions,
    leaf_counts,
    members_as_bits,
    small_trees,
)
from spinney.runtime.tree_costs import bitslicing_pays, chain_pays

if TYPE_CHECKING:
    from spinney.forest import Forest

# Trees whose values would take more bytes than this, with one for each code, keep those
# of their leaves only: they have to be fetched from afar for every block of rows.
MAX_SPARSE_BYTES = 4096

# Operations between fetching outcomes from a distant cache and their use.
LOOK_AHEAD = 2


class Bitsliced(NamedTuple):
    """Small trees as lists of splits over shared conditions."""

    is_bitsliced: NDArray[np.bool_]  # per tree
    n_shared: int  # this many conditions, the first ones, occur more than once
    condition_column: NDArray[np.int64]
    condition_threshold: NDArray[np.floating]
    condition_set: NDArray[np.int64]
    condition_kind: NDArray[np.uint8]
    split_offsets: NDArray[np.int64]  # per tree, into the next four
    split_condition: NDArray[np.int64]
    split_slot: NDArray[np.int64]  # these three: see `building.list_splits`
    split_plane: NDArray[np.int64]
    split_flips: NDArray[np.int64]
    n_slots: int  # sets of rows that are kept at a time
    n_planes: NDArray[np.int64]  # per tree: number of bits of a code
    first_code: NDArray[np.int64]  # per tree: number of its code 0 among all codes
    first_value: NDArray[np.int64]  # per tree, and one more: of its first leaf
    is_listed: NDArray[np.bool_]  # per tree: whether the next one tells the leaf
    leaf_of_code: NDArray[np.uint16]  # counted from the first leaf; else it is the code


class Schedule(NamedTuple):
    """What to do to a block of rows: conditions, then operations on sets of rows.

    Conditions are listed chain by chain, in the order of their thresholds, before all
    that are compared by themselves. The outcomes of each have a slot; no row has a bit
    in the slot behind the last one.
    """

    chain_column: NDArray[np.int64]
    chain_offsets: NDArray[np.int64]  # per chain, and one more: its first condition
    condition_column: NDArray[np.int64]
    condition_threshold: NDArray[np.floating]
    condition_set: NDArray[np.int64]
    condition_kind: NDArray[np.uint8]
    condition_members: NDArray[np.uint64]  # small sets as bits; see `members_as_bits`
    condition_slot: NDArray[np.int64]
    run_offsets: NDArray[np.int64]  # per tree, and one more, into the next two
    run_kind: NDArray[np.int64]  # these three: see `building.schedule_splits`
    run_end: NDArray[np.int64]
    operations: NDArray[np.uint32]
    n_slots: int  # sets of rows that are kept at a time
    is_bitsliced: NDArray[np.bool_]  # this one and the rest: those of `Bitsliced`
    n_planes: NDArray[np.int64]
    first_code: NDArray[np.int64]
    first_value: NDArray[np.int64]
    is_listed: NDArray[np.bool_]
    leaf_of_code: NDArray[np.uint16]


def bitslice_small_trees(
    forest: Forest,
    column: NDArray[np.int64],
    threshold: NDArray[np.floating],
    kind: NDArray[np.uint8],
    category_set: NDArray[np.int64],
) -> tuple[Bitsliced, Schedule, NDArray[np.int64], NDArray[np.int64]]:
    """Lay out the trees for which bitslicing pays.

    Parameters
    ----------
    forest : Forest
        The forest.
    column, threshold, kind, category_set
        Per node: the column among those in use, the threshold for the type of the
        rows, flags, the set of categories.

    Returns
    -------
    bitsliced : Bitsliced
        The trees.
    schedule : Schedule
        How to evaluate them.
    value_index : ndarray of shape (n_nodes,)
        The leaf value index of every leaf of these trees, -1 for all other nodes.
    value_node : ndarray of shape (n_leaf_values,)
        The leaf of every leaf value index.
    """
    small = small_trees(forest)
    nodes, number, n_conditions = distinct_conditions(
        forest, small, threshold, category_set, kind
    )
    first = np.full(n_conditions, -1, dtype=np.int64)
    first[number[::-1]] = nodes[::-1]  # the first node that has each condition
    if not bitslicing_pays(forest, small, column[first], kind[first], len(nodes)):
        small = np.zeros(forest.n_trees, dtype=bool)
        nodes, number, first = nodes[:0], number[:0], first[:0]

    # Conditions that recur stand first, and by column: it stays in the cache.
    is_single = np.bincount(number, minlength=len(first)) == 1
    order = np.lexsort([column[first], is_single])
    first = first[order]
    condition_of = np.full(forest.n_nodes, -1, dtype=np.int64)
    condition_of[nodes] = _inverse(order)[number]
    conditions = column[first], threshold[first], category_set[first], kind[first]
    splits, codes, value_index, value_node = _split_trees(forest, small)
    split_offsets, split_node, split_slot, split_plane, split_flips = splits
    bitsliced = Bitsliced(
        small,
        int(len(first) - np.count_nonzero(is_single)),
        *conditions,
        split_offsets,
        condition_of[split_node],
        split_slot,
        split_plane,
        split_flips,
        int(split_slot.max(initial=0)) + 2,
        *codes,
    )
    return (
        bitsliced,
        _make_schedule(forest, bitsliced, split_node),
        value_index,
        value_node,
    )


def _inverse(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of every number in a permutation."""
    index = np.empty(len(order), dtype=np.int64)
    index[order] = np.arange(len(order))
    return index


def _split_trees(
    forest: Forest, small: NDArray[np.bool_]
) -> tuple[
    tuple[NDArray[np.int64], ...],
    tuple[NDArray[Any], ...],
    NDArray[np.int64],
    NDArray[np.int64],
]:
    """Return the splits of small trees, what their codes mean, and their values."""
    n_leaves = leaf_counts(forest)
    n_splits = int(np.where(small, n_leaves - 1, 0).sum())
    node, slot, plane, flips = np.empty((4, n_splits), dtype=np.int64)
    offsets = np.zeros(forest.n_trees + 1, dtype=np.int64)
    n_planes, first_code = np.zeros((2, forest.n_trees), dtype=np.int64)
    first_value = np.zeros(forest.n_trees + 1, dtype=np.int64)
    is_listed = np.zeros(forest.n_trees, dtype=bool)
    value_index = np.full(forest.n_nodes, -1, dtype=np.int64)
    value_nodes = [np.empty(0, dtype=np.int64)]
    leaves_of_codes = [np.empty(0, dtype=np.uint16)]
    n_codes, n_leaf_values = 0, 0
    value_bytes = forest.value.shape[1] * np.dtype(forest.sum_dtype).itemsize
    for tree in range(forest.n_trees):
        start = offsets[tree]
        offsets[tree + 1] = start
        first_value[tree + 1] = n_leaf_values
        if not small[tree]:
            continue
        # One bit more than needed leaves codes free, so that most splits change a
        # single bit; as many bits as levels always do.
        depth = int(forest.depths[tree])
        planes = (int(n_leaves[tree]) - 1).bit_length()
        planes = min(planes + 1, max(planes, depth))
        leaf_node = np.empty(1 << planes, dtype=np.int64)
        offsets[tree + 1] += list_splits(
            forest.tree_offsets[tree],
            forest.left,
            forest.right,
            planes,
            planes >= depth,
            node[start:],
            slot[start:],
            plane[start:],
            flips[start:],
            leaf_node,
        )
        n_planes[tree] = planes
        first_code[tree] = n_codes
        is_listed[tree] = len(leaf_node) * value_bytes > MAX_SPARSE_BYTES
        used = np.flatnonzero(leaf_node >= 0)
        leaf_of_code = np.zeros(len(leaf_node), dtype=np.int64)
        leaf_of_code[used] = np.arange(len(used)) if is_listed[tree] else used
        value_index[leaf_node[used]] = n_leaf_values + leaf_of_code[used]
        # A code that no row can have still needs an entry; any leaf will do.
        value_nodes.append(
            leaf_node[used]
            if is_listed[tree]
            else np.where(leaf_node >= 0, leaf_node, leaf_node[0])
        )
        leaves_of_codes.append(leaf_of_code.astype(np.uint16))
        n_codes += len(leaf_node)
        n_leaf_values += len(value_nodes[-1])
        first_value[tree + 1] = n_leaf_values
    splits = offsets, node, slot, plane, flips
    codes = (
        n_planes,
        first_code,
        first_value,
        is_listed,
        np.concatenate(leaves_of_codes),
    )
    return splits, codes, value_index, np.concatenate(value_nodes)


def _make_schedule(
    forest: Forest, bitsliced: Bitsliced, split_node: NDArray[np.int64]
) -> Schedule:
    """Put conditions into chains and splits into runs."""
    column, threshold = bitsliced.condition_column, bitsliced.condition_threshold
    kind = bitsliced.condition_kind
    is_plain = kind <= MISSING_LEFT
    counts = np.bincount(column[is_plain])
    is_long = chain_pays(counts)
    is_chained = is_plain.copy()
    is_chained[is_plain] = is_long[column[is_plain]]
    order = np.lexsort([threshold, column, ~is_chained])
    run_offsets, run_kind, run_end, operations, n_slots = _list_runs(
        forest, bitsliced, split_node
    )
    slot = _number_slots(operations, len(order))
    return Schedule(
        np.flatnonzero(is_long),
        np.concatenate([[0], np.cumsum(counts[is_long])]).astype(np.int64),
        column[order],
        threshold[order],
        bitsliced.condition_set[order],
        kind[order],
        members_as_bits(
            forest.category_offsets,
            forest.category_words,
            bitsliced.condition_set[order],
            kind[order],
        ),
        slot[order],
        run_offsets,
        run_kind,
        run_end,
        # Some more to look ahead at, which are never carried out.
        np.concatenate([operations, np.zeros((LOOK_AHEAD, 6), dtype=np.uint32)]),
        n_slots,
        bitsliced.is_bitsliced,
        bitsliced.n_planes,
        bitsliced.first_code,
        bitsliced.first_value,
        bitsliced.is_listed,
        bitsliced.leaf_of_code,
    )


def _list_runs(
    forest: Forest, bitsliced: Bitsliced, split_node: NDArray[np.int64]
) -> tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32], int
]:
    """Return the runs of all trees, their operations, and the number of slots.

    The operations name conditions where their slots will be.
    """
    n_extra = int(np.bitwise_count(bitsliced.split_flips).sum())
    operations = np.empty((len(split_node) + n_extra, 6), dtype=np.uint32)
    n_runs = len(operations)  # at most
    run_kind, run_end = np.empty((2, n_runs), dtype=np.int64)
    run_offsets = np.zeros(forest.n_trees + 1, dtype=np.int64)
    split_of = np.empty(forest.n_nodes, dtype=np.int64)
    n_operations, n_slots = 0, 1
    for tree in range(forest.n_trees):
        part = slice(*bitsliced.split_offsets[tree : tree + 2])
        if part.start == part.stop:  # walked: nothing has to be compiled for that
            run_offsets[tree + 1] = run_offsets[tree]
            continue
        n_operations, run_offsets[tree + 1], needed = schedule_splits(
            forest.left,
            forest.right,
            split_node[part],
            bitsliced.split_condition[part],
            bitsliced.split_plane[part],
            bitsliced.split_flips[part],
            split_of,
            len(bitsliced.condition_column),
            n_operations,
            run_offsets[tree],
            operations,
            run_kind,
            run_end,
        )
        n_slots = max(n_slots, needed)
    n_runs = run_offsets[-1]
    return (
        run_offsets,
        run_kind[:n_runs].copy(),
        run_end[:n_runs].copy(),
        operations[:n_operations],
        n_slots,
    )


def _number_slots(
    operations: NDArray[np.uint32], n_conditions: int
) -> NDArray[np.int64]:
    """Give each condition a slot, in the order of first use, and tell the operations.

    So outcomes that are needed once, and have to come from afar, come in a row.
    """
    compared = operations[:, :3]
    used, first = np.unique(compared, return_index=True)
    slot = np.full(n_conditions + 1, n_conditions, dtype=np.int64)
    conditions = used[used < n_conditions]
    slot[conditions] = _inverse(np.argsort(first[: len(conditions)]))
    operations[:, :3] = slot[compared]
    return slot[:-1]
