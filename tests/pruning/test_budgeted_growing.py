"""Trees grown on a budget, against a slow and obvious twin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.pruning.budgeted_growing import (
    Tree,
    assemble,
    grow_trees,
    single_leaf,
    take_within_budget,
)
from spinney.pruning.budgeted_kernels import grow_tree, impurity_of
from spinney.pruning.costs import purchases_for

# ------------------------------------------------------------------ slow twins


def slow_pairs(counts, threshold):
    """Impurity by its formula, each pair of classes once."""
    total = 0
    for c in range(len(counts)):
        for d in range(c + 1, len(counts)):
            above = max(0, counts[c] - threshold) * max(0, counts[d] - threshold)
            total += max(0, above - threshold**2)
    return total


def class_counts(y, weights, rows, n_classes):
    counts = [0] * n_classes
    for row in rows:
        counts[y[row]] += int(weights[row])
    return counts


def slow_split(X, y, weights, rows, costs, n_classes, threshold):
    """Return (feature, cut, left rows, right rows) of the best cut, or None.

    All cuts of all features are tried. Of equal risks the purer children win, then
    the lower feature, then the lower cut.
    """
    impurity = slow_pairs(class_counts(y, weights, rows, n_classes), threshold)
    found = []
    for f in range(X.shape[1]):
        values = sorted({float(X[row, f]) for row in rows})
        for below, above in pairwise(values):
            parts = (
                [row for row in rows if X[row, f] <= below],
                [row for row in rows if X[row, f] > below],
            )
            worse = max(
                slow_pairs(class_counts(y, weights, part, n_classes), threshold)
                for part in parts
            )
            if worse < impurity:
                risk = costs[f] / (impurity - worse)
                cut = below + (above - below) / 2
                found.append((risk, worse, f, cut, *parts))
    return min(found, key=lambda one: one[:4])[2:] if found else None


def slow_tree(X, y, weights, rows, costs, n_classes, threshold):
    """Return a tree as nested tuples: (counts,) or (counts, feature, cut, ...)."""
    counts = class_counts(y, weights, rows, n_classes)
    if slow_pairs(counts, threshold) == 0:
        return (counts,)
    best = slow_split(X, y, weights, rows, costs, n_classes, threshold)
    if best is None:
        return (counts,)
    feature, cut, *parts = best
    children = (
        slow_tree(X, y, weights, part, costs, n_classes, threshold) for part in parts
    )
    return (counts, feature, cut, *children)


def nested(tree, node=0):
    """Return a grown tree as nested tuples."""
    counts = tree.counts[node].tolist()
    if tree.feature[node] < 0:
        return (counts,)
    return (
        counts,
        int(tree.feature[node]),
        float(tree.cut[node]),
        nested(tree, int(tree.left[node])),
        nested(tree, int(tree.right[node])),
    )


def grown(X, y, *, costs=None, weights=None, threshold=0, n_classes=None):
    """Return one tree grown on all rows, or as often as `weights` says."""
    X = np.asarray(X, dtype=np.float32)
    y = np.asarray(y, dtype=np.int32)
    columns = np.ascontiguousarray(X.T)
    return Tree(
        *grow_tree(
            columns,
            np.argsort(columns, axis=1, kind="stable").astype(np.int32),
            y,
            np.ones(len(X), np.int32) if weights is None else weights.astype(np.int32),
            np.ones(X.shape[1]) if costs is None else np.asarray(costs, dtype=float),
            int(y.max()) + 1 if n_classes is None else n_classes,
            threshold,
        )
    )


# ------------------------------------------------------------------ impurity


@pytest.mark.parametrize(
    ("counts", "threshold", "impurity"),
    [
        ([3, 4], 0, 12),
        ([3, 4, 5], 0, 12 + 15 + 20),
        ([3, 4], 1, 2 * 3 - 1),
        ([2, 2], 1, 0),  # 1 * 1 - 1
        ([3, 2], 1, 2 * 1 - 1),
        ([100, 1], 1, 0),
        ([10, 7, 2], 3, 7 * 4 - 9),
        ([6, 6], 3, 0),  # twice the threshold each: exactly nothing
        ([7, 6], 3, 4 * 3 - 9),
        ([5], 0, 0),
        ([0, 9], 0, 0),
    ],
)
def test_impurity_is_what_the_formula_gives_by_hand(counts, threshold, impurity):
    assert impurity_of(np.array(counts), threshold) == impurity


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(0, 12))
def test_impurity_follows_the_formula(counts, threshold):
    assert impurity_of(np.array(counts), threshold) == slow_pairs(counts, threshold)


# ------------------------------------------------------------------ trees


@st.composite
def samples(draw):
    """Draw rows with many equal values, labels, how often each is drawn, and costs."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 14))
    n_features = draw(st.integers(1, 4))
    n_classes = draw(st.integers(1, 4))
    n_values = draw(st.sampled_from([1, 2, 3, 8, 1000]))
    X = rng.integers(-n_values, n_values, size=(n_rows, n_features)) / 4
    y = rng.integers(n_classes, size=n_rows)
    weights = rng.integers(0, 4, size=n_rows)
    weights[rng.integers(n_rows)] += 1
    costs = rng.choice([0.0, 1e-300, 0.5, 1.0, 3.0, 1e300], size=n_features)
    return X.astype(np.float32), y, weights, costs, n_classes


