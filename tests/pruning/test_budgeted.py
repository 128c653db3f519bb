"""BudgetedForestClassifier: what it buys, what it answers, what it refuses."""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import check_random_state

import datasets
import reference
from spinney.base.estimator import held_out_split
from spinney.errors import InvalidArgumentError, SpinneyWarning
from spinney.pruning.budgeted import BudgetedForestClassifier

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)


@pytest.fixture(scope="module")
def cancer():
    X, y = datasets.bundled("breast_cancer")
    return train_test_split(X, np.array(["bad", "good"])[y], random_state=0)


@pytest.fixture(scope="module")
def model(cancer):
    X, _, y, _ = cancer
    costs = np.linspace(0.5, 3.0, X.shape[1])
    return BudgetedForestClassifier(
        feature_costs=costs, budget=15.0, random_state=0
    ).fit(X, y)


def slow_cost(model, X):
    """Cost of the features on the paths of each row, node by node."""
    forest = model.forest_
    rows = reference.rounded_rows(forest, X)
    costs = []
    for row in rows:
        used = set()
        for node in forest.tree_offsets[:-1]:
            while forest.feature[node] >= 0:
                feature = int(forest.feature[node])
                used.add(feature)
                left = reference.goes_left(forest, node, float(row[feature]))
                node = forest.left[node] if left else forest.right[node]
        costs.append(sum(model.feature_costs_[feature] for feature in used))
    return np.array(costs)


def test_answers_are_the_mean_shares_at_the_leaves(model, cancer):
    X = cancer[1]
    shares = reference.scores(model.forest_, reference.rounded_rows(model.forest_, X))
    mean = shares.mean(axis=1)
    np.testing.assert_allclose(model.predict_proba(X), mean, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(X), model.classes_[mean.argmax(axis=1)])


def test_cost_counts_each_feature_of_a_row_once(model, cancer):
    X = cancer[1]
    np.testing.assert_allclose(model.feature_cost(X), slow_cost(model, X), rtol=1e-13)


def test_no_rows_have_no_answers(model, cancer):
    nothing = cancer[1][:0]
    assert model.feature_cost(nothing).shape == model.predict(nothing).shape == (0,)
    assert model.predict_proba(nothing).shape == (0, 2)


@pytest.mark.parametrize("budget", [4.0, 9.0, 1000.0])
@pytest.mark.parametrize("seed", range(3))
def test_budget_is_kept_on_the_rows_kept_back(cancer, budget, seed):
    X, _, y, _ = cancer
    model = BudgetedForestClassifier(
        budget=budget, impurity_threshold=2, max_trees=25, random_state=seed
    ).fit(X, y)
    kept_back = X[held_out_split(y, check_random_state(seed))[1]]
    n_trees = model.forest_.n_trees
    mean_cost = model.feature_cost(kept_back).mean()
    assert mean_cost == model.mean_costs_[n_trees - 1]
    assert mean_cost <= budget
    if n_trees < 25:
        assert len(model.mean_costs_) == n_trees + 1
        assert model.mean_costs_[-1] > budget
    assert (n_trees == 25) == (budget == 1000.0)
    assert (np.diff(model.mean_costs_) >= 0).all()


def test_without_a_budget_all_trees_are_grown_on_all_rows(cancer):
    X, _, y, _ = cancer
    model = BudgetedForestClassifier(max_trees=7, random_state=0).fit(X, y)
    assert model.forest_.n_trees == 7
    roots = model.forest_.tree_offsets[:-1]
    assert (model.forest_.n_node_samples[roots] == len(X)).all()
    assert model.mean_costs_.shape == (0,)


def test_budget_below_the_first_tree_buys_nothing_and_warns(cancer):
    X, X_test, y, _ = cancer
    model = BudgetedForestClassifier(budget=1.0, random_state=0)
    with pytest.warns(SpinneyWarning, match=r"A single tree costs 3\.\d+ per row"):
        model.fit(X, y)
    assert model.forest_.n_nodes == 1
    assert set(model.predict(X_test)) == {"good"}
    assert (model.feature_cost(X_test) == 0).all()
    assert len(model.mean_costs_) == 1


def test_no_budget_at_all_is_enough_for_free_features(cancer):
    X, X_test, y, y_test = cancer
    costs = {0: 0.0} | dict.fromkeys(range(1, X.shape[1]), 100.0)
    model = BudgetedForestClassifier(
        feature_costs=costs, budget=0.0, impurity_threshold=15, random_state=0
    ).fit(X, y)
    assert (model.feature_cost(X_test) == 0).all()
    assert model.score(X_test, y_test) > 0.75


def test_cheap_features_are_bought_first(cancer):
    X, X_test, y, y_test = cancer
    twice = np.hstack([X, X])  # every feature is for sale at two prices
    n = X.shape[1]
    for costs in (np.repeat([1.0, 5.0], n), np.repeat([5.0, 1.0], n)):
        model = BudgetedForestClassifier(feature_costs=costs, random_state=0)
        model.fit(twice, y)
        used = np.unique(model.forest_.feature[model.forest_.feature >= 0])
        assert (costs[used] == 1.0).all()
        assert model.score(np.hstack([X_test, X_test]), y_test) > 0.85


