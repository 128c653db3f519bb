"""Trees, forests and bagging of scikit-learn, and what wraps them."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

import datasets
import reference
from spinney import (
    AllTreesClassifier,
    SpinneyWarning,
    UnsupportedModelError,
    read_model,
)
from spinney.readers.sklearn_trees import NODE_FIELDS
from strategies import random_rows

CLASSIFIERS = [
    DecisionTreeClassifier(random_state=0),
    ExtraTreeClassifier(random_state=0),
    RandomForestClassifier(n_estimators=12, random_state=0),
    RandomForestClassifier(n_estimators=15, max_depth=4, random_state=1),
    ExtraTreesClassifier(n_estimators=12, min_samples_leaf=3, random_state=0),
    BaggingClassifier(n_estimators=12, random_state=0),
    BaggingClassifier(
        ExtraTreeClassifier(max_depth=5),
        n_estimators=12,
        max_features=0.5,
        bootstrap_features=True,
        random_state=0,
    ),
]
REGRESSORS = [
    DecisionTreeRegressor(random_state=0),
    ExtraTreeRegressor(random_state=0, max_depth=6),
    RandomForestRegressor(n_estimators=12, random_state=0),
    RandomForestRegressor(n_estimators=5, criterion="absolute_error", max_depth=4),
    RandomForestRegressor(n_estimators=5, criterion="poisson", random_state=0),
    ExtraTreesRegressor(n_estimators=12, random_state=0),
    BaggingRegressor(n_estimators=12, max_features=0.6, random_state=0),
]


def describe(model):
    return type(model).__name__


def members(model):
    """The single trees of a model, in order."""
    return getattr(model, "estimators_", [model])


def tempting_rows(forest, n_rows, dtype=np.float64, seed=0):
    """Rows on and around the thresholds that scikit-learn's predict accepts.

    It adds all values up as float32 to look for infinities, hence the bound.
    """
    X = random_rows(forest, n_rows, seed=seed, dtype=dtype, missing=False)
    return np.clip(X, -1e30, 1e30)


def assert_same_answers(model, X, forest=None):
    """Labels and probabilities, or numbers, equal to the last bit."""
    forest = forest or read_model(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    if forest.classes is not None:
        np.testing.assert_array_equal(forest.predict_proba(X), model.predict_proba(X))


# ------------------------------------------------------------------ answers


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "iris", "wine"])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=describe)
def test_classifiers_answer_like_scikit_learn(model, name):
    X, y = datasets.bundled(name)
    model = clone(model).fit(X, y)
    forest = read_model(model)
    assert forest.aggregation == "mean"
    assert forest.n_trees == len(members(model))
    assert forest.n_features == X.shape[1]
    assert forest.source == type(model).__name__
    assert forest.predict(X).dtype == model.predict(X).dtype
    assert_same_answers(model, X, forest)
    assert_same_answers(model, X.astype(np.float32), forest)
    np.testing.assert_array_equal(
        reference.raw(forest, X[:15]), model.predict_proba(X[:15])
    )


@pytest.mark.parametrize("model", REGRESSORS, ids=describe)
def test_regressors_answer_like_scikit_learn(model):
    X, y = datasets.bundled("diabetes")
    model = clone(model).fit(X, y)
    forest = read_model(model)
    assert forest.classes_ is None
    assert_same_answers(model, X, forest)
    assert_same_answers(model, tempting_rows(forest, 300), forest)
    np.testing.assert_array_equal(
        reference.raw(forest, X[:15])[:, 0], model.predict(X[:15])
    )


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("adult", RandomForestClassifier(n_estimators=30, random_state=0)),
        ("covertype", ExtraTreesClassifier(n_estimators=20, random_state=0)),
        ("letter", RandomForestClassifier(n_estimators=20, random_state=0)),
        ("spambase", BaggingClassifier(n_estimators=20, random_state=0)),
    ],
)
def test_answers_like_scikit_learn_on_real_data(name, model):
    X, y = datasets.real(name, n_rows=5_000)
    model = clone(model).fit(X[:2_000], y[:2_000])
    assert_same_answers(model, X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=describe)
def test_never_disagrees_on_values_that_lie_on_a_threshold(model, dtype):
    X, y = datasets.bundled("wine")
    model = clone(model).fit(X, y)
    forest = read_model(model)
    assert_same_answers(model, tempting_rows(forest, 500, dtype), forest)


@pytest.mark.parametrize(
    "layout",
    [np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[::3, ::2], lambda X: X[::-1]],
)
def test_layout_in_memory_makes_no_difference(layout, cancer_model):
    model, X = cancer_model
    assert_same_answers(model, layout(X))
    assert_same_answers(model, layout(X.astype(np.float32)))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("model", CLASSIFIERS[:5] + REGRESSORS[:1], ids=describe)
def test_ends_in_the_same_leaves_with_infinities_and_unseen_nan(model, missing):
    # predict of scikit-learn rejects infinities, and NaN if there was none in
    # training; its trees do not.
    X, y = datasets.bundled("iris")
    model = clone(model).fit(X, y)
    forest = read_model(model)
    rows = random_rows(forest, 400, dtype=np.float32, missing=missing)
    leaves = forest.leaves(rows) - forest.tree_offsets[:-1]
    for tree, member in enumerate(members(model)):
        np.testing.assert_array_equal(leaves[:, tree], member.tree_.apply(rows))


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(random_state=0),
        RandomForestClassifier(n_estimators=12, random_state=0),
        ExtraTreesClassifier(n_estimators=12, random_state=0),
        BaggingClassifier(n_estimators=12, max_features=0.5, random_state=0),
        RandomForestRegressor(n_estimators=12, random_state=0),
    ],
    ids=describe,
)
def test_missing_values_go_where_training_sent_them(model):
    X, y = datasets.bundled("wine")
    rng = np.random.default_rng(0)
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    X[y == 1, 0] = np.nan  # so that some splits part nothing but missing values
    model = clone(model).fit(X, y)
    forest = read_model(model)
    assert forest.missing_left.any()
    rows = tempting_rows(forest, 400)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    assert_same_answers(model, X, forest)
    assert_same_answers(model, rows, forest)


def test_a_split_that_parts_only_missing_values_keeps_its_infinite_threshold():
    # Before scikit-learn 1.7, no such split is found where a column is constant.
    X = np.array([[1.0], [2.0], [np.nan], [np.nan]])
    model = DecisionTreeClassifier(random_state=0).fit(X, [0, 0, 1, 1])
    forest = read_model(model)
    assert forest.threshold[0] == np.inf
    rows = np.array([[-np.inf], [np.inf], [np.nan], [1e300]])
    np.testing.assert_array_equal(forest.predict(rows), [0, 0, 1, 0])


@pytest.mark.parametrize("model", [CLASSIFIERS[0], CLASSIFIERS[2], CLASSIFIERS[5]])
def test_one_row_and_no_rows(model):
    X, y = datasets.bundled("iris")
    model = clone(model).fit(X, y)
    forest = read_model(model)
    assert_same_answers(model, X[:1], forest)
    assert forest.predict(X[:0]).shape == (0,)
    assert forest.predict_proba(X[:0]).shape == (0, 3)


# ------------------------------------------------------------------ shapes of trees


def test_a_tree_that_is_a_single_leaf():
    X, y = datasets.bundled("iris")
    model = RandomForestClassifier(n_estimators=3, min_samples_leaf=80, random_state=0)
    model.fit(X, y)
    forest = read_model(model)
    assert forest.depths.max() == 0
    assert_same_answers(model, X, forest)


def test_constant_target_of_a_regressor():
    X, _ = datasets.bundled("iris")
    model = DecisionTreeRegressor().fit(X, np.full(len(X), 2.5))
    assert_same_answers(model, X)


def test_very_deep_trees():
    # Labels that change with every step of a feature that doubles: each split takes
    # off one row.
    X = 2.0 ** np.arange(-60, 61).reshape(-1, 1)
    y = np.arange(len(X)) % 2
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    forest = read_model(model)
    assert forest.depths[0] >= 60
    assert_same_answers(model, X, forest)
    assert_same_answers(model, tempting_rows(forest, 300), forest)


def test_500_features_and_30_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 500))
    y = rng.integers(30, size=600)
    model = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, y)
    forest = read_model(model)
    assert forest.value.shape[1] == 30
    assert_same_answers(model, rng.normal(size=(500, 500)), forest)
    assert_same_answers(model, tempting_rows(forest, 200), forest)


def test_denormals_and_signed_zeros():
    tiny = np.float32(1e-45)
    X = np.array([[-tiny], [-0.0], [0.0], [tiny], [2 * tiny]], dtype=np.float32)
    for y in ([0, 0, 0, 1, 1], [0, 1, 1, 1, 1], [0, 1, 1, 0, 1]):
        model = DecisionTreeClassifier(random_state=0).fit(X, y)
        assert_same_answers(model, X)
        assert_same_answers(model, np.array([[-5e-324], [5e-324], [1e-300], [-0.0]]))


# ------------------------------------------------------------------ labels and weights


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["setosa", "versicolor", "virginica"]),
        np.array(["a", "bb", "c"], dtype=object),
        np.array([-7, 0, 2**40]),
        np.array([False, True, True]),
        np.array([1.0, 3.0, 3.0]),
    ],
    ids=lambda labels: str(labels.dtype),
)
@pytest.mark.parametrize("model", [CLASSIFIERS[0], CLASSIFIERS[2], CLASSIFIERS[5]])
def test_labels_of_any_type(model, labels):
    X, y = datasets.bundled("iris")
    model = clone(model).fit(X, labels[y])
    forest = read_model(model)
    np.testing.assert_array_equal(forest.classes_, model.classes_)
    assert forest.predict(X).dtype == model.predict(X).dtype
    assert_same_answers(model, X, forest)


@pytest.mark.parametrize("model", [CLASSIFIERS[0], CLASSIFIERS[2], CLASSIFIERS[5]])
def test_a_single_class(model):
    X, _ = datasets.bundled("iris")
    model = clone(model).fit(X, np.full(len(X), "only"))
    forest = read_model(model)
    assert (len(forest.classes_), forest.n_outputs) == (1, 1)
    assert_same_answers(model, X, forest)
    assert (forest.votes(X[:3]) == 0).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"class_weight": "balanced"},
        {"class_weight": {0: 10.0, 1: 0.1, 2: 3.0}},
        {"class_weight": "balanced_subsample"},
        {"ccp_alpha": 0.01},
        {"max_leaf_nodes": 6},
        {"monotonic_cst": [1, 0, 0, -1]},
    ],
)
def test_settings_that_change_training_only(settings):
    X, y = datasets.bundled("iris")
    if "monotonic_cst" in settings:
        y = (y > 0).astype(int)
    model = RandomForestClassifier(n_estimators=10, random_state=0, **settings)
    assert_same_answers(model.fit(X, y), X)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=describe)
def test_sample_weights(model):
    X, y = datasets.bundled("iris")
    weight = np.random.default_rng(0).exponential(size=len(X))
    weight[::7] = 0.0
    model = clone(model).fit(X, y, sample_weight=weight)
    assert_same_answers(model, X)


# ------------------------------------------------------------------ parts of the forest


@pytest.mark.parametrize("model", CLASSIFIERS[:6] + REGRESSORS[:4], ids=describe)
def test_inner_nodes_have_the_values_and_counts_of_scikit_learn(model):
    X, y = datasets.bundled("iris")
    model = clone(model).fit(X, y)
    forest = read_model(model)
    trees = [member.tree_ for member in members(model)]
    n_values = forest.value.shape[1]
    values = np.concatenate([tree.value[:, 0, :n_values] for tree in trees])
    np.testing.assert_array_equal(forest.value, values)
    np.testing.assert_array_equal(
        forest.n_node_samples, np.concatenate([tree.n_node_samples for tree in trees])
    )
    if forest.classes is not None:
        np.testing.assert_allclose(forest.value.sum(axis=1), 1.0, rtol=1e-12)


def test_votes_and_scores_are_those_of_the_single_trees(cancer_model):
    model, X = cancer_model
    forest = read_model(model)
    each = np.stack([tree.predict_proba(X) for tree in model.estimators_], axis=1)
    np.testing.assert_array_equal(forest.scores(X), each)
    np.testing.assert_array_equal(forest.votes(X), each.argmax(axis=2))


def test_column_names_are_kept():
    pandas = pytest.importorskip("pandas")
    X, y = datasets.bundled("iris")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    for model in (CLASSIFIERS[0], CLASSIFIERS[2], CLASSIFIERS[6]):
        named = clone(model).fit(frame, y)
        forest = read_model(named)
        assert forest.feature_names == ("a", "b", "c", "d")
        np.testing.assert_array_equal(forest.predict(frame), named.predict(frame))
    assert read_model(clone(CLASSIFIERS[2]).fit(X, y)).feature_names is None


class TreeWithoutWeights(DecisionTreeClassifier):
    """Takes no weights, so a bagging trains it on the drawn rows alone."""

    def fit(self, X, y):
        return super().fit(X, y)


def test_bagging_whose_members_saw_only_some_classes():
    X, y = datasets.bundled("iris")
    y = np.array(["x", "y", "z"])[y]
    model = BaggingClassifier(
        TreeWithoutWeights(random_state=0),
        n_estimators=20,
        max_samples=3,
        max_features=2,
        random_state=0,
    ).fit(X, y)
    seen = {len(member.classes_) for member in model.estimators_}
    assert seen >= {2, 3}  # the case that this test is about
    assert_same_answers(model, X)


# ------------------------------------------------------------------ wrappers


def test_frozen_pipelines_and_searches_are_looked_through():
    X, y = datasets.bundled("iris")
    scaler = StandardScaler().fit(X)
    model = RandomForestClassifier(n_estimators=5, random_state=0)
    model.fit(scaler.transform(X), y)
    expected = model.predict_proba(scaler.transform(X))
    for wrapped in (
        FrozenEstimator(model),
        FrozenEstimator(FrozenEstimator(model)),
        Pipeline([("nothing", "passthrough"), ("none", None), ("model", model)]),
        make_pipeline(FrozenEstimator(model)),
        FrozenEstimator(make_pipeline(make_pipeline(FrozenEstimator(model)))),
    ):
        forest = read_model(wrapped)
        np.testing.assert_array_equal(
            forest.predict_proba(scaler.transform(X)), expected
        )


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_the_best_estimator_of_a_search_is_read(search):
    X, y = datasets.bundled("iris")
    model = search(
        RandomForestClassifier(n_estimators=3, random_state=0),
        {"max_depth": [1, 3]},
        cv=2,
        **({"n_iter": 2} if search is RandomizedSearchCV else {}),
    )
    with pytest.raises(NotFittedError, match="has not been trained yet"):
        read_model(model)
    assert_same_answers(model.fit(X, y), X)


def pipelines_that_change_rows(model):
    scaled = make_pipeline(StandardScaler(), model)
    return {
        "pipeline": scaled,
        "frozen": FrozenEstimator(scaled),
        "pipeline in a pipeline": make_pipeline("passthrough", scaled),
        "frozen model": make_pipeline(StandardScaler(), FrozenEstimator(model)),
        "search": GridSearchCV(scaled, {"randomforestclassifier__max_depth": [2]}),
        "search in a pipeline": make_pipeline(
            StandardScaler(), GridSearchCV(model, {"max_depth": [2]})
        ),
    }


@pytest.mark.parametrize("kind", pipelines_that_change_rows(None))
def test_no_preprocessing_is_dropped_in_silence(kind):
    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(n_estimators=5, random_state=0)
    if kind.startswith("frozen"):
        model.fit(X, y)  # a FrozenEstimator is never fitted again
    wrapped = pipelines_that_change_rows(model)[kind]
    steps = wrapped.estimator if kind == "frozen" else wrapped
    steps.fit(X, y)
    with pytest.raises(UnsupportedModelError, match=r"(?s)StandardScaler.*accelerate"):
        read_model(wrapped)
    # What applies the steps answers as the model does.
    whole = AllTreesClassifier(FrozenEstimator(wrapped)).fit(X)
    assert whole.has_preprocessing
    np.testing.assert_array_equal(whole.predict(X), wrapped.predict(X))


def test_the_last_step_may_come_from_another_library():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = datasets.bundled("iris")
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y)
    forest = read_model(make_pipeline("passthrough", FrozenEstimator(model)))
    np.testing.assert_array_equal(
        forest.predict(X), model.predict(X, validate_features=False)
    )


# ------------------------------------------------------------------ refusals


def iris_models():
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    pair = [("a", tree), ("b", ExtraTreeClassifier(max_depth=2, random_state=0))]
    small_forest = RandomForestClassifier(n_estimators=2, random_state=0)
    return [
        (AdaBoostRegressor(n_estimators=2), "weighted median"),
        (VotingClassifier(pair), "models of different kinds"),
        (StackingClassifier(pair, cv=2), "second model decides"),
        (RandomTreesEmbedding(n_estimators=2), "leaf indices"),
        (CalibratedClassifierCV(tree, cv=2), "averages 2 models"),
        (BaggingClassifier(small_forest, n_estimators=2), "members must be single"),
        (LogisticRegression(max_iter=1000), "not one of scikit-learn's tree"),
        (KMeans(2, n_init=1), "not one of scikit-learn's tree"),
    ]


@pytest.mark.parametrize(
    ("model", "reason"), iris_models(), ids=lambda case: type(case).__name__
)
def test_other_models_are_refused_with_reason_and_hint(model, reason):
    X, y = datasets.bundled("iris")
    y = (y > 0).astype(int)
    with pytest.raises(UnsupportedModelError, match=reason) as refusal:
        read_model(model.fit(X, y))
    assert type(model).__name__ in str(refusal.value)
    assert "\nHint: " in str(refusal.value)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(n_estimators=2),
        ExtraTreesClassifier(n_estimators=2),
    ],
    ids=describe,
)
def test_several_labels_at_once_are_refused(model):
    X, y = datasets.bundled("iris")
    model = clone(model).fit(X, np.column_stack([y, y[::-1]]))
    with pytest.raises(
        UnsupportedModelError, match=r"2 targets at once.*\nHint: spinney.accelerate"
    ):
        read_model(model)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(random_state=0),
        RandomForestRegressor(n_estimators=5, random_state=0),
        ExtraTreesRegressor(n_estimators=5, random_state=0),
        BaggingRegressor(n_estimators=5, random_state=0),
    ],
    ids=describe,
)
def test_several_targets_of_a_regressor_are_predicted_at_once(model):
    X, y = datasets.bundled("diabetes")
    model = clone(model).fit(X, np.column_stack([y, y[::-1], X[:, 0]]))
    forest = read_model(model)
    assert forest.n_outputs == 3
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    np.testing.assert_array_equal(forest.predict(X[:1]), model.predict(X[:1]))


def test_a_column_vector_as_target_is_one_target():
    X, y = datasets.bundled("iris")
    model = DecisionTreeRegressor(random_state=0).fit(X, y.reshape(-1, 1))
    assert_same_answers(model, X)


@pytest.mark.parametrize(
    "model",
    [
        *CLASSIFIERS[:3],
        *REGRESSORS[:3],
        BaggingClassifier(),
        GradientBoostingClassifier(),
        HistGradientBoostingClassifier(),
        HistGradientBoostingRegressor(),
        make_pipeline(StandardScaler(), RandomForestClassifier()),
        FrozenEstimator(RandomForestClassifier()),
    ],
    ids=describe,
)
def test_models_without_training_are_refused(model):
    with pytest.raises(NotFittedError, match=r"not been trained yet\. Call its fit"):
        read_model(model)


def test_a_search_that_kept_no_model_is_refused():
    X, y = datasets.bundled("iris")
    model = GridSearchCV(
        DecisionTreeClassifier(), {"max_depth": [1]}, cv=2, refit=False
    )
    with pytest.raises(UnsupportedModelError, match="refit=False"):
        read_model(model.fit(X, y))


def test_a_pipeline_that_ends_in_no_model_is_refused():
    model = Pipeline([("scale", StandardScaler()), ("nothing", "passthrough")])
    with pytest.raises(UnsupportedModelError, match="'nothing' is 'passthrough'"):
        read_model(model)


class Contrarian(RandomForestClassifier):
    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


class Renamed(RandomForestClassifier):
    """Adds nothing to the class it inherits from."""


def test_classes_that_predict_in_their_own_way_are_refused():
    X, y = datasets.bundled("iris")
    model = Contrarian(n_estimators=3, random_state=0).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="its predict_proba is not that of"):
        read_model(model)
    assert_same_answers(Renamed(n_estimators=3, random_state=0).fit(X, y), X)


def test_what_a_future_version_may_say_about_nodes_is_refused(monkeypatch):
    model = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    read_model(model)
    known = tuple(name for name in NODE_FIELDS if name != "impurity")
    monkeypatch.setattr("spinney.readers.sklearn_trees.NODE_FIELDS", known)
    with pytest.raises(UnsupportedModelError, match=r"does not know .'impurity'"):
        read_model(model)


def test_a_newer_major_version_is_warned_about(monkeypatch):
    monkeypatch.setattr(sklearn, "__version__", "2.0.1")
    with pytest.warns(SpinneyWarning, match=r"scikit-learn 2\.0\.1"):
        read_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
