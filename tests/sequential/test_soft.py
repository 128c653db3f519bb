"""Soft votes: orders are fair, the bound holds, and nothing stops that may not."""

from __future__ import annotations

from itertools import combinations, permutations

import numba
import numpy as np
import pytest

from spinney.sequential.soft import (
    AIM,
    certain_thresholds,
    random_word,
    smoothed,
    soft_solver,
    soft_strategy,
)
from spinney.sequential.walk_kernels import walk_scores

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)


def in_order(row, order, strategy, beta=0.0):
    """Return the answer and the trees evaluated, in one order of the trees."""
    total = 0.0
    for i, tree in enumerate(order, start=1):
        total += row[tree]
        for check, low, high in zip(
            strategy.rule.exit_points,
            strategy.rule.lower,
            strategy.rule.upper,
            strict=True,
        ):
            if check == i and total < low:
                return False, i
            if check == i and total > high:
                return True, i
    return bool(row.sum() > beta), len(row)


def in_all_orders(scores, strategy, beta=0.0):
    """Return mean trees evaluated and disagreement over all orders of the trees."""
    asked, wrong = [], []
    for order in permutations(range(scores.shape[1])):
        for row in scores:
            answer, n_asked = in_order(row, order, strategy, beta)
            asked.append(n_asked)
            wrong.append(answer != (row.sum() > beta))
    return np.mean(asked), np.mean(wrong)


def forest_scores(n_rows, n_trees, seed=0):
    """Return scores as of a forest: rows that are clear and rows that are not."""
    rng = np.random.default_rng(seed)
    level = 0.45 * np.tanh(rng.normal(0.0, 2.0, size=(n_rows, 1)))
    noise = rng.normal(0.0, 0.15, size=(n_rows, n_trees))
    return np.clip(level + noise, -0.5, 0.5)


def walked(scores, checks, n_orders, seed=0):
    sums = np.empty((len(checks), len(scores), n_orders), dtype=np.float32)
    state = random_word(np.random.default_rng(seed))
    table = np.ascontiguousarray(scores, dtype=np.float32)
    walk_scores(table, np.array(checks, dtype=np.int64), state, sums)
    return sums


def test_all_sets_of_trees_are_equally_likely_at_every_check():
    # Powers of two: every set of trees has a sum of its own.
    scores = 2.0 ** np.arange(5)[None, :]
    n_orders = 2000 if WITHOUT_JIT else 100_000
    sums = walked(scores, [1, 2, 4], n_orders)
    for k, size in enumerate([1, 2, 4]):
        values, counts = np.unique(sums[k, 0], return_counts=True)
        sets = sorted(scores[0, list(c)].sum() for c in combinations(range(5), size))
        assert values.tolist() == sets
        share = 1.0 / len(sets)
        deviation = np.sqrt(n_orders * share * (1.0 - share))
        assert np.abs(counts - n_orders * share).max() < 5.0 * deviation


def test_later_exit_points_add_to_the_same_order():
    scores = 2.0 ** np.arange(6)[None, :]
    sums = walked(scores, [2, 3, 5], 50).astype(int)[:, 0]
    for early, late in ((0, 1), (1, 2)):
        assert (sums[early] & sums[late] == sums[early]).all()


@pytest.mark.parametrize("bound", [0.01, 0.05])
def test_the_bound_holds_over_all_orders(bound):
    n_trees = 5 if WITHOUT_JIT else 6
    scores = forest_scores(25, n_trees)
    strategy = soft_strategy(
        scores,
        bound,
        exit_points=np.arange(1, n_trees),
        n_orders=100 if WITHOUT_JIT else 2000,
        random_state=0,
    )
    asked, wrong = in_all_orders(scores, strategy)
    assert wrong <= bound
    assert asked < 0.7 * n_trees
    assert asked == pytest.approx(strategy.expected_trees, rel=0.03)


def test_it_says_what_fresh_orders_show():
    scores = forest_scores(40 if WITHOUT_JIT else 400, 30)
    checks = [1, 2, 4, 8, 16, 24]
    n_orders = 10 if WITHOUT_JIT else 200
    strategy = soft_strategy(
        scores, 0.02, exit_points=checks, n_orders=n_orders, random_state=3
    )
    assert 0.0 < strategy.disagreement <= AIM * 0.02
    assert (strategy.rule.lower <= strategy.rule.upper).all()
    assert strategy.rule.exit_points.tolist() == checks
    sums = walked(scores, checks, n_orders, seed=99).reshape(len(checks), -1)
    staying = np.ones(sums.shape[1], dtype=bool)
    asked = np.full(sums.shape[1], 30)
    for k, check in enumerate(checks):
        stops = staying & (
            (sums[k] < strategy.rule.lower[k]) | (sums[k] > strategy.rule.upper[k])
        )
        asked[stops] = check
        staying &= ~stops
        assert staying.mean() == pytest.approx(strategy.undecided[k], abs=0.05)
    assert asked.mean() == pytest.approx(strategy.expected_trees, rel=0.1)


