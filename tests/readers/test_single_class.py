"""Models that have seen a single class in training predict as their libraries do.

scikit-learn's forests then have one column of probabilities. Gradient boosting has two:
that of the class, and that of a second one which has no label.
"""

import shutil

import lightgbm
import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import spinney
from spinney import read_model
from spinney.errors import UnsupportedModelError

X = np.random.default_rng(0).normal(size=(120, 3))
LIGHTGBM = {"n_estimators": 3, "verbose": -1, "n_jobs": 1}
RANDOM_FOREST = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}
MODELS = {
    "LightGBM": LGBMClassifier(**LIGHTGBM),
    "LightGBM, random forest": LGBMClassifier(**LIGHTGBM, **RANDOM_FOREST),
    "LightGBM, cross entropy": LGBMClassifier(**LIGHTGBM, objective="cross_entropy"),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=3),
    "random forest": RandomForestClassifier(3),
    "extra trees": ExtraTreesClassifier(3),
    "bagging": BaggingClassifier(DecisionTreeClassifier(), n_estimators=3),
    "a tree": DecisionTreeClassifier(),
}


def assert_same(ours, model, rows):
    np.testing.assert_array_equal(ours.predict(rows), model.predict(rows))
    probabilities = model.predict_proba(rows)
    np.testing.assert_array_equal(ours.predict_proba(rows), probabilities)
    np.testing.assert_array_equal(ours.predict_proba(rows[:1]), probabilities[:1])
    label, one = ours.predictor(), ours.predictor(kind="proba")
    for row in rows[:3]:
        assert label(row) == model.predict(row[None])[0]
        np.testing.assert_array_equal(one(row), model.predict_proba(row[None])[0])


@pytest.mark.parametrize("only", [0, 1, "only"])
@pytest.mark.parametrize("name", MODELS)
def test_labels_and_probabilities_are_those_of_the_library(name, only, tmp_path):
    model = MODELS[name].fit(X, np.full(len(X), only))
    forest = read_model(model)
    assert forest.n_probabilities == model.predict_proba(X[:1]).shape[1]
    assert_same(forest, model, X)
    exact = spinney.accelerate(model)
    assert_same(exact, model, X)
    for number, ours in enumerate((forest, exact)):
        spinney.save(ours, tmp_path / f"{number}.spinney")
        assert_same(spinney.load(tmp_path / f"{number}.spinney"), model, X)


@pytest.mark.parametrize("name", ["LightGBM", "histogram boosting", "random forest"])
def test_early_exit_and_compiled_code_have_the_same_columns(name):
    model = MODELS[name].fit(X, np.full(len(X), "only"))
    fast = spinney.accelerate(model, X, max_disagreement=0.1, random_state=0)
    assert_same(fast, model, X)
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("compiled code needs a C compiler")
    compiled = spinney.compile(read_model(model))
    np.testing.assert_array_equal(compiled.predict(X), model.predict(X))
    np.testing.assert_array_equal(compiled.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_booster_of_one_label_has_two_classes(label):
    data = lightgbm.Dataset(X, np.full(len(X), label))
    booster = lightgbm.train({"objective": "binary", "verbose": -1}, data, 3)
    positive = booster.predict(X)
    forest, exact = read_model(booster), spinney.accelerate(booster)
    np.testing.assert_array_equal(forest.predict_model(X), positive)
    np.testing.assert_array_equal(forest.predict(X), np.full(len(X), label))
    np.testing.assert_array_equal(exact.predict(X), positive)
    assert exact.predictor()(X[0]) == positive[0]
    for ours in (forest, exact):
        np.testing.assert_array_equal(ours.predict_proba(X)[:, 1], positive)


@pytest.mark.filterwarnings("ignore:`XGBRF:FutureWarning")  # since XGBoost 3.3
@pytest.mark.parametrize("trees", ["XGBClassifier", "XGBRFClassifier"])
def test_xgboost_has_a_second_class_that_nobody_has_seen(trees):
    xgboost = pytest.importorskip("xgboost")
    model = getattr(xgboost, trees)(n_estimators=3, n_jobs=1)
    model.fit(X, np.zeros(len(X), dtype=int))
    for ours in (read_model(model), spinney.accelerate(model)):
        np.testing.assert_array_equal(ours.predict(X), model.predict(X))
        np.testing.assert_allclose(  # a few units in the last place, as documented
            ours.predict_proba(X), model.predict_proba(X), rtol=1e-6
        )
    # A base score can let it predict the other.
    model = getattr(xgboost, trees)(n_estimators=1, learning_rate=0.01, base_score=0.9)
    model.fit(X, np.zeros(len(X), dtype=int))
    assert (model.predict(X) == 1).all()
    np.testing.assert_array_equal(read_model(model).predict(X), model.predict(X))


@pytest.mark.parametrize("n_seen", [1, 2])
def test_xgboost_with_more_outputs_than_classes_is_refused_or_exact(n_seen):
    xgboost = pytest.importorskip("xgboost")
    y = np.arange(len(X)) % n_seen
    settings = {"n_estimators": 3, "n_jobs": 1, "num_class": 3}
    model = xgboost.XGBClassifier(objective="multi:softprob", **settings).fit(X, y)
    for read in (read_model, spinney.accelerate):
        with pytest.raises(UnsupportedModelError, match=rf"seen {n_seen}.*\nHint"):
            read(model)
    model = xgboost.XGBClassifier(objective="multi:softmax", **settings).fit(X, y)
    for ours in (read_model(model), spinney.accelerate(model)):
        np.testing.assert_array_equal(ours.predict(X), model.predict(X))


def test_xgboost_softmax_over_two_classes_is_read():
    xgboost = pytest.importorskip("xgboost")
    y = (X[:, 0] > 0).astype(int)
    settings = {"objective": "multi:softmax", "num_class": 2, "n_estimators": 5}
    model = xgboost.XGBClassifier(**settings, n_jobs=1).fit(X, y)
    for ours in (read_model(model), spinney.accelerate(model)):
        np.testing.assert_array_equal(ours.predict(X), model.predict(X))
        np.testing.assert_allclose(
            ours.predict_proba(X), model.predict_proba(X), rtol=1e-6
        )
        assert ours.predictor()(X[0]) == model.predict(X[:1])[0]


def test_catboost_is_refused():
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 3, "verbose": 0, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(**settings, allow_const_label=True)
    model.fit(X, np.zeros(len(X), dtype=int))
    with pytest.raises(UnsupportedModelError, match=r"1 classes.*\nHint: "):
        read_model(model)
