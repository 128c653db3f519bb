"""FeatureCostPruner: what users meet."""

from __future__ import annotations

import builtins
import pickle

import numba
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import datasets
import spinney
from spinney import read_model
from spinney.base.progress import TextBar
from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.pruning import FeatureCostPruner
from spinney.pruning.frontier import spread_over_costs

pytest.importorskip("ortools")


@parametrize_with_checks(
    [
        FeatureCostPruner(DecisionTreeClassifier(random_state=0), trade_off=0.001),
        FeatureCostPruner(
            RandomForestClassifier(
                3, bootstrap=False, max_features=None, random_state=0
            ),
            budget=3.0,
            complete=True,
        ),
    ]
)
@pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    """A forest, and rows that it has not seen."""
    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(15, random_state=0).fit(X[:300], y[:300])
    return model, X[300:], y[300:]


def fitted(cancer, **parameters):
    model, X, y = cancer
    return FeatureCostPruner(FrozenEstimator(model), **parameters).fit(X, y)


def test_what_is_reported_is_what_the_pruned_forest_does(cancer):
    _, X, y = cancer
    pruner = fitted(cancer, trade_off=0.002)
    assert pruner.score(X, y) == 1 - pruner.point_.ensemble_error
    assert pruner.feature_cost(X).mean() == pytest.approx(pruner.point_.cost)
    votes = pruner.forest_.votes(X)
    wrong = pruner.classes_[votes] != y[:, None]
    assert wrong.mean() == pytest.approx(pruner.point_.error)
    assert pruner.forest_.n_nodes == pruner.point_.n_nodes
    probabilities = pruner.predict_proba(X)
    winners = pruner.classes_[probabilities.argmax(axis=1)]
    assert np.array_equal(winners, pruner.predict(X))


