"""Where each row goes in each tree, without looking at the row again.

The leaves of a tree are numbered from left to right. Once the number of the leaf at
which a row ends is known, one comparison per node tells the path to it, so the
search for an order never touches features, whatever kinds of nodes a forest has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.runtime.building import leaves_below


class Paths(NamedTuple):
    """Nodes with what is needed to walk to a leaf of known number, and back."""

    left: NDArray[np.int32]  # a leaf is its own child
    right: NDArray[np.int32]
    parent: NDArray[np.int32]  # a root is its own parent
    level: NDArray[np.int32]  # 0 for a root
    boundary: NDArray[np.int32]  # number of the first leaf below the right child
    first_leaf: NDArray[np.int32]  # number of the first leaf below, in the tree
    root: NDArray[np.int32]  # per tree
    depth: NDArray[np.int64]  # per tree


def paths_of(forest: Forest) -> Paths:
    """Return the paths of a forest."""
    nodes = np.arange(forest.n_nodes, dtype=np.int32)
    inner = forest.feature >= 0
    left = np.where(inner, forest.left, nodes).astype(np.int32)
    right = np.where(inner, forest.right, nodes).astype(np.int32)
    n_leaves = leaves_below(forest.tree_offsets, forest.left, forest.right).astype(
        np.int32
    )
    parent, level = nodes.copy(), np.zeros_like(nodes)
    first_leaf, boundary = np.zeros_like(nodes), np.zeros_like(nodes)
    roots = forest.tree_offsets[:-1].astype(np.int32)
    upper = roots
    while upper.size:
        upper = upper[inner[upper]]
        for child in (left[upper], right[upper]):
            parent[child] = upper
            level[child] = level[upper] + 1
            first_leaf[child] = first_leaf[upper]
        boundary[upper] = first_leaf[upper] + n_leaves[left[upper]]
        first_leaf[right[upper]] = boundary[upper]
        upper = np.concatenate([left[upper], right[upper]])
    return Paths(
        left, right, parent, level, boundary, first_leaf, roots, forest.depths.copy()
    )


def leaf_numbers(
    forest: Forest, paths: Paths, rows: NDArray[np.floating], n_jobs: int | None
) -> NDArray[np.int32]:
    """Return the number of the leaf at which each row ends, as (n_trees, n_rows)."""
    leaves = forest.engine.leaves(rows, n_jobs)
    return np.ascontiguousarray(paths.first_leaf[leaves].T)
