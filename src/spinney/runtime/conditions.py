"""What the nodes of a forest compare: their kinds, and which conditions are the same.

A condition is a column, a threshold or a set of categories, and where missing values
go. Nodes of many trees share it, so a batch evaluates it once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.building import distinct_rows

if TYPE_CHECKING:
    from spinney.forest import Forest

# Flags of a node or a condition.
MISSING_LEFT, ZERO_IS_MISSING, CATEGORICAL = 1, 2, 4

# Bits of a set of categories for "none of them", and "too many", and for NaN.
NO_BIT, NAN_BIT = 62, 63

# Larger trees are walked: their splits would cost more than their levels do.
MAX_BITSLICED_LEAVES = 1024


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
    return leaf_counts(forest) <= MAX_BITSLICED_LEAVES


def leaf_counts(forest: Forest) -> NDArray[np.int64]:
    """Return the number of leaves of each tree."""
    return (np.diff(forest.tree_offsets) + 1) // 2


def distinct_conditions(
    forest: Forest,
    small: NDArray[np.bool_],
    threshold: NDArray[np.floating],
    category_set: NDArray[np.int64],
    kind: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Number the distinct conditions of small trees.

    Parameters
    ----------
    forest : Forest
        The forest.
    small : ndarray of shape (n_trees,), dtype=bool
        Which trees.
    threshold, category_set, kind
        Per node: the threshold, the set of categories, flags.

    Returns
    -------
    nodes : ndarray of shape (n_inner_nodes,)
        The inner nodes of these trees.
    number : ndarray of shape (n_inner_nodes,)
        The condition of each, in the order in which they appear.
    n_conditions : int
        How many there are.
    """
    nodes = np.flatnonzero(
        (forest.feature >= 0) & np.repeat(small, np.diff(forest.tree_offsets))
    )
    bits = threshold[nodes].astype(np.float64).view(np.int64)
    key = np.column_stack(
        [forest.feature[nodes], bits, category_set[nodes], kind[nodes]]
    )
    number, n_conditions = distinct_rows(key)
    return nodes, number, n_conditions