def test_dear_features_are_avoided(cancer):
    X, _, y, _ = cancer
    equal = BudgetedForestClassifier(random_state=0).fit(X, y)
    favourites = np.bincount(equal.forest_.feature[equal.forest_.feature >= 0])
    dear = int(favourites.argmax())
    unequal = BudgetedForestClassifier(feature_costs={dear: 50.0}, random_state=0)
    unequal.fit(X, y)
    n_before = (equal.forest_.feature == dear).sum()
    assert (unequal.forest_.feature == dear).sum() < n_before / 5
    assert unequal.feature_costs_.tolist().count(1.0) == X.shape[1] - 1


def test_costs_can_be_given_by_name(cancer):
    X, _, y, _ = cancer
    frame = pd.DataFrame(X[:, :4], columns=["age", "iron", "pulse", "scan"])
    model = BudgetedForestClassifier(
        feature_costs={"scan": 40.0, "age": 0.0}, random_state=0
    ).fit(frame, y)
    assert model.feature_costs_.tolist() == [0.0, 1.0, 1.0, 40.0]
    assert model.forest_.feature_names == ("age", "iron", "pulse", "scan")
    by_number = clone(model).set_params(feature_costs=[0.0, 1.0, 1.0, 40.0])
    np.testing.assert_array_equal(
        by_number.fit(X[:, :4], y).predict_proba(X[:, :4]), model.predict_proba(frame)
    )


def test_many_classes_are_told_apart():
    X, y = datasets.bundled("digits")
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    model = BudgetedForestClassifier(max_trees=12, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.9
    assert model.feature_cost(X_test).mean() < X.shape[1] * 0.9


def test_same_seed_gives_the_same_forest_on_any_number_of_threads(cancer):
    X, _, y, _ = cancer
    one, two, other = (
        BudgetedForestClassifier(budget=9.0, random_state=seed, n_jobs=n_jobs)
        .fit(X, y)
        .forest_
        for seed, n_jobs in ((0, None), (0, 2), (1, None))
    )
    assert np.array_equal(one.threshold, two.threshold)
    assert np.array_equal(one.value, two.value)
    assert not np.array_equal(one.threshold, other.threshold)


def test_features_on_demand_cost_what_was_promised(model, cancer):
    X = cancer[1]
    bought = np.zeros(X.shape, dtype=int)

    def fetch(feature, rows):
        bought[rows, feature] += 1
        return X[rows, feature]

    found = model.predict_lazily(fetch, len(X))
    np.testing.assert_array_equal(found.labels, model.predict(X))
    np.testing.assert_array_equal(found.probabilities, model.predict_proba(X))
    np.testing.assert_array_equal(found.cost, model.feature_cost(X))
    np.testing.assert_array_equal(found.bought, bought)
    assert found.n_calls < 5 * X.shape[1]


@pytest.mark.parametrize("strange", [np.nan, np.inf, 1e300])
def test_values_that_were_not_in_training_are_refused_on_demand_too(model, strange):
    with pytest.raises(ValueError, match=r"none of them NaN or infinite, got .* row 0"):
        model.predict_lazily(lambda feature, rows: np.full(len(rows), strange), 3)


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_values_are_refused(model, cancer, strange):
    X, _, y, _ = cancer
    wrong = X.copy()
    wrong[3, 2] = strange
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        clone(model).fit(wrong, y)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.predict(wrong)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.feature_cost(wrong)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"budget": -1.0}, "budget must be a number of at least 0"),
        ({"budget": np.nan}, "budget must be a number of at least 0"),
        ({"budget": "much"}, "budget must be a number of at least 0, .* got 'much'"),
        ({"budget": True}, "budget must be a number of at least 0"),
        ({"impurity_threshold": -1}, "impurity_threshold must be an integer of at"),
        ({"impurity_threshold": 0.5}, "impurity_threshold must be an integer of at"),
        ({"max_trees": 0}, "max_trees must be an integer of at least 1, got 0"),
        ({"max_trees": True}, "max_trees must be an integer of at least 1"),
        ({"feature_costs": [1.0, 2.0]}, r"feature_costs must have shape \(30,\)"),
        ({"feature_costs": {"age": 1.0}}, "there is no such column"),
        ({"feature_costs": {3: -1.0}}, "feature_costs must not be negative"),
        ({"feature_costs": {3: np.nan}}, "feature_costs must not be negative"),
    ],
)
def test_wrong_parameters_are_named(cancer, parameters, complaint):
    X, _, y, _ = cancer
    with pytest.raises(InvalidArgumentError, match=complaint):
        BudgetedForestClassifier(**parameters).fit(X, y)


def test_infinite_budget_is_no_limit(cancer):
    X, _, y, _ = cancer
    model = BudgetedForestClassifier(budget=np.inf, max_trees=3, random_state=0)
    assert model.fit(X, y).forest_.n_trees == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cost", "error"),
    # Table 1 of the pruning paper: 90 trees before pruning, in ten folds.
    [("sonar", 49.97, 0.154), ("heart_statlog", 12.17, 0.172)],
)
def test_cost_and_error_are_near_those_published(name, cost, error):
    X, y = datasets.real(name)
    costs, errors = [], []
    for train, test in KFold(10, shuffle=True, random_state=0).split(X):
        model = BudgetedForestClassifier(max_trees=90, random_state=0)
        model.fit(X[train], y[train])
        costs.append(model.feature_cost(X[test]).mean())
        errors.append(1 - model.score(X[test], y[test]))
    assert np.mean(costs) == pytest.approx(cost, rel=0.04)
    # The published errors have a spread of 0.064 and 0.076 over the folds.
    assert np.mean(errors) == pytest.approx(error, abs=0.05)
