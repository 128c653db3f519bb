"""How a forest lies in memory for the kernels.

Two forms of the same trees:

* *walk*: 8-byte nodes (16 with float64 rows) that hold the threshold and one packed
  word. The two children of a node lie next to each other, so the next node is the
  left child plus the outcome of the comparison, without a branch. A leaf is its own
  left child and looks at a column that never exceeds anything, so a row that has
  arrived stays where it is; its threshold field carries the number of its payload.
* *sliced*, for small trees: every distinct question (column, threshold, where missing
  values go) is put to 64 rows at once as one machine word of answers, and a tree
  becomes a list of splits of sets of rows.

A payload is a row of the table of leaf values. Leaves of a large tree that have the
same value share it, which keeps the table of a full-grown tree in the nearest cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.building import (
    distinct_rows,
    leaves_below,
    list_splits,
    place_nodes,
)

if TYPE_CHECKING:
    from spinney.forest import Forest

# Flags of a node or a question.
MISSING_LEFT, ZERO_IS_MISSING, CATEGORICAL = 1, 2, 4

CATEGORY_RULES = {"truncate": 0, "floor": 1, "exact": 2}

# Larger trees are walked: their splits would cost more than their levels do.
MAX_SLICED_LEAVES = 1024

# Measured costs in nanoseconds per row, to choose between the two forms: one question,
# one split and one tree of the sliced form; one level of the walk.
COST_QUESTION, COST_SPLIT, COST_SLICED_TREE, COST_LEVEL = 0.055, 0.0105, 0.6, 1.05


class Walk(NamedTuple):
    """Nodes of all trees, to be walked from the root to a leaf."""

    threshold: NDArray[np.floating]  # of node i, at 2 * i
    link: NDArray[np.unsignedinteger]  # at 2 * i + 1: child, missing bit, column
    payload: NDArray[np.signedinteger]  # at 2 * i: of a leaf, or a category set
    kind: NDArray[np.uint8]  # flags per node, for nodes beyond a plain comparison
    root: NDArray[np.uint64]  # per tree
    depth: NDArray[np.int64]  # per tree
    child_shift: np.uint64  # the child is `link >> child_shift`, counted from the root
    column_mask: np.uint64  # the column is `link & column_mask`
    is_special: bool  # whether any node takes zero as missing or asks for a category


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
    first_payload: NDArray[np.int64]  # per tree: payload of code 0


class Categories(NamedTuple):
    """Sets of categories as bits, as in `Forest`."""

    offsets: NDArray[np.int64]
    words: NDArray[np.uint32]
    rule: int  # 0 truncate, 1 floor, 2 exact


class Layout(NamedTuple):
    """All that the kernels need to know of a forest, for rows of one type."""

    columns: NDArray[np.int64]  # the columns of a row that any node looks at
    walk: Walk
    sliced: Sliced
    categories: Categories
    payload_node: NDArray[np.int64]  # per payload: a node that has this value


def lay_out(forest: Forest, dtype: type[np.floating], share_leaves: bool) -> Layout:
    """Lay a forest out for rows of `dtype`.

    Parameters
    ----------
    forest : Forest
        Valid by construction.
    dtype : float32 or float64
        Type of the rows.
    share_leaves : bool
        Whether leaves with equal values share a payload. Without it, every leaf has
        its own, so that `Layout.payload_node` tells the leaf itself.
    """
    columns, inner_column = np.unique(
        forest.feature[forest.feature >= 0], return_inverse=True
    )
    column = np.full(forest.n_nodes, len(columns), dtype=np.int64)
    column[forest.feature >= 0] = inner_column
    threshold = thresholds_for(forest.threshold, dtype)
    kind = _node_kinds(forest)
    category_set = _category_sets(forest)
    n_leaves = leaves_below(forest.tree_offsets, forest.left, forest.right)
    sliced, payload, payload_node = _slice_small_trees(
        forest, column, threshold, kind, category_set, n_leaves
    )
    payload, payload_node = _number_other_leaves(
        forest, payload, payload_node, share_leaves
    )
    weight = n_leaves if forest.n_node_samples is None else forest.n_node_samples.copy()
    walk = _pack_nodes(
        forest, column, len(columns), threshold, kind, category_set, weight, payload
    )
    # Copies throughout: an array that is read-only, as those of a forest are, is of
    # another type to Numba, which would compile every kernel once more for it.
    categories = Categories(
        np.array([0] if forest.category_offsets is None else forest.category_offsets),
        np.array(
            [] if forest.category_words is None else forest.category_words,
            dtype=np.uint32,
        ),
        CATEGORY_RULES[forest.category_rule],
    )
    return Layout(columns.astype(np.int64), walk, sliced, categories, payload_node)


def fits_32_bits(forest: Forest) -> bool:
    """Whether child, missing bit and column of every node fit into 32 bits."""
    n_columns = len(np.unique(forest.feature[forest.feature >= 0]))
    largest = int(np.diff(forest.tree_offsets).max()) + 1  # one place stays empty
    return n_columns.bit_length() + 1 + largest.bit_length() <= 32


def thresholds_for(
    threshold: NDArray[np.float64], dtype: type[np.floating]
) -> NDArray[np.floating]:
    """Return thresholds that part numbers of `dtype` just as the given ones do.

    For a float32 number ``x <= t`` says the same as ``x <= t32``, where ``t32`` is the
    largest float32 not above ``t``.
    """
    if dtype is np.float64:
        return threshold
    with np.errstate(over="ignore", under="ignore"):
        rounded = threshold.astype(np.float32)
        below = np.nextafter(rounded, np.float32(-np.inf))
    return np.where(rounded.astype(np.float64) > threshold, below, rounded)


def _category_sets(forest: Forest) -> NDArray[np.int64]:
    """Return the set of categories that each node asks for, -1 for none."""
    if forest.category_set is None:
        return np.full(forest.n_nodes, -1, dtype=np.int64)
    return forest.category_set.astype(np.int64)


def _node_kinds(forest: Forest) -> NDArray[np.uint8]:
    kind = np.where(forest.missing_left, MISSING_LEFT, 0).astype(np.uint8)
    if forest.zero_is_missing is not None:
        kind[forest.zero_is_missing] |= ZERO_IS_MISSING
    if forest.category_set is not None:
        kind[forest.category_set >= 0] |= CATEGORICAL
    kind[forest.feature < 0] = 0
    return kind


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


def costs_of_first_trees(forest: Forest) -> NDArray[np.float64]:
    """Return the time that the first 0, 1, ..., all trees take, were they alone.

    In nanoseconds per row, by the model that chooses the form of the trees.
    """
    sizes = np.diff(forest.tree_offsets)
    small = (sizes + 1) // 2 <= MAX_SLICED_LEAVES
    nodes, number, n_questions = _questions(
        forest, small, forest.threshold, _category_sets(forest), _node_kinds(forest)
    )
    tree = np.searchsorted(forest.tree_offsets, nodes, side="right") - 1
    first_asked = np.full(n_questions, forest.n_trees)
    np.minimum.at(first_asked, number, tree)
    counts = np.bincount
    sliced = (
        COST_QUESTION * counts(first_asked, minlength=forest.n_trees)
        + COST_SPLIT * counts(tree, minlength=forest.n_trees)
        + COST_SLICED_TREE * small
    )
    walked = COST_LEVEL * forest.depths
    costs = np.minimum(np.cumsum(np.where(small, sliced, walked)), np.cumsum(walked))
    return np.concatenate([[0.0], costs])


def _slice_small_trees(
    forest: Forest,
    column: NDArray[np.int64],
    threshold: NDArray[np.floating],
    kind: NDArray[np.uint8],
    category_set: NDArray[np.int64],
    n_leaves: NDArray[np.float64],
) -> tuple[Sliced, NDArray[np.int64], NDArray[np.int64]]:
    """Return the sliced form of the trees for which it pays, and their payloads."""
    roots = forest.tree_offsets[:-1]
    small = n_leaves[roots] <= MAX_SLICED_LEAVES
    nodes, number, n_questions = _questions(
        forest, small, threshold, category_set, kind
    )
    cost_sliced = (
        COST_QUESTION * n_questions
        + COST_SPLIT * len(nodes)
        + COST_SLICED_TREE * np.count_nonzero(small)
    )
    cost_walk = COST_LEVEL * float(forest.depths[small].sum())
    if cost_sliced >= cost_walk:
        small = np.zeros(forest.n_trees, dtype=bool)
        nodes, number, n_questions = nodes[:0], number[:0], 0

    first = np.full(n_questions, -1, dtype=np.int64)
    first[number[::-1]] = nodes[::-1]  # the first node that asks each question
    # Questions that are asked again stand first, and by column: it stays in the cache.
    is_single = np.bincount(number, minlength=n_questions) == 1
    order = np.lexsort([column[first], is_single])
    rank = np.empty(n_questions, dtype=np.int64)
    rank[order] = np.arange(n_questions)
    first = first[order]
    question_of = np.full(forest.n_nodes, -1, dtype=np.int64)
    question_of[nodes] = rank[number]

    split_node = np.empty(len(nodes), dtype=np.int64)
    split_place = np.empty(len(nodes), dtype=np.int64)
    split_plane = np.empty(len(nodes), dtype=np.int64)
    split_flips = np.empty(len(nodes), dtype=np.int64)
    split_offsets = np.zeros(forest.n_trees + 1, dtype=np.int64)
    n_planes = np.zeros(forest.n_trees, dtype=np.int64)
    first_payload = np.zeros(forest.n_trees, dtype=np.int64)
    payload = np.full(forest.n_nodes, -1, dtype=np.int64)
    payload_nodes = [np.empty(0, dtype=np.int64)]
    n_payloads = 0
    for tree in range(forest.n_trees):
        start = split_offsets[tree]
        split_offsets[tree + 1] = start
        if not small[tree]:
            continue
        # One bit more than needed leaves codes free, so that most splits change a
        # single bit; as many bits as levels always do.
        planes = (int(n_leaves[roots[tree]]) - 1).bit_length()
        planes = min(planes + 1, max(planes, int(forest.depths[tree])))
        leaf_node = np.empty(1 << planes, dtype=np.int64)
        split_offsets[tree + 1] += list_splits(
            roots[tree],
            forest.left,
            forest.right,
            planes,
            split_node[start:],
            split_place[start:],
            split_plane[start:],
            split_flips[start:],
            leaf_node,
        )
        n_planes[tree] = planes
        first_payload[tree] = n_payloads
        used = np.flatnonzero(leaf_node >= 0)
        payload[leaf_node[used]] = n_payloads + used
        # A code that no row can have still needs an entry; any leaf will do.
        payload_nodes.append(np.where(leaf_node >= 0, leaf_node, leaf_node[0]))
        n_payloads += 1 << planes
    sliced = Sliced(
        small,
        int(n_questions - np.count_nonzero(is_single)),
        column[first],
        threshold[first],
        category_set[first],
        kind[first],
        split_offsets,
        question_of[split_node],
        split_place,
        split_plane,
        split_flips,
        int(split_place.max(initial=0)) + 2,
        n_planes,
        first_payload,
    )
    return sliced, payload, np.concatenate(payload_nodes)


def _number_other_leaves(
    forest: Forest,
    payload: NDArray[np.int64],
    payload_node: NDArray[np.int64],
    share_leaves: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give payloads to the leaves of the trees that are not sliced."""
    leaves = np.flatnonzero((forest.feature < 0) & (payload < 0))
    if share_leaves:
        # Shared within a tree only, so that the values of one tree lie together.
        tree = np.searchsorted(forest.tree_offsets, leaves, side="right")
        values = forest.value[leaves].view(np.int64)
        number, n_distinct = distinct_rows(np.column_stack([tree, values]))
    else:
        number, n_distinct = np.arange(len(leaves)), len(leaves)
    payload[leaves] = len(payload_node) + number
    node_of = np.empty(n_distinct, dtype=np.int64)
    node_of[number] = leaves
    return payload, np.concatenate([payload_node, node_of])


