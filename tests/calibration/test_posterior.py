"""Logistic curves: against scikit-learn, and where there is nothing to fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from spinney.calibration.posterior import SHRINKAGE, logistic_curve


@given(
    seed=st.integers(0, 2**32 - 1),
    shift=st.floats(-50, 50),
    scale=st.floats(0.01, 100),
    slope=st.floats(-3, 3),
)
def test_the_curve_is_that_of_scikit_learn(seed, shift, scale, slope):
    rng = np.random.default_rng(seed)
    scaled = rng.normal(size=300)
    happened = rng.random(300) < expit(0.3 + slope * scaled)
    values = shift + scale * scaled
    intercept, found = logistic_curve(values, happened)
    centred = (values - values.mean()) / values.std()
    twin = LogisticRegression(C=1 / SHRINKAGE, tol=1e-10).fit(
        centred[:, None], happened
    )
    ours = intercept + found * values
    # scikit-learn leaves the intercept alone; with 300 rows that is no difference.
    np.testing.assert_allclose(
        ours, twin.decision_function(centred[:, None]), atol=1e-3, rtol=1e-3
    )


def test_events_that_are_parted_by_their_values_give_a_steep_but_finite_curve():
    values = np.linspace(-1, 1, 200)
    intercept, slope = logistic_curve(values, values > 0)
    assert 5 < slope < 1e4
    assert abs(intercept) < 1.0


@pytest.mark.parametrize("n_wrong", [0, 1, 3, 10])
@pytest.mark.parametrize("seed", range(5))
def test_rare_events_that_values_all_but_part_are_fitted_to_the_end(seed, n_wrong):
    # Partial scores near the end of a cascade: whole Newton steps went astray here,
    # and left the curve somewhere among the rows that never have the event.
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(-4, 1, 1880), rng.normal(0, 1.5, 120)])
    happened = values > 0.3
    near = np.argsort(np.abs(values - 0.3))[: 4 * n_wrong]
    wrong = rng.permutation(near)[:n_wrong]
    happened[wrong] = ~happened[wrong]
    intercept, slope = logistic_curve(values, happened)
    centre, spread = values.mean(), values.std()

    def loss(weights):
        odds = weights[0] + weights[1] * (values - centre) / spread
        ridge = 0.5 * SHRINKAGE * np.dot(weights, weights)
        return np.logaddexp(0, np.where(happened, -odds, odds)).sum() + ridge

    found = np.array([intercept + slope * centre, slope * spread])
    best = minimize(loss, np.array([-3.0, 3.0]), method="Nelder-Mead", tol=1e-10)
    assert loss(found) <= best.fun * (1 + 1e-9) + 1e-9
    assert -intercept / slope == pytest.approx(0.3, abs=0.3)


@pytest.mark.parametrize("happened", [True, False])
def test_an_event_that_always_happens_has_no_slope_to_speak_of(happened):
    values = np.random.default_rng(0).normal(size=100)
    intercept, slope = logistic_curve(values, np.full(100, happened))
    assert abs(slope) < 1.0
    assert (intercept > 3) == happened


def test_values_that_are_all_the_same_tell_nothing():
    intercept, slope = logistic_curve(np.full(8, 3.0), np.arange(8) < 2)
    assert slope == 0.0
    assert expit(intercept) == pytest.approx(0.25, abs=0.01)


def test_infinite_values_are_left_out():
    rng = np.random.default_rng(1)
    values = rng.normal(size=100)
    happened = rng.random(100) < expit(values)
    more = np.append(values, [np.inf, -np.inf, np.nan])
    also = np.append(happened, [True, False, True])
    assert logistic_curve(more, also) == logistic_curve(values, happened)
    assert logistic_curve(np.full(3, np.inf), np.ones(3, bool)) == (0.0, 0.0)
