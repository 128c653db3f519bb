"""Gains, needs and measurements: compiled kernels against slow, obvious twins."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import strategies
from spinney.pruning.costs import purchases_for
from spinney.pruning.problem import NO_FLAGS, PruningProblem
from spinney.pruning.pruned import measure, prune_forest

TASKS = ("vote", "mean classes")


def path_of(forest, tree, row):
    """Nodes from the root to the leaf of a row."""
    node = int(forest.tree_offsets[tree])
    nodes = [node]
    while forest.feature[node] >= 0:
        left = reference.goes_left(forest, node, float(row[forest.feature[node]]))
        node = int(forest.left[node] if left else forest.right[node])
        nodes.append(node)
    return nodes


def all_paths(problem, X):
    rows = reference.rounded_rows(problem.forest, X)
    n_trees = problem.forest.n_trees
    return [[path_of(problem.forest, t, row) for t in range(n_trees)] for row in rows]


@st.composite
def problems(draw, max_rows=9, max_trees=5, max_depth=12):
    """Draw a forest that votes, rows, labels, weights, costs, and who counts."""
    forest, X = draw(
        strategies.forests_and_rows(
            max_rows=max_rows, tasks=TASKS, max_trees=max_trees, max_depth=max_depth
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    n_rows = len(X)
    costs = rng.integers(0, 4, size=forest.n_features)
    groups = None
    if forest.n_features > 2 and draw(st.booleans(), label="groups"):
        groups = {"pair": [0, 2]}
        costs[2] = costs[0]
    counted = NO_FLAGS
    if draw(st.booleans(), label="counted"):
        counted = rng.random((n_rows, forest.n_trees)) < 0.4
    problem = PruningProblem(
        forest,
        forest.leaves(X),
        rng.integers(0, len(forest.classes_), size=n_rows),
        rng.integers(1, 4, size=n_rows),
        counted,
        purchases_for(forest.n_features, None, costs, groups),
    )
    return problem, X


def counts(problem, row, tree):
    return problem.counted.size == 0 or problem.counted[row, tree]


@given(problems())
def test_errors_of_nodes_are_those_of_the_rows_that_pass_them(drawn):
    problem, X = drawn
    expected = np.zeros(problem.forest.n_nodes, dtype=int)
    for i, paths in enumerate(all_paths(problem, X)):
        for tree, nodes in enumerate(paths):
            for node in nodes:
                wrong = problem.forest.value[node].argmax() != problem.codes[i]
                if counts(problem, i, tree) and wrong:
                    expected[node] += problem.weights[i]
    assert problem.errors.tolist() == expected.tolist()


def slow_needs(problem, X, kept_nodes):
    """Price of every set of nodes at which some rows first need an item."""
    needs = defaultdict(int)
    for i, paths in enumerate(all_paths(problem, X)):
        first = defaultdict(list)
        for nodes in paths:
            seen = set()
            for node in nodes[:-1]:
                item = int(problem.item[node])
                if item not in seen and node in kept_nodes:
                    first[item].append(node)
                seen.add(item)
        for item, nodes in first.items():
            price = int(problem.purchases.price[item])
            if price:
                needs[frozenset(nodes)] += price * int(problem.weights[i])
    return dict(needs)


def needs_of(splits):
    needs = defaultdict(int)
    for split in np.flatnonzero(splits.price):
        needs[frozenset([int(splits.node[split])])] += int(splits.price[split])
    for group, price in enumerate(splits.group_price):
        start, end = splits.group_offsets[group : group + 2]
        members = splits.node[splits.group_splits[start:end]]
        needs[frozenset(members.tolist())] += int(price)
    return dict(needs)


@given(problems(), st.booleans())
def test_needs_are_the_first_uses_of_each_row(drawn, contract):
    problem, X = drawn
    splits = problem.splits(contract=contract)
    assert needs_of(splits) == slow_needs(problem, X, set(splits.node.tolist()))
    if contract:
        # Merged: no set of splits twice, and none of a single split.
        sizes = np.diff(splits.group_offsets)
        assert (sizes >= 2).all()
        assert len(needs_of(splits)) == splits.n_groups + np.count_nonzero(splits.price)


@given(problems(), st.integers(0, 2**32 - 1))
def test_restricted_problems_have_the_prices_of_the_whole(drawn, seed):
    problem, _ = drawn
    splits = problem.splits(contract=False)
    rng = np.random.default_rng(seed)
    inner = np.zeros(splits.n_splits, dtype=bool)
    outer = np.zeros(splits.n_splits, dtype=bool)
    for split, above in enumerate(splits.parent):
        outer[split] = (above < 0 or outer[above]) and rng.random() < 0.8
        inner[split] = outer[split] and (above < 0 or inner[above])
        inner[split] &= rng.random() < 0.5
    inside = splits.inside(outer)
    assert inside.total_price == splits.price_of(outer)
    assert inside.total_gain == splits.gain_of(outer)
    between = inside.outside(inner[outer])
    assert between.total_price == splits.price_of(outer) - splits.price_of(inner)
    assert between.total_gain == splits.gain_of(outer) - splits.gain_of(inner)
    assert between.node.tolist() == splits.node[outer & ~inner].tolist()
    for split, above in enumerate(between.parent):
        if above >= 0:
            node = between.node[split]
            assert problem.parent[node] == between.node[above]


@given(problems())
def test_contraction_leaves_only_what_gains_without_costs(drawn):
    problem, _ = drawn
    full = problem.splits(contract=False)
    contracted = problem.splits()
    assert contracted.total_gain >= max(0, full.total_gain)
    kept = np.isin(full.node, contracted.node)
    assert full.gain_of(kept) == contracted.total_gain
    assert full.price_of(kept) == contracted.total_price
    # No subtree could be given up without losing some gain.
    below = contracted.gain.copy()
    for split in range(contracted.n_splits - 1, -1, -1):
        assert below[split] > 0
        if contracted.parent[split] >= 0:
            below[contracted.parent[split]] += below[split]


def random_levels(problem, n_points, seed):
    """Points up to which nodes are kept, never more than the node above."""
    rng = np.random.default_rng(seed)
    forest = problem.forest
    until = np.full(forest.n_nodes, -1, dtype=np.int32)
    for node in problem._described[0]:
        if forest.feature[node] < 0:
            continue
        above = problem.parent[node]
        most = n_points - 1 if above < 0 else until[above]
        until[node] = rng.integers(-1, most + 1)
    return until


@given(problems(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_measurements_are_those_of_the_pruned_forests(drawn, n_points, seed):
    problem, X = drawn
    if len(X) == 0 or problem.tree_weight == 0:
        return
    forest = problem.forest
    until = random_levels(problem, n_points, seed)
    measured = measure(problem, until, n_points)
    weights = problem.weights
    for point in range(n_points):
        pruned = prune_forest(forest, until >= point)
        assert pruned.n_nodes == forest.n_trees + 2 * (until >= point).sum()
        values = pruned.value[reference.leaves(pruned, X)]
        wrong = values.argmax(axis=2) != problem.codes[:, None]
        if problem.counted.size:
            wrong &= problem.counted
        error = (wrong * weights[:, None]).sum() / problem.tree_weight
        assert measured.error[point] == pytest.approx(error)
        if not problem.counted.size:
            missed = pruned.winners(reference.raw(pruned, X)) != problem.codes
            error = (missed * weights).sum() / weights.sum()
            assert measured.ensemble_error[point] == pytest.approx(error)
        paid = 0.0
        for i, row in enumerate(reference.rounded_rows(forest, X)):
            used = set()
            for tree in range(forest.n_trees):
                used.update(pruned.feature[path_of(pruned, tree, row)[:-1]].tolist())
            items = {int(problem.purchases.item_of_column[k]) for k in used}
            paid += weights[i] * sum(problem.purchases.cost[k] for k in items)
        assert measured.cost[point] == pytest.approx(paid / weights.sum())


@given(problems(max_rows=4), st.integers(0, 2**32 - 1))
def test_a_pruned_forest_stops_where_it_was_cut(drawn, seed):
    problem, X = drawn
    forest = problem.forest
    kept = random_levels(problem, 1, seed) >= 0
    pruned = prune_forest(forest, kept)
    for i, row in enumerate(reference.rounded_rows(forest, X)):
        for tree in range(forest.n_trees):
            nodes = path_of(forest, tree, row)
            stop = next(n for n in nodes if not kept[n] or forest.feature[n] < 0)
            leaf = pruned.leaves(X)[i, tree]
            assert pruned.value[leaf].tolist() == forest.value[stop].tolist()


def test_out_of_bag_error_of_the_forest_asks_only_trees_that_count():
    forest = strategies.random_forest(3, n_trees=3, task="vote", n_outputs=3)
    X = strategies.random_rows(forest, 40, seed=1)
    rng = np.random.default_rng(0)
    counted = rng.random((40, 3)) < 0.4
    codes = rng.integers(0, 3, size=40)
    problem = PruningProblem(
        forest,
        forest.leaves(X),
        codes,
        np.ones(40, dtype=np.int64),
        counted,
        purchases_for(forest.n_features, None, None, None),
    )
    until = np.where(forest.feature >= 0, 0, -1).astype(np.int32)
    votes = forest.votes(X)
    wrong, answered = 0, 0
    for row in range(40):
        own = votes[row, counted[row]]
        if len(own):
            answered += 1
            wrong += np.bincount(own, minlength=3).argmax() != codes[row]
    assert measure(problem, until, 1).ensemble_error[0] == wrong / answered
