"""Checks are put where they pay."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

import strategies
from spinney.runtime.planning import (
    BATCH_ROWS,
    COST_BATCH,
    COST_CLASS,
    COST_COLUMN,
    COST_ROW,
    MORE_ROWS,
    plan_exit_points,
)
from spinney.runtime.tree_costs import (
    COST_BITSLICED_TREE,
    COST_CHAIN,
    COST_CHAINED,
    COST_CONDITION,
    COST_HALVING,
    COST_LEVEL,
    COST_SPLIT,
    costs_of_first_trees,
    mean_costs_of_trees,
    shares_met,
)


def columns_of(forest, trees):
    """Columns that some trees look at."""
    nodes = [np.arange(*forest.tree_offsets[tree : tree + 2]) for tree in trees]
    feature = forest.feature[np.concatenate([[], *nodes]).astype(int)]
    return set(feature[feature >= 0].tolist())


def columns_of_first(forest):
    """Number of columns that the first 0, 1, ... trees look at."""
    n_trees = forest.n_trees
    return [len(columns_of(forest, range(n))) for n in range(n_trees + 1)]


def mean_columns(forest):
    """The same for any trees, on average."""
    numbers = range(forest.n_trees)
    return [
        np.mean([len(columns_of(forest, some)) for some in combinations(numbers, n)])
        for n in range(forest.n_trees + 1)
    ]


def cost_of(forest, cost, n_columns, checks, left):
    """Modelled time of asking with these checks, stage by stage."""
    n_classes = len(forest.classes_)
    total = 0.0
    for start, end in pairwise([0, *checks, forest.n_trees]):
        per_row = cost[end - start] + COST_ROW + COST_COLUMN * n_columns[end - start]
        per_row += COST_CLASS * n_classes if n_classes > 2 else 0.0
        n_rows = BATCH_ROWS * (left[start] if start else 1.0) + MORE_ROWS
        total += COST_BATCH + n_rows * per_row
    return total


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", [2, 30])
@pytest.mark.parametrize("is_random", [False, True])
def test_no_other_exit_points_cost_less(seed, depth, is_random):
    forest = strategies.random_forest(
        seed,
        n_trees=9,
        depth=depth,
        n_features=4,
        shape="chain",
        n_outputs=2 + seed % 2,
    )
    rng = np.random.default_rng(seed)
    left = np.minimum.accumulate(rng.random(9) ** 3)
    steps = np.arange(1, 9)
    order = None if is_random else rng.permutation(9)
    checks = plan_exit_points(forest, steps, left[1:], order)
    assert set(checks) <= set(steps)
    assert (np.diff(checks) > 0).all()
    if is_random:
        cost, n_columns = mean_costs_of_trees(forest), mean_columns(forest)
    else:
        ordered = forest.take(order)
        cost, n_columns = costs_of_first_trees(ordered), columns_of_first(ordered)
    best = min(
        cost_of(forest, cost, n_columns, some, left)
        for n in range(9)
        for some in combinations(steps, n)
    )
    assert cost_of(forest, cost, n_columns, checks, left) == pytest.approx(best)


def test_slack_is_spent_on_fewer_trees_and_never_exceeded():
    def n_trees(checks):
        ends = [0, *checks, forest.n_trees]
        return sum(
            (left[start] if start else 1.0) * (end - start)
            for start, end in pairwise(ends)
        )

    gained = 0
    for seed in range(8):
        forest = strategies.random_forest(
            seed, n_trees=60, depth=4, n_features=4, n_outputs=3
        )
        rng = np.random.default_rng(seed)
        left = np.sort(rng.random(60) ** 2)[::-1]
        steps, order = np.arange(1, 60), rng.permutation(60)
        cost = costs_of_first_trees(forest.take(order))
        columns = columns_of_first(forest.take(order))
        plans = [
            plan_exit_points(forest, steps, left[1:], order, slack)
            for slack in (0.0, 0.05, 0.2)
        ]
        times = [cost_of(forest, cost, columns, plan, left) for plan in plans]
        assert times[1] <= 1.05 * times[0] * (1 + 1e-12)
        assert times[2] <= 1.2 * times[0] * (1 + 1e-12)
        trees = [n_trees(plan) for plan in plans]
        assert trees[0] >= trees[1] >= trees[2]
        gained += trees[2] < trees[0]
    assert gained >= 4


def test_nothing_is_checked_where_no_row_leaves():
    forest = strategies.random_forest(0, n_trees=20, depth=5)
    assert len(plan_exit_points(forest, np.arange(1, 20), np.ones(19))) == 0


def test_one_tree_needs_no_check():
    forest = strategies.random_forest(0, n_trees=1, depth=5)
    assert len(plan_exit_points(forest, [], [])) == 0


def test_the_first_trees_cost_more_the_more_there_are():
    forest = strategies.random_forest(0, n_trees=20, depth=5)
    costs = costs_of_first_trees(forest)
    assert costs[0] == 0
    assert len(costs) == 21
    assert (np.diff(costs) >= 0).all()


def mean_costs_by_hand(forest):
    """Costs of trees from the mean number of conditions of all choices of trees."""
    numbers = range(forest.n_trees)
    conditions = []
    for tree in numbers:
        nodes = np.arange(*forest.tree_offsets[tree : tree + 2])
        nodes = nodes[forest.feature[nodes] >= 0]
        bits = forest.threshold[nodes].astype(np.float64).view(np.int64)
        asked = forest.feature[nodes], bits, forest.missing_left[nodes]
        conditions.append(set(zip(*asked, strict=True)))
    n_inner = [np.diff(forest.tree_offsets)[tree] // 2 for tree in numbers]
    mixed = np.mean(n_inner) * COST_SPLIT + COST_BITSLICED_TREE
    costs = []
    for n in range(forest.n_trees + 1):
        comparing = 0.0
        for column in range(forest.n_features):
            own = [{c for c in each if c[0] == column} for each in conditions]
            choices = combinations(own, n)
            met = np.mean([len(set().union(*some)) for some in choices])
            chain = COST_CHAIN + COST_HALVING * np.log2(max(met, 1))
            chain += COST_CHAINED * met
            comparing += min(COST_CONDITION * met, chain)
        walked = n * COST_LEVEL * np.mean(forest.depths)
        costs.append(min(n * mixed + comparing, walked))
    return costs


@pytest.mark.parametrize("shape", ["chain", "unequal"])
@pytest.mark.parametrize("seed", range(4))
def test_trees_in_random_order_cost_what_they_do_on_average(shape, seed):
    forest = strategies.random_forest(
        seed, n_trees=7, depth=20, n_features=2, shape=shape
    )
    found = mean_costs_of_trees(forest)
    assert found == pytest.approx(mean_costs_by_hand(forest))
    assert found[-1] == pytest.approx(costs_of_first_trees(forest)[-1])


def test_costs_in_random_order_have_nothing_to_do_with_the_order():
    forest = strategies.random_forest(3, n_trees=30, depth=9, n_features=5)
    order = np.random.default_rng(0).permutation(30)
    assert mean_costs_of_trees(forest.take(order)) == pytest.approx(
        mean_costs_of_trees(forest)
    )
    undecided = np.linspace(1.0, 0.0, 29) ** 2
    plans = [
        plan_exit_points(some, np.arange(1, 30), undecided)
        for some in (forest, forest.take(order))
    ]
    assert np.array_equal(*plans)


def test_what_all_or_no_trees_have_is_met_at_once_or_never():
    shares = shares_met(5, np.array([0, 1, 5]))
    assert shares == pytest.approx(
        np.array([[0, 0, 0, 0, 0, 0], [0, 0.2, 0.4, 0.6, 0.8, 1], [0, 1, 1, 1, 1, 1]])
    )
