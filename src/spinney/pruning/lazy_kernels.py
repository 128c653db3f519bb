"""A kernel that takes rows down all trees, as far as their features are known.

It takes validated, C-contiguous arrays and checks nothing: validation is the caller's
task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel
from spinney.runtime.walk_kernels import goes_right


class Nodes(NamedTuple):
    """The nodes of a forest as the kernel takes them, all arrays read-only.

    Attributes
    ----------
    feature, threshold, left, right, category_set
        One entry per node, as in `Forest`.
    kind
        Flags of each node, as `node_kinds` makes them.
    category_offsets, category_words
        The sets of categories, as in `Forest`.
    category_rule : int
        0, 1 or 2 for the rules "truncate", "floor" and "exact".
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    kind: NDArray[np.uint8]
    category_set: NDArray[np.int32]
    category_offsets: NDArray[np.int64]
    category_words: NDArray[np.uint32]
    category_rule: int


@kernel
def walk_on(
    rows: NDArray[np.int64],
    X: NDArray[np.float64],
    bought: NDArray[np.bool_],
    nodes: Nodes,
    node_at: NDArray[np.int32],
    waits: NDArray[np.bool_],
    n_waiting: NDArray[np.int64],
) -> None:
    """Take some rows down all trees, to leaves or to features not bought yet.

    Parameters
    ----------
    rows : ndarray of shape (n_moving,), dtype=int64
        The rows that can move.
    X : ndarray of shape (n_rows, n_features), dtype=float64
        Values, right where they were bought.
    bought : ndarray of shape (n_rows, n_features), dtype=bool
        Which those are.
    nodes : Nodes
        The forest.
    node_at : ndarray of shape (n_rows, n_trees), dtype=int32
        The node at which each row is in each tree; overwritten.
    waits : ndarray of shape (n_features, n_rows), dtype=bool
        Set where a row now waits for a feature.
    n_waiting : ndarray of shape (n_features,), dtype=int64
        Number of rows that wait for each feature; kept up to date.
    """
    feature, threshold = nodes.feature, nodes.threshold
    left, right = nodes.left, nodes.right
    kind, category_set = nodes.kind, nodes.category_set
    offsets = nodes.category_offsets
    words, rule = nodes.category_words, nodes.category_rule
    for row in rows:
        for tree in range(node_at.shape[1]):
            node = node_at[row, tree]
            f = feature[node]
            while f >= 0 and bought[row, f]:
                x = X[row, f]
                which = category_set[node]
                begin, end = 0, 0
                if which >= 0:
                    begin, end = offsets[which], offsets[which + 1]
                goes_on_right = goes_right(
                    x, threshold[node], kind[node], words, begin, end, rule
                )
                node = right[node] if goes_on_right else left[node]
                f = feature[node]
            node_at[row, tree] = node
            if f >= 0 and not waits[f, row]:
                waits[f, row] = True
                n_waiting[f] += 1
