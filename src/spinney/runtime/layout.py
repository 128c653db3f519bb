"""How a forest lies in memory for the kernels.

Two forms of the same trees:

* *walk*: 8-byte nodes (16 with float64 rows) that hold the threshold and one packed
  word. The two children of a node lie next to each other, so the next node is the
  left child plus the outcome of the comparison, without a branch. A leaf is its own
  left child and looks at a column that never exceeds anything, so a row that has
  arrived stays where it is; its threshold field carries its leaf value index.
* *bitsliced*, for small trees: operations on sets of rows, see `bitslicing`.

A leaf value index is a row of the table of leaf values. Leaves of a large tree that
have the same value share it, which keeps the table of a full-grown tree in the nearest
cache. Nodes lie in depth-first order, the child with more training rows first.

What did not pay: vector gathers, breadth-first order of the nodes, walking with ranks
instead of numbers, smaller blocks so that all of them lie in the nearest cache, large
memory pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.bitslicing import Bitsliced, Schedule, bitslice_small_trees
from spinney.runtime.building import arrange_nodes, distinct_rows, leaves_below
from spinney.runtime.conditions import (
    CATEGORICAL,
    MISSING_LEFT,
    ZERO_IS_MISSING,
    category_sets,
    node_kinds,
    small_trees,
)
from spinney.runtime.kernel_arrays import own_copy
from spinney.runtime.thresholds import thresholds_for

if TYPE_CHECKING:
    from spinney.forest import Forest

# Leaves whose values are compared with one another at a time, and a few more.
LEAVES_AT_A_TIME = 65_536

CATEGORY_RULES = {"truncate": 0, "floor": 1, "exact": 2}


class Walk(NamedTuple):
    """Nodes of all trees, to be walked from the root to a leaf."""

    threshold: NDArray[np.floating]  # of node i, at 2 * i
    link: NDArray[np.unsignedinteger]  # at 2 * i + 1: child, missing bit, column
    value_index: NDArray[np.signedinteger]  # at 2 * i: leaf value or category set
    kind: NDArray[np.uint8]  # flags per node, for nodes beyond a plain comparison
    root: NDArray[np.uint64]  # per tree
    depth: NDArray[np.int64]  # per tree
    child_shift: np.uint64  # the child is `link >> child_shift`, counted from the root
    column_mask: np.uint64  # the column is `link & column_mask`
    is_special: bool  # whether any node takes zero as missing or looks up a category


class Categories(NamedTuple):
    """Sets of categories as bits, as in `Forest`."""

    offsets: NDArray[np.int64]
    words: NDArray[np.uint32]
    rule: int  # 0 truncate, 1 floor, 2 exact


class Forms(NamedTuple):
    """All that the kernels of a batch need to know of a forest.

    Kernels for a part that is None are not compiled, which saves most of the time.
    """

    columns: NDArray[np.int64]  # the columns of a row that any node compares
    walk: Walk | None  # None if all trees are bitsliced
    schedule: Schedule | None  # None if no tree is bitsliced
    categories: Categories | None  # None if no node looks up any


def needed_forms(forms: Forms) -> Forms:
    """Return the forms of trees without what these trees have no use for.

    Trees of which some are walked and others are bitsliced keep all parts, so that
    there are not too many kinds of kernels.

    Parameters
    ----------
    forms : Forms
        With all parts.
    """
    assert forms.walk is not None
    has_special = forms.walk.is_special
    if not bitslices_any(forms):
        forms = forms._replace(schedule=None)
    elif forms.schedule is not None and forms.schedule.is_bitsliced.all():
        forms = forms._replace(walk=None)
    else:
        return forms
    return forms if has_special else forms._replace(categories=None)


def bitslices_any(forms: Forms) -> bool:
    """Whether any tree is bitsliced: with no condition there is nothing to split."""
    return forms.schedule is not None and len(forms.schedule.condition_slot) > 0


def are_all_walked(forest: Forest) -> bool:
    """Whether no tree is small enough to be bitsliced; told without a layout."""
    return not small_trees(forest).any()


def expected_kind(forest: Forest) -> str:
    """Return the kind of kernels for batches of a forest; told without a layout.

    Small trees may turn out to be walked, because bitslicing does not pay for them:
    then the kernels of another kind are taken, and perhaps compiled, than expected.
    """
    small = small_trees(forest)
    if small.any() and not small.all():
        return "mixed"
    is_special = bool((node_kinds(forest) & (ZERO_IS_MISSING | CATEGORICAL)).any())
    size = "small" if small.all() else "walked"
    return f"{size}, categories" if is_special else size


@dataclass(frozen=True)
class Layout:
    """A forest laid out for rows of one type.

    Parameters
    ----------
    all_forms : Forms
        For the kernels of a batch, with all parts.
    schedule : Schedule
        How to evaluate the trees that are bitsliced.
    bitsliced : Bitsliced
        Small trees as lists of splits.
    value_node : ndarray of shape (n_leaf_values,), dtype=int64
        A node that has the value of each leaf value index.
    """

    all_forms: Forms
    schedule: Schedule
    bitsliced: Bitsliced
    value_node: NDArray[np.int64]

    @cached_property
    def forms(self) -> Forms:
        """What the kernels of a batch need."""
        return needed_forms(self.all_forms)

    @cached_property
    def walked_forms(self) -> Forms:
        """What they need to walk all trees."""
        forms = self.all_forms._replace(schedule=None)
        return forms if self.walk.is_special else forms._replace(categories=None)

    @property
    def columns(self) -> NDArray[np.int64]:
        """The columns of a row that any node looks at."""
        return self.all_forms.columns

    @property
    def walk(self) -> Walk:
        """Nodes of all trees."""
        assert self.all_forms.walk is not None
        return self.all_forms.walk

    @property
    def categories(self) -> Categories:
        """Sets of categories."""
        assert self.all_forms.categories is not None
        return self.all_forms.categories


def lay_out(forest: Forest, dtype: type[np.floating], share_leaves: bool) -> Layout:
    """Lay a forest out for rows of `dtype`.

    Parameters
    ----------
    forest : Forest
        Valid by construction.
    dtype : float32 or float64
        Type of the rows.
    share_leaves : bool
        Whether leaves with equal values share a leaf value index. Without it,
        every leaf has its own, so that `Layout.value_node` tells the leaf itself.
    """
    columns, inner_column = np.unique(
        forest.feature[forest.feature >= 0], return_inverse=True
    )
    column = np.full(forest.n_nodes, len(columns), dtype=np.int64)
    column[forest.feature >= 0] = inner_column
    threshold = thresholds_for(forest.threshold, dtype)
    kind = node_kinds(forest)
    category_set = category_sets(forest)
    bitsliced, schedule, value_index, value_node = bitslice_small_trees(
        forest, columns.astype(np.int64), column, threshold, kind, category_set
    )
    value_index, value_node = _number_other_leaves(
        forest, value_index, value_node, share_leaves
    )
    weight = (
        leaves_below(forest.tree_offsets, forest.left, forest.right)
        if forest.n_node_samples is None
        else own_copy(forest.n_node_samples)
    )
    walk = _pack_nodes(
        forest, column, len(columns), threshold, kind, category_set, weight, value_index
    )
    offsets, words = forest.category_offsets, forest.category_words
    categories = Categories(
        own_copy([0] if offsets is None else offsets, np.int64),
        own_copy([] if words is None else words, np.uint32),
        CATEGORY_RULES[forest.category_rule],
    )
    forms = Forms(columns.astype(np.int64), walk, schedule, categories)
    return Layout(forms, schedule, bitsliced, value_node)


def fits_32_bits(forest: Forest) -> bool:
    """Whether child, missing bit and column of every node fit into 32 bits."""
    n_columns = len(np.unique(forest.feature[forest.feature >= 0]))
    largest = int(np.diff(forest.tree_offsets).max()) + 1  # one slot stays empty
    return n_columns.bit_length() + 1 + largest.bit_length() <= 32


def _number_other_leaves(
    forest: Forest,
    value_index: NDArray[np.int64],
    value_node: NDArray[np.int64],
    share_leaves: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give leaf value indices to the leaves of the trees that are not bitsliced."""
    leaves = np.flatnonzero((forest.feature < 0) & (value_index < 0))
    if share_leaves:
        number, n_distinct = _number_by_value(forest, leaves)
    else:
        number, n_distinct = np.arange(len(leaves)), len(leaves)
    value_index[leaves] = len(value_node) + number
    node_of = np.empty(n_distinct, dtype=np.int64)
    node_of[number] = leaves
    return value_index, np.concatenate([value_node, node_of])


