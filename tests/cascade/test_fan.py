"""Fan et al.'s rule: against a slow twin with a dictionary of bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.cascade.fan import fit_fan
from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import allowed_errors


def slow_bins(scores, order, width):
    """Return {(step, bin): differences of partial and full score}."""
    bins = {}
    for row in scores:
        partial = 0.0
        for step, tree in enumerate(order, start=1):
            partial += row[tree]
            bins.setdefault((step, math.floor(partial / width)), []).append(
                partial - row.sum()
            )
    return bins


def slow_follow(scores, order, width, gamma, beta, bins, min_count, early_exit):
    """Return (decision, trees evaluated) of each row, with a look-up for each step."""
    answers = []
    for row in scores:
        partial, answer = 0.0, None
        for step, tree in enumerate(order[:-1], start=1):
            partial += row[tree]
            seen = bins.get((step, math.floor(partial / width)), [])
            if len(seen) < min_count:
                break
            mean, deviation = np.mean(seen), np.std(seen)
            if early_exit != "negative" and partial > beta + mean + gamma * deviation:
                answer = 1, step
                break
            if early_exit != "positive" and partial < beta + mean - gamma * deviation:
                answer = 0, step
                break
        answers.append(answer or (int(row.sum() >= beta), len(order)))
    return answers


@settings(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.sampled_from(["both", "negative", "positive"]),
)
def test_decisions_are_those_of_the_slow_twin(seed, min_count, early_exit):
    rng = np.random.default_rng(seed)
    # Sums and means of these are exact, so that nothing hangs on a last bit.
    scores = rng.integers(-8, 9, size=(16, 4)) / 8
    new = rng.integers(-8, 9, size=(16, 4)) / 8
    order = rng.permutation(4)
    beta, width, gamma = 0.125, 0.5, float(rng.choice([0.0, 0.7, 1.3]))
    table = ScoreTable.of_scores(scores, beta=beta)
    policy = fit_fan(
        table,
        order,
        gamma=gamma,
        bin_width=width,
        min_count=min_count,
        early_exit=early_exit,
    )
    bins = slow_bins(scores, order, width)
    for rows in (scores, new):
        decisions, n_asked = ScoreTable.of_scores(rows, beta=beta).follow(policy)
        expected = slow_follow(
            rows, order, width, gamma, beta, bins, min_count, early_exit
        )
        close = near_a_border(rows, order, width, gamma, beta, bins)
        found = list(zip(decisions.tolist(), n_asked.tolist(), strict=True))
        assert [a for a, skip in zip(found, close, strict=True) if not skip] == [
            a for a, skip in zip(expected, close, strict=True) if not skip
        ]


def near_a_border(scores, order, width, gamma, beta, bins):
    """Return rows that come within rounding of a border, where floats decide."""
    close = []
    for row in scores:
        partial, near = 0.0, False
        for step, tree in enumerate(order[:-1], start=1):
            partial += row[tree]
            seen = bins.get((step, math.floor(partial / width)), [0.0])
            for side in (-1, 1):
                border = beta + np.mean(seen) + side * gamma * np.std(seen)
                near |= abs(partial - border) < 1e-9
        close.append(near)
    return close


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.5))
def test_gamma_is_about_the_smallest_that_keeps_the_bound(seed, bound):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(80, 1)) + rng.normal(size=(80, 6))
    table = ScoreTable.of_scores(scores)
    policy = fit_fan(table, np.arange(6), bound, bin_width=2.0)
    allowed = allowed_errors(bound, 80)

    def n_wrong(gamma):
        rule = fit_fan(table, np.arange(6), gamma=gamma, bin_width=2.0)
        decisions, _ = table.follow(rule)
        return np.count_nonzero(decisions != table.decisions)

    assert n_wrong(policy.bins.gamma) <= allowed
    if policy.bins.gamma > 0:
        assert n_wrong(0.998 * policy.bins.gamma) > allowed


def test_a_row_in_an_unknown_bin_is_asked_to_the_end():
    table = ScoreTable.of_scores([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]])
    policy = fit_fan(table, [0, 1, 2], gamma=0.0, bin_width=0.5)
    assert table.follow(policy)[1].tolist() == [1, 1]
    new = ScoreTable.of_scores([[9.0, -8.0, 1.0]])
    assert new.follow(policy)[1].tolist() == [3]


def test_bins_can_be_left_to_their_default_width():
    rng = np.random.default_rng(0)
    table = ScoreTable.of_scores(rng.normal(size=(500, 1)) + rng.normal(size=(500, 20)))
    policy = fit_fan(table, np.arange(20), 0.02)
    full = table.full_scores()
    assert policy.bins.width == pytest.approx(0.01 * np.ptp(full))
    assert table.follow(policy)[1].mean() < 20
    constant = ScoreTable.of_scores(np.ones((3, 2)))
    assert constant.follow(fit_fan(constant, [0, 1], 0.0))[1].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "either max_disagreement or gamma"),
        ({"max_disagreement": 0.1, "gamma": 1.0}, "either max_disagreement or gamma"),
        ({"gamma": -1.0}, "gamma must not be negative"),
        ({"gamma": np.nan}, "gamma must not be negative"),
        ({"gamma": 1.0, "bin_width": 0.0}, "bin_width must be a positive"),
        ({"gamma": 1.0, "bin_width": 1e-12}, "Pass a larger one"),
        ({"gamma": 1.0, "min_count": 0}, "min_count must be an integer"),
        ({"gamma": 1.0, "early_exit": "no"}, "early_exit must be one of"),
    ],
)
def test_bad_arguments_are_named(parameters, words):
    table = ScoreTable.of_scores([[1.0, 1.0], [-1.0, -1.0]])
    with pytest.raises(InvalidArgumentError, match=words):
        fit_fan(table, [0, 1], **parameters)


def test_it_is_for_two_classes_and_finite_scores():
    with pytest.raises(InvalidArgumentError, match="for two classes"):
        fit_fan(ScoreTable.of_scores(np.zeros((2, 2, 3))), [0, 1], 0.1)
    with pytest.raises(InvalidArgumentError, match="finite scores"):
        fit_fan(ScoreTable.of_scores([[np.inf, 1.0]]), [0, 1], 0.1)
