"""Inner nodes in preorder: where each is, and how many are to the left of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.export.inputs import Slots
from spinney.forest import Forest
from spinney.forest.levels import levels


@dataclass(frozen=True, eq=False)
class Preorder:
    """The inner nodes of all trees in preorder.

    Parameters
    ----------
    at : ndarray of shape (n_nodes,), dtype=int64
        Number of each inner node; of a leaf, that of the next inner node.
    leaf : ndarray of shape (n_nodes,), dtype=int64
        Number of the first leaf in the subtree of each node.
    n_left : ndarray of shape (n_nodes,), dtype=int64
        Inner nodes in the left subtree.
    start : ndarray of shape (n_trees + 1,), dtype=int64
        Number of the first inner node of each tree, and of inner nodes.
    """

    at: NDArray[np.int64]
    leaf: NDArray[np.int64]
    n_left: NDArray[np.int64]
    start: NDArray[np.int64]


def preorder(forest: Forest, slots: Slots) -> Preorder:
    """Return the inner nodes of a forest in preorder.

    Parameters
    ----------
    forest : Forest
        The trees.
    slots : Slots
        Which child is the left one.
    """
    left, right = slots.left, slots.right
    roots = forest.tree_offsets[:-1]
    by_level = list(levels(left, right, roots))
    n_inner = np.zeros(forest.n_nodes, dtype=np.int64)
    for level in reversed(by_level):
        inner = level[left[level] >= 0]
        n_inner[inner] = 1 + n_inner[left[inner]] + n_inner[right[inner]]
    start = np.concatenate([[0], np.cumsum(n_inner[roots])])
    at = np.zeros(forest.n_nodes, dtype=np.int64)
    leaf = np.zeros(forest.n_nodes, dtype=np.int64)
    at[roots] = start[:-1]
    leaf[roots] = start[:-1] + np.arange(forest.n_trees)
    n_left = np.zeros(forest.n_nodes, dtype=np.int64)
    for level in by_level:
        inner = level[left[level] >= 0]
        n_left[inner] = n_inner[left[inner]]
        at[left[inner]] = at[inner] + 1
        leaf[left[inner]] = leaf[inner]
        at[right[inner]] = at[inner] + 1 + n_left[inner]
        leaf[right[inner]] = leaf[inner] + 1 + n_left[inner]
    return Preorder(at, leaf, n_left, start)
