"""The classifier as users meet it: scikit-learn's checks, libraries, errors, time."""

from __future__ import annotations

import copy
import pickle
import time

import numba
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import datasets
from spinney import InvalidArgumentError, UnsupportedModelError, read_model
from spinney.anytime import AnytimeForestClassifier, AnytimeSession
from spinney.runtime.steps.engine import StepEngine
from strategies import random_forest, random_rows

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)


@parametrize_with_checks(
    [
        AnytimeForestClassifier(
            RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0),
            random_state=0,
        )
    ]
)
def test_scikit_learns_common_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = datasets.bundled("digits")
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def fitted(digits):
    X, y = digits
    model = RandomForestClassifier(12, max_depth=5, random_state=0)
    model.fit(X[:600], y[:600])
    anytime = AnytimeForestClassifier(FrozenEstimator(model))
    return model, anytime.fit(X[600:1200], y[600:1200])


def step_engine(anytime):
    return StepEngine(anytime.forest_, anytime.order_)


def test_full_answer_is_that_of_the_model(fitted, digits):
    model, anytime = fitted
    X = digits[0][1200:]
    n_steps = len(anytime.order_)
    for max_steps in (None, n_steps, n_steps + 1, 10**9, np.int64(n_steps)):
        assert (anytime.predict(X, max_steps=max_steps) == model.predict(X)).all()
        found = anytime.predict_proba(X, max_steps=max_steps)
        np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-12)
    assert (anytime.predict_full(X) == model.predict(X)).all()


def test_accuracy_curve_is_the_accuracy_of_every_prediction(fitted, digits):
    _, anytime = fitted
    X, y = digits[0][1200:], digits[1][1200:]
    curve = anytime.accuracy_curve(X, y)
    assert curve.shape == (len(anytime.order_) + 1,)
    for k in range(len(curve)):
        assert curve[k] == np.mean(anytime.predict(X, max_steps=k) == y)
    assert curve[0] < 0.2 < 0.8 < curve[-1]


def test_probabilities_decide_and_add_up_to_one(fitted, digits):
    _, anytime = fitted
    X = digits[0][1200:]
    for k in (0, 3, 17, len(anytime.order_) - 1):
        found = anytime.predict_proba(X, max_steps=k)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        best = np.take_along_axis(
            found, np.searchsorted(anytime.classes_, anytime.predict(X, k))[:, None], 1
        )
        np.testing.assert_allclose(best[:, 0], found.max(axis=1))


def test_session_answers_like_predict_after_every_step(fitted, digits):
    _, anytime = fitted
    x = digits[0][1234]
    session = anytime.session(x)
    assert isinstance(session, AnytimeSession)
    for k in range(len(anytime.order_) + 1):
        assert session.steps_done == k
        assert session.done == (k == len(anytime.order_))
        assert session.predict() == anytime.predict(x[None], max_steps=k)[0]
        expected = anytime.predict_proba(x[None], max_steps=k)[0]
        np.testing.assert_allclose(session.predict_proba(), expected, rtol=1e-12)
        session.step()
    assert anytime.session(x[None]).step(3).predict() == anytime.predict(x[None], 3)[0]
    assert anytime.session(x.tolist()).steps_done == 0


def test_enough_time_gives_the_answer_of_the_model(fitted, digits):
    model, anytime = fitted
    X = digits[0]
    labels, n_steps = anytime.predict_within(X, seconds=60)
    assert (labels == model.predict(X)).all()
    assert (n_steps == len(anytime.order_)).all()


def test_too_little_time_still_gives_an_answer(fitted, digits):
    _, anytime = fitted
    X = digits[0]
    labels, n_steps = anytime.predict_within(X, seconds=1e-9)
    assert not n_steps.any()
    assert (labels == anytime.predict(X, max_steps=0)).all()


def test_answers_in_time_are_those_of_the_steps_taken(fitted, digits):
    _, anytime = fitted
    X = np.tile(digits[0], (12, 1))
    labels, n_steps = anytime.predict_within(X, seconds=0.004)
    assert labels.shape == n_steps.shape == (len(X),)
    for got in np.unique(n_steps):
        some = n_steps == got
        assert (labels[some] == anytime.predict(X[some], max_steps=int(got))).all()


