"""What comes before and behind the trees: missing numbers, calibration curves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator

import spinney
from export.native import Native
from spinney.forest.curves import Curve
from strategies import random_forest, random_rows

CURVES = {
    "sigmoid": Curve("sigmoid", "raw", y=np.array([-1.5, 0.25])),
    "isotonic": Curve(
        "isotonic", "raw", np.array([-1.0, 0.0, 0.5, 2.0]), np.array([0, 0.25, 0.25, 1])
    ),
    "narrow": Curve(
        "isotonic",
        "probability",
        np.array([0.2, 0.7], dtype=np.float32),
        np.array([0.1, 0.9], dtype=np.float32),
    ),
    "constant": Curve("isotonic", "raw", np.array([0.0]), np.array([0.75])),
    "temperature": Curve("temperature", "raw", y=np.array([0.7])),
    "of probabilities": Curve("temperature", "probability", y=np.array([2.0])),
}


@pytest.mark.parametrize("sums", ["float32", "float64"])
@pytest.mark.parametrize("name", CURVES)
def test_curves(name, sums, tmp_path):
    forest = random_forest(
        1, n_trees=7, depth=8, task="sum score", sum_dtype=sums
    ).replace(link="logistic", curve=CURVES[name], decision_threshold=0.3)
    rows = forest.engine.rows(random_rows(forest, 500, 0))
    native = Native(forest, tmp_path, numbers="predict_proba")
    raw = forest.engine.raw(rows)
    assert np.array_equal(native.counted(rows)[0], forest.winners(raw))
    rtol = 1e-5 if sums == "float32" or name == "narrow" else 1e-13
    expected = forest.probabilities(raw)
    assert np.allclose(native.numbers(rows), expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_models(method, tmp_path):
    X, y = make_classification(3000, random_state=0)
    model = GradientBoostingClassifier(n_estimators=20).fit(X[:500], y[:500])
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), method=method)
    calibrated.fit(X[500:1000], y[500:1000])
    fast = spinney.accelerate(
        calibrated, X[1000:2000], max_disagreement=0.05, random_state=0
    )
    test = X[2000:]
    native = Native(fast, tmp_path, numbers="predict_proba")
    found = fast.classes_[native.counted(test)[0]]
    assert np.array_equal(found, fast.predict(test))
    expected = calibrated.predict_proba(test)
    assert np.allclose(native.numbers(test), expected, rtol=1e-12, atol=1e-15)
    compiled = spinney.compile(fast)
    assert np.array_equal(compiled.predict_proba(test), native.numbers(test))


@pytest.mark.parametrize("missing", [-999.0, 0.0, 0.1])
@pytest.mark.parametrize("layout", ["fast", "packed"])
def test_a_number_stands_for_missing(missing, layout, tmp_path):
    forest = random_forest(
        3, n_trees=9, depth=12, task="sum score", n_features=4
    ).replace(missing_value=float(np.float32(missing)))
    X = np.array(random_rows(forest, 400, 1, dtype=np.float32))
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.2] = missing
    X[rng.random(X.shape) < 0.1] = -missing  # the other zero; else another number
    expected = forest.winners(forest.engine.raw(forest.engine.rows(X)))
    native = Native(forest, tmp_path, layout=layout)
    assert np.array_equal(native.counted(X)[0], expected)
    compiled = spinney.compile(forest)
    assert np.array_equal(compiled.predict(X), forest.predict(X))


@pytest.mark.parametrize(
    ("kind", "missing", "scale"),
    [
        ("int16", -99.0, 1.0),
        ("int8", -128.0, 1.0),
        ("int32", 0.0, 0.25),
        ("int16", 7.25, 0.25),
        ("int8", 500.0, 1.0),  # no such integer: nothing is missing
    ],
)
def test_an_integer_stands_for_missing(kind, missing, scale, tmp_path):
    forest = random_forest(3, n_trees=9, depth=12, task="sum score", n_features=4)
    forest = forest.replace(missing_value=missing)
    rng = np.random.default_rng(0)
    X = rng.integers(-20, 20, size=(500, 4)).astype(kind)
    if abs(missing / scale) < 129:
        X[rng.random(X.shape) < 0.3] = int(missing / scale)
    expected = forest.winners(forest.engine.raw(forest.engine.rows(X * scale)))
    options = {"input_type": kind, "input_scale": scale, "layout": "packed"}
    native = Native(forest, tmp_path, **options)
    assert np.array_equal(native.counted(X)[0], expected)


def test_a_missing_number_that_differs_by_column_is_refused(tmp_path):
    forest = random_forest(0, n_trees=9, depth=12).replace(missing_value=-50.0)
    with pytest.raises(
        ValueError, match=r"The forest treats .* must be the same int16"
    ):
        spinney.export_c(
            forest,
            tmp_path / "m.c",
            input_type="int16",
            input_scale=[1.0, 0.5, 1.0, 0.5],
        )
    assert list(tmp_path.iterdir()) == []


def test_labels_without_probabilities(tmp_path):
    X, _ = make_classification(800, random_state=0)
    model = IsolationForest(n_estimators=20, random_state=0).fit(X)
    fast = spinney.accelerate(model)
    native = Native(fast, tmp_path)
    found = fast.classes_[native.counted(X)[0]]
    assert np.array_equal(found, model.predict(X))
    assert "proba" not in native.source.header
    compiled = spinney.compile(fast)
    assert np.array_equal(compiled.predict(X), model.predict(X))
    with pytest.raises(spinney.UnsupportedModelError, match="no probabilities"):
        compiled.predict_proba(X)


def test_coded_categories_are_refused(tmp_path):
    catboost = pytest.importorskip("catboost")
    X = [["a", 1.0], ["b", 2.0], ["c", 0.5], ["a", 3.0]] * 30
    y = [0, 1, 1, 0] * 30
    settings = {"iterations": 5, "depth": 2, "verbose": False}
    model = catboost.CatBoostClassifier(
        cat_features=[0], one_hot_max_size=1, **settings
    )
    forest = spinney.read_model(model.fit(X, y))
    with pytest.raises(spinney.UnsupportedModelError, match="encode the categories"):
        spinney.export_c(forest, tmp_path / "model.c")
    assert list(tmp_path.iterdir()) == []


def test_votes_of_classes_that_are_dropped(tmp_path):
    """The default of `accelerate` for boosting with several classes."""
    X, y = make_classification(
        6000, 12, n_informative=8, n_classes=5, class_sep=1.2, random_state=0
    )
    model = GradientBoostingClassifier(n_estimators=30, random_state=0)
    model.fit(X[:1500], y[:1500])
    fast = spinney.accelerate(
        model, X[1500:3500], max_disagreement=0.02, random_state=0, method="cascade"
    )
    assert fast.rule_.leads is not None
    test = X[3500:]
    labels, counts = fast.predict_counted(test)
    assert counts.mean() < 0.8 * fast.forest_.n_trees
    for layout in ("fast", "packed"):
        found, found_counts = Native(fast, tmp_path, layout=layout).counted(test)
        assert np.array_equal(fast.classes_[found], labels)
        assert np.array_equal(found_counts, counts)
    native = Native(fast, tmp_path, arithmetic="integer", X=test, max_disagreement=0.05)
    found, found_counts = native.counted(test)
    assert native.report.is_proven
    assert (fast.classes_[found] != model.predict(test)).mean() <= 0.05
    assert found_counts.mean() < 0.9 * fast.forest_.n_trees


def test_trees_of_one_level(tmp_path):
    model = RandomForestClassifier(3, max_depth=1, random_state=0)
    X, y = make_classification(100, random_state=0)
    forest = spinney.read_model(model.fit(X, y))
    found = Native(forest, tmp_path).counted(X.astype(np.float32))[0]
    assert np.array_equal(found, model.predict(X))
