"""Gradient boosting and histogram gradient boosting of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import datasets
import reference
from spinney import UnsupportedModelError, read_model
from strategies import random_rows

# Raw scores are compared to the last bit. Probabilities go through an exponential
# function, whose last bit depends on the library that computes it, and through sums
# of as many of them as there are classes.
PROBABILITIES = {"rtol": 1e-14, "atol": 1e-15}

HIST = HistGradientBoostingClassifier(max_iter=15, random_state=0)


@pytest.fixture(autouse=True)
def one_thread():
    """Keep OpenMP from waiting for cores that other tests use."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def raw_scores(model, X):
    """What scikit-learn computes before the link, for classifiers and regressors."""
    return model._raw_predict(np.ascontiguousarray(X))


def assert_same_answers(model, X, forest=None):
    """Labels and raw scores to the last bit, what follows the link up to rounding."""
    forest = forest or read_model(model)
    if forest.input_dtype == "float32":
        X = X.astype(np.float32)
    raw = raw_scores(model, X)
    if forest.n_outputs == 1:
        raw = raw[:, 0]
    np.testing.assert_array_equal(forest.decision_function(X), raw)
    if forest.classes is None:
        np.testing.assert_allclose(forest.predict(X), model.predict(X), rtol=1e-14)
        return
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    np.testing.assert_allclose(
        forest.predict_proba(X), model.predict_proba(X), **PROBABILITIES
    )


def finite_rows(forest, n_rows):
    """Rows on and around the thresholds that scikit-learn's checks let through.

    They add all values up as float32 to look for infinities, hence the bound.
    """
    return np.clip(random_rows(forest, n_rows, missing=False), -1e30, 1e30)


def mean_of_leaves(forest, node):
    """Mean over the training rows below `node`, by recursion."""
    if forest.left[node] < 0:
        return forest.value[node, 0]
    children = (forest.left[node], forest.right[node])
    counts = [forest.n_node_samples[child] for child in children]
    means = [mean_of_leaves(forest, child) for child in children]
    return np.average(means, weights=counts)


# ------------------------------------------------------------------ gradient boosting


@pytest.mark.parametrize("name", ["breast_cancer", "iris", "wine"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"init": "zero"},
        {"init": DummyClassifier(strategy="most_frequent"), "learning_rate": 0.37},
        {"subsample": 0.5, "max_features": 0.5, "max_depth": 6},
        {"n_iter_no_change": 2, "n_estimators": 50, "max_leaf_nodes": 9},
    ],
)
def test_gradient_boosting_answers_like_scikit_learn(name, settings):
    X, y = datasets.bundled(name)
    settings = {"n_estimators": 12, "random_state": 0} | settings
    model = GradientBoostingClassifier(**settings).fit(X, y)
    forest = read_model(model)
    assert forest.aggregation == "sum"
    assert forest.n_trees == model.estimators_.size
    assert forest.source == "GradientBoostingClassifier"
    assert_same_answers(model, X, forest)
    assert_same_answers(model, finite_rows(forest, 300), forest)
    np.testing.assert_array_equal(
        reference.raw(forest, X[:15]), raw_scores(model, X[:15].astype(np.float32))
    )


def test_exponential_loss_has_its_own_curve():
    X, y = datasets.bundled("breast_cancer")
    model = GradientBoostingClassifier(
        loss="exponential", n_estimators=12, random_state=0
    ).fit(X, y)
    forest = read_model(model)
    assert forest.link_scale == 2.0
    assert_same_answers(model, X, forest)


