"""Nodes as the kernels for single rows take them.

A row is taken down eight trees at once, and what counts is that all eight stay in
registers. So children are counted from the first node of all trees, not from the root
of a tree, which would have to be remembered; and what a node does with NaN is decided
when the row is loaded, not at the node. A column has a *slot* for the nodes that send
NaN right, and one for those that send it left, if there are any.

All else is as in `layout.Walk`, of which these are a copy: two words per node, first
the threshold, or the index of the value of a leaf, and then child and slot. Siblings
lie side by side. A leaf is its own child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from spinney.runtime.layout import Layout


class RowArguments(NamedTuple):
    """What the kernels for single rows need to know of a forest.

    Callers splat it: handing a tuple of arrays to a kernel takes microseconds, about as
    long as the walk of a row, and so does every further array. Hence there are plain
    numbers instead of `numpy.uint64`, and no views of `link`.
    """

    slots: NDArray[np.int64]  # columns where NaN goes right; then ~column if left
    link: NDArray[np.unsignedinteger]  # two words per node
    root: NDArray[np.uint64]  # per tree
    slot_bits: int  # of the second word; the child is above them
    max_depth: int  # of the deepest tree
    table: NDArray[np.floating]  # what each leaf value index adds
    tree_output: NDArray[np.int64]  # the output that a tree adds to, -1 for all


def row_arguments(
    layout: Layout,
    dtype: type[np.floating],
    table: NDArray[np.floating],
    tree_output: NDArray[np.int64],
) -> RowArguments:
    """Return what the kernels for single rows need.

    Parameters
    ----------
    layout : Layout
        Trees of plain comparisons, laid out for rows of `dtype`.
    dtype : float32 or float64
        Type of the rows.
    table, tree_output
        Parts of `RowArguments`.
    """
    walk = layout.walk
    words = walk.link.reshape(-1, 2)
    link = words[:, 1].astype(np.int64)
    column = link & int(walk.column_mask)
    missing_left = link >> (int(walk.child_shift) - 1) & 1
    is_inner = column < len(layout.columns)
    root = walk.root.astype(np.int64)
    n_slots_of_tree = np.diff(root, append=len(link))
    child = (link >> int(walk.child_shift)) + np.repeat(root, n_slots_of_tree)
    kind = column + missing_left * len(layout.columns)
    kinds, slot_of = np.unique(kind[is_inner], return_inverse=True)
    slots = np.concatenate([layout.columns, ~layout.columns])[kinds]
    slot = np.full(len(link), len(slots), dtype=np.int64)
    slot[is_inner] = slot_of
    slot_bits = len(slots).bit_length()
    n_bits = slot_bits + len(link).bit_length()
    word = words.dtype if n_bits <= 8 * words.itemsize else np.dtype(np.uint64)
    nodes = np.zeros((len(link), 2), dtype=word)
    nodes[~is_inner, 0] = words[~is_inner, 0]
    # The first number of a node, also where its words are wider.
    nodes.view(dtype)[is_inner, 0] = words.view(dtype)[is_inner, 0]
    nodes[:, 1] = (child << slot_bits | slot).astype(word)
    return RowArguments(
        slots,
        nodes.reshape(-1),
        walk.root,
        slot_bits,
        int(walk.depth.max()),
        table,
        tree_output,
    )
