"""Kernels for one row at a time: all trees, and early exits.

For a few rows, or a single one, it is quicker to go down eight trees at once than tree
by tree, see `row_walks`. The same rules as in `walk_kernels` apply.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.exit_kinds import (
    BETWEEN,
    BY_ALL_COUNTS,
    BY_COUNT,
    BY_MARGIN,
    STAYS,
)
from spinney.runtime.global_lock import MOST_TREES, give_back, take_again
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.loading import load_slots
from spinney.runtime.row_walks import walk_all_trees, walk_trees

u = np.uint64


class ExitArguments(NamedTuple):
    """What the kernels need to know of an exit rule; splatted, too."""

    exit_points: NDArray[np.int64]  # numbers of trees after which a row may exit
    kind: int  # how the sums of a row decide: see `exit_kinds`
    bounds: NDArray[np.float64]  # (2, n_exit_points), where sums decide
    stops: NDArray[np.int32]  # (n_exit_points, n_entries), where votes decide
    decision_threshold: float  # one output: the smallest sum of the second class
    tolerance: float  # closer sums are not decided here; 0 if sums are exact


@kernel(keeps_lock=True)
def score_rows(
    X,
    slots,
    link,
    root,
    slot_bits,
    max_depth,
    table,
    tree_output,
    ends,
    total,
):
    """Write the raw scores of a few rows, for trees of plain comparisons.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows, of the type that the layout is for.
    slots, link, root, slot_bits, max_depth, table, tree_output
        `RowArguments`.
    ends : ndarray of shape (3, n_outputs), dtype of `table`
        What comes before the trees, what their sum is divided by, what comes after.
    total : ndarray of shape (n_rows, n_outputs), dtype of `table`
        Overwritten.
    """
    row = np.empty(slots.shape[0] + 1, dtype=X.dtype)
    threshold = link.view(X.dtype)
    n_trees, n_outputs = root.shape[0], ends.shape[1]
    node = np.empty(n_trees + 1, dtype=np.uint64)
    under_way = np.empty(n_trees + 7, dtype=np.uint64)
    lock = give_back(X.shape[0] * n_trees > MOST_TREES)
    for r in range(X.shape[0]):
        load_slots(X, u(r), slots, row)
        walk_all_trees(
            row, threshold, link, root, slot_bits, max_depth, node, under_way
        )
        if n_outputs == 1:
            # A sum in a register: in memory each addition would wait for the last.
            only = ends[0, 0]
            for tree in range(u(n_trees)):
                only += table[u(link[u(2) * node[tree]]), u(0)]
            total[r, 0] = only / ends[1, 0] + ends[2, 0]
            continue
        for v in range(n_outputs):
            total[r, v] = ends[0, v]
        for tree in range(u(n_trees)):
            p = u(link[u(2) * node[tree]])
            output = tree_output[tree]
            if output >= 0:
                total[r, output] += table[p, 0]
            else:
                for v in range(table.shape[1]):
                    total[r, v] += table[p, v]
        for v in range(n_outputs):
            total[r, v] = total[r, v] / ends[1, v] + ends[2, v]
    take_again(lock)


@kernel(keeps_lock=True)
def class_of_row(
    row,
    slots,
    link,
    root,
    slot_bits,
    max_depth,
    table,
    tree_output,
    ends,
    decision_threshold,
    margin,
):
    """Return the class index for one row, or -1 if it is too close to call here.

    Parameters
    ----------
    row : ndarray of shape (n_features,)
        The row, of the type that the layout is for.
    slots, link, root, slot_bits, max_depth, table, tree_output
        `RowArguments`.
    ends
        As for `score_rows`.
    decision_threshold : float
        With one output: the smallest raw score of the second class.
    margin : float
        With several outputs: how far the winner must be ahead of every other output.
        With 0 every row is decided; ties go to the first.
    """
    n_outputs = ends.shape[1]
    totals = np.empty((1, n_outputs), dtype=table.dtype)
    score_rows(
        row.reshape(1, row.shape[0]),
        slots,
        link,
        root,
        slot_bits,
        max_depth,
        table,
        tree_output,
        ends,
        totals,
    )
    total = totals[0]
    if n_outputs == 1:
        return np.int64(total[0] >= decision_threshold)
    winner = 0
    for v in range(1, n_outputs):
        if total[v] > total[winner]:
            winner = v
    if margin > 0:
        for v in range(n_outputs):
            if v != winner and not total[winner] - total[v] > margin:
                return -1
    return winner


@kernel
def _side(total, lower, upper):
    """Return 0 below `lower`, 1 above `upper`, -1 between the two.

    Without a branch, which would be mispredicted more often than not.
    """
    below = np.int64(total < lower)
    return below + 2 * (np.int64(total > upper) & ~below) - 1


@kernel
def _decision_by_all_counts(k, totals, r, stops):
    """Return the class in the table for the votes of all classes, -1 to continue.

    See `ExitRule.by_all_counts` for the rank of counts among all that there can be.
    """
    rank = 0
    n_cast = 0
    for v in range(totals.shape[1] - 1):
        n_cast += np.int64(totals[r, v])
        term = n_cast  # becomes the binomial coefficient (n_cast + v over v + 1)
        for j in range(1, v + 1):
            term = term * (n_cast + j) // (j + 1)
        rank += term
    decision = (np.int64(stops[k, rank >> 3]) >> (4 * (rank & 7))) & 15
    return decision if decision != STAYS else -1


@kernel
def _verdict(kind, k, totals, r, bounds, stops):
    """Return the class with which row `r` exits at exit point `k`, -1 to continue."""
    if kind == BETWEEN:
        return _side(totals[r, 0], bounds[0, k], bounds[1, k])
    if kind == BY_COUNT:
        return np.int64(stops[k, u(totals[r, 0])])
    if kind == BY_ALL_COUNTS:
        return _decision_by_all_counts(k, totals, r, stops)
    best = 0
    for v in range(1, totals.shape[1]):
        if totals[r, v] > totals[r, best]:
            best = v
    second = -np.inf
    for v in range(totals.shape[1]):
        if v != best and totals[r, v] > second:
            second = totals[r, v]
    if kind == BY_MARGIN:
        exits = totals[r, best] - second > bounds[0, k]
    else:
        exits = second <= stops[k, u(totals[r, best])]
    return best if exits else -1


@kernel
def _final_verdict(totals, r, decision_threshold, tolerance):
    """Return the class of a row that all trees were evaluated for.

    -1 if the sums are so close that the order of the additions may matter.
    """
    n_outputs = totals.shape[1]
    if n_outputs == 1:
        if tolerance > 0 and not abs(totals[r, 0] - decision_threshold) > tolerance:
            return -1
        return 1 if totals[r, 0] >= decision_threshold else 0
    best = 0
    for v in range(1, n_outputs):
        if totals[r, v] > totals[r, best]:
            best = v
    if tolerance > 0:
        for v in range(n_outputs):
            if v != best and not totals[r, best] - totals[r, v] > tolerance:
                return -1
    return best


@kernel
def settle_block(
    totals, row_index, kind, k, n_evaluated, bounds, stops, classes, counts, sums
):
    """Let rows of a block exit where the exit rule allows it at this exit point.

    Parameters
    ----------
    totals : ndarray of shape (n_rows, n_outputs)
        Sums of the rows of the block. Those of rows that continue move to the front.
    row_index : ndarray of shape (n_rows,), dtype=int64
        Where in `classes` and `counts` the predictions of each row belong. Those of
        rows that continue move to the front.
    kind : int
        Part of an `ExitRule`, like `bounds` and `stops`.
    k : int
        Number of the exit point.
    n_evaluated : int
        Number of trees evaluated so far.
    bounds, stops
        Parts of an `ExitRule`.
    classes, counts : ndarray, dtype=intp and int32
        Overwritten: the class of rows that exit, -1 for those that continue, and
        `n_evaluated`.
    sums : ndarray of shape (n_all_rows, n_outputs) or (0, n_outputs), dtype=float64
        Overwritten where the predictions belong: the sums at this exit point. With no
        rows nothing is written.

    Returns
    -------
    n_left : int
        How many rows continue.
    """
    # Without a branch, which would cost more: predictions are also written for rows
    # that continue, and overwritten when they exit. Rows that exit are also moved to
    # the front, and overwritten by the next row.
    n_left = u(0)
    keeps_sums = sums.shape[0] > 0
    if kind == BETWEEN:
        lower, upper = bounds[0, k], bounds[1, k]
        for r in range(u(totals.shape[0])):
            total, at = totals[r, u(0)], row_index[r]
            decision = _side(total, lower, upper)
            classes[u(at)] = decision
            counts[u(at)] = n_evaluated
            if keeps_sums:
                sums[u(at), u(0)] = total
            totals[n_left, u(0)] = total
            row_index[n_left] = at
            n_left += u(decision < 0)
        return np.int64(n_left)
    for r in range(u(totals.shape[0])):
        decision = _verdict(kind, k, totals, r, bounds, stops)
        at = row_index[r]
        classes[u(at)] = decision
        counts[u(at)] = n_evaluated
        for v in range(u(totals.shape[1])):
            if keeps_sums:
                sums[u(at), v] = totals[r, v]
            totals[n_left, v] = totals[r, v]
        row_index[n_left] = at
        n_left += u(decision < 0)
    return np.int64(n_left)


@kernel
def finish_block(
    totals, row_index, n_evaluated, decision_threshold, tolerance, classes, counts, sums
):
    """Predict the rows for which all trees were evaluated.

    Parameters
    ----------
    totals, row_index, n_evaluated
        As for `settle_block`.
    decision_threshold : float
        With one output: the smallest sum of the second class.
    tolerance : float
        Rows whose sums are closer together than this (or to `decision_threshold`) are
        not decided here; 0 if sums are exact.
    classes, counts, sums
        As for `settle_block`. The class is -1 where the sums are too close to call.
    """
    keeps_sums = sums.shape[0] > 0
    for r in range(totals.shape[0]):
        classes[row_index[r]] = _final_verdict(totals, r, decision_threshold, tolerance)
        counts[row_index[r]] = n_evaluated
        if keeps_sums:
            for v in range(totals.shape[1]):
                sums[row_index[r], v] = totals[r, v]


@kernel
def settle_rows(
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
    sums,
):
    """Evaluate a few rows of `X`, those at `row_index`, until each may exit.

    Eight trees are walked at once, which takes hardly longer than one. The exit points
    among them are checked afterwards, in order, and the row exits at the first that
    allows it.

    Parameters
    ----------
    X
        As for `score_rows`.
    slots, link, root, slot_bits, max_depth, table, tree_output
        `RowArguments`.
    exit_points, kind, bounds, stops, decision_threshold, tolerance
        `ExitArguments`.
    first_exit : int
        Number of the first exit point that the rows have not reached.
    totals : ndarray of shape (n_rows, n_outputs)
        Sums so far: of no trees, or of those before `first_exit`. Overwritten.
    row_index, classes, counts, sums
        As for `settle_block`.
    """
    keeps_sums = sums.shape[0] > 0
    row = np.empty(slots.shape[0] + 1, dtype=X.dtype)
    node = np.empty(8, dtype=np.uint64)
    threshold = link.view(row.dtype)
    n_trees = root.shape[0]
    n_exits = exit_points.shape[0]
    n_values = table.shape[1]
    for r in range(row_index.shape[0]):
        load_slots(X, u(row_index[r]), slots, row)
        tree = exit_points[first_exit - 1] if first_exit > 0 else 0
        k = first_exit
        decision = -1
        while tree < n_trees and decision < 0:
            first = tree
            last = min(tree + 8, n_trees)
            walk_trees(
                row, threshold, link, root, first, last, slot_bits, max_depth, node
            )
            while tree < last and decision < 0:
                p = u(link[u(2) * node[tree - first]])
                output = tree_output[tree]
                if output >= 0:
                    totals[r, output] += table[p, 0]
                else:
                    for v in range(n_values):
                        totals[r, v] += table[p, v]
                tree += 1
                if k < n_exits and exit_points[k] == tree:
                    decision = _verdict(kind, k, totals, r, bounds, stops)
                    k += 1
        if decision < 0:
            decision = _final_verdict(totals, r, decision_threshold, tolerance)
        classes[row_index[r]] = decision
        counts[row_index[r]] = tree
        if keeps_sums:
            for v in range(totals.shape[1]):
                sums[row_index[r], v] = totals[r, v]


@kernel(keeps_lock=True)
def early_sums_of_row(
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
    sums,
):
    """Return class index and number of trees for one row, evaluated until it may exit.

    Parameters
    ----------
    row : ndarray of shape (n_features,)
        The row, of the type that the layout is for.
    slots, link, root, slot_bits, max_depth, table, tree_output
        `RowArguments`.
    exit_points, kind, bounds, stops, decision_threshold, tolerance
        `ExitArguments`.
    start : ndarray of shape (n_outputs,)
        Sums before the first tree.
    sums : ndarray of shape (1, n_outputs) or (0, n_outputs), dtype=float64
        Overwritten with the sums at which the row exits, if there is room for them.
    """
    row_index = np.zeros(1, dtype=np.int64)
    classes = np.empty(1, dtype=np.intp)
    counts = np.empty(1, dtype=np.int32)
    totals = start.copy().reshape(1, start.shape[0])
    lock = give_back(root.shape[0] > MOST_TREES)
    settle_rows(
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
        sums,
    )
    take_again(lock)
    return np.int64(classes[0]), np.int64(counts[0])


@kernel(keeps_lock=True)
def early_class_of_row(
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
    """Return the class index for one row, evaluated until it may exit.

    Parameters
    ----------
    row, slots, link, root, slot_bits, max_depth, table, tree_output
        As for `early_sums_of_row`, and so all others.
    exit_points, kind, bounds, stops, decision_threshold, tolerance, start
        Likewise.
    """
    return early_sums_of_row(
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
        np.empty((0, start.shape[0])),
    )[0]