def test_labels_and_weights_of_gradient_boosting():
    X, y = datasets.bundled("iris")
    weight = np.random.default_rng(0).exponential(size=len(X))
    weight[::7] = 0.0
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    model = GradientBoostingClassifier(n_estimators=5, random_state=0)
    assert_same_answers(model.fit(X, labels, sample_weight=weight), X)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"init": "zero"},
        {"init": DummyRegressor(strategy="constant", constant=7.5)},
        {"loss": "huber"},
        {"loss": "quantile", "alpha": 0.3},
        {"loss": "absolute_error"},
    ],
)
def test_gradient_boosting_regressors_answer_like_scikit_learn(settings):
    X, y = datasets.bundled("diabetes")
    model = GradientBoostingRegressor(n_estimators=10, random_state=0, **settings)
    model.fit(X, y)
    forest = read_model(model)
    assert_same_answers(model, X, forest)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (GradientBoostingClassifier(n_estimators=2), 1),
        (HistGradientBoostingClassifier(max_iter=2), 0),
    ],
)
def test_a_raw_score_of_zero_is_decided_as_by_scikit_learn(model, answer):
    X = np.zeros((40, 2))
    y = np.arange(40) % 2
    model = clone(model).fit(X, y)
    forest = read_model(model)
    np.testing.assert_array_equal(forest.decision_function(X), 0.0)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    assert (forest.predict(X) == answer).all()


def test_a_gradient_boosting_that_starts_from_another_model_is_refused():
    X, y = datasets.bundled("breast_cancer")
    for start in (
        LogisticRegression(),
        DummyClassifier(strategy="stratified"),
    ):
        model = GradientBoostingClassifier(init=start, n_estimators=2)
        model.fit(X / X.max(axis=0), y)
        with pytest.raises(UnsupportedModelError, match=r"starts from.*\nHint: .*zero"):
            read_model(model)


# ------------------------------------------------------------------ histogram boosting


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["breast_cancer", "iris", "wine"])
def test_histogram_boosting_answers_like_scikit_learn(name, dtype):
    X, y = datasets.bundled(name)
    model = clone(HIST).fit(X.astype(dtype), y)
    forest = read_model(model)
    assert forest.input_dtype == "float64"
    assert_same_answers(model, X, forest)
    assert_same_answers(model, X.astype(np.float32), forest)
    # Infinities included: histogram boosting takes them.
    rows = random_rows(forest, 400, dtype=dtype)
    assert_same_answers(model, rows, forest)
    np.testing.assert_array_equal(
        reference.raw(forest, rows[:20]), raw_scores(model, rows[:20])
    )


def test_histogram_boosting_with_missing_values():
    X, y = datasets.bundled("wine")
    rng = np.random.default_rng(0)
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    X[y == 1, 0] = np.nan
    model = clone(HIST).fit(X, y)
    forest = read_model(model)
    assert forest.missing_left.any()
    assert np.isposinf(forest.threshold).any()  # splits that part only missing values
    assert_same_answers(model, X, forest)
    assert_same_answers(model, random_rows(forest, 500), forest)


@pytest.mark.parametrize(
    ("loss", "link"),
    [
        ({"loss": "squared_error"}, "identity"),
        ({"loss": "absolute_error"}, "identity"),
        ({"loss": "quantile", "quantile": 0.8}, "identity"),
        ({"loss": "poisson"}, "exp"),
        ({"loss": "gamma"}, "exp"),
    ],
)
def test_histogram_regressors_answer_like_scikit_learn(loss, link):
    X, y = datasets.bundled("diabetes")
    model = HistGradientBoostingRegressor(max_iter=15, random_state=0, **loss)
    model.fit(X, y)
    forest = read_model(model)
    assert forest.link == link
    assert_same_answers(model, X, forest)
    assert_same_answers(model, random_rows(forest, 300), forest)


@pytest.mark.parametrize(
    "settings",
    [
        {"class_weight": "balanced"},
        {"monotonic_cst": [1, 0, -1, 0]},
        {"interaction_cst": "no_interactions"},
        {"early_stopping": True, "n_iter_no_change": 2},
        {"max_bins": 7, "max_depth": 2},
    ],
)
def test_histogram_settings_that_change_training_only(settings):
    X, y = datasets.bundled("iris")
    y = np.array(["no", "yes"])[(y == 1).astype(int)]
    model = clone(HIST).set_params(**settings).fit(X, y)
    assert_same_answers(model, X)


@pytest.mark.parametrize(
    ("name", "categorical"),
    [
        ("adult", [1, 3, 5, 6, 7, 8, 9, 13]),
        ("covertype", list(range(10, 54))),
        ("spambase", None),
        ("letter", [0, 5]),
    ],
)
def test_histogram_boosting_on_real_data(name, categorical):
    X, y = datasets.real(name, n_rows=4_000)
    model = clone(HIST).set_params(max_iter=5, categorical_features=categorical)
    model.fit(X[:2_000], y[:2_000])
    assert_same_answers(model, X)


