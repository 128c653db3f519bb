"""Checks are put where they pay."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

import strategies
from spinney.runtime.bitslicing import costs_of_first_trees
from spinney.runtime.planning import (
    BATCH_ROWS,
    COST_BATCH,
    COST_COLUMN,
    COST_ROW,
    MORE_ROWS,
    expected_time,
    plan_exit_points,
)


def cost_of(forest, cost, checks, left):
    """Modelled time of asking with these checks, stage by stage."""
    total = 0.0
    for start, end in pairwise([0, *checks, forest.n_trees]):
        first = forest.feature[: forest.tree_offsets[end - start]]
        n_columns = len(np.unique(first[first >= 0]))
        per_row = cost[end - start] + COST_ROW + COST_COLUMN * n_columns
        n_rows = BATCH_ROWS * (left[start] if start else 1.0) + MORE_ROWS
        total += COST_BATCH + n_rows * per_row
    return total


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", [2, 30])
def test_no_other_exit_points_cost_less(seed, depth):
    forest = strategies.random_forest(
        seed, n_trees=9, depth=depth, n_features=4, shape="chain"
    )
    rng = np.random.default_rng(seed)
    left = np.minimum.accumulate(rng.random(9) ** 3)
    steps = np.arange(1, 9)
    checks = plan_exit_points(forest, steps, left[1:])
    assert set(checks) <= set(steps)
    assert (np.diff(checks) > 0).all()
    cost = costs_of_first_trees(forest)
    best = min(
        cost_of(forest, cost, some, left)
        for n in range(9)
        for some in combinations(steps, n)
    )
    assert cost_of(forest, cost, checks, left) == pytest.approx(best)
    assert expected_time(forest, checks, left[checks]) == pytest.approx(best)


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