@pytest.mark.benchmark
@pytest.mark.parametrize("seconds", [0.002, 0.01, 0.05])
def test_predict_within_is_back_in_time(fitted, digits, seconds):
    _, anytime = fitted
    X = np.tile(digits[0], (30, 1))
    late = []
    for _ in range(20):
        begin = time.perf_counter()
        anytime.predict_within(X, seconds=seconds)
        late.append(time.perf_counter() - begin - seconds)
    assert np.median(late) < 0.0002 + 0.02 * seconds


@pytest.mark.benchmark
def test_full_stepping_beats_scikit_learn_and_costs_less_than_twice_the_forest(digits):
    X, y = digits
    model = RandomForestClassifier(100, max_depth=10, random_state=0).fit(X, y)
    anytime = AnytimeForestClassifier(FrozenEstimator(model), order="breadth")
    anytime.fit(X, y)
    rows = anytime.forest_.engine.rows(np.tile(X, (20, 1)))

    def quickest(call):
        times = []
        for _ in range(5):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
        return min(times)

    n_steps = len(anytime.order_)
    engine = step_engine(anytime)
    stepping = quickest(lambda: engine.winners_after(rows, n_steps, None))
    within = quickest(lambda: anytime.predict_within(rows, 60.0))
    plain = quickest(lambda: anytime.forest_.predict(rows))
    assert stepping < quickest(lambda: model.predict(rows))
    assert stepping < 2.0 * plain
    assert within < 2.0 * plain


LIBRARIES = [
    RandomForestClassifier(5, max_depth=4, random_state=0),
    ExtraTreesClassifier(5, max_depth=4, random_state=0),
    DecisionTreeClassifier(max_depth=6, random_state=0),
    GradientBoostingClassifier(n_estimators=5, random_state=0),
    HistGradientBoostingClassifier(max_iter=5, random_state=0),
]