# ------------------------------------------------------------------ categories

CATEGORIES = [0, 3, 7, 31, 32, 40, 63, 64, 95, 200]
UNKNOWN = [
    *(np.nan, -1.0, -3.0, -0.0, 0.5, 2.999, 1.0, 33.0, 199.0, 201.0, 255.0, 256.0),
    *(288.0, 1e6, 2.0**32, 2.0**32 + 3, 2.0**63, 1e30, -1e30),
]


def categorical_data(missing, seed=0):
    """Two categorical columns among numbers, all of them telling something."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 4))
    X[:, 1] = rng.choice(CATEGORIES, size=600)
    X[:, 3] = rng.integers(5, size=600)
    score = np.isin(X[:, 1], [3, 32, 64, 200]) + (X[:, 3] % 2) + X[:, 0] - X[:, 2]
    if missing:
        X[rng.random(600) < 0.2, 1] = np.nan
        X[rng.random(600) < 0.1, 2] = np.nan
        X[rng.random(600) < 0.3, 3] = np.nan
    return X, score


def categorical_rows(forest, n_rows=600):
    rng = np.random.default_rng(1)
    rows = random_rows(forest, n_rows)
    for column, known in ((1, CATEGORIES), (3, range(5))):
        rows[:, column] = rng.choice([*known, *known, *UNKNOWN], size=n_rows)
    return rows


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_categories_unknown_and_missing_ones_go_as_in_scikit_learn(missing, n_classes):
    X, score = categorical_data(missing)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    model = clone(HIST).set_params(categorical_features=[1, 3]).fit(X, y)
    forest = read_model(model)
    asks = forest.category_set >= 0
    assert set(forest.feature[asks]) == {1, 3}
    assert set(forest.feature[~asks & (forest.feature >= 0)]) == {0, 2}
    went_left = sum(
        nodes["missing_go_to_left"][(nodes["is_categorical"] == 1)].sum()
        for round_ in model._predictors
        for nodes in (tree.nodes for tree in round_)
    )
    assert went_left > 0  # so that sets and children had to be turned around
    assert_same_answers(model, X, forest)
    rows = categorical_rows(forest)
    assert_same_answers(model, rows, forest)
    np.testing.assert_array_equal(
        reference.raw(forest, rows[:40]), raw_scores(model, rows[:40])
    )


def test_a_regressor_with_categories_in_front_and_behind():
    X, score = categorical_data(missing=True)
    X = X[:, [1, 0, 2, 3]]
    model = HistGradientBoostingRegressor(
        max_iter=10, categorical_features=[True, False, False, True], random_state=0
    ).fit(X, score)
    assert_same_answers(model, X)


def test_a_column_with_one_category_and_missing_values():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(4, size=300), np.full(300, 5.0)])
    X[rng.random(300) < 0.4, 1] = np.nan
    y = np.isnan(X[:, 1]) ^ (X[:, 0] == 2)
    model = clone(HIST).set_params(categorical_features=[0, 1]).fit(X, y)
    rows = np.array([[a, b] for a in (0, 1, 2, 3, 9, np.nan) for b in (5, 0, np.nan)])
    assert_same_answers(model, X)
    assert_same_answers(model, rows.astype(float))


def test_categories_of_a_frame_are_numbers_to_the_forest():
    pandas = pytest.importorskip("pandas")
    X, score = categorical_data(missing=False)
    frame = pandas.DataFrame(
        {
            "number": X[:, 0],
            "code": pandas.Categorical(X[:, 1].astype(int)),
            "flag": pandas.Categorical(X[:, 2] > 0),
            "few": X[:, 3],
        }
    )
    model = clone(HIST).fit(frame, score > 1)
    forest = read_model(model)
    assert forest.feature_names == ("number", "code", "flag", "few")
    assert set(forest.feature[forest.category_set >= 0]) == {1, 2}
    numbers = frame.astype(float)  # the categories themselves, not their codes
    np.testing.assert_array_equal(forest.predict(numbers), model.predict(frame))
    np.testing.assert_array_equal(
        forest.decision_function(numbers), model.decision_function(frame)
    )


@pytest.mark.parametrize(
    ("categories", "shown"),
    [
        (np.array([-1, 2]), "-1"),
        (np.array([0.0, 1.5]), "1.5"),
        (np.array([3, 70_000]), "70000"),
    ],
)
def test_categories_that_are_no_small_whole_numbers_are_refused(categories, shown):
    pandas = pytest.importorskip("pandas")
    picked = categories[np.arange(80) % 2]
    frame = pandas.DataFrame({"a": np.arange(80.0), "b": pandas.Categorical(picked)})
    model = clone(HIST).set_params(max_iter=2).fit(frame, np.arange(80) % 2)
    message = f"column 'b' has the category {shown}, .* 0 to 65,535.*\nHint: encode"
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(model)


@pytest.mark.parametrize("encoded", ["from_dtype", ["b", "c"]])
def test_texts_and_numbers_as_categories_are_mapped(encoded):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    texts = np.array(["red", "", "green", "ü"], dtype=object)[rng.integers(0, 4, 500)]
    numbers = np.array([7, 3, 60_000])[rng.integers(0, 3, 500)]
    frame = pandas.DataFrame(
        {
            "a": rng.normal(size=500),
            "b": pandas.Categorical(texts),
            "c": pandas.Categorical(numbers),
        }
    )
    frame.loc[::9, "b"] = None
    y = (texts == "red") ^ (numbers == 3) ^ (frame.a.to_numpy() > 0.5)
    model = clone(HIST).set_params(categorical_features=encoded, max_iter=4)
    forest = read_model(model.fit(frame, y))
    assert forest.categories_ == (None, ("", "green", "red", "ü"), (3, 7, 60_000))
    other = frame.copy()
    other["b"] = other.b.cat.set_categories(["new", "ü", "red", "green", ""])
    other.loc[::4, "b"] = "new"
    other["c"] = other.c.cat.set_categories([8, 60_000, 3, 7])
    other.loc[::5, "c"] = 8
    other.loc[::11, "c"] = None
    for rows in (frame, other, frame.astype({"b": object, "c": int})):
        np.testing.assert_array_equal(
            forest.decision_function(rows), model.decision_function(rows)
        )
    np.testing.assert_array_equal(
        forest.decision_function(frame.astype(object).to_numpy()),
        model.decision_function(frame),
    )


# ------------------------------------------------------------------ inner nodes


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=3, random_state=0),
        HistGradientBoostingClassifier(max_iter=3, random_state=0),
    ],
)
def test_inner_nodes_contribute_the_mean_of_their_leaves(model):
    X, y = datasets.bundled("wine")
    forest = read_model(clone(model).fit(X, y))
    inner = np.flatnonzero(forest.left >= 0)
    expected = [mean_of_leaves(forest, node) for node in inner]
    np.testing.assert_allclose(forest.value[inner, 0], expected, rtol=1e-12, atol=1e-15)
    children = forest.left[inner], forest.right[inner]
    np.testing.assert_array_equal(
        forest.n_node_samples[inner],
        forest.n_node_samples[children[0]] + forest.n_node_samples[children[1]],
    )


def test_column_names_of_boosting_are_kept():
    pandas = pytest.importorskip("pandas")
    X, y = datasets.bundled("iris")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    for model in (GradientBoostingClassifier(n_estimators=2), clone(HIST)):
        assert read_model(model.fit(frame, y)).feature_names == ("a", "b", "c", "d")


def test_categories_that_no_tree_splits_on_are_read():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 300), rng.normal(size=300)])
    y = X[:, 1] > 0
    model = HistGradientBoostingClassifier(
        max_iter=3, max_depth=1, categorical_features=[0], early_stopping=False
    ).fit(X, y)
    forest = read_model(model)
    assert forest.category_set is None
    for first in (X[:, 0], -1.0, 7.5, np.nan):
        rows = np.column_stack([np.broadcast_to(first, 300), X[:, 1]])
        np.testing.assert_array_equal(
            forest.decision_function(rows), model.decision_function(rows)
        )
