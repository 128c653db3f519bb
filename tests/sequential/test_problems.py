"""What is to be solved: how many rows are left after each exit point."""

from __future__ import annotations

from itertools import combinations

import numba
import numpy as np
import pytest

from spinney.sequential.problems import HardVotesOfTwo

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)


def undecided_by_hand(strategy, weights, points):
    """Share of undecided rows, from all ways in which votes can come."""
    n_voters = strategy.n_voters
    shares = np.zeros(len(points))
    for n_positive, weight in enumerate(weights):
        ways = list(combinations(range(n_voters), n_positive))
        for way in ways:
            going = 1.0
            for k, step in enumerate(points):
                count = sum(voter < step for voter in way)
                going *= 1.0 - strategy.stop_probability(step, count)
                shares[k] += weight / weights.sum() * going / len(ways)
    return shares


@pytest.mark.parametrize("objective", ["minimean", "minimixed", "minimax"])
@pytest.mark.parametrize("points", [[], [1], [2, 3, 7], list(range(1, 9))])
def test_rows_are_left_as_often_as_all_orders_say(objective, points):
    weights = np.random.default_rng(0).random(10) ** 2
    problem = HardVotesOfTwo(weights, objective, np.arange(9), 1)
    points = np.array(points, dtype=np.int64)
    fitted = problem.solve(0.05, points, np.random.RandomState(0))
    by_hand = undecided_by_hand(fitted.strategy, weights, points.tolist())
    assert fitted.undecided == pytest.approx(by_hand, abs=1e-6)


def test_how_many_are_left_has_nothing_to_do_with_chance():
    problem = HardVotesOfTwo(np.ones(52), "minimax", np.arange(51), 1)
    assert len(problem.solve(0.1, problem.steps, np.random).strategy.fractional)
    first, second = (
        problem.solve(0.1, problem.steps, np.random.RandomState(seed)).undecided
        for seed in (0, 1)
    )
    assert np.array_equal(first, second)
    assert (np.diff(first) <= 1e-6).all()
