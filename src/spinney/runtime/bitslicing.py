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

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.bit_vectors import HAS_BITS
from spinney.runtime.building import distinct_rows, list_splits, schedule_splits

if TYPE_CHECKING:
    from spinney.forest import Forest

# Flags of a node or a condition.
MISSING_LEFT, ZERO_IS_MISSING, CATEGORICAL = 1, 2, 4

# Bits of a set of categories for "none of them", and "too many", and for NaN.
NO_BIT, NAN_BIT = 62, 63

# Larger trees are walked: their splits would cost more than their levels do.
MAX_BITSLICED_LEAVES = 1024

# Measured costs in nanoseconds per row, to choose between the two forms: one condition
# that is compared by itself, a chain and a halving of it, a condition in it, one split
# and one tree of the bitsliced form; one level of the walk.
COST_CONDITION, COST_CHAIN, COST_HALVING, COST_CHAINED = 0.055, 2.0, 0.6, 0.009
COST_SPLIT, COST_BITSLICED_TREE, COST_LEVEL = 0.006, 0.6, 1.05
if not HAS_BITS:
    # Estimated from the instructions for NEON, whose vectors are four times as short as
    # those of the processor that was measured, and which gathers number by number. So
    # trees of some hundred leaves are walked there.
    COST_CONDITION, COST_CHAINED, COST_SPLIT = 0.22, 0.036, 0.024
    COST_HALVING, COST_BITSLICED_TREE = 1.2, 1.8

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


def category_sets(forest: Forest) -> NDArray[np.int64]:
    """Return the set of categories that each node looks up, -1 for none.

    Of sets with the same members it is always the first: they are one condition.
    """
    chosen = forest.category_set
    if chosen is None:
        return np.full(forest.n_nodes, -1, dtype=np.int64)
    assert forest.category_offsets is not None
    assert forest.category_words is not None
    offsets, words = forest.category_offsets, forest.category_words
    first: dict[bytes, int] = {}
    same = [
        first.setdefault(words[begin:end].tobytes().rstrip(b"\0"), number)
        for number, (begin, end) in enumerate(pairwise(offsets.tolist()))
    ]
    # The last entry is for nodes without a set.
    return np.array([*same, -1], dtype=np.int64)[chosen]


def members_as_bits(
    offsets: NDArray[np.int64] | None,
    words: NDArray[np.uint32] | None,
    category_set: NDArray[np.int64],
    kind: NDArray[np.uint8],
) -> NDArray[np.uint64]:
    """Return which categories go left at each condition, as the bits of a word.

    Parameters
    ----------
    offsets, words
        The sets of categories, as in `Forest`.
    category_set, kind
        Per condition: its set of categories, -1 for none; its flags.

    Returns
    -------
    members : ndarray of shape (n_conditions,), dtype=uint64
        `NAN_BIT` is set if NaN goes left, `NO_BIT` if the set has no room in the bits
        below it, or there is none.
    """
    members = np.full(len(category_set), 1 << NO_BIT, dtype=np.uint64)
    if offsets is None or words is None:
        return members
    for condition in np.flatnonzero(category_set >= 0):
        begin, end = offsets[category_set[condition] :][:2]
        content = int.from_bytes(words[begin:end].astype("<u4").tobytes(), "little")
        if content >> NO_BIT == 0:
            nan = bool(kind[condition] & MISSING_LEFT)
            members[condition] = content | nan << NAN_BIT
    return members


def node_kinds(forest: Forest) -> NDArray[np.uint8]:
    """Return the flags of each node."""
    kind = np.where(forest.missing_left, MISSING_LEFT, 0).astype(np.uint8)
    if forest.zero_is_missing is not None:
        kind[forest.zero_is_missing] |= ZERO_IS_MISSING
    if forest.category_set is not None:
        kind[forest.category_set >= 0] |= CATEGORICAL
    kind[forest.feature < 0] = 0
    return kind


def small_trees(forest: Forest) -> NDArray[np.bool_]:
    """Return for each tree whether it is small enough to be bitsliced."""
    return _n_leaves(forest) <= MAX_BITSLICED_LEAVES


def _n_leaves(forest: Forest) -> NDArray[np.int64]:
    """Return the number of leaves of each tree."""
    return (np.diff(forest.tree_offsets) + 1) // 2


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
    nodes, number, n_conditions = _conditions(
        forest, small, threshold, category_set, kind
    )
    first = np.full(n_conditions, -1, dtype=np.int64)
    first[number[::-1]] = nodes[::-1]  # the first node that has each condition
    per_column = np.bincount(column[first][kind[first] <= MISSING_LEFT])
    n_special = np.count_nonzero(kind[first] > MISSING_LEFT)
    cost_bitsliced = (
        COST_CONDITION * n_special
        + _cost_of_conditions(per_column).sum()
        + COST_SPLIT * len(nodes)
        + COST_BITSLICED_TREE * np.count_nonzero(small)
    )
    cost_walk = COST_LEVEL * float(forest.depths[small].sum())
    if cost_bitsliced >= cost_walk:
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


class _Work(NamedTuple):
    """What trees take to evaluate, apart from conditions that they share."""

    mixed: NDArray[np.float64]  # per tree: bitsliced if it is small, else walked
    walked: NDArray[np.floating]  # per tree
    tree: NDArray[np.int64]  # these two: per inner node of a small tree
    condition: NDArray[np.int64]
    column: NDArray[np.int64]  # per condition; -1 for those beyond a plain comparison


