"""Greedy thresholds along a given order: against the slow twin, and special cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordering.exits_reference import best_margin_stops, decided_by, slow_thresholds
from spinney.cascade.greedy import fit_thresholds
from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import allowed_errors, qwyc

KINDS = st.sampled_from(
    [
        ("both", "joint"),
        ("both", "negative_first"),
        ("negative", "joint"),
        ("positive", "joint"),
    ]
)


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), KINDS, st.booleans())
def test_decisions_are_those_of_the_slow_twin(seed, budget, kind, restrict):
    rng = np.random.default_rng(seed)
    n_rows, n_trees = rng.integers(1, [16, 7])
    scores = rng.integers(-5, 6, size=(n_rows, n_trees)) / 4
    budget = min(budget, n_rows - 1)
    order = rng.permutation(n_trees)
    steps = [step for step in range(1, n_trees) if rng.random() < 0.7]
    table = ScoreTable.of_scores(scores, beta=0.25, base=0.5)
    policy = fit_thresholds(
        table,
        order,
        budget / n_rows,
        early_exit=kind[0],
        budget_split=kind[1],
        restrict_to_beta=restrict,
        exit_points=steps,
    )
    expected = slow_thresholds(
        scores,
        order,
        0.25,
        budget,
        checks=steps,
        base=0.5,
        early_exit=kind[0],
        split=kind[1],
        within=0.25 if restrict else None,
    )
    assert decided_by(policy, table) == expected
    assert policy.exit_points.tolist() == steps


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.5), KINDS)
def test_thresholds_of_the_joint_order_are_found_again(seed, bound, kind):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-9, 10, size=(20, 6)) / 8
    table = ScoreTable.of_scores(scores)
    settings = {"early_exit": kind[0], "budget_split": kind[1]}
    joint = qwyc(table, bound, **settings)
    policy = fit_thresholds(table, joint.order, bound, **settings)
    np.testing.assert_array_equal(policy.lower, joint.lower)
    np.testing.assert_array_equal(policy.upper, joint.upper)


@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_margins_decide_as_the_slow_twin_does(seed, budget):
    rng = np.random.default_rng(seed)
    n_rows, n_trees, n_classes = rng.integers([1, 1, 2], [16, 7, 5])
    scores = rng.integers(-5, 6, size=(n_rows, n_trees, n_classes)) / 4
    budget = min(budget, n_rows - 1)
    order = rng.permutation(n_trees)
    table = ScoreTable.of_scores(scores)
    policy = fit_thresholds(table, order, budget / n_rows)
    decisions, n_asked = table.follow(policy)
    undecided = np.arange(n_rows)
    partial = np.zeros((n_rows, n_classes))
    for step, tree in enumerate(order[:-1], start=1):
        partial += scores[:, tree]
        stops = best_margin_stops(
            partial[undecided], table.decisions[undecided], budget
        )
        np.testing.assert_array_equal(n_asked[undecided] == step, stops)
        winner = partial[undecided].argmax(axis=1)
        np.testing.assert_array_equal(decisions[undecided[stops]], winner[stops])
        budget -= int(np.sum(winner[stops] != table.decisions[undecided[stops]]))
        undecided = undecided[~stops]
    assert np.all(n_asked[undecided] == n_trees)


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.9))
def test_calibration_rows_never_disagree_more_often_than_allowed(seed, bound):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(1, 4))
    shape = (30, 8) if n_classes == 1 else (30, 8, n_classes)
    table = ScoreTable.of_scores(rng.normal(size=shape).round(1))
    decisions, _ = table.follow(fit_thresholds(table, np.arange(8), bound))
    n_wrong = np.count_nonzero(decisions != table.decisions)
    assert n_wrong <= allowed_errors(bound, 30)


def test_nothing_is_decided_between_the_check_steps():
    rng = np.random.default_rng(0)
    table = ScoreTable.of_scores(rng.normal(size=(200, 20)))
    policy = fit_thresholds(table, np.arange(20), 0.1, exit_points=[5, 11])
    assert set(table.follow(policy)[1].tolist()) == {5, 11, 20}


def test_without_check_steps_all_trees_are_asked():
    table = ScoreTable.of_scores([[1.0, 1.0], [-1.0, -1.0]])
    policy = fit_thresholds(table, [1, 0], 0.5, exit_points=[])
    assert table.follow(policy)[1].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([0, 1], "got 2 numbers"),
        ([0, 1, 1], "names tree 1 more than once"),
        ([0, 1, 3], "names tree 3, which there is not"),
        ([0, 1, -1], "names tree -1"),
        ([0.0, 1.0, 2.0], "array of integers"),
        ([[0, 1, 2]], "one-dimensional"),
    ],
)
def test_an_order_that_is_no_permutation_is_refused(order, words):
    table = ScoreTable.of_scores(np.zeros((2, 3)))
    with pytest.raises(InvalidArgumentError, match=words):
        fit_thresholds(table, order, 0.1)
