"""Calibrated models and moved thresholds: the same trees, decided otherwise."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import spinney
from spinney import InvalidForestError, UnsupportedModelError, read_model
from spinney.forest.curves import Curve, turning_point

VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))
METHODS = ["sigmoid", "isotonic"] + ["temperature"] * (VERSION >= (1, 8))
X, CODES = make_classification(6000, 12, flip_y=0.1, random_state=0)
Y = np.array(["no", "yes"])[CODES]
SMALL = RandomForestClassifier(5, max_depth=3, random_state=0)
TRAINING, CALIBRATION, NEW = slice(0, 1500), slice(1500, 3000), slice(3000, 6000)


def models():
    yield RandomForestClassifier(20, max_depth=5, random_state=0)
    yield ExtraTreesClassifier(20, max_depth=5, random_state=0)
    yield GradientBoostingClassifier(n_estimators=15, random_state=0)
    yield HistGradientBoostingClassifier(max_iter=15, random_state=0)
    lightgbm = pytest.importorskip("lightgbm")
    yield lightgbm.LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1)
    xgboost = pytest.importorskip("xgboost")
    yield xgboost.XGBClassifier(n_estimators=15, n_jobs=1)
    catboost = pytest.importorskip("catboost")
    yield catboost.CatBoostClassifier(
        iterations=15, verbose=0, allow_writing_files=False, thread_count=1
    )


MODELS = {type(model).__name__: model for model in models()}


@pytest.fixture(scope="module", params=MODELS)
def trained(request):
    model = MODELS[request.param]
    y = CODES if request.param.startswith("XGB") else Y
    return model.fit(X[TRAINING], y[TRAINING]), y


def assert_alike(model, forest, exact):
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    found, expected = forest.predict_proba(X), model.predict_proba(X)
    assert found.dtype == expected.dtype
    # XGBoost's exponential function has another last bit, as without a curve.
    np.testing.assert_allclose(
        found, expected, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_calibrated_models_give_the_same_labels_and_probabilities(
    trained, method, tmp_path
):
    inside, y = trained
    model = CalibratedClassifierCV(FrozenEstimator(inside), method=method)
    model.fit(X[CALIBRATION], y[CALIBRATION])
    forest = read_model(model)
    assert_alike(model, forest, exact="XGB" not in type(inside).__name__)
    ask = forest.predictor(kind="proba")
    few = forest.predict_proba(X[:5])
    rows = X[:5].astype(forest.input_dtype)
    for row, wanted in zip(rows, few, strict=True):
        np.testing.assert_array_equal(ask(row), wanted)
    spinney.save(forest, tmp_path / "forest.spinney")
    again = spinney.load(tmp_path / "forest.spinney")
    np.testing.assert_array_equal(again.predict_proba(X), forest.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))


@pytest.mark.parametrize("method", METHODS)
def test_a_model_that_calibration_trains_itself_is_read(method):
    # For a temperature, scikit-learn numbers the labels before it trains the model.
    model = CalibratedClassifierCV(SMALL, method=method, ensemble=False, cv=2)
    model.fit(X[TRAINING], Y[TRAINING])
    assert_alike(model, read_model(model), exact=True)


def test_a_calibrated_model_may_be_left_early(trained):
    inside, y = trained
    model = CalibratedClassifierCV(FrozenEstimator(inside), method="isotonic")
    model.fit(X[CALIBRATION], y[CALIBRATION])
    fast = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.02, random_state=0
    ).fit(X[CALIBRATION])
    labels, n_evaluated = fast.predict_counted(X[NEW])
    assert n_evaluated.mean() < len(fast.order_)
    assert np.mean(labels != model.predict(X[NEW])) < 0.05
    np.testing.assert_array_equal(fast.predict_full(X[NEW]), model.predict(X[NEW]))


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.5, 0.9, 0.0, 1.0, "auto"])
def test_fixed_thresholds_are_the_models(trained, threshold):
    inside, y = trained
    model = FixedThresholdClassifier(FrozenEstimator(inside), threshold=threshold)
    model.fit(X[CALIBRATION], y[CALIBRATION])
    np.testing.assert_array_equal(read_model(model).predict(X), model.predict(X))
    if hasattr(inside, "decision_function"):
        model.set_params(response_method="decision_function", threshold=0.25)
        np.testing.assert_array_equal(read_model(model).predict(X), model.predict(X))


def test_raw_scores_that_are_sums_of_averaged_trees_are_not_taken_for_means():
    lightgbm = pytest.importorskip("lightgbm")
    inside = lightgbm.LGBMClassifier(
        boosting_type="rf",
        n_estimators=15,
        bagging_freq=1,
        bagging_fraction=0.6,
        verbose=-1,
        n_jobs=1,
    ).fit(X[TRAINING], Y[TRAINING])
    frozen, rows = FrozenEstimator(inside), (X[CALIBRATION], Y[CALIBRATION])
    curve = CalibratedClassifierCV(frozen).fit(*rows)
    fast = spinney.accelerate(curve)
    np.testing.assert_array_equal(fast.predict_proba(X), curve.predict_proba(X))
    if not hasattr(inside, "decision_function"):  # before LightGBM 4.7
        return
    moved = FixedThresholdClassifier(
        frozen, threshold=-5.0, response_method="decision_function"
    ).fit(*rows)
    for model in (curve, moved):
        with pytest.raises(UnsupportedModelError, match="raw scores of LightGBM"):
            read_model(model)
    moved.set_params(threshold="auto")  # zero: the sign of both is the same
    np.testing.assert_array_equal(read_model(moved).predict(X), moved.predict(X))


def test_tuned_thresholds_are_the_models(trained):
    inside, y = trained
    model = TunedThresholdClassifierCV(
        FrozenEstimator(inside), cv="prefit", refit=False, scoring="balanced_accuracy"
    ).fit(X[CALIBRATION], y[CALIBRATION])
    np.testing.assert_array_equal(read_model(model).predict(X), model.predict(X))


def test_probabilities_on_the_threshold_itself_are_decided_alike():
    forest = RandomForestClassifier(8, max_depth=3, random_state=0)
    forest.fit(X[TRAINING], Y[TRAINING])
    for threshold in np.unique(forest.predict_proba(X)[:, 1])[::25]:
        model = FixedThresholdClassifier(FrozenEstimator(forest), threshold=threshold)
        model.fit(X[CALIBRATION], Y[CALIBRATION])
        np.testing.assert_array_equal(read_model(model).predict(X), model.predict(X))


def test_calibration_behind_a_pipeline_and_around_one():
    forest = RandomForestClassifier(10, max_depth=4, random_state=0)
    behind = make_pipeline(
        StandardScaler(), CalibratedClassifierCV(forest, ensemble=False, cv=2)
    ).fit(X[TRAINING], Y[TRAINING])
    whole = spinney.AllTreesClassifier(FrozenEstimator(behind)).fit(X)
    np.testing.assert_array_equal(whole.predict(X), behind.predict(X))
    pipeline = make_pipeline(StandardScaler(), forest).fit(X[TRAINING], Y[TRAINING])
    around = CalibratedClassifierCV(FrozenEstimator(pipeline))
    around.fit(X[CALIBRATION], Y[CALIBRATION])
    with pytest.raises(UnsupportedModelError, match="other steps first"):
        read_model(around)


def test_early_exit_goes_through_the_steps_of_the_model_inside(tmp_path):
    forest = RandomForestClassifier(10, max_depth=4, random_state=0)
    pipeline = make_pipeline(StandardScaler(), forest)
    inside = make_pipeline(StandardScaler(), forest)
    inside.fit(X[TRAINING], CODES[TRAINING])
    calibrated = CalibratedClassifierCV(FrozenEstimator(inside), method="isotonic")
    for model in (
        calibrated,
        CalibratedClassifierCV(pipeline, ensemble=False, cv=2),
        FixedThresholdClassifier(pipeline, threshold=0.3),
        FixedThresholdClassifier(FrozenEstimator(inside), threshold=0.3),
        TunedThresholdClassifierCV(pipeline, cv=2),
        FixedThresholdClassifier(calibrated, threshold=0.4),
        make_pipeline(
            StandardScaler(), FixedThresholdClassifier(pipeline, threshold=0.3)
        ),
    ):
        model.fit(X[CALIBRATION], CODES[CALIBRATION])
        whole = spinney.accelerate(model)
        np.testing.assert_array_equal(whole.predict(X), model.predict(X))
        # A moved threshold keeps one score: the other probability is one minus it.
        np.testing.assert_allclose(
            whole.predict_proba(X), model.predict_proba(X), rtol=1e-14, atol=1e-15
        )
        assert whole.predictor()(X[0]) == model.predict(X[:1])[0]
        quick = spinney.CascadeClassifier(
            FrozenEstimator(model), max_disagreement=0, order="natural"
        ).fit(X[CALIBRATION])
        labels, n_evaluated = quick.predict_counted(X[NEW])
        np.testing.assert_array_equal(labels, model.predict(X[NEW]))
        assert n_evaluated.mean() < 10
        spinney.save(quick, tmp_path / "quick.spinney")
        loaded = spinney.load(tmp_path / "quick.spinney")
        np.testing.assert_array_equal(loaded.predict(X[NEW]), labels)


def test_steps_are_known_before_a_model_around_them_is_trained():
    rows = np.where(X > 0, "high", "low")
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="ignore"), SMALL)
    for model in (
        FixedThresholdClassifier(pipeline, threshold=0.45),
        CalibratedClassifierCV(pipeline, ensemble=False, cv=2),
    ):
        quick = spinney.CascadeClassifier(model, max_disagreement=0, order="natural")
        quick.fit(rows[:900], CODES[:900])
        np.testing.assert_array_equal(
            quick.predict(rows[900:1200]), quick.estimator_.predict(rows[900:1200])
        )


def test_what_is_no_threshold_is_refused():
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    folds = CalibratedClassifierCV(forest, cv=3).fit(X[TRAINING], Y[TRAINING])
    with pytest.raises(UnsupportedModelError, match=r"(?s)averages 3 models.*Hint"):
        read_model(folds)
    three = (X[:, 0] > 0) + (X[:, 1] > 0).astype(int)
    forest.fit(X[TRAINING], three[TRAINING])
    several = CalibratedClassifierCV(FrozenEstimator(forest))
    several.fit(X[CALIBRATION], three[CALIBRATION])
    with pytest.raises(UnsupportedModelError, match=r"(?s)3 classes.*Hint"):
        read_model(several)
    forest.fit(X[TRAINING], Y[TRAINING])
    first = FixedThresholdClassifier(
        FrozenEstimator(forest), threshold=0.3, pos_label="no"
    ).fit(X[CALIBRATION], Y[CALIBRATION])
    with pytest.raises(UnsupportedModelError, match=r"(?s)first of.*threshold=0\.7\."):
        read_model(first)
    # What the hint says to do instead.
    inside = read_model(first.estimator_, decision_threshold=0.7)
    rows = np.abs(forest.predict_proba(X)[:, 1] - 0.7) > 1e-9
    assert rows.sum() > 100
    assert np.array_equal(inside.predict(X)[rows], first.predict(X)[rows])


def test_a_falling_curve_is_refused():
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    forest.fit(X[TRAINING], Y[TRAINING])
    upside_down = np.where(Y == "yes", "no", "yes")
    model = CalibratedClassifierCV(FrozenEstimator(forest), method="sigmoid")
    model.fit(X[CALIBRATION], upside_down[CALIBRATION])
    with pytest.raises(UnsupportedModelError, match="must rise"):
        read_model(model)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "probit", "of": "raw", "y": [1.0]},
        {"kind": "sigmoid", "of": "nothing", "y": [-1.0, 0.0]},
        {"kind": "sigmoid", "of": "raw", "y": [-1.0]},
        {"kind": "sigmoid", "of": "raw", "y": [1.0, 0.0]},
        {"kind": "temperature", "of": "raw", "y": [-1.0]},
        {"kind": "temperature", "of": "raw", "y": [np.nan]},
        {"kind": "isotonic", "of": "raw", "x": [], "y": []},
        {"kind": "isotonic", "of": "raw", "x": [0.0, 0.0], "y": [0.0, 1.0]},
        {"kind": "isotonic", "of": "raw", "x": [0.0, 1.0], "y": [1.0, 0.0]},
        {"kind": "isotonic", "of": "raw", "x": [0.0, np.inf], "y": [0.0, 1.0]},
    ],
)
def test_curves_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidForestError):
        Curve(**wrong)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("at", [-3.0, -0.0, 1e-30, 0.1, 7.5])
def test_the_turning_point_is_the_smallest_positive_score(at, dtype):
    at = dtype(at)
    found = turning_point(lambda scores: scores >= at, dtype, 10.0)
    assert dtype(found) == at
    assert turning_point(lambda scores: scores >= 99, dtype, 10.0) > 10
    assert turning_point(lambda scores: scores >= -99, dtype, 10.0) < -10
    wobbling = turning_point_of_wobble
    with pytest.raises(InvalidForestError, match="falls as the score rises"):
        turning_point(wobbling(dtype(1.0)), dtype, 10.0)


def turning_point_of_wobble(at):
    """Return a rule that is positive from `at` on, but for one number above it."""
    hole = np.nextafter(np.nextafter(at, np.inf), np.inf)
    return lambda scores: (scores >= at) & (scores != hole)


# ------------------------------------------------------------------ any threshold


@cache
def boosted(name):
    """Return a model of another library, and rows."""
    X, y = make_classification(1200, 8, weights=[0.8], random_state=4)
    X = X.astype(np.float32)
    if name == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, random_state=0)
    elif name == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(n_estimators=20, random_state=0)
    elif name == "forest":
        model = RandomForestClassifier(20, max_depth=5, random_state=0)
    else:
        model = GradientBoostingClassifier(n_estimators=20, random_state=0)
    return model.fit(X[:600], y[:600]), X


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "forest", "sklearn"])
@pytest.mark.parametrize("threshold", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_labels_are_those_of_comparing_the_probability(name, threshold):
    model, X = boosted(name)
    own = model.predict_proba(X)[:, 1]
    # Also thresholds that are the probability of a row, where >= and > differ.
    for level in (threshold, float(own[0]), float(own[7])):
        forest = spinney.read_model(model, decision_threshold=level)
        np.testing.assert_array_equal(forest.predict(X), (own >= level).astype(int))
    assert spinney.read_model(model, decision_threshold=None).predict(X).tolist() == (
        model.predict(X).tolist()
    )


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, 30, "low", True, np.nan])
def test_a_threshold_out_of_range_is_named(threshold):
    model, _ = boosted("forest")
    with pytest.raises(ValueError, match="decision_threshold must be above 0"):
        spinney.read_model(model, decision_threshold=threshold)


def test_a_threshold_is_for_two_classes():
    X, y = make_classification(300, n_classes=3, n_informative=5, random_state=0)
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="two classes"):
        spinney.read_model(model, decision_threshold=0.3)


def test_scores_of_boosting_behind_a_moved_threshold_are_those_of_the_model_or_absent():
    for inside in (AdaBoostClassifier(n_estimators=3), GradientBoostingClassifier()):
        model = FixedThresholdClassifier(inside, threshold=0.4)
        fast = spinney.accelerate(model.fit(X[TRAINING], CODES[TRAINING]))
        np.testing.assert_array_equal(fast.predict(X), model.predict(X))
        is_ada = isinstance(inside, AdaBoostClassifier)
        assert hasattr(fast, "decision_function") is not is_ada
        if not is_ada:
            own = model.decision_function(X)
            np.testing.assert_array_equal(fast.decision_function(X), own)
