"""Cascades of plain functions: called lazily, and deciding as fitted."""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd
import pytest

from spinney.cascade import fit_cascade
from spinney.errors import InvalidArgumentError
from spinney.ordering import ScoreTable

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)


def scorers_of(weights):
    """Return scorers, and a list in which they note how many rows they were given."""
    calls = [0] * len(weights)

    def scorer(k):
        def score(X):
            calls[k] += len(X)
            return np.asarray(X)[:, k] * weights[k]

        return score

    return [scorer(k) for k in range(len(weights))], calls


WEIGHTS = np.array([3.0, 0.2, 1.0, 0.1, 2.0])


def rows(n_rows, seed):
    return np.random.default_rng(seed).normal(size=(n_rows, 5))


@pytest.mark.parametrize("rule", ["thresholds", "fan", "optimal"])
@pytest.mark.parametrize("order", ["qwyc", "natural", "random", [4, 3, 2, 1, 0]])
def test_scorers_are_called_for_undecided_rows_only(order, rule):
    cascade = fit_cascade(
        rows(3000, 0) * WEIGHTS, 0.02, beta=0.1, order=order, rule=rule, random_state=0
    )
    scorers, calls = scorers_of(WEIGHTS)
    X = rows(500, 1)
    decisions, n_asked = cascade.decide(scorers, X)
    table = ScoreTable.of_scores(X * WEIGHTS, beta=0.1)
    expected, counts = table.follow(cascade.rule)
    np.testing.assert_array_equal(n_asked, counts)
    assert np.count_nonzero(decisions != expected) == 0
    assert np.mean(decisions != table.decisions) < 0.06
    assert sum(calls) == n_asked.sum() < 5 * 500
    place = cascade.rule.order.tolist()
    assert [calls[k] for k in place] == [np.sum(n_asked > i) for i in range(5)]


def test_several_classes_and_data_frames_are_taken():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(5, 4, 3)) * np.array([4, 1, 1, 1])[None, :, None]

    def scores(X):
        return np.stack([np.asarray(X) @ parts[:, t] for t in range(4)], axis=1)

    cascade = fit_cascade(scores(rows(3000, 1)), 0.05, random_state=0)
    scorers = [lambda X, t=t: np.asarray(X) @ parts[:, t] for t in range(4)]
    X = pd.DataFrame(rows(400, 2))
    decisions, n_asked = cascade.decide(scorers, X)
    full = scores(X).sum(axis=1).argmax(axis=1)
    assert np.mean(decisions != full) < 0.12
    assert n_asked.mean() < 4


def test_labels_serve_the_orders_that_need_them():
    X = rows(2000, 0)
    y = (X @ WEIGHTS > 0).astype(int)
    cascade = fit_cascade(
        X * WEIGHTS / 10, 0.02, order="greedy_mse", y=y, random_state=0
    )
    assert cascade.rule.order[0] == 0
    with pytest.raises(InvalidArgumentError, match="needs labels"):
        fit_cascade(X, 0.02, order="greedy_mse")


def test_no_rows_and_wrong_scorers():
    cascade = fit_cascade(rows(100, 0), 0.1, random_state=0)
    scorers, _ = scorers_of(WEIGHTS)
    decisions, n_asked = cascade.decide(scorers, np.empty((0, 5)))
    assert decisions.shape == n_asked.shape == (0,)
    with pytest.raises(InvalidArgumentError, match="fitted to 5 scorers, got 4"):
        cascade.decide(scorers[:4], rows(2, 0))
    with pytest.raises(InvalidArgumentError, match="must return one score for each"):
        cascade.decide([lambda X: np.zeros((len(X), 7))] * 5, rows(2, 0))
