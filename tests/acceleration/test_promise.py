"""On new rows the mean disagreement keeps the bound: many splits of one pool of rows.

Rows of a pool that are drawn without replacement are exchangeable, and risk control
asks for no more. So the bound holds given the pool: each split is an independent draw,
whose expected disagreement on the rows it leaves is at most the bound, however much
splits overlap, and their mean is tested as a mean of independent numbers.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator

import spinney
from datasets import real
from spinney.cascade.greedy import fit_thresholds
from spinney.cascade.tables import table_of
from spinney.errors import SpinneyWarning
from spinney.ordering.qwyc import qwyc

# A mean above the bound is evidence only if it is as unlikely as this.
CHANCE = 1e-4


def cascade(rule, model, X, bound, seed):
    """Return what answers like a cascade, and the reference."""
    classifier = spinney.CascadeClassifier(
        FrozenEstimator(model), rule=rule, max_disagreement=bound, random_state=seed
    ).fit(X)
    return classifier.predict, classifier.predict_full


def votes(voting, model, X, bound, seed):
    """Return what answers by votes in random order, and the reference."""
    classifier = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), voting=voting, max_disagreement=bound, random_state=seed
    ).fit(X)
    return classifier.predict, classifier.predict_full


def accelerated(model, X, bound, seed):
    """Return what answers as `accelerate` has chosen, and the model itself."""
    fast = spinney.accelerate(model, X, max_disagreement=bound, random_state=seed)
    return fast.predict, model.predict


def fitted_to_rows(model, X, bound, seed):
    """Return a cascade that keeps the bound on the rows of the fit, and no other."""
    forest = spinney.read_model(model)
    table = table_of(forest, forest.engine.rows(X))
    rule = fit_thresholds(table, qwyc(table, bound).order, bound)

    def answer(rows):
        other = table_of(forest, forest.engine.rows(rows))
        return forest.classes_[other.follow(rule)[0]]

    return answer, forest.predict


APPROACHES = {
    "cascade, thresholds": ("boosted", lambda *given: cascade("thresholds", *given)),
    "cascade, optimal": ("boosted", lambda *given: cascade("optimal", *given)),
    "cascade, fan": ("boosted", lambda *given: cascade("fan", *given)),
    "hard votes": ("forest", lambda *given: votes("hard", *given)),
    "soft votes": ("forest", lambda *given: votes("soft", *given)),
    "accelerate a forest": ("forest", accelerated),
    "accelerate boosting": ("boosted", accelerated),
}


def held_out(fit, model, pool, n_rows, bound, n_splits):
    """Return the disagreement on the rows of the pool that a split leaves, for each."""
    shares = []
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(pool))
        given, new = pool[order[:n_rows]], pool[order[n_rows:]]
        with warnings.catch_warnings():
            # A class that loses rows is no matter here.
            warnings.simplefilter("ignore", SpinneyWarning)
            answer, reference = fit(model, given, bound, seed)
        shares.append(np.mean(answer(new) != reference(new)))
    return np.array(shares)


def chance_of_such_a_mean(shares, bound):
    """Return how likely splits that keep the bound have a mean as large as this."""
    if np.ptp(shares) == 0.0:
        return float(shares[0] <= bound)
    return float(ttest_1samp(shares, bound, alternative="greater").pvalue)


# ------------------------------------------------------------------ always


@pytest.fixture(scope="module")
def made_up():
    """Return models that are often in doubt, and rows they were not trained on."""
    X, y = make_classification(
        9000, n_features=12, n_informative=6, flip_y=0.15, random_state=3
    )
    X = X.astype(np.float32)
    models = {
        "boosted": GradientBoostingClassifier(n_estimators=60, random_state=0),
        "forest": RandomForestClassifier(21, min_samples_leaf=3, random_state=0),
    }
    fitted = {kind: model.fit(X[:1000], y[:1000]) for kind, model in models.items()}
    return fitted, X[1000:]


@pytest.mark.parametrize("approach", APPROACHES)
def test_the_mean_over_some_splits_keeps_the_bound(made_up, approach):
    models, pool = made_up
    kind, fit = APPROACHES[approach]
    shares = held_out(fit, models[kind], pool, 1000, 0.02, 6)
    assert shares.max() > 0.0
    assert chance_of_such_a_mean(shares, 0.02) > CHANCE


def test_as_many_splits_convict_a_fit_to_the_rows(made_up):
    models, pool = made_up
    shares = held_out(fitted_to_rows, models["boosted"], pool, 1000, 0.02, 6)
    assert chance_of_such_a_mean(shares, 0.02) < CHANCE


# ------------------------------------------------------------------ at length


@pytest.fixture(scope="module", params=["adult", "magic", "covertype"])
def measured(request):
    """Return models of a real set, and rows they were not trained on."""
    X, y = real(request.param, 19_000)
    X = X.astype(np.float32)
    models = {
        "boosted": HistGradientBoostingClassifier(
            max_iter=30 if request.param == "covertype" else 150,
            early_stopping=False,
            random_state=0,
        ),
        "forest": RandomForestClassifier(101, min_samples_leaf=3, random_state=0),
    }
    fitted = {kind: model.fit(X[:5000], y[:5000]) for kind, model in models.items()}
    return fitted, X[5000:]


@pytest.mark.guarantee
@pytest.mark.parametrize("approach", APPROACHES)
def test_the_mean_over_many_splits_keeps_the_bound(measured, approach):
    models, pool = measured
    kind, fit = APPROACHES[approach]
    if approach == "cascade, fan" and len(models[kind].classes_) > 2:
        pytest.skip("the rule of Fan et al. is for two classes")
    shares = held_out(fit, models[kind], pool, 4000, 0.005, 40)
    chance = chance_of_such_a_mean(shares, 0.005)
    print(f"{approach}: {shares.mean() / 0.005:.2f} times the bound, {chance:.2g}")
    assert chance > CHANCE