def _pack_nodes(
    forest: Forest,
    column: NDArray[np.int64],
    n_columns: int,
    threshold: NDArray[np.floating],
    kind: NDArray[np.uint8],
    category_set: NDArray[np.int64],
    weight: NDArray[np.float64],
    payload: NDArray[np.int64],
) -> Walk:
    """Put every node into two words: the threshold, and child, missing bit, column."""
    place, root = place_nodes(forest.tree_offsets, forest.left, forest.right, weight)
    sizes = np.diff(forest.tree_offsets)
    where = place + np.repeat(root[:-1], sizes)
    column_bits = int(n_columns).bit_length()
    wide = threshold.dtype == np.float64
    unsigned, signed = (np.uint64, np.int64) if wide else (np.uint32, np.int32)
    words: NDArray[Any] = np.zeros(2 * int(root[-1]), dtype=unsigned)
    inner = forest.feature >= 0
    is_set = category_set >= 0
    numeric = inner & ~is_set
    words.view(threshold.dtype)[2 * where[numeric]] = threshold[numeric]
    words.view(signed)[2 * where[is_set]] = category_set[is_set]
    words.view(signed)[2 * where[~inner]] = payload[~inner]
    child = place.copy()  # a leaf is its own child
    child[inner] = place[forest.left[inner]]
    missing_left = (kind & MISSING_LEFT).astype(np.int64)
    links = (child << (column_bits + 1)) | (missing_left << column_bits) | column
    words[2 * where + 1] = links.astype(unsigned)
    kinds = np.zeros(int(root[-1]), dtype=np.uint8)
    kinds[where] = kind
    return Walk(
        words.view(threshold.dtype),
        words,
        words.view(signed),
        kinds,
        root[:-1].astype(np.uint64),
        forest.depths.copy(),
        np.uint64(column_bits + 1),
        np.uint64((1 << column_bits) - 1),
        bool((kind & (ZERO_IS_MISSING | CATEGORICAL)).any()),
    )
