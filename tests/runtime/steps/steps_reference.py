"""Slow, obvious twins of the kernels that step, and forests to try them on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import reference
from strategies import forests

CLASSIFYING = (
    "vote",
    "mean classes",
    "mean score",
    "sum score",
    "sum classes",
    "sum by class",
)


def is_silent(forest):
    """Whether inner nodes have nothing to say, which is refused."""
    below = forest.feature >= 0
    below[forest.tree_offsets[:-1]] = False
    return bool(below.any() and not forest.value[below].any())


classifiers = forests(tasks=CLASSIFYING, max_trees=6, max_depth=40).filter(
    lambda forest: not is_silent(forest)
)


def random_order(forest, seed=0):
    """Steps through a forest in an order drawn at random."""
    steps = np.repeat(np.arange(forest.n_trees), forest.depths)
    return np.random.default_rng(seed).permutation(steps)


def node_after(forest, tree, row, n_steps):
    """Index of the node at which `row` is after some steps in `tree`."""
    node = int(forest.tree_offsets[tree])
    for _ in range(n_steps):
        if forest.feature[node] < 0:
            break
        x = float(row[forest.feature[node]])
        left = reference.goes_left(forest, node, x)
        node = int(forest.left[node] if left else forest.right[node])
    return node


def state_sums(forest, row, state):
    """Raw score of each output after ``state[t]`` steps in each tree, exactly."""
    total = [Fraction(0)] * forest.n_outputs
    counts = np.full(forest.n_outputs, forest.n_trees)
    if forest.tree_output is not None:
        counts = np.maximum(
            np.bincount(forest.tree_output, minlength=forest.n_outputs), 1
        )
    for tree in range(forest.n_trees):
        value = forest.value[node_after(forest, tree, row, int(state[tree]))]
        if forest.aggregation == "vote":
            total[int(value.argmax())] += 1
        elif forest.tree_output is not None:
            total[forest.tree_output[tree]] += Fraction(float(value[0]))
        else:
            total = [a + Fraction(float(b)) for a, b in zip(total, value, strict=True)]
    if forest.aggregation != "sum":
        total = [a / int(n) for a, n in zip(total, counts, strict=True)]
    return [
        a + Fraction(float(b)) for a, b in zip(total, forest.base_score, strict=True)
    ]


def winner_of(forest, sums):
    """Class index that wins with these raw scores, and by how much."""
    if len(forest.classes) == 1:
        return 0, Fraction(1)
    if forest.n_outputs == 1:
        threshold = float(np.dtype(forest.sum_dtype).type(forest.decision_threshold))
        return int(sums[0] >= threshold), abs(sums[0] - Fraction(threshold))
    first = max(range(len(sums)), key=lambda c: (sums[c], -c))
    lead = min(sums[first] - other for c, other in enumerate(sums) if c != first)
    return first, lead
