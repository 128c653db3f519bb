"""Trees joined end to end, as a `Forest` holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spinney.forest import LEAF

# Node arrays by the name of the argument of `Forest` that they become.
NodeArrays = dict[str, Any]


def join_trees(trees: Sequence[NodeArrays]) -> NodeArrays:
    """Join the node arrays of several trees and add `tree_offsets`.

    Parameters
    ----------
    trees : sequence of dict of arrays
        At least one tree, the same keys for each. Children are counted from the
        tree's own root, and -1 at a leaf.

    Returns
    -------
    joined : dict of arrays
        Arrays over the nodes of all trees; children as indices into them.
    """
    sizes = [len(tree["left"]) for tree in trees]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    joined = {name: np.concatenate([tree[name] for tree in trees]) for name in trees[0]}
    shift = np.repeat(offsets[:-1], sizes)
    for name in ("left", "right"):
        child = joined[name].astype(np.int64)
        joined[name] = np.where(child == LEAF, LEAF, child + shift)
    joined["tree_offsets"] = offsets
    return joined