@given(samples(), st.integers(0, 3))
def test_tree_is_that_of_the_slow_twin(sample, threshold):
    X, y, weights, costs, n_classes = sample
    tree = grown(
        X, y, costs=costs, weights=weights, threshold=threshold, n_classes=n_classes
    )
    rows = np.flatnonzero(weights).tolist()
    assert nested(tree) == slow_tree(X, y, weights, rows, costs, n_classes, threshold)


@pytest.mark.parametrize("threshold", [0, 1, 4])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_larger_tree_is_that_of_the_slow_twin(threshold, n_classes):
    rng = np.random.default_rng(threshold)
    X = rng.normal(size=(90, 5)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1])
    X[:, 2] = X[:, 2] > 1  # soon constant
    y = (X[:, 0] + 0.5 * X[:, 3] + 0.7 * rng.normal(size=90) > 0).astype(int)
    y[::4] = rng.integers(n_classes, size=len(y[::4]))
    weights = rng.integers(0, 3, size=90)
    costs = np.array([3.0, 1.0, 0.2, 1.5, 0.7])
    tree = grown(
        X, y, costs=costs, weights=weights, threshold=threshold, n_classes=n_classes
    )
    rows = np.flatnonzero(weights).tolist()
    assert nested(tree) == slow_tree(X, y, weights, rows, costs, n_classes, threshold)
    assert len(tree.feature) > 10


def test_cheapest_of_equally_informative_features_is_bought():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = (x + 0.3 * rng.normal(size=200) > 0).astype(int)
    tree = grown(np.column_stack([x, x, x]), y, costs=[2.0, 1.0, 1.5])
    assert set(tree.feature[tree.feature >= 0]) == {1}


def test_dear_feature_is_bought_only_if_it_tells_more_for_its_price():
    # A cut in the first column parts the classes; one in the second leaves a child
    # with a third of the pairs, so it gains two thirds as much.
    X = np.column_stack([np.arange(6), [0, 0, 1, 1, 1, 2]])
    y = [0, 0, 0, 1, 1, 1]
    assert slow_split(X, y, [1] * 6, range(6), [1, 1], 2, 0)[0] == 0
    gains = (
        9 - 0,
        9
        - min(
            max(slow_pairs([2, 0], 0), slow_pairs([1, 3], 0)),
            max(slow_pairs([3, 2], 0), slow_pairs([0, 1], 0)),
        ),
    )
    price = gains[0] / gains[1]
    assert grown(X, y, costs=[price - 0.01, 1.0]).feature[0] == 0
    assert grown(X, y, costs=[price + 0.01, 1.0]).feature[0] == 1


def test_free_features_come_first_and_the_best_of_them():
    X = np.column_stack([np.arange(8), [0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 0, 1] * 2])
    y = [0, 0, 0, 0, 1, 1, 1, 1]
    tree = grown(X, y, costs=[1.0, 0.0, 0.0])
    assert tree.feature[0] == 1  # halves the rows; the other leaves three quarters
    assert grown(X, y, costs=[1.0, 2.0, 0.0]).feature[0] == 2


@pytest.mark.parametrize("cost", [0.0, 0.3])
def test_lower_one_of_equal_features_wins_at_every_node(cost):
    x = np.arange(40)
    # What is constant is tried no more, which changes the order of the others.
    tree = grown(np.column_stack([x, x, np.ones(40)]), x % 2, costs=[cost] * 3)
    assert set(tree.feature) == {0, -1}


def test_leaves_are_pure_if_no_impurity_is_allowed():
    rng = np.random.default_rng(1)
    tree = grown(rng.normal(size=(300, 4)), rng.integers(3, size=300))
    leaves = tree.feature < 0
    assert ((tree.counts[leaves] > 0).sum(axis=1) == 1).all()


@pytest.mark.parametrize("threshold", [1, 3, 10])
def test_leaves_are_as_impure_as_allowed(threshold):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 4)), rng.integers(3, size=300)
    tree = grown(X, y, threshold=threshold)
    for node, feature in enumerate(tree.feature):
        assert (impurity_of(tree.counts[node], threshold) == 0) == (feature < 0)
    assert len(tree.feature) < len(grown(X, y).feature)


def test_rows_that_no_feature_tells_apart_share_a_leaf():
    tree = grown([[1.0, 2.0]] * 5 + [[3.0, 2.0]], [0, 1, 1, 0, 1, 1])
    assert nested(tree) == ([2, 4], 0, 2.0, ([2, 3],), ([0, 1],))