def test_every_point_of_the_frontier_is_what_its_forest_does(cancer):
    _, X, y = cancer
    pruner = fitted(cancer, budget=5.0)
    frontier = pruner.frontier_
    assert len(frontier) > 5
    assert (np.diff(frontier.trade_off) > 0).all()
    assert (np.diff(frontier.cost) < 0).all()
    assert (np.diff(frontier.error) > 0).all()
    assert frontier.trade_off[0] == 0
    assert frontier.cost[-1] == 0
    for index in (0, len(frontier) // 2, -1):
        forest = pruner.forest_at(index)
        assert forest.n_nodes == frontier[index].n_nodes
        error = np.mean(forest.predict(X) != y)
        assert error == pytest.approx(frontier[index].ensemble_error)


def test_a_trade_off_or_a_cost_from_the_table_gives_its_point(cancer):
    frontier = fitted(cancer, trade_off=0.0).frontier_
    for index in range(0, len(frontier), 3):
        by_trade_off = fitted(cancer, trade_off=frontier.trade_off[index])
        assert by_trade_off.point_ == frontier[index]
        by_budget = fitted(cancer, budget=frontier.cost[index])
        assert by_budget.point_ == frontier[index]
        assert by_budget.gap_ == 0.0


@pytest.mark.parametrize("solver", ["lp", "dantzig_wolfe"])
def test_solvers_draw_the_same_frontier(cancer, solver):
    _, X, y = cancer
    small = FrozenEstimator(RandomForestClassifier(4, random_state=0).fit(X, y))
    first = FeatureCostPruner(small, budget=2.0).fit(X[::3], y[::3])
    other = clone(first).set_params(solver=solver).fit(X[::3], y[::3])
    assert first.frontier_.breakpoints == other.frontier_.breakpoints
    assert np.array_equal(first.frontier_.cost, other.frontier_.cost)
    assert np.array_equal(first.frontier_.error, other.frontier_.error)


def test_a_budget_is_kept_and_filling_it_up_lowers_the_error(cancer):
    _, X, _ = cancer
    budget = 5.5
    supported = fitted(cancer, budget=budget)
    filled = fitted(cancer, budget=budget, complete=True)
    for pruner in (supported, filled):
        assert pruner.point_.cost <= budget
        assert pruner.feature_cost(X).mean() <= budget * (1 + 1e-12)
    assert filled.point_.error < supported.point_.error
    assert 0.0 <= filled.gap_ < 0.01


def test_costs_decide_which_features_are_bought(cancer):
    _, X, _ = cancer
    used = fitted(cancer, trade_off=1e-6).features_used(X).mean(axis=0)
    favourite = int(used.argmax())
    costs = {favourite: 1000.0}
    pruner = fitted(cancer, feature_costs=costs, budget=20.0, complete=True)
    assert pruner.features_used(X)[:, favourite].mean() <= 0.02
    free = fitted(cancer, feature_costs=np.zeros(30), budget=0.0)
    assert free.point_.error == fitted(cancer, trade_off=0.0).point_.error
    assert free.feature_cost(X).sum() == 0.0


def test_columns_bought_together_are_paid_once(cancer):
    _, X, _ = cancer
    groups = {"means": list(range(10)), "errors": list(range(10, 20))}
    costs = {"means": 5.0, "errors": 2.0}
    pruner = fitted(cancer, trade_off=1e-3, feature_groups=groups, feature_costs=costs)
    used = pruner.features_used(X)
    expected = (
        5.0 * used[:, :10].any(axis=1)
        + 2.0 * used[:, 10:20].any(axis=1)
        + used[:, 20:].sum(axis=1)
    )
    assert np.array_equal(pruner.feature_cost(X), expected)
    assert pruner.point_.cost == pytest.approx(expected.mean())


def test_names_of_a_data_frame_name_the_costs(cancer):
    pandas = pytest.importorskip("pandas")
    _, X, y = cancer
    table = pandas.DataFrame(X, columns=[f"column {k}" for k in range(30)])
    model = RandomForestClassifier(5, random_state=0).fit(table, y)
    costs = {"column 3": 7.0, "column 20": 0.0}
    pruner = FeatureCostPruner(
        FrozenEstimator(model), feature_costs=costs, trade_off=0.0
    ).fit(table, y)
    used = pruner.features_used(table)
    expected = used @ np.where(np.arange(30) == 3, 7.0, np.arange(30) != 20)
    assert np.array_equal(pruner.feature_cost(table), expected)


def test_a_weight_of_two_is_a_row_that_is_there_twice(cancer):
    model, X, y = cancer
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    pruner = FeatureCostPruner(FrozenEstimator(model), budget=4.0)
    weighted = clone(pruner).fit(X, y, sample_weight=weights)
    repeated = clone(pruner).fit(X.repeat(weights, axis=0), y.repeat(weights))
    assert weighted.frontier_.breakpoints == repeated.frontier_.breakpoints
    for name, column in weighted.frontier_.to_dict().items():
        assert np.array_equal(column, repeated.frontier_.to_dict()[name])
    assert np.array_equal(weighted.predict(X), repeated.predict(X))
    tripled = clone(pruner).fit(X, y, sample_weight=weights * 3.7)
    assert np.array_equal(weighted.frontier_.cost, tripled.frontier_.cost)


def test_out_of_bag_rows_are_those_that_a_tree_has_not_seen():
    X, y = datasets.bundled("iris")
    model = RandomForestClassifier(30, random_state=1, oob_score=True).fit(X, y)
    pruner = FeatureCostPruner(
        FrozenEstimator(model), trade_off=0.0, error_rows="out_of_bag"
    ).fit(X, y)
    wrong = total = 0
    for tree, sample in zip(model.estimators_, model.estimators_samples_, strict=True):
        unseen = np.setdiff1d(np.arange(len(X)), sample)
        total += len(unseen)
        wrong += (tree.predict(X[unseen]).astype(int) != y[unseen]).sum()
    # Pruning for nothing but errors can only lower them.
    assert pruner.point_.error <= wrong / total
    assert pruner.point_.ensemble_error <= 1 - model.oob_score_ + 0.03
    trained = FeatureCostPruner(
        RandomForestClassifier(30, random_state=1),
        trade_off=0.0,
        error_rows="out_of_bag",
    ).fit(X, y)
    assert trained.point_ == pruner.point_
    bagging = BaggingClassifier(DecisionTreeClassifier(), 5, random_state=0).fit(X, y)
    FeatureCostPruner(
        FrozenEstimator(bagging), trade_off=0.0, error_rows="out_of_bag"
    ).fit(X, y)


def test_out_of_bag_needs_the_training_rows_and_samples(cancer):
    model, X, y = cancer
    with pytest.raises(InvalidArgumentError, match="in the same order"):
        fitted(cancer, trade_off=0.0, error_rows="out_of_bag")
    others = np.vstack([X, X])[:300], np.concatenate([y, y])[:300]
    with pytest.raises(InvalidArgumentError, match="the rows it was grown on"):
        FeatureCostPruner(
            FrozenEstimator(model), trade_off=0.0, error_rows="out_of_bag"
        ).fit(*others)
    tree = DecisionTreeClassifier().fit(X, y)
    for unsuited in (tree, read_model(tree)):
        with pytest.raises(UnsupportedModelError, match="draws rows for each tree"):
            FeatureCostPruner(
                unsuited if unsuited is not tree else FrozenEstimator(tree),
                trade_off=0.0,
                error_rows="out_of_bag",
            ).fit(X, y)
    whole = RandomForestClassifier(3, bootstrap=False).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="bootstrap"):
        FeatureCostPruner(
            FrozenEstimator(whole), trade_off=0.0, error_rows="out_of_bag"
        ).fit(X, y)


