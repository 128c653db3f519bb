"""How fast the minimum cut is, and how much memory it needs."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import spinney
from spinney.pruning.costs import purchases_for
from spinney.pruning.linear import solve_lp
from spinney.pruning.mincut import solve_mincut
from spinney.pruning.problem import NO_FLAGS, PruningProblem

pytest.importorskip("ortools")


@pytest.mark.benchmark
def test_the_minimum_cut_is_20_times_faster_than_the_linear_programme():
    X, y = make_classification(
        6_000, n_features=12, n_informative=8, flip_y=0.05, random_state=0
    )
    model = RandomForestClassifier(40, random_state=0).fit(X[:4_000], y[:4_000])
    forest = spinney.read_model(model)
    problem = PruningProblem(
        forest,
        forest.leaves(X[4_000:]),
        y[4_000:].astype(np.int64),
        np.ones(2_000, dtype=np.int64),
        NO_FLAGS,
        purchases_for(12, None, None, None),
    )
    splits = problem.splits()
    trade_off = Fraction(1, 200)
    ratio = problem.ratio(trade_off)
    seconds, objectives = [], []
    for solve in (solve_mincut, solve_lp):
        start = time.process_time()
        kept = solve(splits, ratio)
        seconds.append(time.process_time() - start)
        cost = problem.cost(splits.price_of(kept))
        objectives.append(problem.error(splits.gain_of(kept)) + trade_off * cost)
    assert abs(objectives[0] - objectives[1]) <= 1e-9
    assert seconds[1] >= 20 * seconds[0]
