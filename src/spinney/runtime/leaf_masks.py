"""Small trees as masks over their leaves, for a few rows at a time.

The leaves of a tree are numbered from left to right, a bit for each. A row that goes
right at a node cannot end in the leaves on the left of it: the node has a mask without
them. Of the leaves that are left after all nodes at which a row goes right, it ends in
the first. No comparison waits for another one, and eight rows fit into a vector. (The
idea is that of QuickScorer, Lucchese et al. 2015, and of RapidScorer, Ye et al. 2018,
for several rows at once.)

Every distinct condition of the trees is evaluated once. The sums are added tree by
tree, as everywhere, so the predictions are the same to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.building import distinct_rows
from spinney.runtime.conditions import CATEGORICAL, ZERO_IS_MISSING, node_kinds
from spinney.runtime.thresholds import thresholds_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from spinney.forest import Forest

# Leaves that a mask has room for, and rows that are compared at a time.
MAX_LEAVES = MAX_ROWS = 64

# Rows whose masks are narrowed down at once: two vectors of eight, which need not wait
# for one another, or one of them, if there are no more rows.
LANES, FEW_LANES = 16, 8

# Nanoseconds, as measured: a condition, and a row in a tree; a node and a tree, for a
# vector of rows and for two. And of walking: a level of eight trees, and a tree.
COST_CONDITION, COST_ROW = 2.0, 1.0
COST_NODE_OF_FEW, COST_TREE_OF_FEW = 0.45, 5.0
COST_NODE, COST_TREE = 0.6, 6.5
COST_LEVEL_OF_EIGHT, COST_WALKED_TREE = 3.3, 7.5


class MaskArguments(NamedTuple):
    """What the kernel needs to know of a forest; callers splat it."""

    columns: NDArray[np.int64]  # the columns of a row that any node compares
    condition_column: NDArray[np.int64]  # an index into `columns`
    condition_threshold: NDArray[np.floating]
    condition_kind: NDArray[np.uint8]  # whether NaN goes left
    node_offsets: NDArray[np.int64]  # per tree, and one more, into the next two
    node_condition: NDArray[np.uint32]
    node_mask: NDArray[np.uint64]
    first_leaf: NDArray[np.int64]  # per tree, into `table`
    table: NDArray[np.floating]  # what each leaf adds
    tree_output: NDArray[np.int64]  # the output that a tree adds to, -1 for all


def least_rows(forest: Forest, n_looked_up: int = 0) -> int:
    """Return from how many rows on masks are quicker than walking, row by row.

    Parameters
    ----------
    forest : Forest
        The forest.
    n_looked_up : int, default=0
        How many of its conditions need no comparison, see `category_mask_kernels`.

    Returns
    -------
    n_rows : int
        At least 2. Above `MAX_ROWS` if never, or if masks do not know the trees.
    """
    sizes = np.diff(forest.tree_offsets)
    special = node_kinds(forest) & (ZERO_IS_MISSING | CATEGORICAL)
    never = MAX_ROWS + 1
    if int(sizes.max()) > 2 * MAX_LEAVES - 1 or special.any():
        return never
    inner = np.flatnonzero(forest.feature >= 0)
    column, threshold = forest.feature[inner], forest.threshold[inner]
    order = np.lexsort((threshold, column))
    column, threshold = column[order], threshold[order]
    differs = (column[1:] != column[:-1]) | (threshold[1:] != threshold[:-1])
    n_conditions = int(np.count_nonzero(differs)) + 1 - n_looked_up
    n_rows = np.arange(2, never)
    n_trees = forest.n_trees
    eight = np.maximum.reduceat(forest.depths, np.arange(0, n_trees, 8))
    walking = COST_LEVEL_OF_EIGHT * float(eight.sum()) + COST_WALKED_TREE * n_trees
    narrowing = np.where(
        n_rows <= FEW_LANES,
        COST_NODE_OF_FEW * len(inner) + COST_TREE_OF_FEW * n_trees,
        -(-n_rows // LANES) * (COST_NODE * len(inner) + COST_TREE * n_trees),
    )
    masking = COST_CONDITION * n_conditions + narrowing + COST_ROW * n_trees * n_rows
    slower = np.flatnonzero(masking >= walking * n_rows)
    return 2 if len(slower) == 0 else int(n_rows[slower[-1]]) + 1


def mask_leaves(
    forest: Forest,
    dtype: type[np.floating],
    added: Callable[[NDArray[np.int64]], NDArray[np.floating]],
    tree_output: NDArray[np.int64],
) -> MaskArguments:
    """Return a forest of small trees as masks, for rows of `dtype`.

    Parameters
    ----------
    forest : Forest
        One for which `least_rows` allows it.
    dtype : float32 or float64
        Type of the rows.
    added : callable
        Returns what nodes add to the sums.
    tree_output : ndarray of shape (n_trees,), dtype=int64
        The output that a tree adds its only value to, or -1 for all outputs.
    """
    left = forest.left
    is_inner = forest.feature >= 0
    first, last = _leaf_ranges(forest)
    inner, leaves = np.flatnonzero(is_inner), np.flatnonzero(~is_inner)
    one = np.uint64(1)
    # The last leaf of a tree is never on the left, so no shift is by 64.
    n_left = (last[left[inner]] - first[left[inner]]).astype(np.uint64)
    mask = ~(((one << n_left) - one) << first[inner].astype(np.uint64))
    columns, column = np.unique(forest.feature[inner], return_inverse=True)
    threshold = np.asarray(thresholds_for(forest.threshold, dtype)[inner])
    kind = node_kinds(forest)[inner]
    bits = threshold.astype(np.float64).view(np.int64)
    number, n_conditions = distinct_rows(np.column_stack([column, bits, kind]))
    example = np.empty(n_conditions, dtype=np.int64)
    example[number] = np.arange(len(inner))
    node_offsets = np.concatenate([[0], np.cumsum(is_inner)])[forest.tree_offsets]
    first_leaf = np.concatenate([[0], np.cumsum(~is_inner)])[forest.tree_offsets[:-1]]
    tree = np.searchsorted(forest.tree_offsets, leaves, side="right") - 1
    in_order = np.empty(len(leaves), dtype=np.int64)
    in_order[first_leaf[tree] + first[leaves]] = leaves
    return MaskArguments(
        columns.astype(np.int64),
        column[example].astype(np.int64),
        threshold[example],
        kind[example],
        node_offsets.astype(np.int64),
        number.astype(np.uint32),
        mask,
        first_leaf.astype(np.int64),
        added(in_order),
        tree_output,
    )


def _leaf_ranges(forest: Forest) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first leaf below each node, from left to right, and the one behind."""
    left, right = forest.left, forest.right
    levels = [forest.tree_offsets[:-1]]
    while True:
        inner = levels[-1][forest.feature[levels[-1]] >= 0]
        if len(inner) == 0:
            break
        levels.append(np.concatenate([left[inner], right[inner]]))
    n_below = np.ones(forest.n_nodes, dtype=np.int64)
    first = np.zeros(forest.n_nodes, dtype=np.int64)
    inner_nodes = [nodes[forest.feature[nodes] >= 0] for nodes in levels]
    for nodes in reversed(inner_nodes):
        n_below[nodes] = n_below[left[nodes]] + n_below[right[nodes]]
    for nodes in inner_nodes:
        first[left[nodes]] = first[nodes]
        first[right[nodes]] = first[nodes] + n_below[left[nodes]]
    return first, first + n_below
