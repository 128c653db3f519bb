"""What a tree contributes if it is stopped at an inner node.

A `Forest` has a value at inner nodes too. Boosting libraries store numbers of another
scale there (gradients, steps before shrinkage, six digits of them) or none, and no
prediction of theirs uses them. What an inner node would have contributed on average, in
the units of its leaves, is the weighted mean of the leaves below it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.forest import LEAF
from spinney.forest.levels import levels


class InnerMeans(NamedTuple):
    """Values and weights of all nodes, leaves included."""

    value: NDArray[np.float64]  # (n_nodes, n_values)
    weight: NDArray[np.float64]  # (n_nodes,), sum of the leaves below


def inner_means(
    left: NDArray[np.integer],
    right: NDArray[np.integer],
    roots: NDArray[np.integer],
    value: NDArray[Any],
    weight: NDArray[Any] | None,
    remainder: Literal["left", "right"] | None = None,
) -> InnerMeans:
    """Give every inner node the weighted mean of the leaves below it.

    Parameters
    ----------
    left, right : ndarray of shape (n_nodes,)
        Children as indices into these arrays; -1 at a leaf. No node may have two
        parents.
    roots : ndarray of int
        First node of each tree.
    value : ndarray of shape (n_nodes,) or (n_nodes, n_values)
        Values of the leaves; what inner nodes have is not used.
    weight : ndarray of shape (n_nodes,) or None
        Weight of each leaf, not negative; inner nodes do not matter. Below a node
        where all leaves weigh nothing they count the same, as they do with None.
    remainder : {"left", "right"}, optional
        The child whose share is one minus the share of the other; by default each
        share is a division of its own. Only the last bit depends on it: each reader
        keeps its choice, so that a model read again gives the same file.

    Returns
    -------
    means : InnerMeans
        New arrays.
    """
    leaf = left == LEAF
    mean = np.array(value, dtype=np.float64).reshape(len(left), -1)
    total = np.zeros(len(left))
    if weight is not None:
        total[leaf] = weight[leaf]
    n_leaves = leaf.astype(np.float64)
    for level in reversed(list(levels(left, right, roots))):
        node = level[~leaf[level]]
        one, other = left[node], right[node]
        total[node] = total[one] + total[other]
        n_leaves[node] = n_leaves[one] + n_leaves[other]
        weighed = total[node] > 0
        both = np.where(weighed, total[node], n_leaves[node])
        # Shares first, so that no product can overflow.
        share = np.where(weighed, total[one], n_leaves[one]) / both
        rest = np.where(weighed, total[other], n_leaves[other]) / both
        if remainder == "left":
            share = 1 - rest
        elif remainder == "right":
            rest = 1 - share
        mean[node] = share[:, None] * mean[one] + rest[:, None] * mean[other]
    return InnerMeans(mean, total)