@pytest.mark.skipif(WITHOUT_JIT, reason="too many paths for plain Python")
def test_the_bound_holds_roughly_on_new_rows():
    checks = np.unique(np.geomspace(1, 99, 25).round().astype(int))
    trees, wrong = [], []
    for seed in range(3):
        scores = forest_scores(2000, 100, seed)
        strategy = soft_strategy(
            scores[:1000], 0.005, exit_points=checks, random_state=seed
        )
        new = scores[1000:]
        sums = walked(new, checks, 20, seed).reshape(len(checks), -1)
        full = np.repeat(new.sum(axis=1) > 0.0, 20)
        answer, asked = full.copy(), np.full(len(full), 100)
        for k in reversed(range(len(checks))):
            falls, rises = (
                sums[k] < strategy.rule.lower[k],
                sums[k] > strategy.rule.upper[k],
            )
            answer[falls], answer[rises] = False, True
            asked[falls | rises] = checks[k]
        trees.append(asked.mean())
        wrong.append((answer != full).mean())
    assert np.mean(wrong) < 1.25 * 0.005
    assert np.mean(trees) < 12.0


def test_a_shift_of_scores_and_beta_shifts_the_thresholds():
    # Powers of two, so that the shifted sums are exact.
    scores = np.round(forest_scores(50, 16) * 64.0) / 64.0
    options = {"exit_points": [1, 2, 4, 8, 12], "n_orders": 20, "random_state": 0}
    plain = soft_strategy(scores, 0.02, **options)
    shifted = soft_strategy(scores + 0.25, 0.02, beta=4.0, **options)
    np.testing.assert_allclose(
        shifted.rule.lower, plain.rule.lower + 0.25 * plain.rule.exit_points
    )
    np.testing.assert_allclose(
        shifted.rule.upper, plain.rule.upper + 0.25 * plain.rule.exit_points
    )
    assert shifted.expected_trees == plain.expected_trees


def test_never_disagrees_when_none_is_allowed():
    scores = forest_scores(30, 5)
    least, most = scores.min(axis=0), scores.max(axis=0)
    strategy = soft_strategy(
        scores, 0.0, exit_points=[1, 2, 3, 4], score_range=(least, most), n_orders=10
    )
    asked, wrong = in_all_orders(scores, strategy)
    assert wrong == 0.0
    assert asked < 5.0
    # Not even on the worst rows that there can be.
    corners = np.array(np.meshgrid(*zip(least, most, strict=True))).reshape(5, -1).T
    assert in_all_orders(corners, strategy)[1] == 0.0


def test_without_a_range_nothing_is_certain():
    strategy = soft_strategy(
        forest_scores(30, 5), 0.0, exit_points=[1, 2, 3, 4], n_orders=10
    )
    assert (strategy.rule.lower == -np.inf).all()
    assert (strategy.rule.upper == np.inf).all()
    assert (strategy.expected_trees, strategy.disagreement) == (5.0, 0.0)


def test_a_tie_of_all_trees_is_negative():
    # After the first tree the second can at most make it a tie.
    lower, upper = certain_thresholds(2, np.array([1]), 0.0, ([-0.5] * 2, [0.5] * 2))
    assert lower[0] == pytest.approx(-0.5)
    assert upper[0] == pytest.approx(0.5)
    scores = np.tile([[0.5, -0.5], [0.25, 0.25]], (10, 1))
    strategy = soft_strategy(
        scores, 0.0, exit_points=[1], score_range=([-1] * 2, [1] * 2), n_orders=10
    )
    assert in_all_orders(scores, strategy)[1] == 0.0
    # Half of the rows are a tie: to call them positive is to disagree.
    always = soft_strategy(scores, 0.9, exit_points=[1], n_orders=100, random_state=0)
    assert always.expected_trees == 1.0
    assert always.disagreement < 0.5


def test_given_decisions_count_instead_of_sums():
    scores = np.full((20, 4), 0.25)
    strategy = soft_strategy(
        scores, 0.1, exit_points=[1, 2], positive=np.zeros(20, dtype=bool), n_orders=50
    )
    assert (strategy.expected_trees, strategy.disagreement) == (1.0, 0.0)
    assert strategy.rule.lower[0] > 0.25


