"""Small trees as operations on sets of rows, one bit per row.

Every distinct question of the trees (column, threshold, where missing values go) is put
to a whole block of rows at once, and a tree becomes a list of splits of sets of rows.
`Sliced` has the trees as such; `Program` is how the kernels of a batch go about them.

A column with many questions is a *chain*: its thresholds are sorted, and a row that
exceeds one of them exceeds all before it. So each row only has to be ranked among them,
and the answers to one question are those to the question before it, less the rows
whose value lies between the two thresholds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.building import distinct_rows, list_splits, schedule_splits

if TYPE_CHECKING:
    from spinney.forest import Forest

# Flags of a node or a question.
MISSING_LEFT, ZERO_IS_MISSING, CATEGORICAL = 1, 2, 4

# Larger trees are walked: their splits would cost more than their levels do.
MAX_SLICED_LEAVES = 1024

# Measured costs in nanoseconds per row, to choose between the two forms: one question
# that is asked by itself, a chain and a halving of it, a question in it, one split and
# one tree of the sliced form; one level of the walk.
COST_QUESTION, COST_CHAIN, COST_HALVING, COST_CHAINED = 0.055, 2.0, 0.6, 0.009
COST_SPLIT, COST_SLICED_TREE, COST_LEVEL = 0.006, 0.6, 1.05

# Trees whose values would take more bytes than this, with one for each code, keep those
# of their leaves only: they have to be fetched from afar for every block of rows.
MAX_SPARSE_BYTES = 4096

# Operations between fetching answers from a distant cache and their use.
LOOK_AHEAD = 2


class Sliced(NamedTuple):
    """Small trees as lists of splits over shared questions."""

    is_sliced: NDArray[np.bool_]  # per tree
    n_shared: int  # this many questions, the first ones, are asked more than once
    question_column: NDArray[np.int64]
    question_threshold: NDArray[np.floating]
    question_set: NDArray[np.int64]
    question_kind: NDArray[np.uint8]
    split_offsets: NDArray[np.int64]  # per tree, into the next four
    split_question: NDArray[np.int64]
    split_place: NDArray[np.int64]  # these three: see `building.list_splits`
    split_plane: NDArray[np.int64]
    split_flips: NDArray[np.int64]
    n_places: int  # sets of rows that are kept at a time
    n_planes: NDArray[np.int64]  # per tree: number of bits of a code
    first_code: NDArray[np.int64]  # per tree: number of its code 0 among all codes
    first_payload: NDArray[np.int64]  # per tree, and one more: of its first leaf
    is_listed: NDArray[np.bool_]  # per tree: whether the next one tells the leaf
    leaf_of_code: NDArray[np.uint16]  # counted from the first leaf; else it is the code


class Program(NamedTuple):
    """What to do to a block of rows: questions, then operations on sets of rows.

    Questions are listed chain by chain, in the order of their thresholds, before all
    that are asked by themselves. The answers to each have a slot; nobody has a bit in
    the slot behind the last one.
    """

    chain_column: NDArray[np.int64]
    chain_offsets: NDArray[np.int64]  # per chain, and one more: its first question
    question_column: NDArray[np.int64]
    question_threshold: NDArray[np.floating]
    question_set: NDArray[np.int64]
    question_kind: NDArray[np.uint8]
    question_slot: NDArray[np.int64]
    run_offsets: NDArray[np.int64]  # per tree, and one more, into the next two
    run_kind: NDArray[np.int64]  # these three: see `building.schedule_splits`
    run_end: NDArray[np.int64]
    operations: NDArray[np.uint32]
    n_places: int  # sets of rows that are kept at a time
    is_sliced: NDArray[np.bool_]  # this one and the rest: those of `Sliced`
    n_planes: NDArray[np.int64]
    first_code: NDArray[np.int64]
    first_payload: NDArray[np.int64]
    is_listed: NDArray[np.bool_]
    leaf_of_code: NDArray[np.uint16]


def category_sets(forest: Forest) -> NDArray[np.int64]:
    """Return the set of categories that each node asks for, -1 for none."""
    if forest.category_set is None:
        return np.full(forest.n_nodes, -1, dtype=np.int64)
    return forest.category_set.astype(np.int64)


def node_kinds(forest: Forest) -> NDArray[np.uint8]:
    """Return the flags of each node."""
    kind = np.where(forest.missing_left, MISSING_LEFT, 0).astype(np.uint8)
    if forest.zero_is_missing is not None:
        kind[forest.zero_is_missing] |= ZERO_IS_MISSING
    if forest.category_set is not None:
        kind[forest.category_set >= 0] |= CATEGORICAL
    kind[forest.feature < 0] = 0
    return kind


def slice_small_trees(
    forest: Forest,
    column: NDArray[np.int64],
    threshold: NDArray[np.floating],
    kind: NDArray[np.uint8],
    category_set: NDArray[np.int64],
    n_leaves: NDArray[np.float64],
) -> tuple[Sliced, Program, NDArray[np.int64], NDArray[np.int64]]:
    """Lay out the trees for which slicing pays.

    Parameters
    ----------
    forest : Forest
        The forest.
    column, threshold, kind, category_set, n_leaves
        Per node: the column among those in use, the threshold for the type of the
        rows, flags, the set of categories, the number of leaves below.

    Returns
    -------
    sliced : Sliced
        The trees.
    program : Program
        How to ask them.
    payload : ndarray of shape (n_nodes,)
        The payload of every leaf of these trees, -1 for all other nodes.
    payload_node : ndarray of shape (n_payloads,)
        The leaf of every payload.
    """
    roots = forest.tree_offsets[:-1]
    small = n_leaves[roots] <= MAX_SLICED_LEAVES
    nodes, number, n_questions = _questions(
        forest, small, threshold, category_set, kind
    )
    first = np.full(n_questions, -1, dtype=np.int64)
    first[number[::-1]] = nodes[::-1]  # the first node that asks each question
    per_column = np.bincount(column[first][kind[first] <= MISSING_LEFT])
    n_special = np.count_nonzero(kind[first] > MISSING_LEFT)
    cost_sliced = (
        COST_QUESTION * n_special
        + _cost_of_questions(per_column).sum()
        + COST_SPLIT * len(nodes)
        + COST_SLICED_TREE * np.count_nonzero(small)
    )
    cost_walk = COST_LEVEL * float(forest.depths[small].sum())
    if cost_sliced >= cost_walk:
        small = np.zeros(forest.n_trees, dtype=bool)
        nodes, number, first = nodes[:0], number[:0], first[:0]

    # Questions that are asked again stand first, and by column: it stays in the cache.
    is_single = np.bincount(number, minlength=len(first)) == 1
    order = np.lexsort([column[first], is_single])
    first = first[order]
    question_of = np.full(forest.n_nodes, -1, dtype=np.int64)
    question_of[nodes] = _inverse(order)[number]
    questions = column[first], threshold[first], category_set[first], kind[first]
    splits, codes, payload, payload_node = _split_trees(forest, small, n_leaves[roots])
    split_offsets, split_node, split_place, split_plane, split_flips = splits
    sliced = Sliced(
        small,
        int(len(first) - np.count_nonzero(is_single)),
        *questions,
        split_offsets,
        question_of[split_node],
        split_place,
        split_plane,
        split_flips,
        int(split_place.max(initial=0)) + 2,
        *codes,
    )
    return sliced, _program(forest, sliced, split_node), payload, payload_node


def costs_of_first_trees(forest: Forest) -> NDArray[np.float64]:
    """Return the time that the first 0, 1, ..., all trees take, were they alone.

    In nanoseconds per row, by the model that chooses the form of the trees.
    """
    n_trees = forest.n_trees
    small = (np.diff(forest.tree_offsets) + 1) // 2 <= MAX_SLICED_LEAVES
    kind = node_kinds(forest)
    nodes, number, n_questions = _questions(
        forest, small, forest.threshold, category_sets(forest), kind
    )
    tree = np.searchsorted(forest.tree_offsets, nodes, side="right") - 1
    first = np.empty(n_questions, dtype=np.int64)
    first[number[::-1]] = np.arange(len(nodes))[::-1]
    # By column, those beyond a plain comparison as if they had one of their own.
    column = forest.feature[nodes][first]
    column[kind[nodes][first] > MISSING_LEFT] = -1
    order = np.argsort(column, kind="stable")
    bounds = np.flatnonzero(np.diff(column[order])) + 1
    asking = np.zeros(n_trees)
    for part in np.split(order, bounds):
        n_asked = np.cumsum(np.bincount(tree[first[part]], minlength=n_trees))
        is_plain = len(part) > 0 and column[part[0]] >= 0
        asking += _cost_of_questions(n_asked) if is_plain else COST_QUESTION * n_asked
    splitting = COST_SPLIT * np.bincount(tree, minlength=n_trees)
    walked = COST_LEVEL * forest.depths
    mixed = np.where(small, splitting + COST_SLICED_TREE, walked)
    costs = np.minimum(np.cumsum(mixed) + asking, np.cumsum(walked))
    return np.concatenate([[0.0], costs])


def _cost_of_questions(n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what so many questions about one column cost, asked the cheaper way."""
    return np.minimum(COST_QUESTION * n, _cost_of_chain(n))


