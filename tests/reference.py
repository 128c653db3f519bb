"""Slow, obvious twins of the compiled kernels: pure Python and NumPy, row by row."""

from __future__ import annotations

import math

import numpy as np

ZERO_BAND = float(np.float32(1e-35))


def in_category_set(forest, node, x):
    """Whether the number `x`, not NaN, is in the category set of `node`."""
    if math.isinf(x):
        return False
    if forest.category_rule == "truncate":
        category = math.trunc(x)
    elif forest.category_rule == "floor":
        category = math.floor(x)
    elif x == math.floor(x):
        category = int(x)
    else:
        return False
    which = forest.category_set[node]
    words = forest.category_words[
        forest.category_offsets[which] : forest.category_offsets[which + 1]
    ]
    if category < 0 or category >= 32 * len(words):
        return False
    return bool(int(words[category // 32]) >> (category % 32) & 1)


def goes_left(forest, node, x):
    """Whether the value `x`, a Python float, goes left at `node`."""
    is_zero = forest.zero_is_missing is not None and forest.zero_is_missing[node]
    if math.isnan(x) or (is_zero and abs(x) <= ZERO_BAND):
        return bool(forest.missing_left[node])
    if forest.category_set is not None and forest.category_set[node] >= 0:
        return in_category_set(forest, node, x)
    return x <= float(forest.threshold[node])


def leaf_of(forest, tree, row):
    """Index of the leaf at which `row` ends in `tree`."""
    node = int(forest.tree_offsets[tree])
    while forest.feature[node] >= 0:
        x = float(row[forest.feature[node]])
        node = int(
            forest.left[node] if goes_left(forest, node, x) else forest.right[node]
        )
    return node


def rounded_rows(forest, X):
    """Rows as the original library sees them."""
    X = np.asarray(X)
    if forest.input_dtype == "float32":
        with np.errstate(over="ignore", under="ignore"):
            return X.astype(np.float32)
    return X


def leaves(forest, X):
    """(rows, trees) leaf of every row in every tree."""
    X = rounded_rows(forest, X)
    out = np.empty((len(X), forest.n_trees), dtype=np.int32)
    for i, row in enumerate(X):
        for tree in range(forest.n_trees):
            out[i, tree] = leaf_of(forest, tree, row)
    return out


def votes(forest, X):
    """(rows, trees) class index of each tree's vote."""
    return forest.value[leaves(forest, X)].argmax(axis=2)


def scores(forest, X):
    """(rows, trees, outputs) contribution of every tree."""
    values = forest.value[leaves(forest, X)]
    if forest.tree_output is None:
        return values
    out = np.zeros((*values.shape[:2], forest.n_outputs))
    for tree, output in enumerate(forest.tree_output):
        out[:, tree, output] = values[:, tree, 0]
    return out


def raw(forest, X):
    """(rows, outputs) raw scores, added up one tree after another."""
    dtype = np.dtype(forest.sum_dtype)
    if forest.aggregation == "vote":
        cast = votes(forest, X)
        counts = np.stack(
            [(cast == c).sum(axis=1) for c in range(forest.n_outputs)], axis=1
        )
        return (counts / forest.n_trees).astype(dtype)
    each = scores(forest, X).astype(dtype)
    base = forest.base_score.astype(dtype)
    total = np.zeros((len(each), forest.n_outputs), dtype=dtype)
    if forest.base_added == "first":
        total = total + base
    for tree in range(forest.n_trees):
        total = total + each[:, tree]
    if forest.aggregation == "mean":
        per_output = (
            np.full(forest.n_outputs, forest.n_trees)
            if forest.tree_output is None
            else np.bincount(forest.tree_output, minlength=forest.n_outputs)
        )
        total = total / np.maximum(per_output, 1).astype(dtype)
    if forest.base_added == "last":
        total = total + base
    return total


def early_sums(forest, voting, X):
    """(rows, trees, sums) what each tree adds to the sums that a rule sees."""
    n_classes = len(forest.classes)
    if voting == "hard" or forest.aggregation == "vote":
        cast = votes(forest, X)
        if n_classes <= 2:
            shift = 0.5 if voting == "soft" and n_classes == 2 else 0.0
            return (cast == 1)[:, :, None] - shift
        return (cast[:, :, None] == np.arange(n_classes)).astype(float)
    each = scores(forest, X)
    if forest.aggregation == "mean":
        n_adding = (
            np.full(forest.n_outputs, forest.n_trees)
            if forest.tree_output is None
            else np.maximum(np.bincount(forest.tree_output, minlength=each.shape[2]), 1)
        )
        each = each / n_adding
    if n_classes == 2 and each.shape[2] == 2:
        each = (each[:, :, 1:] - each[:, :, :1]) / 2
    return each


def evaluate_early(forest, voting, order, exit_points, leave, X):
    """Class and number of trees for every row, tree by tree.

    ``leave(k, sums)`` returns the class with which a row with these sums leaves at
    exit point ``k``, or None.
    """
    if voting == "hard":
        cast = votes(forest, X)
        full = [np.bincount(row, minlength=2).argmax() for row in cast]
    else:
        full = forest.winners(raw(forest, X))
    each = early_sums(forest, voting, X)
    start = np.zeros(each.shape[2])
    if voting == "soft" and forest.aggregation == "sum":
        start = forest.base_score.astype(float)
        if len(start) > len(each[0, 0] if len(each) else start):
            start = (start[1:] - start[:1]) / 2
    classes, counts = [], []
    for row, answer in zip(each, full, strict=True):
        sums = start.copy()
        n_evaluated = 0
        for tree in order:
            sums = sums + row[tree]
            n_evaluated += 1
            if n_evaluated in exit_points:
                early = leave(list(exit_points).index(n_evaluated), sums)
                if early is not None:
                    answer = early
                    break
        classes.append(int(answer))
        counts.append(n_evaluated)
    return np.array(classes, dtype=int), np.array(counts, dtype=int)