@pytest.mark.parametrize("bound", [0.0, 0.1])
def test_one_tree_is_always_asked(bound):
    strategy = soft_strategy([[0.3], [-0.2]], bound, exit_points=[], n_orders=10)
    assert (
        len(strategy.rule.lower)
        == len(strategy.rule.upper)
        == len(strategy.undecided)
        == 0
    )
    assert (strategy.expected_trees, strategy.disagreement) == (1.0, 0.0)


def test_one_row_is_enough():
    strategy = soft_strategy([[0.3, 0.2, 0.1]], 0.1, exit_points=[1, 2], n_orders=50)
    assert (strategy.expected_trees, strategy.disagreement) == (1.0, 0.0)


def test_rows_of_one_class_stop_at_the_first_check():
    scores = np.abs(forest_scores(30, 10)) + 0.01
    strategy = soft_strategy(scores, 0.01, exit_points=[1, 5], n_orders=20)
    assert (strategy.expected_trees, strategy.disagreement) == (1.0, 0.0)


def test_averages_stay_between_neighbours_and_leave_infinity_alone():
    checks = np.array([4, 5, 6, 7, 50])
    given = np.array([np.inf, 1.0, 2.0, 1.0, 7.0])
    found = smoothed(given, checks, 100)
    assert found[0] == np.inf
    assert 1.0 < found[1] < found[2] < 2.0
    assert found[4] == pytest.approx(7.0)
    np.testing.assert_allclose(smoothed(np.full(5, 3.0), checks, 100), 3.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.zeros((0, 3))}, "at least one of each, got shape"),
        ({"scores": np.zeros((3, 0))}, "at least one of each, got shape"),
        ({"scores": np.zeros(3)}, "scores must have 2 axes"),
        ({"scores": [[0.0, np.nan, 0.0]]}, "scores must be finite"),
        ({"exit_points": [0, 1]}, "exit_points must be ascending integers from 1"),
        ({"exit_points": [3]}, "exit_points must be ascending integers"),
        ({"exit_points": [2, 1]}, "exit_points must be ascending integers"),
        ({"exit_points": [1.5]}, "exit_points must be ascending integers"),
        ({"exit_points": [[1]]}, "exit_points must be ascending integers"),
        ({"n_orders": 0}, "n_orders must be"),
        ({"n_orders": 2.5}, "n_orders must be"),
        ({"positive": [True]}, r"positive must have shape \(2,\)"),
        ({"max_disagreement": 1.0}, "max_disagreement must be"),
        (
            {"max_disagreement": 0.0, "score_range": ([0.0], [1.0])},
            "score_range must be two arrays of 3",
        ),
        (
            {"max_disagreement": 0.0, "score_range": ([1.0] * 3, [0.0] * 3)},
            "least scores first",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    arguments = {
        "scores": [[0.1, 0.2, -0.1], [0.1, -0.2, -0.1]],
        "exit_points": [1, 2],
        "max_disagreement": 0.1,
    }
    with pytest.raises(ValueError, match=message):
        soft_strategy(**(arguments | change))


def test_a_whole_ladder_takes_little_more_than_one_rule(monkeypatch):
    from spinney.calibration import recursion
    from spinney.calibration.ladder import LEVELS_OF_VOTES

    calls = []
    find_cuts = recursion.find_cuts
    monkeypatch.setattr(
        recursion, "find_cuts", lambda *args: calls.append(1) or find_cuts(*args)
    )
    checks = [1, 2, 4, 8, 16, 24]
    best_at = soft_solver(
        forest_scores(40, 30), exit_points=checks, n_orders=20, random_state=0
    )
    rules = [best_at(0.05 * level) for level in LEVELS_OF_VOTES]
    assert len(calls) < 200  # about 20 for each of 35 rules alone
    trees = np.array([rule.expected_trees for rule in rules])
    assert (np.diff(trees) < 0.5).all()
    assert trees[-1] < 0.5 * trees[0]
    for rule, level in zip(rules, LEVELS_OF_VOTES, strict=True):
        assert rule.disagreement <= 0.05 * level


def test_a_rare_class_is_not_given_up_for_a_bound_that_is_below_its_share():
    # Thresholds for 1/32, the nearest level, give up the class; the bound does not
    # allow it, and thresholds at infinity could not be moved.
    rare = np.arange(2000) < 60
    rng = np.random.default_rng(0)
    scores = rng.normal(np.where(rare, 0.3, -0.5)[:, None], 1.0, (2000, 15))
    best_at = soft_solver(
        scores.astype(np.float32),
        exit_points=np.arange(1, 15),
        positive=rare,
        n_orders=5,
        random_state=0,
    )
    for bound in (0.024, 0.026, 0.028, 0.0295):
        assert best_at(bound).disagreement <= bound
