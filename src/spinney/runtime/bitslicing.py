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

from spinney.runtime.conditions import (
    MISSING_LEFT,
    distinct_conditions,
    leaf_counts,
    members_as_bits,
    small_trees,
)
from spinney.runtime.loading import find_windows
from spinney.runtime.runs import schedule_splits
from spinney.runtime.splits import Splits, bit_lengths, list_splits
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
    split_slot: NDArray[np.int64]  # these three: see `splits`
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

    window_begin: NDArray[np.uint64]  # these two: see `loading.find_windows`
    window_members: NDArray[np.int64]
    chain_column: NDArray[np.int64]
    chain_offsets: NDArray[np.int64]  # per chain, and one more: its first condition
    condition_column: NDArray[np.int64]
    condition_threshold: NDArray[np.floating]
    condition_set: NDArray[np.int64]
    condition_kind: NDArray[np.uint8]
    condition_members: NDArray[np.uint64]  # small sets as bits; see `members_as_bits`
    condition_slot: NDArray[np.int64]
    run_offsets: NDArray[np.int64]  # per tree, and one more, into the next two
    run_kind: NDArray[np.int64]  # these three: see `runs`
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
    columns: NDArray[np.int64],
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
    columns : ndarray of shape (n_columns,)
        The columns in use, ascending.
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
    splits, n_planes = _split_trees(forest, small)
    codes, value_index, value_node = _number_leaves(
        forest, small, n_planes, splits.code
    )
    split_condition = condition_of[splits.node]
    bitsliced = Bitsliced(
        small,
        int(len(first) - np.count_nonzero(is_single)),
        *conditions,
        splits.offsets,
        split_condition,
        splits.slot,
        splits.plane,
        splits.flips,
        int(splits.slot.max(initial=0)) + 2,
        *codes,
    )
    return (
        bitsliced,
        _make_schedule(forest, columns, bitsliced, splits),
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
) -> tuple[Splits, NDArray[np.int64]]:
    """Return the splits of small trees, and of how many bits their codes are."""
    trees = np.flatnonzero(small)
    depths = forest.depths[trees].astype(np.int64)
    # One bit more than needed leaves codes free, so that most splits change a single
    # bit; as many bits as levels always do.
    needed = bit_lengths(leaf_counts(forest)[trees] - 1)
    planes = np.minimum(needed + 1, np.maximum(needed, depths))
    splits = list_splits(
        forest.tree_offsets[trees], forest.left, forest.right, planes, planes >= depths
    )
    n_splits, n_planes = np.zeros((2, forest.n_trees), dtype=np.int64)
    n_splits[trees], n_planes[trees] = np.diff(splits.offsets), planes
    return splits._replace(offsets=_begins(n_splits)), n_planes


def _number_leaves(
    forest: Forest,
    small: NDArray[np.bool_],
    n_planes: NDArray[np.int64],
    code: NDArray[np.int64],
) -> tuple[tuple[NDArray[Any], ...], NDArray[np.int64], NDArray[np.int64]]:
    """Return what the codes of small trees mean, and their leaf value indices.

    `code` has the code of every leaf.
    """
    n_codes = np.where(small, 1 << n_planes, 0)
    first_code = _begins(n_codes)
    value_bytes = forest.value.shape[1] * np.dtype(forest.sum_dtype).itemsize
    is_listed = n_codes * value_bytes > MAX_SPARSE_BYTES

    is_leaf = np.repeat(small, np.diff(forest.tree_offsets)) & (forest.left < 0)
    leaves = np.flatnonzero(is_leaf)
    tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))[leaves]
    code_of_leaf = first_code[tree] + code[leaves]
    leaf_of_code = np.full(first_code[-1], -1, dtype=np.int64)
    leaf_of_code[code_of_leaf] = leaves
    is_used = leaf_of_code >= 0
    # A code that no row can have still needs an entry if values are found by the code;
    # that of the first leaf will do.
    first_leaf = np.repeat(leaf_of_code[first_code[:-1][small]], n_codes[small])
    value_node = np.where(is_used, leaf_of_code, first_leaf)
    has_value = is_used | ~np.repeat(is_listed, n_codes)
    value_of_code = _begins(has_value)
    first_value = value_of_code[first_code]
    value_index = np.full(forest.n_nodes, -1, dtype=np.int64)
    value_index[leaves] = value_of_code[code_of_leaf]
    number = value_of_code[:-1] - np.repeat(first_value[:-1], n_codes)
    codes = (
        n_planes,
        first_code[:-1],
        first_value,
        is_listed,
        np.where(is_used, number, 0).astype(np.uint16),
    )
    return codes, value_index, value_node[has_value]


def _begins(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _make_schedule(
    forest: Forest, columns: NDArray[np.int64], bitsliced: Bitsliced, splits: Splits
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
    runs = schedule_splits(
        splits, bitsliced.split_condition, forest.left, forest.right, len(order)
    )
    slot = _number_slots(runs.operations, len(order))
    return Schedule(
        *find_windows(columns, forest.width),
        np.flatnonzero(is_long),
        _begins(counts[is_long]),
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
        runs.offsets,
        runs.kind,
        runs.end,
        # Some more to look ahead at, which are never carried out.
        np.concatenate([runs.operations, np.zeros((LOOK_AHEAD, 6), dtype=np.uint32)]),
        runs.n_slots,
        bitsliced.is_bitsliced,
        bitsliced.n_planes,
        bitsliced.first_code,
        bitsliced.first_value,
        bitsliced.is_listed,
        bitsliced.leaf_of_code,
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