def test_a_pipeline_transforms_rows_first(cancer):
    _, X, y = cancer
    steps = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
    pruner = FeatureCostPruner(FrozenEstimator(steps.fit(X, y)), trade_off=0.0)
    pruner.fit(X, y)
    assert np.array_equal(pruner.predict_full(X), steps.predict(X))
    assert pruner.features_used(X).shape == X.shape


def test_an_unfitted_forest_is_trained_on_rows_that_are_not_pruned_with(cancer):
    _, X, y = cancer
    pruner = FeatureCostPruner(
        RandomForestClassifier(5, bootstrap=False, random_state=0),
        trade_off=0.0,
        random_state=0,
    ).fit(X, y)
    # A full-grown forest makes no error on its own rows; on others it does.
    errors = np.mean(pruner.predict_full(X) != y)
    assert 0 < errors < 0.25
    again = clone(pruner).fit(X[::-1], y[::-1])
    assert np.array_equal(again.predict(X), pruner.predict(X))


def test_labels_may_be_texts_and_forests_may_have_one_leaf():
    X = np.arange(12.0).reshape(-1, 1)
    y = np.where(X[:, 0] < 6, "low", "high")
    model = DecisionTreeClassifier(max_depth=1).fit(X, y)
    pruner = FeatureCostPruner(FrozenEstimator(model), trade_off=0.1).fit(X, y)
    assert np.array_equal(pruner.predict(X), y)
    pruned = FeatureCostPruner(FrozenEstimator(model), budget=0.5)
    with pytest.warns(spinney.SpinneyWarning, match="pruned to their roots"):
        pruned.fit(X, y)
    assert set(pruned.predict(X)) == {"high"}
    leaf = DecisionTreeClassifier().fit(X, np.full(12, "same"))
    alone = FeatureCostPruner(FrozenEstimator(leaf), budget=0).fit(X, ["same"] * 12)
    assert alone.feature_cost(X).sum() == 0
    assert len(alone.frontier_) == 1


def test_features_on_demand_cost_what_they_cost_in_advance(cancer):
    _, X, _ = cancer
    pruner = fitted(cancer, budget=5.0, feature_costs=np.linspace(0, 2, 30))
    bought = np.zeros(X.shape, dtype=int)

    def fetch(feature, rows):
        bought[rows, feature] += 1
        return X[rows, feature]

    found = pruner.predict_lazily(fetch, len(X))
    assert np.array_equal(found.labels, pruner.predict(X))
    assert np.array_equal(found.probabilities, pruner.predict_proba(X))
    assert np.array_equal(found.cost, pruner.feature_cost(X))
    assert np.array_equal(bought == 1, pruner.features_used(X))
    assert bought.max() == 1


def test_features_on_demand_are_those_of_the_trees(cancer):
    _, X, y = cancer
    steps = make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(X, y)
    pruner = FeatureCostPruner(FrozenEstimator(steps), trade_off=0.0).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="computes them from others"):
        pruner.predict_lazily(lambda feature, rows: X[rows, feature], len(X))


def test_a_fitted_pruner_survives_pickle(cancer):
    _, X, _ = cancer
    pruner = fitted(cancer, budget=5.0)
    again = pickle.loads(pickle.dumps(pruner))
    assert np.array_equal(again.predict_proba(X), pruner.predict_proba(X))
    assert again.point_ == pruner.point_
    assert np.array_equal(again.feature_cost(X), pruner.feature_cost(X))


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "Exactly one of trade_off and budget must be given, got neither"),
        ({"trade_off": 0.1, "budget": 1}, "got both"),
        ({"budget": -1}, "budget must be a number from 0 up, got -1.*costs 0"),
        ({"budget": np.nan}, "budget must be a number"),
        ({"trade_off": -0.1}, "trade_off must be a number from 0 up"),
        ({"trade_off": "much"}, "trade_off must be a number from 0 up, got 'much'"),
        ({"trade_off": True}, "got True"),
        ({"budget": 1, "solver": "simplex"}, "solver must be one of 'mincut', 'lp'"),
        ({"budget": 1, "error_rows": "test"}, "error_rows must be one of 'given'"),
        ({"budget": 1, "feature_costs": [1, 2]}, "feature_costs must have shape"),
        ({"budget": 1, "feature_costs": {"age": 2}}, "no such column"),
    ],
)
def test_bad_parameters_are_refused_with_a_remedy(cancer, parameters, words):
    with pytest.raises(InvalidArgumentError, match=words):
        fitted(cancer, **parameters)


