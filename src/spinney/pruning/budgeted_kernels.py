"""Kernels that grow trees on a feature budget, and that follow rows through them.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.

The impurity of a set of rows counts pairs of rows with different classes. With a
threshold ``a`` it is the sum over the pairs of classes of
``max(0, max(0, n - a) * max(0, m - a) - a * a)``, where ``n`` and ``m`` are their
numbers of rows. Each pair of classes is counted once; to count it twice, as the formula
is often written, changes no decision. All numbers are integers, so nothing is rounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.forest.nodes import LEAF
from spinney.runtime.kernel_cache import kernel

Indices = NDArray[np.int32]
Counts = NDArray[np.int64]
Numbers = NDArray[np.float64]
Rows = NDArray[np.float32]
Flags = NDArray[np.bool_]


@kernel
def _pairs_of_class(counts: Counts, label: int, count: int, threshold: int) -> int:
    """Return the impurity of all pairs with one class, if it had `count` rows."""
    above = count - threshold
    if above <= 0:
        return 0
    total = 0
    for other in range(counts.shape[0]):
        if other != label:
            # Not positive either way if the other class has too few rows.
            product = above * max(0, counts[other] - threshold)
            total += max(0, product - threshold * threshold)
    return total


@kernel
def impurity_of(counts: Counts, threshold: int) -> int:
    """Return the impurity of a set of rows.

    Parameters
    ----------
    counts : ndarray of shape (n_classes,), dtype=int64
        Rows of each class.
    threshold : int
        Rows of each class that do not count.
    """
    total = 0
    for label in range(counts.shape[0]):
        total += _pairs_of_class(counts, label, counts[label], threshold)
    return total // 2


@kernel
def _best_threshold(
    values: Rows,
    rows: Indices,
    start: int,
    end: int,
    labels: Indices,
    weights: Indices,
    threshold: int,
    impurity: int,
    limit: int,
    left: Counts,
    right: Counts,
) -> tuple[int, int]:
    """Return the least impurity of the worse child, and where to cut for it.

    `rows[start:end]` are in the order of `values`. `left` must be zero and `right` the
    counts of all rows; both are overwritten. The second value is where the right child
    begins in `rows`, or -1 if no cut is below `limit`. The first of equally good cuts
    is taken.
    """
    n_left = 0
    n_right = 0
    for label in range(right.shape[0]):
        n_right += right[label]
    impurity_left = 0
    impurity_right = impurity
    middle = -1
    value = values[rows[start]]
    for i in range(start, end - 1):
        row = rows[i]
        label = labels[row]
        weight = weights[row]
        in_left = left[label]
        in_right = right[label]
        if threshold == 0:
            impurity_left += weight * (n_left - in_left)
            impurity_right -= weight * (n_right - in_right)
            n_left += weight
            n_right -= weight
        else:
            impurity_left += _pairs_of_class(left, label, in_left + weight, threshold)
            impurity_left -= _pairs_of_class(left, label, in_left, threshold)
            impurity_right += _pairs_of_class(
                right, label, in_right - weight, threshold
            )
            impurity_right -= _pairs_of_class(right, label, in_right, threshold)
        left[label] = in_left + weight
        right[label] = in_right - weight
        next_value = values[rows[i + 1]]
        if next_value > value:
            value = next_value
            worse = max(impurity_left, impurity_right)
            if worse < limit:
                limit = worse
                middle = i + 1
            # More rows never make the left child purer: no later cut is better.
            if impurity_left >= limit:
                break
    return limit, middle


@kernel
def _part(
    rows: Indices, start: int, end: int, goes_left: Flags, spare: Indices
) -> None:
    """Move the rows that go left to the front, keeping the order on both sides."""
    n_left = start
    n_right = 0
    for i in range(start, end):
        row = rows[i]
        # Both are written and one is kept, which is quicker than a branch.
        rows[n_left] = row
        spare[n_right] = row
        if goes_left[row]:
            n_left += 1
        else:
            n_right += 1
    for i in range(n_right):
        rows[n_left + i] = spare[i]


@kernel
def _highest_worth_trying(
    cost: float, impurity: int, best_risk: float, best_worse: int
) -> int:
    """Return a limit that the worse child must stay below to be chosen.

    It may be too high by rounding, never too low.
    """
    if best_risk == np.inf or (cost == 0.0 and best_risk > 0.0):
        return impurity
    if best_risk == 0.0:
        return min(impurity, best_worse + 1) if cost == 0.0 else 0
    exact = impurity - cost / best_risk
    return min(impurity, int(exact) + 2) if exact > -1.0 else 0


@kernel
def grow_tree(
    columns: Rows,
    sorted_rows: Indices,
    labels: Indices,
    weights: Indices,
    costs: Numbers,
    n_classes: int,
    threshold: int,
) -> tuple[Indices, Numbers, Indices, Indices, Counts]:
    """Grow one tree: at each node the cut with the least risk, until nothing is gained.

    The risk of a cut is the cost of its feature over the fall of the impurity from the
    node to its worse child. Of equal risks the purer children win, then the lower
    feature, then the lower threshold.

    Parameters
    ----------
    columns : ndarray of shape (n_features, n_rows), dtype=float32
        The training rows, transposed.
    sorted_rows : ndarray of shape (n_features, n_rows), dtype=int32
        For every feature the rows in the order of its values.
    labels : ndarray of shape (n_rows,), dtype=int32
        Class index of each row.
    weights : ndarray of shape (n_rows,), dtype=int32
        How often each row was drawn.
    costs : ndarray of shape (n_features,)
        Cost of each feature.
    n_classes : int
        Number of classes.
    threshold : int
        Threshold of the impurity.

    Returns
    -------
    feature, cut, left, right : ndarray of shape (n_nodes,)
        The tree as a `Forest` describes it, the root first.
    counts : ndarray of shape (n_nodes, n_classes), dtype=int64
        Rows of each class at each node. All five are the beginnings of larger arrays.
    """
    n_features, n_rows = columns.shape
    n_drawn = 0
    for row in range(n_rows):
        if weights[row] > 0:
            n_drawn += 1
    ordered = np.empty((n_features, n_drawn), dtype=np.int32)
    for f in range(n_features):
        n_taken = 0
        for i in range(n_rows):
            row = sorted_rows[f, i]
            if weights[row] > 0:
                ordered[f, n_taken] = row
                n_taken += 1

    # Every leaf has a row of its own. Memory that stays unwritten costs nothing.
    most = 2 * n_drawn - 1
    feature = np.empty(most, dtype=np.int32)
    cut = np.empty(most)
    left = np.empty(most, dtype=np.int32)
    right = np.empty(most, dtype=np.int32)
    counts = np.zeros((most, n_classes), dtype=np.int64)
    # Where the rows of a node begin and end in `ordered`, and how many features at the
    # front of `features` have a single value there.
    starts = np.empty(most, dtype=np.int32)
    ends = np.empty(most, dtype=np.int32)
    n_constant = np.empty(most, dtype=np.int32)
    features = np.arange(n_features)

    goes_left = np.zeros(n_rows, dtype=np.bool_)
    spare = np.empty(n_drawn, dtype=np.int32)
    in_left = np.empty(n_classes, dtype=np.int64)
    in_right = np.empty(n_classes, dtype=np.int64)
    # Nodes still to be split. Their subtrees share no rows, and the one on top is
    # finished before the next, so that all below agree about the front of `features`.
    waiting = np.empty(n_drawn, dtype=np.int32)

    for row in range(n_rows):
        counts[0, labels[row]] += weights[row]
    feature[0], cut[0], left[0], right[0] = LEAF, 0.0, LEAF, LEAF
    starts[0], ends[0], n_constant[0] = 0, n_drawn, 0
    n_nodes = 1
    n_waiting = 0
    if impurity_of(counts[0], threshold) > 0:
        waiting[0] = 0
        n_waiting = 1

    while n_waiting > 0:
        n_waiting -= 1
        node = waiting[n_waiting]
        start, end = starts[node], ends[node]
        impurity = impurity_of(counts[node], threshold)
        best_feature = LEAF
        best_risk = np.inf
        best_worse = impurity
        best_middle = -1
        first_live = n_constant[node]
        for j in range(first_live, n_features):
            f = features[j]
            values = columns[f]
            rows = ordered[f]
            if values[rows[start]] == values[rows[end - 1]]:
                features[j] = features[first_live]
                features[first_live] = f
                first_live += 1
                continue
            limit = _highest_worth_trying(costs[f], impurity, best_risk, best_worse)
            if limit <= 0:
                continue
            for label in range(n_classes):
                in_left[label] = 0
                in_right[label] = counts[node, label]
            worse, middle = _best_threshold(
                values,
                rows,
                start,
                end,
                labels,
                weights,
                threshold,
                impurity,
                limit,
                in_left,
                in_right,
            )
            if middle < 0:
                continue
            risk = costs[f] / (impurity - worse)
            if risk < best_risk or (
                risk == best_risk
                and (worse < best_worse or (worse == best_worse and f < best_feature))
            ):
                best_feature = f
                best_risk = risk
                best_worse = worse
                best_middle = middle
        if best_feature < 0:
            continue

        rows = ordered[best_feature]
        below = np.float64(columns[best_feature, rows[best_middle - 1]])
        above = np.float64(columns[best_feature, rows[best_middle]])
        feature[node] = best_feature
        cut[node] = below + (above - below) / 2.0
        left[node], right[node] = n_nodes, n_nodes + 1
        for child in range(n_nodes, n_nodes + 2):
            feature[child], cut[child] = LEAF, 0.0
            left[child], right[child] = LEAF, LEAF
            n_constant[child] = first_live
        starts[n_nodes], ends[n_nodes] = start, best_middle
        starts[n_nodes + 1], ends[n_nodes + 1] = best_middle, end
        for i in range(start, best_middle):
            row = rows[i]
            goes_left[row] = True
            counts[n_nodes, labels[row]] += weights[row]
        for i in range(best_middle, end):
            goes_left[rows[i]] = False
        for label in range(n_classes):
            counts[n_nodes + 1, label] = counts[node, label] - counts[n_nodes, label]
        is_split = False
        for child in range(n_nodes + 1, n_nodes - 1, -1):
            if impurity_of(counts[child], threshold) > 0:
                waiting[n_waiting] = child
                n_waiting += 1
                is_split = True
        if is_split:
            for j in range(first_live, n_features):
                if features[j] != best_feature:
                    _part(ordered[features[j]], start, end, goes_left, spare)
        n_nodes += 2

    return (
        feature[:n_nodes],
        cut[:n_nodes],
        left[:n_nodes],
        right[:n_nodes],
        counts[:n_nodes],
    )


@kernel
def follow_rows(
    X: Rows,
    feature: Indices,
    cut: Numbers,
    left: Indices,
    right: Indices,
    used: Flags,
) -> None:
    """Mark the features that each row meets on its way through a tree.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), dtype=float32
        Rows without missing values.
    feature, cut, left, right : ndarray of shape (n_nodes,)
        The tree, the root first. All of its nodes compare.
    used : ndarray of shape (n_rows, n_features), dtype=bool
        Set where a row meets a feature; other entries stay as they are.
    """
    for r in range(X.shape[0]):
        node = 0
        f = feature[node]
        while f >= 0:
            used[r, f] = True
            node = left[node] if X[r, f] <= cut[node] else right[node]
            f = feature[node]
