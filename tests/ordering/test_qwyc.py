"""Quit when you can: against the slow twin, brute force, and the paper's example."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordering.exits_reference import (
    best_pair,
    cuts_between,
    decided_by,
    mean_cost,
    slow_margin_qwyc,
    slow_qwyc,
)
from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable, exit_kernels
from spinney.ordering.qwyc import allowed_errors, qwyc

# The paper's appendix A.1: three models, eight rows.
EXAMPLE = np.array(
    [
        [1, -1, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, -1, 0, 0, 0],
        [0, 0, 0, 0, -1, 1, -1, -1],
    ],
    dtype=float,
).T

KINDS = st.sampled_from(
    [
        ("both", "joint"),
        ("both", "negative_first"),
        ("negative", "joint"),
        ("positive", "joint"),
    ]
)


@st.composite
def score_arrays(draw, max_trees=6, max_rows=14):
    """Draw scores of few rows and trees, from many ties to none.

    Sums of quarters are exact, so equal scores are equal in any order of addition.
    """
    n_rows = draw(st.integers(1, max_rows))
    n_trees = draw(st.integers(1, max_trees))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.sampled_from([1, 2, 8, 1000]))
    return rng.integers(-steps, steps + 1, size=(n_rows, n_trees)) / 4


def greedy_cost(scores, costs=None, **settings):
    table = ScoreTable.of_scores(scores)
    return mean_cost(qwyc(table, 0.0, costs=costs, **settings), table, costs)


@given(
    score_arrays(),
    st.integers(0, 5),
    KINDS,
    st.booleans(),
    st.integers(-6, 6),
    st.sets(st.integers(1, 5)) | st.none(),
)
def test_order_and_decisions_are_those_of_the_slow_twin(
    scores, budget, kind, restrict, beta, checks
):
    n_rows, n_trees = scores.shape
    early_exit, split = kind
    beta = beta / 4
    budget = min(budget, n_rows - 1)
    if checks is not None:
        checks = [step for step in sorted(checks) if step < n_trees]
    costs = np.random.default_rng(n_rows).integers(1, 4, size=n_trees).astype(float)
    table = ScoreTable.of_scores(scores, beta=beta, base=0.25)
    policy = qwyc(
        table,
        budget / n_rows,
        costs=costs,
        early_exit=early_exit,
        budget_split=split,
        restrict_to_beta=restrict,
        exit_points=checks,
    )
    order, decided = slow_qwyc(
        scores,
        beta,
        budget,
        costs,
        checks=checks,
        base=0.25,
        early_exit=early_exit,
        split=split,
        within=beta if restrict else None,
    )
    assert policy.order.tolist() == order
    assert decided_by(policy, table) == decided
    assert np.all(policy.lower <= policy.upper)
    if restrict:
        assert np.all(policy.lower <= beta)
        assert np.all(policy.upper >= beta)


@given(score_arrays(max_rows=30, max_trees=1), st.integers(0, 8), KINDS)
def test_cuts_of_one_step_decide_as_many_rows_as_any_others(scores, budget, kind):
    value = scores[:, 0]
    positive = np.random.default_rng(len(value)).random(len(value)) < 0.5
    modes = {
        ("both", "joint"): exit_kernels.JOINT,
        ("both", "negative_first"): exit_kernels.NEGATIVE_FIRST,
        ("negative", "joint"): exit_kernels.NEGATIVE_ONLY,
        ("positive", "joint"): exit_kernels.POSITIVE_ONLY,
    }
    scratch = [np.empty(budget + 1) for _ in range(2)]
    counts = [np.empty(budget + 1, dtype=np.int64) for _ in range(2)]
    arguments = value[positive], -value[~positive], np.inf, np.inf, budget, modes[kind]
    bound = exit_kernels.best_exit(*arguments, True, *scratch, *counts)
    decided, errors, low, high = exit_kernels.best_exit(
        *arguments, False, *scratch, *counts
    )
    expected = best_pair(value, positive, budget, early_exit=kind[0], split=kind[1])
    assert (decided, errors) == expected[:2]
    assert bound[0] >= decided
    np.testing.assert_array_equal(value < low, value < expected[2])
    np.testing.assert_array_equal(-value < high, value > expected[3])


@given(st.lists(st.integers(-20, 20), max_size=60), st.integers(1, 12))
def test_the_heap_keeps_the_smallest_values_below_the_limit(values, n_kept):
    values = np.array(values, dtype=float)
    heap = np.empty(n_kept)
    size = exit_kernels.keep_smallest(values, 7.0, n_kept, heap)
    expected = np.sort(values[values < 7.0])[:n_kept]
    np.testing.assert_array_equal(np.sort(heap[:size]), expected)
    if size:
        assert heap[0] == expected[-1]


# ------------------------------------------------------------------ the paper


def test_example_of_the_paper_with_thresholds_on_both_sides_of_beta():
    table = ScoreTable.of_scores(EXAMPLE)
    policy = qwyc(table, 0.0, restrict_to_beta=True)
    assert policy.order.tolist() == [2, 1, 0]
    assert mean_cost(policy, table) == 7 / 4


def test_example_of_the_paper_with_free_cuts_is_the_best_of_all_orders():
    table = ScoreTable.of_scores(EXAMPLE)
    policy = qwyc(table, 0.0)
    assert policy.order.tolist() == [2, 0, 1]
    assert mean_cost(policy, table) == 3 / 2
    assert best_cost_without_errors(EXAMPLE) == 3 / 2


def best_cost_without_errors(scores, costs=None, within=None):
    """Return the least mean cost over all orders, if no decision may differ.

    Without errors, to decide a row earlier never costs anything: so the furthest cuts
    of every step are the best.
    """
    n_rows, n_trees = scores.shape
    costs = np.ones(n_trees) if costs is None else costs
    positive = scores.sum(axis=1) >= 0
    best = np.inf
    for order in itertools.permutations(range(n_trees)):
        undecided = np.ones(n_rows, dtype=bool)
        partial = np.zeros(n_rows)
        total = 0.0
        for tree in order:
            total += costs[tree] * undecided.sum()
            partial += scores[:, tree]
            if undecided.any():
                kind = {"early_exit": "both", "split": "joint", "within": within}
                part = partial[undecided], positive[undecided]
                _, _, low, high = best_pair(*part, 0, **kind)
                undecided &= (partial >= low) & (partial <= high)
        best = min(best, total / n_rows)
    return best


@settings(max_examples=6 if numba.config.DISABLE_JIT else 25)
@given(score_arrays(max_trees=5, max_rows=8))
def test_greedy_order_costs_no_less_than_the_best_and_not_much_more(scores):
    best = best_cost_without_errors(scores)
    cost = greedy_cost(scores)
    assert best <= cost <= 2.5 * best


@settings(max_examples=6 if numba.config.DISABLE_JIT else 12)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 8))
def test_greedy_order_is_within_four_times_the_best_of_a_pipeline(seed, trees, rows):
    # A row's trees all say the same or nothing, so each tree decides the same rows
    # wherever it stands.
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], size=(rows, 1))
    scores = sign * (rng.random((rows, trees)) < rng.random())
    costs = rng.integers(1, 6, size=trees).astype(float)
    best = best_cost_without_errors(scores, costs, within=0.0)
    assert greedy_cost(scores, costs, restrict_to_beta=True) <= 4 * best


def best_cost_with_errors(scores, budget):
    """Return the least mean cost over all orders and all thresholds."""
    n_rows, n_trees = scores.shape
    positive = scores.sum(axis=1) >= 0

    def least(order, partial, undecided, budget):
        if not undecided.any():
            return 0
        rest = int(undecided.sum())
        if len(order) == 1:
            return rest
        partial = partial + scores[:, order[0]]
        best = np.inf
        cuts = cuts_between(partial[undecided])
        for low, high in itertools.combinations_with_replacement(cuts, 2):
            below, above = undecided & (partial < low), undecided & (partial > high)
            errors = np.sum(below & positive) + np.sum(above & ~positive)
            if errors <= budget:
                left = undecided & ~below & ~above
                later = least(order[1:], partial, left, budget - errors)
                best = min(best, rest + later)
        return best

    start = np.zeros(n_rows), np.ones(n_rows, dtype=bool), budget
    orders = itertools.permutations(range(n_trees))
    return min(least(order, *start) for order in orders) / n_rows


@settings(max_examples=5 if numba.config.DISABLE_JIT else 20)
@given(score_arrays(max_trees=3, max_rows=6), st.integers(1, 2))
def test_greedy_cost_is_near_the_best_of_all_orders_and_thresholds(scores, budget):
    budget = min(budget, len(scores) - 1)
    table = ScoreTable.of_scores(scores)
    cost = mean_cost(qwyc(table, budget / len(scores)), table)
    best = best_cost_with_errors(scores, budget)
    assert best <= cost <= 2 * best


# ------------------------------------------------------------------ special cases


@given(score_arrays(), st.floats(0.0, 0.9), KINDS)
def test_calibration_rows_never_disagree_more_often_than_allowed(scores, bound, kind):
    rng = np.random.default_rng(len(scores))
    # Not exact in floats: sums that should be equal may differ in the last bit.
    scores = scores / 3 + rng.choice([0.0, 0.1], size=scores.shape)
    table = ScoreTable.of_scores(scores)
    policy = qwyc(table, bound, early_exit=kind[0], budget_split=kind[1])
    decisions, n_asked = table.follow(policy)
    n_wrong = np.count_nonzero(decisions != table.decisions)
    assert n_wrong <= allowed_errors(bound, len(scores))
    assert sorted(policy.order.tolist()) == list(range(scores.shape[1]))
    if kind[0] == "negative":
        assert np.all(decisions[n_asked < table.n_trees] == 0)
    if kind[0] == "positive":
        assert np.all(decisions[n_asked < table.n_trees] == 1)


def test_nobody_decidable_leaves_the_order_and_infinite_thresholds():
    # Both rows have the same score all the way.
    table = ScoreTable.of_scores([[1, -1, 1, 5], [1, -1, 1, 5]], decisions=[0, 1])
    policy = qwyc(table, 0.0)
    assert policy.order.tolist() == [0, 1, 2, 3]
    assert np.all(np.isneginf(policy.lower))
    assert np.all(np.isposinf(policy.upper))
    assert table.follow(policy)[1].tolist() == [4, 4]


def test_rows_of_one_class_are_all_decided_by_the_first_tree_but_unseen_scores_not():
    table = ScoreTable.of_scores([[3.0, 1.0, 5.0], [2.0, 4.0, 5.0]])
    policy = qwyc(table, 0.0)
    assert policy.order.tolist() == [0, 1, 2]  # the rest stays in its order
    assert table.follow(policy)[1].tolist() == [1, 1]
    lower = ScoreTable.of_scores([[1.5, 1.0, 5.0]])
    assert lower.follow(policy)[1].tolist() == [3]


def test_a_large_budget_decides_everything_at_once_with_one_cut():
    scores = np.array([[-2.0, 9.0], [-1.0, -9.0], [1.0, -9.0], [2.0, 9.0]])
    policy = qwyc(ScoreTable.of_scores(scores), 0.5)
    assert policy.lower[0] == policy.upper[0]
    _, n_asked = ScoreTable.of_scores(scores).follow(policy)
    assert n_asked.tolist() == [1, 1, 1, 1]


def test_infinite_scores_decide():
    scores = np.array([[-np.inf, 5.0], [np.inf, -5.0], [0.5, 1.0], [-0.5, -1.0]])
    table = ScoreTable.of_scores(scores)
    policy = qwyc(table, 0.0)
    decisions, n_asked = table.follow(policy)
    assert decisions.tolist() == [0, 1, 1, 0]
    assert n_asked.tolist() == [1, 1, 1, 1]
    policy = qwyc(ScoreTable.of_scores(scores[:2]), 0.0)
    assert ScoreTable.of_scores(scores[:2]).follow(policy)[1].tolist() == [1, 1]


def test_neighbouring_floats_are_not_parted_by_crossing_thresholds():
    above = np.nextafter(1.0, 2.0)
    table = ScoreTable.of_scores([[1.0, -9.0], [above, 9.0]])
    policy = qwyc(table, 0.0)
    assert np.all(policy.lower <= policy.upper)
    decisions, _ = table.follow(policy)
    assert decisions.tolist() == [0, 1]


def test_one_tree_has_nothing_to_check():
    table = ScoreTable.of_scores([[1.0], [-1.0]])
    policy = qwyc(table, 0.0)
    assert policy.exit_points.tolist() == []
    decisions, n_asked = table.follow(policy)
    assert (decisions.tolist(), n_asked.tolist()) == ([1, 0], [1, 1])


def test_cheap_trees_come_first_and_progress_is_told():
    scores = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0]])
    seen = []
    policy = qwyc(
        ScoreTable.of_scores(scores),
        0.0,
        costs=[5, 1, 1],
        on_step=lambda *state: seen.append(state),
    )
    assert policy.order[0] == 1
    assert seen == [(1, 0)]


def test_products_of_shares_and_rows_are_not_rounded_down_by_float_error():
    assert allowed_errors(0.29, 100) == 29
    assert allowed_errors(0.005, 999) == 4


# ------------------------------------------------------------------ several classes


@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.booleans())
def test_margins_decide_as_the_slow_twin_does(seed, budget, one_output_each):
    rng = np.random.default_rng(seed)
    n_rows, n_trees, n_classes = rng.integers([1, 1, 2], [12, 7, 5])
    scores = rng.integers(-4, 5, size=(n_rows, n_trees, n_classes)) / 4
    costs = rng.integers(1, 4, size=n_trees).astype(float)
    budget = min(budget, n_rows - 1)
    checks = [step for step in range(1, n_trees) if rng.random() < 0.7]
    if one_output_each:
        outputs = rng.integers(n_classes, size=n_trees)
        scores *= outputs[:, None] == np.arange(n_classes)
        table = ScoreTable.of_scores(
            scores.sum(axis=2), tree_output=outputs, n_classes=int(n_classes)
        )
    else:
        table = ScoreTable.of_scores(scores)
    full = scores.sum(axis=1).argmax(axis=1)
    np.testing.assert_array_equal(table.decisions, full)
    policy = qwyc(table, budget / n_rows, costs=costs, exit_points=checks)
    order, decided = slow_margin_qwyc(scores, full, budget, costs, checks)
    assert policy.order.tolist() == order
    _, n_asked = table.follow(policy)
    found = {
        int(step): set(np.flatnonzero(n_asked == step)) for step in np.unique(n_asked)
    }
    found.pop(int(n_trees), None)
    assert found == decided


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"costs": [1, 2]}, r"shape \(3,\)"),
        ({"costs": [1, 0, 1]}, "positive and finite, got 0.0 for tree 1"),
        ({"costs": [1, -1, 1]}, "positive and finite, got -1.0"),
        ({"costs": [1, np.nan, 1]}, "got nan for tree 1"),
        ({"costs": "cheap"}, "must be numbers"),
        ({"max_disagreement": 1.0}, r"in \[0, 1\)"),
        ({"max_disagreement": -0.1}, r"in \[0, 1\)"),
        ({"max_disagreement": None}, r"in \[0, 1\)"),
        ({"max_disagreement": True}, r"in \[0, 1\)"),
        ({"early_exit": "never"}, "'both', 'negative', 'positive'"),
        ({"budget_split": "half"}, "'joint', 'negative_first'"),
        ({"exit_points": [0, 1]}, "ascending integers from 1"),
        ({"exit_points": [1, 3]}, "ascending integers from 1"),
        ({"exit_points": [2, 1]}, "ascending integers from 1"),
        ({"exit_points": [0.5]}, "ascending integers from 1"),
    ],
)
def test_bad_arguments_are_named(change, words):
    arguments = {"max_disagreement": 0.1} | change
    with pytest.raises(InvalidArgumentError, match=words):
        qwyc(ScoreTable.of_scores(EXAMPLE), **arguments)


def test_only_two_classes_have_a_negative_side():
    table = ScoreTable.of_scores(np.zeros((4, 3, 3)))
    with pytest.raises(InvalidArgumentError, match="more than two classes"):
        qwyc(table, 0.0, early_exit="negative")


def test_no_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="no rows"):
        qwyc(ScoreTable.of_scores(np.empty((0, 3))), 0.0)


@pytest.mark.parametrize(
    ("scores", "settings", "words"),
    [
        ([[1.0, np.nan]], {}, "row 0 are NaN"),
        ([[0.0, 0.0], [np.inf, -np.inf]], {}, "row 1 are NaN or infinities"),
        (np.full((1, 2, 3), np.inf), {}, "not finite: see tree 0"),
        ([1.0, 2.0], {}, r"shape \(n_rows, n_trees\)"),
        (np.empty((2, 0)), {}, "at least one tree"),
        ([["a"]], {}, "must be numbers"),
        ([[1.0]], {"base": np.nan}, "base must be finite"),
        ([[1.0]], {"decisions": [0, 1]}, r"decisions must have shape \(1,\)"),
        (np.zeros((1, 2, 1)), {}, "at least two classes"),
        ([[1.0]], {"tree_output": [2], "n_classes": 2}, "tree_output must give"),
    ],
)
def test_bad_scores_are_named(scores, settings, words):
    with pytest.raises(InvalidArgumentError, match=words):
        ScoreTable.of_scores(scores, **settings)
