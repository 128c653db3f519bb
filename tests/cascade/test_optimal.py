"""The budget spent where it pays: bound, brute force, and gain over the greedy rule."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordering.exits_reference import cuts_between, mean_cost
from spinney.cascade.optimal import fit_optimal, fit_optimal_for_random_orders
from spinney.cascade.thresholds import fit_thresholds
from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the recursion has tests of its own"
)
FEWER = 30


def random_walks(seed, n_rows, n_trees, n_classes=1):
    """Return scores of rows that drift to one side or the other."""
    rng = np.random.default_rng(seed)
    shape = (n_rows, n_trees) if n_classes == 1 else (n_rows, n_trees, n_classes)
    drift = rng.normal(size=(n_rows, *([1] * (len(shape) - 1))))
    if n_classes > 1:
        drift = rng.normal(size=(n_rows, 1, n_classes))
    return drift + 1.5 * rng.normal(size=shape)


@settings(max_examples=FEWER)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0, 0.4),
    st.sampled_from(["both", "negative", "positive"]),
)
def test_calibration_rows_keep_the_bound_and_the_side(seed, bound, early_exit):
    table = ScoreTable.of_scores(random_walks(seed, 60, 7))
    order = np.random.default_rng(seed).permutation(7)
    policy = fit_optimal(
        table, order, bound, early_exit=early_exit, exit_points=[1, 3, 4]
    )
    decisions, n_asked = table.follow(policy)
    assert np.mean(decisions != table.decisions) <= bound
    assert set(n_asked.tolist()) <= {1, 3, 4, 7}
    np.testing.assert_array_equal(policy.order, order)
    early = decisions[n_asked < 7]
    if early_exit != "both":
        assert np.all(early == (early_exit == "positive"))


@settings(max_examples=FEWER)
@given(st.integers(0, 2**32 - 1), st.floats(0, 0.4))
def test_several_classes_keep_the_bound(seed, bound):
    table = ScoreTable.of_scores(random_walks(seed, 60, 7, n_classes=3))
    policy = fit_optimal(table, np.arange(7), bound)
    decisions, n_asked = table.follow(policy)
    assert np.mean(decisions != table.decisions) <= bound
    if bound > 0.3:
        assert n_asked.mean() < 7


def least_cost(scores, costs, budget):
    """Return the least total cost over all pairs of thresholds of all steps."""
    n_rows, n_trees = scores.shape
    positive = scores.sum(axis=1) >= 0
    sums = np.cumsum(scores, axis=1)

    def least(step, undecided, budget):
        rest = int(undecided.sum())
        if rest == 0:
            return 0.0
        paid = costs[step] * rest
        if step == n_trees - 1:
            return paid
        partial = sums[:, step]
        best = np.inf
        cuts = cuts_between(partial[undecided])
        for low, high in itertools.combinations_with_replacement(cuts, 2):
            below, above = undecided & (partial < low), undecided & (partial > high)
            errors = np.sum(below & positive) + np.sum(above & ~positive)
            if errors <= budget:
                left = undecided & ~below & ~above
                best = min(best, least(step + 1, left, budget - errors))
        return paid + best

    return least(0, np.ones(n_rows, dtype=bool), budget)


@settings(max_examples=FEWER)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_no_thresholds_are_cheaper_than_the_best_and_ours_are_near(seed, budget):
    rng = np.random.default_rng(seed)
    scores = random_walks(seed, 8, 3).round(2)
    costs = rng.integers(1, 5, size=3).astype(float)
    table = ScoreTable.of_scores(scores)
    policy = fit_optimal(table, np.arange(3), budget / 8, costs=costs, n_bins=64)
    cost = mean_cost(policy, table, costs)
    best = least_cost(scores, costs, budget) / 8
    assert best - 1e-9 <= cost <= 1.8 * best


def test_spending_where_it_pays_beats_spending_at_once():
    scores = random_walks(0, 3000, 40)
    table = ScoreTable.of_scores(scores)
    order = np.arange(40)
    greedy = mean_cost(fit_thresholds(table, order, 0.02), table)
    optimal = mean_cost(fit_optimal(table, order, 0.02), table)
    assert optimal < 0.92 * greedy


def test_dear_trees_are_avoided():
    scores = random_walks(1, 2000, 10)
    table = ScoreTable.of_scores(scores)
    costs = np.array([1.0] * 5 + [1000.0] * 5)
    settings = {"order": np.arange(10), "max_disagreement": 0.05}
    plain = fit_optimal(table, **settings)
    thrifty = fit_optimal(table, **settings, costs=costs)
    assert mean_cost(thrifty, table, costs) < mean_cost(plain, table, costs)


def test_random_orders_hold_for_new_rows_and_new_orders():
    n_trees = 40
    rng = np.random.default_rng(2)
    scores = random_walks(3, 6000, n_trees)
    table = ScoreTable.of_scores(scores[:2000])
    order = rng.permutation(n_trees)
    settings = {"n_orders": 20, "random_state": 0}
    policy = fit_optimal_for_random_orders(table, order, 0.02, **settings)
    np.testing.assert_array_equal(policy.order, order)
    again = fit_optimal_for_random_orders(table, order, 0.02, **settings)
    np.testing.assert_array_equal(policy.upper, again.upper)
    new = ScoreTable.of_scores(scores[2000:][:, rng.permutation(n_trees)])
    decisions, n_asked = new.follow(policy)
    assert np.mean(decisions != new.decisions) < 0.03
    assert n_asked.mean() < 0.6 * n_trees


def test_bad_arguments_are_named():
    table = ScoreTable.of_scores(np.zeros((3, 2)))
    with pytest.raises(InvalidArgumentError, match="permutation"):
        fit_optimal(table, [0, 0], 0.1)
    with pytest.raises(InvalidArgumentError, match="costs"):
        fit_optimal(table, [0, 1], 0.1, costs=[1, 0])
    with pytest.raises(InvalidArgumentError, match="early_exit"):
        fit_optimal(table, [0, 1], 0.1, early_exit="up")
    with pytest.raises(InvalidArgumentError, match="max_disagreement"):
        fit_optimal(table, [0, 1], 1.5)
    with pytest.raises(InvalidArgumentError, match="no rows"):
        fit_optimal(ScoreTable.of_scores(np.empty((0, 2))), [0, 1], 0.1)