def _cost_of_chain(n: NDArray[np.int64]) -> NDArray[np.float64]:
    halvings = np.log2(np.maximum(n, 1))
    return COST_CHAIN + COST_HALVING * halvings + COST_CHAINED * n


def _inverse(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of every number in a permutation."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def _questions(
    forest: Forest,
    small: NDArray[np.bool_],
    threshold: NDArray[np.floating],
    category_set: NDArray[np.int64],
    kind: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the inner nodes of small trees, the question each asks, and how many."""
    nodes = np.flatnonzero(
        (forest.feature >= 0) & np.repeat(small, np.diff(forest.tree_offsets))
    )
    bits = threshold[nodes].astype(np.float64).view(np.int64)
    key = np.column_stack(
        [forest.feature[nodes], bits, category_set[nodes], kind[nodes]]
    )
    number, n_questions = distinct_rows(key)
    return nodes, number, n_questions


def _split_trees(
    forest: Forest, small: NDArray[np.bool_], n_leaves: NDArray[np.float64]
) -> tuple[
    tuple[NDArray[np.int64], ...],
    tuple[NDArray[Any], ...],
    NDArray[np.int64],
    NDArray[np.int64],
]:
    """Return the splits of small trees, what their codes mean, and their payloads."""
    n_splits = int(np.where(small, n_leaves - 1, 0).sum())
    node, place, plane, flips = np.empty((4, n_splits), dtype=np.int64)
    offsets = np.zeros(forest.n_trees + 1, dtype=np.int64)
    n_planes, first_code = np.zeros((2, forest.n_trees), dtype=np.int64)
    first_payload = np.zeros(forest.n_trees + 1, dtype=np.int64)
    is_listed = np.zeros(forest.n_trees, dtype=bool)
    payload = np.full(forest.n_nodes, -1, dtype=np.int64)
    payload_nodes = [np.empty(0, dtype=np.int64)]
    leaves_of_codes = [np.empty(0, dtype=np.uint16)]
    n_codes, n_payloads = 0, 0
    value_bytes = forest.value.shape[1] * np.dtype(forest.sum_dtype).itemsize
    for tree in range(forest.n_trees):
        start = offsets[tree]
        offsets[tree + 1] = start
        first_payload[tree + 1] = n_payloads
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
            place[start:],
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
        payload[leaf_node[used]] = n_payloads + leaf_of_code[used]
        # A code that no row can have still needs an entry; any leaf will do.
        payload_nodes.append(
            leaf_node[used]
            if is_listed[tree]
            else np.where(leaf_node >= 0, leaf_node, leaf_node[0])
        )
        leaves_of_codes.append(leaf_of_code.astype(np.uint16))
        n_codes += len(leaf_node)
        n_payloads += len(payload_nodes[-1])
        first_payload[tree + 1] = n_payloads
    splits = offsets, node, place, plane, flips
    codes = (
        n_planes,
        first_code,
        first_payload,
        is_listed,
        np.concatenate(leaves_of_codes),
    )
    return splits, codes, payload, np.concatenate(payload_nodes)


def _program(forest: Forest, sliced: Sliced, split_node: NDArray[np.int64]) -> Program:
    """Put questions into chains and splits into runs."""
    column, threshold = sliced.question_column, sliced.question_threshold
    kind = sliced.question_kind
    is_plain = kind <= MISSING_LEFT
    counts = np.bincount(column[is_plain])
    is_long = _cost_of_chain(counts) < COST_QUESTION * counts
    is_chained = is_plain.copy()
    is_chained[is_plain] = is_long[column[is_plain]]
    order = np.lexsort([threshold, column, ~is_chained])
    run_offsets, run_kind, run_end, operations, n_places = _schedule(
        forest, sliced, split_node
    )
    slot = _number_slots(operations, len(order))
    return Program(
        np.flatnonzero(is_long),
        np.concatenate([[0], np.cumsum(counts[is_long])]).astype(np.int64),
        column[order],
        threshold[order],
        sliced.question_set[order],
        kind[order],
        slot[order],
        run_offsets,
        run_kind,
        run_end,
        # Some more to look ahead at, which are never carried out.
        np.concatenate([operations, np.zeros((LOOK_AHEAD, 6), dtype=np.uint32)]),
        n_places,
        sliced.is_sliced,
        sliced.n_planes,
        sliced.first_code,
        sliced.first_payload,
        sliced.is_listed,
        sliced.leaf_of_code,
    )


def _schedule(
    forest: Forest, sliced: Sliced, split_node: NDArray[np.int64]
) -> tuple[
    NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32], int
]:
    """Return the runs of all trees, their operations, and the number of places.

    The operations name questions where their slots will be.
    """
    n_extra = int(np.bitwise_count(sliced.split_flips).sum())
    operations = np.empty((len(split_node) + n_extra, 6), dtype=np.uint32)
    n_runs = len(operations)  # at most
    run_kind, run_end = np.empty((2, n_runs), dtype=np.int64)
    run_offsets = np.zeros(forest.n_trees + 1, dtype=np.int64)
    split_of = np.empty(forest.n_nodes, dtype=np.int64)
    n_operations, n_places = 0, 1
    for tree in range(forest.n_trees):
        part = slice(*sliced.split_offsets[tree : tree + 2])
        n_operations, run_offsets[tree + 1], places = schedule_splits(
            forest.left,
            forest.right,
            split_node[part],
            sliced.split_question[part],
            sliced.split_plane[part],
            sliced.split_flips[part],
            split_of,
            len(sliced.question_column),
            n_operations,
            run_offsets[tree],
            operations,
            run_kind,
            run_end,
        )
        n_places = max(n_places, places)
    n_runs = run_offsets[-1]
    return (
        run_offsets,
        run_kind[:n_runs].copy(),
        run_end[:n_runs].copy(),
        operations[:n_operations],
        n_places,
    )


def _number_slots(
    operations: NDArray[np.uint32], n_questions: int
) -> NDArray[np.int64]:
    """Give each question a slot, in the order of first use, and tell the operations.

    So answers that are needed once, and have to come from afar, come in a row.
    """
    asked = operations[:, :3]
    used, first = np.unique(asked, return_index=True)
    slot = np.full(n_questions + 1, n_questions, dtype=np.int64)
    questions = used[used < n_questions]
    slot[questions] = _inverse(np.argsort(first[: len(questions)]))
    operations[:, :3] = slot[asked]
    return slot[:-1]