@pytest.mark.parametrize("model", LIBRARIES, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_of_scikit_learn(model, n_classes, digits):
    X, y = digits
    check_model(clone(model), X, y % n_classes)


def check_model(model, X, y):
    """Fit an order for a model and compare its end with the model's own answers."""
    model.fit(X[:500], y[:500])
    anytime = AnytimeForestClassifier(FrozenEstimator(model), n_jobs=2)
    anytime.fit(X[500:1000], y[500:1000])
    X, y = X[1000:], y[1000:]
    expected = np.asarray(model.predict(X)).ravel()
    n_steps = len(anytime.order_)
    rows = anytime.forest_.engine.rows(X)
    winner = step_engine(anytime).winners_after(rows, n_steps, None)
    assert (anytime.classes_[winner] == expected).all()
    assert (anytime.predict(X) == expected).all()
    curve = anytime.accuracy_curve(X, y)
    assert curve[-1] == np.mean(expected == y)
    # Most of the way to the final accuracy is done half-way.
    assert curve[n_steps // 2] > 0.5 * (curve[0] + curve[-1]) - 0.02
    np.testing.assert_allclose(
        anytime.predict_proba(X, max_steps=n_steps - 1).sum(axis=1), 1.0, rtol=1e-5
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_of_lightgbm(n_classes, digits):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = digits
    model = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, n_jobs=1)
    model.fit(X[:500].astype(np.float64), y[:500] % n_classes)
    anytime = AnytimeForestClassifier(FrozenEstimator(model.booster_))
    if n_classes == 2:
        return check_booster(anytime, X, y % 2, model.predict(X[1000:]))
    return check_booster(anytime, X, y % 3, model.predict(X[1000:]))


def check_booster(anytime, X, y, expected):
    X = X.astype(np.float64)
    X[::7, 5] = np.nan
    anytime.fit(X[500:1000], y[500:1000])
    rows = X[1000:]
    keep = ~np.isnan(rows).any(axis=1)
    assert (anytime.predict(rows)[keep] == expected[keep]).all()
    winner = step_engine(anytime).winners_after(
        anytime.forest_.engine.rows(rows), len(anytime.order_), None
    )
    assert (anytime.classes_[winner] == anytime.forest_.predict(rows)).all()
    curve = anytime.accuracy_curve(rows, y[1000:])
    assert curve[-1] > curve[0] + 0.2


@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_of_xgboost(n_classes, digits):
    xgboost = pytest.importorskip("xgboost")
    X, y = digits
    check_model(xgboost.XGBClassifier(n_estimators=6, n_jobs=1), X, y % n_classes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_of_catboost(n_classes, digits):
    catboost = pytest.importorskip("catboost")
    X, y = digits
    model = catboost.CatBoostClassifier(
        iterations=6, depth=4, verbose=False, thread_count=1, allow_writing_files=False
    )
    check_model(model, X, y % n_classes)


def test_forest_serves_as_estimator():
    forest = random_forest(3, n_trees=4, task="mean classes", n_outputs=3)
    X = random_rows(forest, 80)
    y = forest.classes[np.random.default_rng(0).integers(3, size=80)]
    anytime = AnytimeForestClassifier(forest, order="optimal").fit(X, y)
    assert (anytime.predict(X) == forest.predict(X)).all()
    assert anytime.accuracy_curve(X, y).shape == (len(anytime.order_) + 1,)


def test_unfitted_estimator_is_trained_on_a_part_of_the_rows(digits):
    X, y = digits
    anytime = AnytimeForestClassifier(
        RandomForestClassifier(5, max_depth=4, random_state=0), random_state=3
    ).fit(X, y)
    assert anytime.score(X, y) > 0.6
    again = clone(anytime).fit(X, y)
    assert (again.order_ == anytime.order_).all()


def test_pipeline_prepares_rows(digits):
    X, y = digits
    model = make_pipeline(
        StandardScaler(), RandomForestClassifier(5, max_depth=4, random_state=0)
    ).fit(X[:600], y[:600])
    anytime = AnytimeForestClassifier(FrozenEstimator(model)).fit(X[600:], y[600:])
    assert (anytime.predict(X) == model.predict(X)).all()
    assert anytime.session(X[0]).step(10**6).predict() == model.predict(X[:1])[0]


def test_data_frames_and_their_rows(digits):
    pandas = pytest.importorskip("pandas")
    X, y = digits
    frame = pandas.DataFrame(X, columns=[f"pixel {c}" for c in range(X.shape[1])])
    model = RandomForestClassifier(5, max_depth=4, random_state=0)
    model.fit(frame[:600], y[:600])
    anytime = AnytimeForestClassifier(FrozenEstimator(model))
    anytime.fit(frame[600:900], y[600:900])
    assert (anytime.predict(frame) == model.predict(frame)).all()
    for x in (frame.iloc[7], frame.iloc[[7]]):
        assert anytime.session(x).step(9).predict() == anytime.predict(frame[7:8], 9)[0]


def test_pickles_and_copies_answer_alike(fitted, digits):
    _, anytime = fitted
    X = digits[0]
    for other in (pickle.loads(pickle.dumps(anytime)), copy.deepcopy(anytime)):
        assert (other.predict(X, max_steps=9) == anytime.predict(X, max_steps=9)).all()
        assert other.session(X[0]).step(4).steps_done == 4


def test_no_rows_have_no_answers(fitted):
    forest = random_forest(3, n_trees=4, task="vote")
    X = random_rows(forest, 20)
    y = forest.predict(X)
    anytime = AnytimeForestClassifier(forest).fit(X, y)
    rows = anytime.forest_.engine.rows(X[:0])
    assert step_engine(anytime).winners_after(rows, 2, None).shape == (0,)


# ------------------------------------------------------------------ bad input


def test_not_fitted_yet(digits):
    anytime = AnytimeForestClassifier(RandomForestClassifier())
    with pytest.raises(NotFittedError):
        anytime.predict(digits[0])
    with pytest.raises(NotFittedError):
        anytime.session(digits[0][0])


@pytest.mark.parametrize("max_steps", [-1, 0.5, 3.0, True, "all"])
def test_max_steps_must_be_a_whole_number(fitted, digits, max_steps):
    _, anytime = fitted
    for method in (anytime.predict, anytime.predict_proba):
        with pytest.raises(InvalidArgumentError, match="max_steps must be an integer"):
            method(digits[0], max_steps=max_steps)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "1", None, True])
def test_seconds_must_be_above_zero(fitted, digits, seconds):
    _, anytime = fitted
    with pytest.raises(InvalidArgumentError, match="seconds must be"):
        anytime.predict_within(digits[0], seconds=seconds)


def test_ordering_rows_of_the_wrong_width(fitted, digits):
    model, _ = fitted
    X, y = digits
    with pytest.raises(ValueError, match="features"):
        AnytimeForestClassifier(FrozenEstimator(model)).fit(X[:, :5], y)


def test_labels_that_the_model_does_not_know(fitted, digits):
    model, anytime = fitted
    X, y = digits
    with pytest.raises(InvalidArgumentError, match="which the model does not know"):
        AnytimeForestClassifier(FrozenEstimator(model)).fit(X, y + 2)
    with pytest.raises(InvalidArgumentError, match="does not know"):
        anytime.accuracy_curve(X, y + 2)
    with pytest.raises(InvalidArgumentError, match="one label for each of the 4 rows"):
        anytime.accuracy_curve(X[:4], y[:3])


def test_labels_are_needed(fitted, digits):
    model, _ = fitted
    with pytest.raises(InvalidArgumentError, match="requires y to be passed"):
        AnytimeForestClassifier(FrozenEstimator(model)).fit(digits[0], None)


def test_bad_orders_are_refused_by_fit(fitted, digits):
    model, _ = fitted
    X, y = digits
    with pytest.raises(InvalidArgumentError, match="order must be one of"):
        AnytimeForestClassifier(FrozenEstimator(model), order="best").fit(X, y)
    with pytest.raises(InvalidArgumentError, match="which is 5 deep"):
        AnytimeForestClassifier(FrozenEstimator(model), order=[0, 1, 2]).fit(X, y)
    deep = RandomForestClassifier(40, random_state=0).fit(X, y)
    with pytest.raises(InvalidArgumentError, match="backward_squirrel"):
        AnytimeForestClassifier(FrozenEstimator(deep), order="optimal").fit(X, y)


def test_regressors_are_refused(digits):
    from sklearn.ensemble import RandomForestRegressor

    X, y = digits
    model = RandomForestRegressor(3, random_state=0).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="classifier"):
        AnytimeForestClassifier(FrozenEstimator(model)).fit(X, y)


