"""Kernels that take one row at a time through eight trees at once, and early exits.

For a few rows, or a single one, this is quicker than going tree by tree. The same
rules as in `walk_kernels` apply.
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
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.loading import load_row

u = np.uint64


class RowArguments(NamedTuple):
    """What the kernels for single rows need to know of a forest.

    Callers splat it: handing a tuple of arrays to a kernel takes microseconds, about as
    long as the walk of a row, and so does every further array. Hence there are plain
    numbers instead of `numpy.uint64`, and no views of `link`.
    """

    columns: NDArray[np.int64]  # the columns of a row that any node looks at
    link: NDArray[np.unsignedinteger]  # of `Walk`, and so the next three
    root: NDArray[np.uint64]
    child_shift: int
    column_mask: int
    max_depth: int  # of the deepest tree
    table: NDArray[np.floating]  # what each leaf value index adds
    tree_output: NDArray[np.int64]  # the output that a tree adds to, -1 for all


class ExitArguments(NamedTuple):
    """What the kernels need to know of an exit rule; splatted, too."""

    exit_points: NDArray[np.int64]  # numbers of trees after which a row may leave
    kind: int  # how the sums of a row decide: see `exit_kinds`
    bounds: NDArray[np.float64]  # (2, n_exit_points), where sums decide
    stops: NDArray[np.int32]  # (n_exit_points, n_entries), where votes decide
    decision_threshold: float  # one output: the smallest sum of the second class
    tolerance: float  # sums closer than this are left open; 0 if sums are exact


@kernel
def _walk_eight_trees(
    row, missing, threshold, link, root, tree, shift, mask, max_depth, node
):
    """Take one row down eight trees at once; write the nodes where it ends."""
    one, two = u(1), u(2)
    missing_bit = shift - one
    last = root.shape[0] - 1
    b0, b1 = root[min(tree, last)], root[min(tree + 1, last)]
    b2, b3 = root[min(tree + 2, last)], root[min(tree + 3, last)]
    b4, b5 = root[min(tree + 4, last)], root[min(tree + 5, last)]
    b6, b7 = root[min(tree + 6, last)], root[min(tree + 7, last)]
    i0, i1, i2, i3, i4, i5, i6, i7 = b0, b1, b2, b3, b4, b5, b6, b7
    for _ in range(max_depth):
        w0, w1 = link[two * i0 + one], link[two * i1 + one]
        w2, w3 = link[two * i2 + one], link[two * i3 + one]
        w4, w5 = link[two * i4 + one], link[two * i5 + one]
        w6, w7 = link[two * i6 + one], link[two * i7 + one]
        x0, x1, x2, x3 = row[w0 & mask], row[w1 & mask], row[w2 & mask], row[w3 & mask]
        x4, x5, x6, x7 = row[w4 & mask], row[w5 & mask], row[w6 & mask], row[w7 & mask]
        j0 = b0 + (w0 >> shift) + u(x0 > threshold[two * i0])
        j1 = b1 + (w1 >> shift) + u(x1 > threshold[two * i1])
        j2 = b2 + (w2 >> shift) + u(x2 > threshold[two * i2])
        j3 = b3 + (w3 >> shift) + u(x3 > threshold[two * i3])
        j4 = b4 + (w4 >> shift) + u(x4 > threshold[two * i4])
        j5 = b5 + (w5 >> shift) + u(x5 > threshold[two * i5])
        j6 = b6 + (w6 >> shift) + u(x6 > threshold[two * i6])
        j7 = b7 + (w7 >> shift) + u(x7 > threshold[two * i7])
        if missing:
            j0 += u(x0 != x0) & ~(w0 >> missing_bit) & one
            j1 += u(x1 != x1) & ~(w1 >> missing_bit) & one
            j2 += u(x2 != x2) & ~(w2 >> missing_bit) & one
            j3 += u(x3 != x3) & ~(w3 >> missing_bit) & one
            j4 += u(x4 != x4) & ~(w4 >> missing_bit) & one
            j5 += u(x5 != x5) & ~(w5 >> missing_bit) & one
            j6 += u(x6 != x6) & ~(w6 >> missing_bit) & one
            j7 += u(x7 != x7) & ~(w7 >> missing_bit) & one
        moved = (i0 ^ j0) | (i1 ^ j1) | (i2 ^ j2) | (i3 ^ j3)
        moved |= (i4 ^ j4) | (i5 ^ j5) | (i6 ^ j6) | (i7 ^ j7)
        i0, i1, i2, i3, i4, i5, i6, i7 = j0, j1, j2, j3, j4, j5, j6, j7
        if moved == u(0):
            break
    node[0], node[1], node[2], node[3] = i0, i1, i2, i3
    node[4], node[5], node[6], node[7] = i4, i5, i6, i7


@kernel
def _add_trees_to_row(
    row, missing, link, root, shift, mask, max_depth, table, tree_output, total
):
    """Add what each tree of plain comparisons says about one row, in order."""
    node = np.empty(8, dtype=np.uint64)
    threshold = link.view(row.dtype)
    n_trees = root.shape[0]
    for tree in range(0, n_trees, 8):
        _walk_eight_trees(
            row, missing, threshold, link, root, tree, shift, mask, max_depth, node
        )
        for k in range(min(8, n_trees - tree)):
            values = table[u(link[u(2) * node[k]])]
            output = tree_output[tree + k]
            if output >= 0:
                total[output] += values[0]
            else:
                for v in range(values.shape[0]):
                    total[v] += values[v]


@kernel
def score_rows(
    X,
    columns,
    link,
    root,
    child_shift,
    column_mask,
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
    columns, link, root, child_shift, column_mask, max_depth, table, tree_output
        `RowArguments`.
    ends : ndarray of shape (3, n_outputs), dtype of `table`
        What comes before the trees, what their sum is divided by, what comes after.
    total : ndarray of shape (n_rows, n_outputs), dtype of `table`
        Overwritten.
    """
    used = np.empty(columns.shape[0] + 1, dtype=X.dtype)
    shift, mask = u(child_shift), u(column_mask)
    for r in range(X.shape[0]):
        missing = load_row(X, u(r), columns, used, 0)
        for v in range(ends.shape[1]):
            total[r, v] = ends[0, v]
        _add_trees_to_row(
            used,
            missing,
            link,
            root,
            shift,
            mask,
            max_depth,
            table,
            tree_output,
            total[r],
        )
        for v in range(ends.shape[1]):
            total[r, v] = total[r, v] / ends[1, v] + ends[2, v]