def _number_by_value(
    forest: Forest, leaves: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Number leaves so that equal ones of a tree share a number; return how many."""
    # Shared within a tree only, so that the values of one tree lie together.
    tree = np.searchsorted(forest.tree_offsets, leaves, side="right")
    number = np.empty(len(leaves), dtype=np.int64)
    n_distinct = 0
    # Some trees at a time: many short arrays are sorted sooner than a long one.
    begins = np.searchsorted(tree, tree[::LEAVES_AT_A_TIME])
    for begin, end in pairwise([*np.unique(begins).tolist(), len(leaves)]):
        part = slice(begin, end)
        values = forest.value[leaves[part]].view(np.int64)
        found, n_new = distinct_rows(np.column_stack([tree[part], values]))
        number[part] = n_distinct + found
        n_distinct += n_new
    return number, n_distinct


def _pack_nodes(
    forest: Forest,
    column: NDArray[np.int64],
    n_columns: int,
    threshold: NDArray[np.floating],
    kind: NDArray[np.uint8],
    category_set: NDArray[np.int64],
    weight: NDArray[np.float64],
    value_index: NDArray[np.int64],
) -> Walk:
    """Put every node into two words: the threshold, and child, missing bit, column."""
    slot, root = arrange_nodes(forest.tree_offsets, forest.left, forest.right, weight)
    sizes = np.diff(forest.tree_offsets)
    where = slot + np.repeat(root[:-1], sizes)
    column_bits = int(n_columns).bit_length()
    wide = threshold.dtype == np.float64
    unsigned, signed = (np.uint64, np.int64) if wide else (np.uint32, np.int32)
    words: NDArray[Any] = np.zeros(2 * int(root[-1]), dtype=unsigned)
    inner = forest.feature >= 0
    is_set = category_set >= 0
    numeric = inner & ~is_set
    words.view(threshold.dtype)[2 * where[numeric]] = threshold[numeric]
    words.view(signed)[2 * where[is_set]] = category_set[is_set]
    words.view(signed)[2 * where[~inner]] = value_index[~inner]
    child = slot.copy()  # a leaf is its own child
    child[inner] = slot[forest.left[inner]]
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
        own_copy(forest.depths),
        np.uint64(column_bits + 1),
        np.uint64((1 << column_bits) - 1),
        bool((kind & (ZERO_IS_MISSING | CATEGORICAL)).any()),
    )