def test_constant_features_make_a_leaf():
    assert nested(grown(np.ones((4, 3)), [0, 1, 0, 1])) == ([2, 2],)


def test_single_class_makes_a_leaf():
    assert nested(grown(np.arange(4).reshape(4, 1), [0, 0, 0, 0])) == ([4],)


def test_rows_that_were_not_drawn_do_not_count():
    X = [[0.0], [1.0], [2.0], [3.0]]
    tree = grown(X, [0, 1, 0, 1], weights=np.array([2, 0, 0, 1]))
    assert nested(tree) == ([2, 1], 0, 1.5, ([2, 0],), ([0, 1],))


@pytest.mark.parametrize(
    ("below", "above"),
    [
        (1.0, np.nextafter(np.float32(1), np.float32(2))),
        (-3.4e38, 3.4e38),
        (0.0, 1e-45),
        (-1e-45, 0.0),
        (16777216.0, 16777218.0),
    ],
)
def test_neighbouring_values_are_told_apart(below, above):
    X = np.array([[below], [above]], dtype=np.float32)
    forest = assemble([grown(X, [0, 1])], 1, np.array([0, 1]), None)
    assert forest.predict(X).tolist() == [0, 1]


# ------------------------------------------------------------------ forests


def test_values_and_numbers_of_rows_are_those_of_the_samples():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 3)).astype(np.float32)
    y = rng.integers(3, size=120)
    seeds = np.array([5, 6, 7])
    trees = list(grow_trees(X, y, np.ones(3), 1, seeds, None))
    forest = assemble(trees, 3, np.array(["a", "b", "c"]), ["u", "v", "w"])
    leaves = forest.leaves(X)
    for tree, seed in enumerate(seeds):
        drawn = np.random.RandomState(seed).randint(120, size=120)
        for leaf in np.unique(leaves[drawn, tree]):
            here = y[drawn[leaves[drawn, tree] == leaf]]
            assert forest.n_node_samples[leaf] == len(here)
            shares = np.bincount(here, minlength=3) / len(here)
            np.testing.assert_array_equal(forest.value[leaf], shares)
    inner = forest.feature >= 0
    children = [forest.left[inner], forest.right[inner]]
    np.testing.assert_array_equal(
        forest.n_node_samples[inner], sum(forest.n_node_samples[c] for c in children)
    )
    np.testing.assert_array_equal(forest.n_node_samples[forest.tree_offsets[:-1]], 120)
    assert forest.aggregation == "mean"
    assert forest.feature_names == ("u", "v", "w")


def test_trees_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    y = rng.integers(2, size=60)
    seeds = np.arange(5)
    one, two = (
        list(grow_trees(X, y, np.ones(4), 0, seeds, n_jobs)) for n_jobs in (None, 2)
    )
    assert [nested(tree) for tree in one] == [nested(tree) for tree in two]


def stump(feature):
    """Return a tree that tests whether one feature is positive."""
    return Tree(
        np.array([feature, -1, -1], dtype=np.int32),
        np.zeros(3),
        np.array([1, -1, -1], dtype=np.int32),
        np.array([2, -1, -1], dtype=np.int32),
        np.array([[2, 2], [2, 0], [0, 2]]),
    )


def test_trees_are_taken_up_to_the_first_that_is_too_much():
    X = np.ones((3, 4), dtype=np.float32)
    costs = purchases_for(4, None, [1.0, 2.0, 4.0, 8.0], None)
    trees = [stump(f) for f in (0, 1, 0, 1, 2, 3)]
    taken, mean_costs = take_within_budget(trees, X, costs, 6.9)
    assert len(taken) == 4  # what is bought already is free
    assert mean_costs.tolist() == [1.0, 3.0, 3.0, 3.0, 7.0]
    taken, mean_costs = take_within_budget(trees, X, costs, 7.0)
    assert len(taken) == 5
    assert mean_costs.tolist() == [1.0, 3.0, 3.0, 3.0, 7.0, 15.0]
    taken, mean_costs = take_within_budget(trees, X, costs, 15.0)
    assert len(taken) == 6
    taken, mean_costs = take_within_budget(trees, X, costs, 0.5)
    assert taken == []
    assert mean_costs.tolist() == [1.0]


def test_single_leaf_costs_nothing():
    leaf = single_leaf(np.array([3, 1]))
    X = np.zeros((2, 1), dtype=np.float32)
    unit = purchases_for(1, None, None, None)
    taken, mean_costs = take_within_budget([leaf], X, unit, 0.0)
    assert (len(taken), mean_costs.tolist()) == (1, [0.0])
    forest = assemble(taken, 1, np.array([7, 8]), None)
    assert forest.predict_proba(X).tolist() == [[0.75, 0.25]] * 2