def _work_of_trees(forest: Forest) -> _Work:
    small = small_trees(forest)
    kind = node_kinds(forest)
    nodes, number, n_conditions = _conditions(
        forest, small, forest.threshold, category_sets(forest), kind
    )
    tree = np.searchsorted(forest.tree_offsets, nodes, side="right") - 1
    column = np.empty(n_conditions, dtype=np.int64)
    column[number] = np.where(kind[nodes] > MISSING_LEFT, -1, forest.feature[nodes])
    splitting = COST_SPLIT * np.bincount(tree, minlength=forest.n_trees)
    walked = COST_LEVEL * forest.depths
    mixed = np.where(small, splitting + COST_BITSLICED_TREE, walked)
    return _Work(mixed, walked, tree, number, column)


def costs_of_first_trees(forest: Forest) -> NDArray[np.float64]:
    """Return the time that the first 0, 1, ..., all trees take, were they alone.

    In nanoseconds per row, by the model that chooses the form of the trees.
    """
    work = _work_of_trees(forest)
    first = np.full(len(work.column), forest.n_trees)
    np.minimum.at(first, work.condition, work.tree)
    comparing = np.zeros(forest.n_trees)
    for column, part in _by_column(work.column):
        n_compared = np.cumsum(np.bincount(first[part], minlength=forest.n_trees))
        comparing += _cost_of_comparing(column, n_compared)
    costs = np.minimum(np.cumsum(work.mixed) + comparing, np.cumsum(work.walked))
    return np.concatenate([[0.0], costs])


def mean_costs_of_trees(forest: Forest) -> NDArray[np.float64]:
    """Return the time that 0, 1, ..., all trees drawn at random take, on average.

    As `costs_of_first_trees`, but the same whichever trees are drawn. The cost of
    comparing is that of the mean number of conditions.
    """
    n_trees = forest.n_trees
    work = _work_of_trees(forest)
    pairs = np.unique(work.condition * n_trees + work.tree)
    n_having = np.bincount(pairs // n_trees, minlength=len(work.column))
    comparing = np.zeros(n_trees + 1)
    for column, part in _by_column(work.column):
        distinct, times = np.unique(n_having[part], return_counts=True)
        n_compared = times @ shares_met(n_trees, distinct)
        comparing += _cost_of_comparing(column, n_compared)
    n_drawn = np.arange(n_trees + 1)
    mixed = n_drawn * work.mixed.mean() + comparing
    return np.minimum(mixed, n_drawn * work.walked.mean())


def shares_met(n_trees: int, n_having: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return how likely trees drawn at random have something that some trees have.

    Parameters
    ----------
    n_trees : int
        Number of trees.
    n_having : ndarray of shape (n_things,), dtype=int
        How many of them have each thing.

    Returns
    -------
    shares : ndarray of shape (n_things, n_trees + 1)
        Probability that at least one of 0, 1, ..., all trees has it.
    """
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(n_trees + 1) + 1.0)
    without = n_trees - n_having[:, None]
    drawn = np.arange(n_trees + 1)
    # Of the ways to draw trees, those that draw only from trees without it.
    log_share = (
        log_factorial[without]
        - log_factorial[np.maximum(without - drawn, 0)]
        - log_factorial[-1]
        + log_factorial[n_trees - drawn]
    )
    return np.where(drawn > without, 1.0, -np.expm1(np.minimum(log_share, 0.0)))


def _by_column(
    column: NDArray[np.int64],
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield columns, and the indices of the conditions on each."""
    order = np.argsort(column, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(column[order])) + 1):
        if len(part):
            yield int(column[part[0]]), part


def _cost_of_comparing(column: int, n: NDArray[Any]) -> NDArray[np.float64]:
    """Return what so many conditions on a column cost; each alone if it is -1."""
    return _cost_of_conditions(n) if column >= 0 else COST_CONDITION * n


def _cost_of_conditions(n: NDArray[Any]) -> NDArray[np.float64]:
    """Return what so many conditions on one column cost, by the cheaper way."""
    return np.minimum(COST_CONDITION * n, _cost_of_chain(n))


def _cost_of_chain(n: NDArray[Any]) -> NDArray[np.float64]:
    halvings = np.log2(np.maximum(n, 1))
    return COST_CHAIN + COST_HALVING * halvings + COST_CHAINED * n


def _inverse(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of every number in a permutation."""
    index = np.empty(len(order), dtype=np.int64)
    index[order] = np.arange(len(order))
    return index


def _conditions(
    forest: Forest,
    small: NDArray[np.bool_],
    threshold: NDArray[np.floating],
    category_set: NDArray[np.int64],
    kind: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the inner nodes of small trees, the condition of each, and how many."""
    nodes = np.flatnonzero(
        (forest.feature >= 0) & np.repeat(small, np.diff(forest.tree_offsets))
    )
    bits = threshold[nodes].astype(np.float64).view(np.int64)
    key = np.column_stack(
        [forest.feature[nodes], bits, category_set[nodes], kind[nodes]]
    )
    number, n_conditions = distinct_rows(key)
    return nodes, number, n_conditions


def _split_trees(
    forest: Forest, small: NDArray[np.bool_]
) -> tuple[
    tuple[NDArray[np.int64], ...],
    tuple[NDArray[Any], ...],
    NDArray[np.int64],
    NDArray[np.int64],
]:
    """Return the splits of small trees, what their codes mean, and their values."""
    n_leaves = _n_leaves(forest)
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
    is_long = _cost_of_chain(counts) < COST_CONDITION * counts
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
