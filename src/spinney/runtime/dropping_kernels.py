"""Kernels for rules that drop classes: trees of dropped classes are not evaluated.

The sum of a class that is dropped is minus infinity from then on, whatever is added to
it, so that nothing else has to be remembered of a row. The same rules as in
`walk_kernels` apply.
"""

from __future__ import annotations

import numpy as np

from spinney.runtime.global_lock import MOST_TREES, give_back, take_again
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.loading import load_slots
from spinney.runtime.row_kernels import _final_verdict
from spinney.runtime.row_walks import walk_trees

u = np.uint64


@kernel
def _drop(totals, r, k, bounds):
    """Drop classes of row `r` at exit point `k`; return the last one left, else -1."""
    n_classes = totals.shape[1]
    leader = 0
    for v in range(1, n_classes):
        if totals[r, v] > totals[r, leader]:
            leader = v
    most = totals[r, leader]
    n_alive = 0
    for v in range(n_classes):
        if v != leader and most - totals[r, v] > bounds[k, leader * n_classes + v]:
            totals[r, v] = -np.inf
        n_alive += np.int64(totals[r, v] > -np.inf)
    return leader if n_alive == 1 else -1


@kernel
def take_class(
    totals,
    row_index,
    of_class,
    n_trees,
    counts,
    part_slots,
    part_rows,
    part_sums,
):
    """Collect the rows for which a class is left, and count its trees for them.

    Parameters
    ----------
    totals : ndarray of shape (n_left, n_classes)
        Sums so far; ``-inf`` for classes that were dropped.
    row_index : ndarray of shape (n_left,), dtype=int64
        The rows that they belong to.
    of_class : int
        The class; -1 for all classes and rows.
    n_trees : int
        Number of trees to be counted.
    counts : ndarray of shape (n_rows,), dtype=int32
        Added to.
    part_slots, part_rows : ndarray of shape (n_rows,), dtype=int64
        Overwritten: where in `totals` the rows of the class are, and which they are.
    part_sums : ndarray of shape (n_rows, 1)
        Overwritten: their sums of this class.

    Returns
    -------
    n_taken : int
        How many rows there are.
    """
    n_left = row_index.shape[0]
    if of_class < 0:
        for r in range(n_left):
            counts[row_index[r]] += n_trees
        return n_left
    n_taken = 0
    for r in range(n_left):
        total = totals[r, of_class]
        part_slots[n_taken], part_rows[n_taken] = r, row_index[r]
        part_sums[n_taken, 0] = total
        if total > -np.inf:
            counts[row_index[r]] += n_trees
            n_taken += 1
    return n_taken


@kernel
def drop_block(totals, row_index, k, bounds, classes):
    """Drop classes of the rows of a block; rows with a single class left exit.

    Parameters
    ----------
    totals, row_index
        As for `settle_block`.
    k : int
        Number of the exit point.
    bounds : ndarray of shape (n_exit_points, n_classes * n_classes)
        Leads at which classes are dropped.
    classes
        As for `settle_block`.

    Returns
    -------
    n_left : int
        How many rows continue.
    """
    n_left = 0
    for r in range(totals.shape[0]):
        decision = _drop(totals, r, k, bounds)
        classes[row_index[r]] = decision
        for v in range(totals.shape[1]):
            totals[n_left, v] = totals[r, v]
        row_index[n_left] = row_index[r]
        n_left += np.int64(decision < 0)
    return n_left


@kernel
def finish_rows(totals, row_index, decision_threshold, tolerance, classes):
    """Predict rows that have not exited, with the best of the classes left.

    Parameters
    ----------
    totals, row_index, decision_threshold, tolerance, classes
        As for `finish_block`.
    """
    for r in range(totals.shape[0]):
        classes[row_index[r]] = _final_verdict(totals, r, decision_threshold, tolerance)


