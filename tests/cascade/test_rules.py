"""Rules from curves of risk: against slow twins, and what they must never do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from spinney.calibration.posterior import logistic_curve
from spinney.cascade.optimal import optimal_at
from spinney.cascade.paths import paths_of
from spinney.cascade.rungs import RULES, RuleFamily, boldest_on_rows
from spinney.cascade.thresholds import thresholds_at
from spinney.ordering import ScoreTable
from spinney.ordering.score_table import margins


def random_walks(seed, n_rows, n_trees, n_classes=1):
    """Return scores of rows that drift to one side or the other."""
    rng = np.random.default_rng(seed)
    shape = (n_rows, n_trees) if n_classes == 1 else (n_rows, n_trees, n_classes)
    drift = rng.normal(size=(n_rows, 1) if n_classes == 1 else (n_rows, 1, n_classes))
    return drift + 1.5 * rng.normal(size=shape)


def walked(seed=0, n_rows=300, n_trees=8, n_classes=1, **parameters):
    table = ScoreTable.of_scores(random_walks(seed, n_rows, n_trees, n_classes))
    points = np.array([1, 3, 4, 6])
    return table, paths_of(table, [np.arange(n_trees)], points, **parameters)


# ------------------------------------------------------------------ paths


@pytest.mark.parametrize("n_classes", [1, 3])
def test_paths_are_partial_scores_and_curves_through_them(n_classes):
    table, paths = walked(n_classes=n_classes)
    for step, partial in table.partial_scores(np.arange(8)):
        if step not in paths.points:
            continue
        k = int(np.searchsorted(paths.points, step))
        if n_classes == 1:
            value, wrong = partial, table.decisions != 1
        else:
            winner, value = margins(partial)
            wrong = winner != table.decisions
        np.testing.assert_array_equal(paths.values[k], value)
        np.testing.assert_array_equal(paths.wrong_up[k], wrong)
        curve = logistic_curve(value, ~wrong)
        assert (paths.intercept[k], paths.slope[k]) == curve
        down, up = paths.risks(k)
        np.testing.assert_allclose(up, expit(-(curve[0] + curve[1] * value)))
        np.testing.assert_allclose(down + up, 1.0)


def test_several_orders_make_several_paths_of_each_row():
    table = ScoreTable.of_scores(random_walks(1, 50, 6))
    rng = np.random.default_rng(0)
    orders = [rng.permutation(6) for _ in range(4)]
    costs = np.arange(1.0, 7.0)
    paths = paths_of(table, orders, np.array([2, 5]), costs=costs)
    assert paths.values.shape == (2, 200)
    expected = [table.scores[order[:2]].sum(axis=0) for order in orders]
    np.testing.assert_allclose(paths.values[0], np.concatenate(expected))
    assert paths.costs[0] == pytest.approx(
        np.mean([costs[o[:2]].sum() for o in orders])
    )
    assert paths.costs[-1] == 21.0


def test_of_very_many_rows_a_part_is_taken_that_is_spread_over_all():
    scores = np.repeat(np.arange(30_000.0), 2).reshape(-1, 2) - 15_000
    paths = paths_of(ScoreTable.of_scores(scores), [np.arange(2)], np.array([1]))
    assert paths.values.shape == (1, 10_000)
    assert paths.values[0].max() > 14_900


@pytest.mark.parametrize("early_exit", ["both", "negative", "positive"])
def test_following_thresholds_counts_what_the_table_counts(early_exit):
    table, paths = walked(2, early_exit=early_exit)
    lower, upper = thresholds_at(paths, 0.1)
    left_at, expected, disagreement = paths.follow(lower, upper)
    rule = table.rule_of(np.arange(8), paths.points, lower, upper)
    decisions, n_evaluated = table.follow(rule)
    at = np.append(paths.points, 8)
    np.testing.assert_array_equal(at[left_at], n_evaluated)
    assert disagreement == np.mean(decisions != table.decisions)
    assert expected == pytest.approx(disagreement, abs=0.03)
    np.testing.assert_allclose(
        paths.undecided(left_at), [(n_evaluated > p).mean() for p in paths.points]
    )
    early = decisions[n_evaluated < 8]
    if early_exit != "both":
        assert np.all(early == (early_exit == "positive"))


# ------------------------------------------------------------------ thresholds


@given(st.integers(0, 1000), st.floats(1e-6, 0.4))
def test_beyond_a_threshold_the_risk_is_within_the_tolerance(seed, tolerance):
    _, paths = walked(seed, n_rows=60)
    lower, upper = thresholds_at(paths, tolerance)
    assert (lower <= upper).all()
    for k in range(len(paths.points)):
        down, up = paths.risks(k)
        assert (down[paths.values[k] < lower[k]] <= tolerance * (1 + 1e-9)).all()
        assert (up[paths.values[k] > upper[k]] <= tolerance * (1 + 1e-9)).all()
        inside = (paths.values[k] > lower[k]) & (paths.values[k] < upper[k])
        assert (np.minimum(down, up)[inside] >= tolerance * (1 - 1e-9)).all()


def cost_of(paths, lower, upper, price):
    """Return the mean cost of thresholds, wrong answers and all, path by path."""
    total = 0.0
    for i in range(paths.values.shape[1]):
        for k in range(len(paths.points)):
            down, up = paths.risks(k)
            if paths.values[k, i] < lower[k]:
                total += paths.costs[k] + price * paths.costs[-1] * down[i]
                break
            if paths.values[k, i] > upper[k]:
                total += paths.costs[k] + price * paths.costs[-1] * up[i]
                break
        else:
            total += paths.costs[-1]
    return total / paths.values.shape[1]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.5, 100.0))
def test_the_last_thresholds_are_the_best_of_all_pairs(seed, price):
    # At a single exit point there is nothing behind it to be uncertain about.
    table = ScoreTable.of_scores(random_walks(seed, 12, 3).round(1))
    paths = paths_of(table, [np.arange(3)], np.array([2]))
    lower, upper = optimal_at(paths, price)
    values = np.sort(paths.values[0])
    cuts = [-np.inf, *(0.5 * (values[1:] + values[:-1])), values[0] - 1, values[-1] + 1]
    best = min(
        cost_of(paths, np.array([low]), np.array([high]), price)
        for low, high in itertools.product([*cuts, np.inf], repeat=2)
        if low <= high
    )
    assert cost_of(paths, lower, upper, price) == pytest.approx(best)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.floats(0.5, 1000.0))
def test_no_thresholds_of_equal_risk_are_cheaper_than_the_optimal_ones(seed, price):
    _, paths = walked(seed, n_rows=80)
    cost = cost_of(paths, *optimal_at(paths, price), price)
    for tolerance in (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3):
        other = cost_of(paths, *thresholds_at(paths, tolerance), price)
        assert cost <= other * 1.02  # each pair is the best given the later ones


def test_beyond_the_values_that_were_seen_rows_go_on():
    table = ScoreTable.of_scores(np.tile([[-1.0, 3.0]], (40, 1)))
    paths = paths_of(table, [np.arange(2)], np.array([1]))
    lower, upper = optimal_at(paths, 10.0)
    assert lower[0] == -np.inf
    assert upper[0] == np.inf  # all the same value: nothing is known


# ------------------------------------------------------------------ ladders


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("early_exit", ["both", "negative", "positive"])
def test_ladders_go_from_cautious_to_bold(rule, early_exit):
    table = ScoreTable.of_scores(random_walks(3, 1000, 20))
    family = RuleFamily(rule, early_exit, None, False)
    rng = np.random.RandomState(0)
    makers = family.ladder(table, np.arange(20), 0.02, np.arange(1, 20), rng)
    evaluated, wrong = [], []
    for make in makers:
        decisions, n_evaluated = table.follow(make())
        evaluated.append(n_evaluated.mean())
        wrong.append(np.mean(decisions != table.decisions))
    assert wrong[0] < 0.005
    assert wrong[-1] > 0.02
    assert len(makers) > 30
    # Nearly in order: a row may be right by luck where a bolder rule leaves.
    assert np.mean(np.diff(evaluated) <= 1e-9) > 0.9
    assert np.mean(np.diff(wrong) >= 0.0) > 0.9
    kept = boldest_on_rows(makers, table, 0.02)
    decisions, _ = table.follow(kept)
    assert np.mean(decisions != table.decisions) <= 0.02


@pytest.mark.parametrize("rule", ["thresholds", "optimal"])
def test_the_first_rungs_hold_where_curves_are_far_off(rule):
    table = ScoreTable.of_scores(random_walks(11, 2000, 20))
    points = np.arange(1, 20)
    family = RuleFamily(rule, "both", None, False)
    makers = family.ladder(table, np.arange(20), 0.02, points, np.random.RandomState(0))
    paths = paths_of(table, [np.arange(20)], points)
    risks = np.array([paths.follow(*make().bounds)[1] for make in makers])
    first = int(np.argmax(risks > 0.8e-3 * 0.02))  # the least risk that is aimed at
    assert first >= 15
    # A new row goes just beyond a threshold of this one, and turns round at the end.
    upper = makers[first]().upper
    k = int(np.flatnonzero(np.isfinite(upper))[0])
    turning = np.zeros((1, 20))
    turning[0, k], turning[0, -1] = upper[k] + 1e-6, -1000.0
    fresh = ScoreTable.of_scores(turning)
    assert fresh.follow(makers[first]())[0] != fresh.decisions
    assert fresh.follow(makers[0]())[0] == fresh.decisions


def test_several_classes_and_random_orders_have_ladders():
    table = ScoreTable.of_scores(random_walks(4, 500, 12, n_classes=3))
    family = RuleFamily("optimal", "both", None, True)
    rng = np.random.RandomState(0)
    order = rng.permutation(12)
    makers = family.ladder(table, order, 0.05, np.arange(1, 12), rng)
    rule = boldest_on_rows(makers, table, 0.05)
    np.testing.assert_array_equal(rule.order, order)
    assert table.follow(rule)[1].mean() < 10


def test_dear_trees_are_avoided():
    table = ScoreTable.of_scores(random_walks(5, 2000, 10))
    costs = np.array([1.0] * 5 + [1000.0] * 5)
    rng = np.random.RandomState(0)

    def cost(given):
        family = RuleFamily("optimal", "both", given, False)
        makers = family.ladder(table, np.arange(10), 0.05, np.arange(1, 10), rng)
        _, n_evaluated = table.follow(boldest_on_rows(makers, table, 0.05))
        return np.cumsum(costs)[n_evaluated - 1].mean()

    assert cost(costs) < cost(None)


def test_without_exit_points_there_is_no_ladder():
    table = ScoreTable.of_scores(random_walks(6, 10, 1))
    family = RuleFamily("thresholds", "both", None, False)
    rng = np.random.RandomState(0)
    assert family.ladder(table, np.arange(1), 0.1, np.arange(0), rng) == []
    assert boldest_on_rows([], table, 0.1) is None


def test_where_all_rows_are_decided_alike_nothing_breaks():
    table = ScoreTable.of_scores(np.abs(random_walks(7, 50, 5)))
    rng = np.random.RandomState(0)
    for rule in RULES:
        family = RuleFamily(rule, "both", None, False)
        for make in family.ladder(table, np.arange(5), 0.1, np.arange(1, 5), rng):
            decisions, _ = table.follow(make())
            assert len(decisions) == 50