def test_unknown_labels_are_refused(cancer):
    model, X, y = cancer
    pruner = FeatureCostPruner(FrozenEstimator(model), budget=1)
    with pytest.raises(InvalidArgumentError, match="which the model does not know"):
        pruner.fit(X, np.where(y == 1, 2, y))
    with pytest.raises(InvalidArgumentError, match="requires y"):
        pruner.fit(X, None)


@pytest.mark.parametrize("weights", [-1.0, 0.0])
def test_weights_that_make_no_sense_are_refused(cancer, weights):
    model, X, y = cancer
    # scikit-learn refuses weights that are all zero in words of its own, or lets us.
    with pytest.raises(ValueError, match=r"(?i)sample.weights? must"):
        FeatureCostPruner(FrozenEstimator(model), budget=1).fit(
            X, y, sample_weight=np.full(len(y), weights)
        )


def test_forests_whose_trees_do_not_vote_are_refused(cancer):
    _, X, y = cancer
    regressor = RandomForestRegressor(2).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="forest of regression trees"):
        FeatureCostPruner(FrozenEstimator(regressor), budget=1).fit(X, y)
    boosting = GradientBoostingClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="add to a score"):
        FeatureCostPruner(FrozenEstimator(boosting), budget=1).fit(X, y)


def test_without_or_tools_the_error_names_the_extra(cancer, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("ortools"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"spinney\[prune\]"):
        fitted(cancer, budget=1)


def test_a_point_that_is_not_there_is_refused(cancer):
    pruner = fitted(cancer, budget=1)
    with pytest.raises(InvalidArgumentError, match="index must be between"):
        pruner.forest_at(len(pruner.frontier_))


# ------------------------------------------------------------------ tables and pictures


def test_the_table_reads_well_and_is_read_only(cancer):
    frontier = fitted(cancer, trade_off=0.0).frontier_
    lines = repr(frontier).splitlines()
    assert lines[0].split() == list(frontier.to_dict())
    assert float(lines[1].split()[2]) == pytest.approx(frontier.cost[0], rel=1e-5)
    assert len(lines) <= 22
    assert [point.cost for point in frontier] == frontier.cost.tolist()
    with pytest.raises(ValueError, match="read-only"):
        frontier.cost[0] = 0.0


def test_the_plot_has_both_errors(cancer):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    frontier = fitted(cancer, trade_off=0.0).frontier_
    ax = frontier.plot()
    tree, forest = ax.lines
    assert tree.get_ydata().tolist() == frontier.error.tolist()
    assert forest.get_ydata().tolist() == frontier.ensemble_error.tolist()
    assert frontier.plot(ax) is ax
    matplotlib.pyplot.close(ax.figure)


def test_progress_never_goes_back_and_ends_at_1(cancer):
    shares = []
    fitted(cancer, budget=3.0, verbose=shares.append)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert sorted(shares) == shares


def test_the_bar_is_drawn_on_standard_error(cancer, capsys):
    fitted(cancer, budget=3.0, verbose=True)
    drawn = capsys.readouterr()
    assert drawn.out == ""
    assert drawn.err.endswith("100%\n")
    bar = TextBar("pruning")
    bar(0.5)
    bar(0.6)  # too soon to be drawn
    assert capsys.readouterr().err.count("\r") == 1


def test_a_certificate_is_about_the_model_before_pruning(cancer):
    pruner = fitted(cancer, trade_off=0.01)
    _, X, _ = cancer
    differs = pruner.predict(X) != pruner.predict_full(X)
    assert differs.any()
    assert spinney.certify(pruner, X).n_disagreements == differs.sum()


def test_a_forest_that_becomes_constant_is_warned_of():
    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X[:300], y[:300])
    for setting, words in (
        (
            {"budget": 0.5},
            "With budget=0.5 all trees are pruned to their roots.*larger",
        ),
        ({"trade_off": 9.0}, "With trade_off=9 all trees .* smaller one: .* costs"),
    ):
        pruner = FeatureCostPruner(FrozenEstimator(model), **setting)
        with pytest.warns(spinney.SpinneyWarning, match=words):
            pruner.fit(X[300:], y[300:])
        assert len(set(pruner.predict(X).tolist())) == 1


def test_points_spread_over_a_frontier_cover_all_costs():
    # Nine points in ten lie where the cost hardly changes.
    cost = np.concatenate([np.linspace(100.0, 90.0, 90), np.linspace(80.0, 0.0, 9)])
    shown = spread_over_costs(cost, 16)
    assert shown[0] == 0
    assert shown[-1] == len(cost) - 1
    assert {*range(90, 99)} <= {*shown}
    assert len(shown) <= 16
    assert spread_over_costs(cost[:5], 16) == [0, 1, 2, 3, 4]