@kernel
def settle_dropping_rows(
    X,
    slots,
    link,
    root,
    slot_bits,
    max_depth,
    table,
    tree_output,
    exit_points,
    kind,
    bounds,
    stops,
    decision_threshold,
    tolerance,
    first_exit,
    totals,
    row_index,
    classes,
    counts,
):
    """Evaluate a few rows until a single class is left, or to the end.

    The next eight trees of classes that are left are walked at once. A class may be
    dropped at an exit point among them; what its trees contribute is then not added.

    Parameters
    ----------
    X, slots, link, root, slot_bits, max_depth, table, tree_output
        As for `settle_rows`.
    exit_points, kind, bounds, stops, decision_threshold, tolerance, first_exit
        As for `settle_rows`.
    totals, row_index, classes
        As for `settle_rows`; sums of classes that were dropped are ``-inf``.
    counts : ndarray, dtype=int32
        Number of trees so far, if `first_exit` is above 0. Overwritten.
    """
    row = np.empty(slots.shape[0] + 1, dtype=X.dtype)
    node = np.empty(8, dtype=np.uint64)
    roots = np.empty(8, dtype=np.uint64)
    which = np.empty(8, dtype=np.int64)
    threshold = link.view(X.dtype)
    n_trees = root.shape[0]
    n_exits = exit_points.shape[0]
    for r in range(row_index.shape[0]):
        load_slots(X, u(row_index[r]), slots, row)
        tree = exit_points[first_exit - 1] if first_exit > 0 else 0
        n_seen = counts[row_index[r]] if first_exit > 0 else 0
        k = first_exit
        decision = -1
        while tree < n_trees and decision < 0:
            n_walked = 0
            while tree < n_trees and n_walked < 8:
                if totals[r, tree_output[tree]] > -np.inf:
                    which[n_walked] = tree
                    roots[n_walked] = root[tree]
                    n_walked += 1
                tree += 1
            walk_trees(
                row, threshold, link, roots, 0, n_walked, slot_bits, max_depth, node
            )
            for i in range(n_walked):
                while k < n_exits and exit_points[k] <= which[i] and decision < 0:
                    decision = _drop(totals, r, k, bounds)
                    k += 1
                output = tree_output[which[i]]
                if decision < 0 and totals[r, output] > -np.inf:
                    totals[r, output] += table[u(link[u(2) * node[i]]), 0]
                    n_seen += 1
            while k < n_exits and exit_points[k] <= tree and decision < 0:
                decision = _drop(totals, r, k, bounds)
                k += 1
        if decision < 0:
            decision = _final_verdict(totals, r, decision_threshold, tolerance)
        classes[row_index[r]] = decision
        counts[row_index[r]] = n_seen


@kernel(keeps_lock=True)
def dropping_class_of_row(
    row,
    slots,
    link,
    root,
    slot_bits,
    max_depth,
    table,
    tree_output,
    exit_points,
    kind,
    bounds,
    stops,
    decision_threshold,
    tolerance,
    start,
):
    """Return the class index for one row, evaluated until a single class is left.

    Parameters
    ----------
    row, slots, link, root, slot_bits, max_depth, table, tree_output
        As for `early_class_of_row`.
    exit_points, kind, bounds, stops, decision_threshold, tolerance, start
        As for `early_class_of_row`.
    """
    row_index = np.zeros(1, dtype=np.int64)
    classes = np.empty(1, dtype=np.intp)
    counts = np.empty(1, dtype=np.int32)
    totals = start.copy().reshape(1, start.shape[0])
    lock = give_back(root.shape[0] > MOST_TREES)
    settle_dropping_rows(
        row.reshape(1, row.shape[0]),
        slots,
        link,
        root,
        slot_bits,
        max_depth,
        table,
        tree_output,
        exit_points,
        kind,
        bounds,
        stops,
        decision_threshold,
        tolerance,
        0,
        totals,
        row_index,
        classes,
        counts,
    )
    take_again(lock)
    return np.int64(classes[0])
