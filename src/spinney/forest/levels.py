"""The nodes of trees, level by level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError
from spinney.forest.nodes import LEAF

# Far deeper than any trained tree, and few enough levels to walk in a moment.
MAX_DEPTH = 20_000


def levels(
    left: NDArray[np.integer], right: NDArray[np.integer], roots: NDArray[np.integer]
) -> Iterator[NDArray[np.integer]]:
    """Yield the nodes that the roots reach, level by level, the roots first.

    Parameters
    ----------
    left, right : ndarray of shape (n_nodes,)
        Children as indices into these arrays; -1 at a leaf. No node may have two
        parents, or the levels could grow without end.
    roots : ndarray of int
        First node of each tree.

    Yields
    ------
    level : ndarray of int
        Nodes of all trees at the same depth.

    Raises
    ------
    InvalidForestError
        If there are more than `MAX_DEPTH` levels below the roots.
    """
    level = roots
    depth = 0
    while level.size:
        if depth > MAX_DEPTH:
            msg = f"trees may have at most {MAX_DEPTH:,} levels, got more."
            raise InvalidForestError(msg)
        yield level
        level = level[left[level] != LEAF]
        level = np.concatenate([left[level], right[level]])
        depth += 1
