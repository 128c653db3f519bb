"""A kernel that takes rows down all trees, as far as their features are known.

It takes validated, C-contiguous arrays and checks nothing: validation is the caller's
task. Both functions live in this one file because Numba's on-disk cache does not notice
a change in a function imported from another file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.forest.nodes import ZERO_BAND
from spinney.runtime.kernel_cache import kernel

TRUNCATE, FLOOR, EXACT = 0, 1, 2


class Nodes(NamedTuple):
    """The nodes of a forest as the kernel takes them, all arrays read-only.

    Attributes
    ----------
    feature, threshold, left, right, missing_left, zero_is_missing, category_set
        One entry per node, as in `Forest`.
    category_offsets, category_words
        The sets of categories, as in `Forest`.
    category_rule : int
        0, 1 or 2 for the rules "truncate", "floor" and "exact".
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    zero_is_missing: NDArray[np.bool_]
    category_set: NDArray[np.int32]
    category_offsets: NDArray[np.int64]
    category_words: NDArray[np.uint32]
    category_rule: int


@kernel
def _in_set(
    x: float, words: NDArray[np.uint32], start: int, end: int, rule: int
) -> bool:
    """Whether the number `x`, not NaN, is in the set `words[start:end]`."""
    if rule == EXACT and x != np.floor(x):
        return False
    category = np.trunc(x) if rule == TRUNCATE else np.floor(x)
    if not (category >= 0.0 and category < 32.0 * (end - start)):
        return False
    code = int(category)
    return (int(words[start + (code >> 5)]) >> (code & 31)) & 1 == 1


@kernel
def walk_on(
    rows: NDArray[np.int64],
    X: NDArray[np.float64],
    bought: NDArray[np.bool_],
    nodes: Nodes,
    place: NDArray[np.int32],
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
    place : ndarray of shape (n_rows, n_trees), dtype=int32
        The node at which each row is in each tree; overwritten.
    waits : ndarray of shape (n_features, n_rows), dtype=bool
        Set where a row now waits for a feature.
    n_waiting : ndarray of shape (n_features,), dtype=int64
        Number of rows that wait for each feature; kept up to date.
    """
    feature, threshold = nodes.feature, nodes.threshold
    left, right = nodes.left, nodes.right
    missing_left, zero_is_missing = nodes.missing_left, nodes.zero_is_missing
    category_set, offsets = nodes.category_set, nodes.category_offsets
    words, rule = nodes.category_words, nodes.category_rule
    for row in rows:
        for tree in range(place.shape[1]):
            node = place[row, tree]
            f = feature[node]
            while f >= 0 and bought[row, f]:
                x = X[row, f]
                which = category_set[node]
                if x != x or (zero_is_missing[node] and abs(x) <= ZERO_BAND):
                    goes_left = missing_left[node]
                elif which >= 0:
                    goes_left = _in_set(
                        x, words, offsets[which], offsets[which + 1], rule
                    )
                else:
                    goes_left = x <= threshold[node]
                node = left[node] if goes_left else right[node]
                f = feature[node]
            place[row, tree] = node
            if f >= 0 and not waits[f, row]:
                waits[f, row] = True
                n_waiting[f] += 1