@kernel
def class_of_row(
    row,
    columns,
    link,
    root,
    child_shift,
    column_mask,
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
    columns, link, root, child_shift, column_mask, max_depth, table, tree_output
        `RowArguments`.
    ends
        As for `score_rows`.
    decision_threshold : float
        With one output: the smallest raw score of the second class.
    margin : float
        With several outputs: how far the winner must be ahead of every other output.
        0 leaves nothing open; ties go to the first.
    """
    n_outputs = ends.shape[1]
    totals = np.empty((1, n_outputs), dtype=table.dtype)
    score_rows(
        row.reshape(1, row.shape[0]),
        columns,
        link,
        root,
        child_shift,
        column_mask,
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
def _answer_by_all_counts(k, totals, r, stops):
    """Return the answer in the table for the votes of all classes, -1 to stay.

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
    answer = (np.int64(stops[k, rank >> 3]) >> (4 * (rank & 7))) & 15
    return answer if answer != STAYS else -1


@kernel
def _verdict(kind, k, totals, r, bounds, stops):
    """Return the class with which row `r` leaves at exit point `k`, -1 if it stays."""
    if kind == BETWEEN:
        return _side(totals[r, 0], bounds[0, k], bounds[1, k])
    if kind == BY_COUNT:
        return np.int64(stops[k, u(totals[r, 0])])
    if kind == BY_ALL_COUNTS:
        return _answer_by_all_counts(k, totals, r, stops)
    best = 0
    for v in range(1, totals.shape[1]):
        if totals[r, v] > totals[r, best]:
            best = v
    second = -np.inf
    for v in range(totals.shape[1]):
        if v != best and totals[r, v] > second:
            second = totals[r, v]
    if kind == BY_MARGIN:
        leaves = totals[r, best] - second > bounds[0, k]
    else:
        leaves = second <= stops[k, u(totals[r, best])]
    return best if leaves else -1


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
    """Let the rows of a block leave that an exit point allows to.

    Parameters
    ----------
    totals : ndarray of shape (n_rows, n_outputs)
        Sums of the rows of the block. Those of the rows that stay move to the front.
    row_index : ndarray of shape (n_rows,), dtype=int64
        Where in `classes` and `counts` the answers of each row belong. Those of the
        rows that stay move to the front.
    kind : int
        Part of an `ExitRule`, like `bounds` and `stops`.
    k : int
        Number of the exit point.
    n_evaluated : int
        Number of trees evaluated so far.
    bounds, stops
        Parts of an `ExitRule`.
    classes, counts : ndarray, dtype=intp and int32
        Overwritten: the class of rows that leave, -1 for those that stay, and
        `n_evaluated`.
    sums : ndarray of shape (n_all_rows, n_outputs) or (0, n_outputs), dtype=float64
        Overwritten where the answers belong: the sums at this exit point. With no rows
        nothing is written.

    Returns
    -------
    n_left : int
        How many rows stay.
    """
    # Answers are written for rows that stay, too, and overwritten when they leave, and
    # rows that leave are moved as well, to be overwritten by the next: that costs less
    # than a branch.
    n_left = u(0)
    keeps_sums = sums.shape[0] > 0
    if kind == BETWEEN:
        lower, upper = bounds[0, k], bounds[1, k]
        for r in range(u(totals.shape[0])):
            total, at = totals[r, u(0)], row_index[r]
            answer = _side(total, lower, upper)
            classes[u(at)] = answer
            counts[u(at)] = n_evaluated
            if keeps_sums:
                sums[u(at), u(0)] = total
            totals[n_left, u(0)] = total
            row_index[n_left] = at
            n_left += u(answer < 0)
        return np.int64(n_left)
    for r in range(u(totals.shape[0])):
        answer = _verdict(kind, k, totals, r, bounds, stops)
        at = row_index[r]
        classes[u(at)] = answer
        counts[u(at)] = n_evaluated
        for v in range(u(totals.shape[1])):
            if keeps_sums:
                sums[u(at), v] = totals[r, v]
            totals[n_left, v] = totals[r, v]
        row_index[n_left] = at
        n_left += u(answer < 0)
    return np.int64(n_left)


@kernel
def finish_block(
    totals, row_index, n_evaluated, decision_threshold, tolerance, classes, counts, sums
):
    """Answer the rows that all trees were evaluated for.

    Parameters
    ----------
    totals, row_index, n_evaluated
        As for `settle_block`.
    decision_threshold : float
        With one output: the smallest sum of the second class.
    tolerance : float
        Sums that lie closer together than this (or to `decision_threshold`) are left
        open; 0 if sums are exact.
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
    columns,
    link,
    root,
    child_shift,
    column_mask,
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
    """Evaluate a few rows of `X`, those at `row_index`, until each may leave.

    Eight trees are walked at once, which takes hardly longer than one: the exit points
    among them come afterwards, in order, and the row leaves at the first that lets it.

    Parameters
    ----------
    X
        As for `score_rows`.
    columns, link, root, child_shift, column_mask, max_depth, table, tree_output
        `RowArguments`.
    exit_points, kind, bounds, stops, decision_threshold, tolerance
        `ExitArguments`.
    first_exit : int
        Number of the first exit point that the rows have not come to.
    totals : ndarray of shape (n_rows, n_outputs)
        Sums so far: of no trees, or of those before `first_exit`. Overwritten.
    row_index, classes, counts, sums
        As for `settle_block`.
    """
    keeps_sums = sums.shape[0] > 0
    used = np.empty(columns.shape[0] + 1, dtype=X.dtype)
    node = np.empty(8, dtype=np.uint64)
    threshold = link.view(X.dtype)
    shift, mask = u(child_shift), u(column_mask)
    n_trees = root.shape[0]
    n_exits = exit_points.shape[0]
    n_values = table.shape[1]
    for r in range(row_index.shape[0]):
        missing = load_row(X, u(row_index[r]), columns, used, 0)
        tree = exit_points[first_exit - 1] if first_exit > 0 else 0
        k = first_exit
        answer = -1
        while tree < n_trees and answer < 0:
            _walk_eight_trees(
                used, missing, threshold, link, root, tree, shift, mask, max_depth, node
            )
            last = min(tree + 8, n_trees)
            first = tree
            while tree < last and answer < 0:
                p = u(link[u(2) * node[tree - first]])
                output = tree_output[tree]
                if output >= 0:
                    totals[r, output] += table[p, 0]
                else:
                    for v in range(n_values):
                        totals[r, v] += table[p, v]
                tree += 1
                if k < n_exits and exit_points[k] == tree:
                    answer = _verdict(kind, k, totals, r, bounds, stops)
                    k += 1
        if answer < 0:
            answer = _final_verdict(totals, r, decision_threshold, tolerance)
        classes[row_index[r]] = answer
        counts[row_index[r]] = tree
        if keeps_sums:
            for v in range(totals.shape[1]):
                sums[row_index[r], v] = totals[r, v]


@kernel
def early_sums_of_row(
    row,
    columns,
    link,
    root,
    child_shift,
    column_mask,
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
    """Return class index and number of trees for one row, evaluated until it may leave.

    Parameters
    ----------
    row : ndarray of shape (n_features,)
        The row, of the type that the layout is for.
    columns, link, root, child_shift, column_mask, max_depth, table, tree_output
        `RowArguments`.
    exit_points, kind, bounds, stops, decision_threshold, tolerance
        `ExitArguments`.
    start : ndarray of shape (n_outputs,)
        Sums before the first tree.
    sums : ndarray of shape (1, n_outputs) or (0, n_outputs), dtype=float64
        Overwritten with the sums with which the row left, if there is room for them.
    """
    row_index = np.zeros(1, dtype=np.int64)
    classes = np.empty(1, dtype=np.intp)
    counts = np.empty(1, dtype=np.int32)
    settle_rows(
        row.reshape(1, row.shape[0]),
        columns,
        link,
        root,
        child_shift,
        column_mask,
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
        start.copy().reshape(1, start.shape[0]),
        row_index,
        classes,
        counts,
        sums,
    )
    return np.int64(classes[0]), np.int64(counts[0])


@kernel
def early_class_of_row(
    row,
    columns,
    link,
    root,
    child_shift,
    column_mask,
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
    """Return the class index for one row, evaluated until it may leave.

    Parameters
    ----------
    row, columns, link, root, child_shift, column_mask, max_depth, table, tree_output
        As for `early_sums_of_row`, and so all others.
    exit_points, kind, bounds, stops, decision_threshold, tolerance, start
        Likewise.
    """
    return early_sums_of_row(
        row,
        columns,
        link,
        root,
        child_shift,
        column_mask,
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
