"""Strategies to compare with."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from benchmarks.papers.sequential_baselines import certain_only, full_vote, schwing
from scipy.stats import binom

import spinney

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)


@pytest.mark.parametrize("n_voters", [1, 2, 7])
def test_full_vote_asks_everybody_and_never_disagrees(n_voters):
    strategy = full_vote(n_voters)
    votes, wrong = strategy.profile()
    assert votes == pytest.approx(np.full(n_voters + 1, n_voters))
    assert (wrong == 0.0).all()
    assert strategy.expected_votes == pytest.approx(n_voters)
    assert strategy.max_disagreement == 0.0


@pytest.mark.parametrize("n_voters", [1, 2, 7, 10])
def test_certain_only_is_the_best_that_never_disagrees(n_voters):
    strategy = certain_only(n_voters)
    best = spinney.optimal_strategy(n_voters, 0.0, min_votes=0)
    assert strategy.theta.tolist() == best.theta.tolist()
    assert strategy.expected_votes == pytest.approx(best.expected_votes)
    assert strategy.max_disagreement == 0.0


@pytest.mark.parametrize("tail", [0.001, 0.05, 0.3])
def test_schwing_stops_by_the_posterior_under_independence(tail):
    strategy = schwing(12, tail)
    for i in range(12):
        for j in range(i + 1):
            positive = binom.cdf(j, i + 1, 0.5)
            stop = positive < tail or positive > 1.0 - tail
            assert strategy.theta[i, j] == stop, (i, j)


def test_schwing_does_not_keep_the_disagreement_below_its_tail():
    _, wrong = schwing(101, 0.01).profile()
    assert wrong[50] == pytest.approx(0.0305, abs=5e-5)


@pytest.mark.skipif(WITHOUT_JIT, reason="takes too long in plain Python")
def test_schwing_works_where_factorials_overflow():
    strategy = schwing(1001, 0.01)
    assert (np.diff(strategy.upper[:-1]) >= 0).all()
    assert strategy.upper[999] == 537  # from scipy.stats.binom.isf(0.01, 1000, 0.5)
    assert 0.01 < strategy.max_disagreement < 0.5


def test_schwing_with_an_empty_tail_is_the_full_vote():
    assert schwing(9, 0.0).theta.tolist() == full_vote(9).theta.tolist()


def test_expected_votes_are_averaged_over_the_given_votes():
    votes = [1, 0, 0, 3]
    expected = certain_only(3).profile()[0] @ votes / 4
    assert certain_only(3, votes=votes).expected_votes == pytest.approx(expected)


@pytest.mark.parametrize("tail", [-0.1, 0.6, "0.1", True, float("nan")])
def test_a_bad_tail_is_refused(tail):
    with pytest.raises(ValueError, match=r"tail must be a number from 0 to 0.5"):
        schwing(5, tail)


@pytest.mark.parametrize("baseline", [full_vote, certain_only])
def test_bad_sizes_are_refused(baseline):
    with pytest.raises(ValueError, match="n_voters must be an integer of at least 1"):
        baseline(0)
