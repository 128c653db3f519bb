"""Kernels that try single steps of a forest and count the right rows after them.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.

A row is classified correctly if the sum of its own class exceeds the sums of all
classes before it and is not below those after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

if TYPE_CHECKING:  # what is imported for real is part of the key of compiled code
    from spinney.anytime.paths import Paths

Counts = NDArray[np.int64]
Nodes = NDArray[np.int32]


@kernel
def _strongest_rival(sums: Counts, label: int) -> int:
    """Return the class with the largest sum among those other than `label`."""
    rival = 1 if label == 0 else 0
    for c in range(rival + 1, sums.shape[0]):
        if c != label and sums[c] > sums[rival]:
            rival = c
    return rival


@kernel
def _is_right(sums: Counts, change: Counts, label: int) -> bool:
    """Whether the row's own class wins once `change` is added to its sums."""
    own = sums[label] + change[label]
    n_ahead = 0
    for c in range(label):
        n_ahead += sums[c] + change[c] >= own
    for c in range(label + 1, sums.shape[0]):
        n_ahead += sums[c] + change[c] > own
    return n_ahead == 0


@kernel
def count_after_moves(
    first: int,
    end: int,
    trees: Counts,
    move: Nodes,
    change: Counts,
    swing: Counts,
    sums: Counts,
    labels: Counts,
    lead: Counts,
    counts: Counts,
) -> None:
    """Count the rows that are right after one more step in each of some trees.

    Parameters
    ----------
    first, end : int
        The rows to count.
    trees : ndarray of int
        Trees that can still move.
    move : ndarray of shape (n_trees, n_rows), dtype=int32
        What the next step of each tree changes, as a row of `change`; the last row
        means that nothing does.
    change : ndarray of shape (n_nodes + 1, n_classes)
        Changes of the sums.
    swing : ndarray of shape (n_nodes + 1,)
        With two classes: how much the second gains on the first. With more: how much
        any class can gain on any other.
    sums : ndarray of shape (n_rows, n_classes)
        Present sums.
    labels : ndarray of shape (n_rows,)
        The right classes.
    lead : ndarray of shape (n_rows,)
        By how much the row's own class is ahead of the next one.
    counts : ndarray of shape (n_trees,)
        Overwritten for the given trees.
    """
    if change.shape[1] == 2:
        ahead = sums[:, 1] - sums[:, 0]
        for t in trees:
            moves = move[t]
            count = 0
            for r in range(first, end):
                count += (ahead[r] + swing[moves[r]] > 0) == (labels[r] == 1)
            counts[t] = count
        return
    for t in trees:
        moves = move[t]
        count = 0
        for r in range(first, end):
            most = swing[moves[r]]
            # Few steps can turn the winner; only these rows need all classes.
            if lead[r] > most:
                count += 1
            elif lead[r] >= -most:
                count += _is_right(sums[r], change[moves[r]], labels[r])
        counts[t] = count


@kernel
def find_leads(sums: Counts, labels: Counts, lead: Counts) -> None:
    """Write by how much each row's own class is ahead of the strongest other one."""
    for r in range(labels.shape[0]):
        label = labels[r]
        lead[r] = sums[r, label] - sums[r, _strongest_rival(sums[r], label)]


@kernel
def _next_node(node: int, leaf: int, left: Nodes, right: Nodes, boundary: Nodes) -> int:
    """Return the child of `node` on the path to the leaf of this number."""
    return left[node] if leaf < boundary[node] else right[node]


@kernel
def move_tree(
    backward: bool,
    level: int,
    paths: Paths,
    leaf: Nodes,
    change: Counts,
    labels: Counts,
    node: Nodes,
    move: Nodes,
    sums: Counts,
    lead: Counts,
) -> None:
    """Take one step in one tree for all rows, and find out about the one after it.

    Parameters
    ----------
    backward : bool
        Whether steps lead up to the root.
    level : int
        Steps between the root and where the tree is after this step.
    paths : Paths
        The paths of the forest.
    leaf : ndarray of shape (n_rows,), dtype=int32
        Number of the leaf at which each row ends in this tree.
    change, labels
        As for `count_after_moves`.
    node : ndarray of shape (n_rows,), dtype=int32
        Where each row is in the tree. Updated.
    move : ndarray of shape (n_rows,), dtype=int32
        What this step changes; overwritten by what the next one does.
    sums, lead
        As for `count_after_moves`. Updated.
    """
    left, right, boundary = paths.left, paths.right, paths.boundary
    parent, levels = paths.parent, paths.level
    nothing = change.shape[0] - 1
    for r in range(node.shape[0]):
        if move[r] != nothing:
            for c in range(sums.shape[1]):
                sums[r, c] += change[move[r], c]
            here = node[r]
            if backward:
                here = parent[here]
            else:
                here = _next_node(here, leaf[r], left, right, boundary)
            node[r] = here
        here = node[r]
        if backward:
            # A row that has reached a leaf early waits there until the tree is back.
            move[r] = here if levels[here] == level and level > 0 else nothing
        else:
            after = _next_node(here, leaf[r], left, right, boundary)
            move[r] = nothing if after == here else after
    find_leads(sums, labels, lead)


@kernel
def count_along(
    order: Counts,
    paths: Paths,
    leaf: Nodes,
    first: int,
    change: Counts,
    labels: Counts,
    node: Nodes,
    sums: Counts,
    counts: Counts,
) -> None:
    """Count the rows that are right in every state along an order.

    Parameters
    ----------
    order : ndarray of shape (n_steps,)
        Tree to step in.
    paths : Paths
        The paths of the forest.
    leaf : ndarray of shape (n_trees, n_all_rows), dtype=int32
        Number of the leaf at which each row ends in each tree.
    first : int
        The first of the rows to count.
    change : ndarray of shape (n_nodes, n_classes)
        What a step to each node changes.
    labels : ndarray of shape (n_rows,)
        The right classes.
    node : ndarray of shape (n_trees, n_rows), dtype=int32
        Where each row is in each tree; the roots. Updated.
    sums : ndarray of shape (n_rows, n_classes)
        Sums at the roots. Updated.
    counts : ndarray of shape (n_steps + 1,)
        Added to.
    """
    left, right, boundary = paths.left, paths.right, paths.boundary
    n_rows = labels.shape[0]
    none = np.zeros(sums.shape[1], dtype=np.int64)
    is_right = np.empty(n_rows, dtype=np.bool_)
    count = 0
    for r in range(n_rows):
        is_right[r] = _is_right(sums[r], none, labels[r])
        count += is_right[r]
    counts[0] += count
    for k in range(order.shape[0]):
        t = order[k]
        for r in range(n_rows):
            here = node[t, r]
            after = _next_node(here, leaf[t, first + r], left, right, boundary)
            if after == here:
                continue
            node[t, r] = after
            for c in range(sums.shape[1]):
                sums[r, c] += change[after, c]
            right_now = _is_right(sums[r], none, labels[r])
            count += int(right_now) - int(is_right[r])
            is_right[r] = right_now
        counts[k + 1] += count