def test_forests_without_inner_values_are_refused():
    forest = random_forest(0, task="sum classes", shape="balanced", depth=2)
    silent = forest.replace(
        value=np.where(forest.feature[:, None] >= 0, 0.0, forest.value)
    )
    X = random_rows(forest, 10)
    with pytest.raises(UnsupportedModelError, match="inner nodes"):
        AnytimeForestClassifier(silent).fit(X, forest.predict(X))


def test_sessions_take_one_row(fitted, digits):
    _, anytime = fitted
    with pytest.raises(InvalidArgumentError, match="one row of 64 numbers, got 2 rows"):
        anytime.session(digits[0][:2])
    with pytest.raises(ValueError, match="features"):
        anytime.session(digits[0][0, :5])


def test_plot_draws_a_point_per_state(fitted, digits):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, anytime = fitted
    X, y = digits
    ax = anytime.plot(X[1200:], y[1200:])
    drawn = ax.lines[0].get_xydata()
    assert len(drawn) == len(anytime.order_) + 1
    assert drawn[:, 1].tolist() == anytime.accuracy_curve(X[1200:], y[1200:]).tolist()
    assert anytime.plot(X[1200:], y[1200:], ax=ax) is ax
    assert len(ax.lines) == 2
    pyplot.close(ax.figure)


def test_what_a_reader_gives_is_enough(fitted):
    model, anytime = fitted
    forest = read_model(model)
    assert (forest.depths == np.bincount(anytime.order_)).all()


def test_progress_never_goes_back_and_ends_at_1(capsys):
    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(12, max_depth=4, random_state=0).fit(X, y)
    shares = []
    AnytimeForestClassifier(FrozenEstimator(model), verbose=shares.append).fit(X, y)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 2
    AnytimeForestClassifier(FrozenEstimator(model), verbose=True).fit(X, y)
    assert "ordering [########################################] 100%" in (
        capsys.readouterr().err
    )
