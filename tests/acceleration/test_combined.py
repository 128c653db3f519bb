"""Models made of models, AdaBoost, isolation forests, several labels: all trees."""

from __future__ import annotations

import json

import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import spinney
from spinney.cli.app import app
from spinney.persistence import container

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
NUMBERS = X[:, 0] + X[:, 1] * X[:, 2]
TWO = (NUMBERS > 0).astype(int)
TEXTS = np.array(["low", "mid", "top"])[np.digitize(NUMBERS, [-0.5, 0.5])]
LABELS = np.column_stack([TEXTS, np.array(["no", "yes"])[TWO]])
# The values of the trees' thresholds and their neighbours are among new rows.
EDGES = np.concatenate([X, np.nextafter(X, np.inf), X.astype(np.float32), [[0.0] * 5]])

forest = RandomForestClassifier(4, max_depth=4, random_state=0)
boosting = HistGradientBoostingClassifier(max_iter=3, max_depth=3, random_state=0)
scaled = make_pipeline(StandardScaler(), LogisticRegression())
trees = RandomForestRegressor(4, max_depth=4, random_state=0)
stumps = DecisionTreeClassifier(max_depth=2)
pair = [("a", forest), ("b", boosting)]
three = [*pair, ("c", scaled)]
numbers = [("a", trees), ("b", AdaBoostRegressor(n_estimators=3, random_state=0))]

MODELS = {
    "hard votes": (VotingClassifier(three), TEXTS),
    "weighted votes": (
        VotingClassifier(three, voting="soft", weights=[1, 2, 3]),
        TEXTS,
    ),
    "one dropped": (VotingClassifier([*pair, ("d", "drop")], voting="soft"), TWO),
    "mean": (VotingRegressor(numbers, weights=[1, 3]), NUMBERS),
    "stack": (StackingClassifier(three, cv=2), TEXTS),
    "stack with rows": (
        StackingClassifier(
            pair,
            GradientBoostingClassifier(n_estimators=3, random_state=0),
            cv=2,
            passthrough=True,
        ),
        TWO,
    ),
    "stack of numbers": (StackingRegressor(numbers, cv=2), NUMBERS),
    "folds": (CalibratedClassifierCV(forest, cv=3, method="isotonic"), TWO),
    "folds, several classes": (CalibratedClassifierCV(boosting, cv=2), TEXTS),
    "several classes": (
        CalibratedClassifierCV(forest, cv=2, ensemble=False, method="isotonic"),
        TEXTS,
    ),
    "another target": (
        TransformedTargetRegressor(trees, func=np.exp, inverse_func=np.log),
        NUMBERS,
    ),
    "boosted stumps": (AdaBoostClassifier(n_estimators=9, random_state=0), TWO),
    "boosted, texts": (
        AdaBoostClassifier(stumps, n_estimators=9, random_state=0),
        TEXTS,
    ),
    "weighted median": (AdaBoostRegressor(n_estimators=9, random_state=0), NUMBERS),
    "isolation": (IsolationForest(n_estimators=9, random_state=0), None),
    "isolation, few columns": (
        IsolationForest(
            n_estimators=9, max_features=0.6, contamination=0.1, random_state=0
        ),
        None,
    ),
    "labels of a tree": (DecisionTreeClassifier(max_depth=4), LABELS),
    "labels of a forest": (forest, LABELS),
    "labels of extra trees": (ExtraTreesClassifier(4, random_state=0), LABELS),
    "behind a scaler": (make_pipeline(StandardScaler(), VotingClassifier(pair)), TWO),
    "models of models": (
        VotingClassifier([("s", StackingClassifier(pair, cv=2)), ("f", forest)]),
        TWO,
    ),
}
if tuple(map(int, __import__("sklearn").__version__.split(".")[:2])) >= (1, 8):
    MODELS["folds, temperature"] = (
        CalibratedClassifierCV(boosting, cv=2, method="temperature"),
        TEXTS,
    )

METHODS = ("predict", "predict_proba", "decision_function", "score_samples")


def in_file(obj, folder):
    spinney.save(obj, folder / "fast.spinney")
    return spinney.load(folder / "fast.spinney")


def assert_same(fast, model, rows):
    for method in METHODS:
        assert hasattr(fast, method) == hasattr(model, method), method
        if hasattr(model, method):
            got, expected = getattr(fast, method)(rows), getattr(model, method)(rows)
            if not isinstance(expected, list):
                got, expected = [got], [expected]
            for one, other in zip(got, expected, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_every_method_returns_what_the_model_returns(name, tmp_path):
    model, target = MODELS[name]
    model = model.fit(X, target)
    fast = spinney.accelerate(model)
    for each in (fast, in_file(fast, tmp_path)):
        assert type(each) is type(fast)
        assert_same(each, model, EDGES)
        assert each.n_features_in_ == 5
        np.testing.assert_array_equal(each.predictor()(X[7]), model.predict(X[7:8])[0])
        assert each.n_trees_ == fast.n_trees_ > 0


def test_probabilities_of_one_row_at_a_time():
    model = VotingClassifier(pair, voting="soft").fit(X, TEXTS)
    one = spinney.accelerate(model).predictor(kind="proba")
    np.testing.assert_array_equal(one(X[3]), model.predict_proba(X[3:4])[0])


def test_models_of_other_libraries_inside(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    members = [
        ("a", lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1)),
        ("b", xgboost.XGBClassifier(n_estimators=4, n_jobs=1)),
    ]
    model = StackingClassifier(members, cv=2).fit(X, TWO)
    fast = in_file(spinney.accelerate(model), tmp_path)
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
    # XGBoost's own exponential function rounds otherwise now and then.
    np.testing.assert_allclose(fast.predict_proba(X), model.predict_proba(X), rtol=1e-6)


def test_nothing_is_held_to_names_that_lightgbm_made_up(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    member = lightgbm.LGBMClassifier(n_estimators=4, verbose=-1, n_jobs=1)
    stack = StackingClassifier([("a", member)], cv=2).fit(X, TWO)
    search = GridSearchCV(member, {"max_depth": [3]}, cv=2).fit(X, TWO)
    moved = FixedThresholdClassifier(member, threshold=0.4).fit(X, TWO)
    frame = pd.DataFrame(X, columns=list("abcde"))
    pairs = ((stack, X), (search, X), (search, frame), (moved, X), (moved, frame))
    for model, rows in pairs:
        fast = in_file(spinney.accelerate(model), tmp_path)
        np.testing.assert_array_equal(fast.predict(rows), model.predict(X))
        assert not hasattr(fast, "feature_names_in_")
    names = [f"Column_{k}" for k in range(5)]
    own = RandomForestClassifier(3).fit(pd.DataFrame(X, columns=names), TWO)
    assert list(spinney.accelerate(own).feature_names_in_) == names


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_several_labels_of_xgboost(strategy, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    labels = np.column_stack([TWO, NUMBERS > 1, X[:, 3] > 0]).astype(int)
    model = xgboost.XGBClassifier(
        n_estimators=4, max_depth=3, multi_strategy=strategy, n_jobs=1
    ).fit(X, labels)
    fast = in_file(spinney.accelerate(model), tmp_path)
    answers = fast.predict(EDGES)
    assert answers.dtype == model.predict(EDGES).dtype
    np.testing.assert_array_equal(answers, model.predict(EDGES))
    shares = model.predict_proba(EDGES)
    np.testing.assert_allclose(fast.predict_proba(EDGES), shares, rtol=4e-7)
    booster = in_file(spinney.accelerate(model.get_booster()), tmp_path)
    np.testing.assert_allclose(booster.predict(EDGES), shares, rtol=4e-7)
    with pytest.raises(spinney.UnsupportedModelError, match="3 labels at once"):
        spinney.read_model(model)


def test_columns_with_names():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = VotingClassifier(three).fit(frame, TEXTS)
    fast = spinney.accelerate(model)
    assert list(fast.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(fast.predict(frame), model.predict(frame))
    row = dict(zip("abcde", X[0], strict=True))
    assert fast.predictor()(row) == model.predict(frame[:1])[0]
    reordered = fast.predict(frame[list("edcba")])
    np.testing.assert_array_equal(reordered, model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        fast.predict(frame[list("abcd")])


def test_early_exit_of_combined_models_is_refused_and_the_way_is_named():
    for name in ("hard votes", "stack", "folds", "several classes", "boosted, texts"):
        model, target = MODELS[name]
        model = model.fit(X, target)
        for refused in (
            lambda model=model: spinney.accelerate(model, X),
            lambda model=model: spinney.read_model(model),
            lambda model=model: spinney.CascadeClassifier(FrozenEstimator(model)).fit(
                X
            ),
        ):
            with pytest.raises(spinney.UnsupportedModelError) as error:
                refused()
            assert "spinney.accelerate(model), without rows" in str(error.value)


@pytest.mark.filterwarnings("ignore:Early exit loses many rows of rare classes")
@pytest.mark.parametrize("name", ["boosted stumps", "isolation"])
def test_what_is_one_threshold_on_one_sum_can_leave_early(name, tmp_path):
    model, target = MODELS[name]
    model = model.fit(X, target)
    read = spinney.read_model(model)
    np.testing.assert_array_equal(read.predict(EDGES), model.predict(EDGES))
    fast = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.0, random_state=0
    ).fit(X)
    labels, counts = in_file(fast, tmp_path).predict_counted(EDGES)
    np.testing.assert_array_equal(labels, model.predict(EDGES))
    assert counts.min() < model.n_estimators
    early = spinney.accelerate(model, X, max_disagreement=0.05, random_state=0)
    assert early.forest_.n_trees == model.n_estimators
    assert np.mean(early.predict(X) != model.predict(X)) < 0.1


def test_adaboost_of_two_classes_has_its_probabilities():
    model = MODELS["boosted stumps"][0].fit(X, TWO)
    # By way of the logistic function instead of two exponential ones.
    np.testing.assert_allclose(
        spinney.read_model(model).predict_proba(X), model.predict_proba(X), rtol=1e-14
    )


def test_an_isolation_forest_has_no_probabilities():
    model = IsolationForest(n_estimators=3).fit(X)
    read = spinney.read_model(model)
    with pytest.raises(spinney.UnsupportedModelError, match="no probabilities"):
        read.predict_proba(X)
    early = spinney.CascadeClassifier(FrozenEstimator(model), max_disagreement=0.0)
    with pytest.raises(spinney.UnsupportedModelError, match="no probabilities"):
        early.fit(X).predict_proba(X)


def test_every_score_of_isolation_decides_as_the_model_does():
    rng = np.random.default_rng(1)
    for contamination in ("auto", 0.01, 0.3, 0.5):
        model = IsolationForest(
            n_estimators=20, contamination=contamination, random_state=0
        ).fit(X)
        rows = rng.normal(scale=2.0, size=(3000, 5))
        read = spinney.read_model(model)
        np.testing.assert_array_equal(read.predict(rows), model.predict(rows))


def test_members_that_are_no_trees_stay_but_some_must_be_trees(tmp_path):
    neighbours = KNeighborsClassifier(3)
    mixed = VotingClassifier([("a", forest), ("b", neighbours)]).fit(X, TWO)
    fast = spinney.accelerate(mixed)
    assert_same(fast, mixed, X)
    assert fast.n_trees_ == 4
    with pytest.raises(TypeError, match="KNeighborsClassifier"):
        spinney.save(fast, tmp_path / "fast.spinney")
    none = VotingClassifier([("a", scaled), ("b", neighbours)]).fit(X, TWO)
    with pytest.raises(spinney.UnsupportedModelError, match="none of its members"):
        spinney.accelerate(none)
    boosted = AdaBoostClassifier(LogisticRegression(), n_estimators=2).fit(X, TWO)
    with pytest.raises(spinney.UnsupportedModelError, match="single trees"):
        spinney.accelerate(boosted)


def test_a_class_that_inherits_may_predict_otherwise():
    class Contrary(VotingClassifier):
        def predict(self, X):
            return 1 - super().predict(X)

    with pytest.raises(spinney.UnsupportedModelError, match="may predict differently"):
        spinney.accelerate(Contrary(pair).fit(X, TWO))


def test_the_model_itself_is_left_alone():
    model = StackingClassifier(pair, cv=2).fit(X, TWO)
    before = [type(member) for member in model.estimators_]
    spinney.accelerate(model)
    assert [type(member) for member in model.estimators_] == before
    assert isinstance(model.final_estimator_, LogisticRegression)


def test_no_rows_and_zero_trees_of_a_label_that_is_always_the_same(tmp_path):
    constant = np.column_stack([TWO, np.zeros(len(TWO), dtype=int)])
    model = RandomForestClassifier(3, random_state=0).fit(X, constant)
    fast = in_file(spinney.accelerate(model), tmp_path)
    assert_same(fast, model, X)
    assert fast.predict(np.empty((0, 5))).shape == (0, 2)
    median = AdaBoostRegressor(n_estimators=3, random_state=0).fit(X, NUMBERS)
    assert spinney.accelerate(median).predict(np.empty((0, 5))).shape == (0,)


@pytest.mark.parametrize("name", ["weighted votes", "weighted median", "isolation"])
def test_forged_parts_are_refused_or_do_no_harm(name, tmp_path):
    model, target = MODELS[name]
    kind = "all_trees_regressor" if target is NUMBERS else "all_trees"
    fast = spinney.accelerate(model.fit(X, target))

    def loaded(change):
        settings, arrays = fast.__spinney_save__()
        settings = json.loads(json.dumps(settings))
        change(settings, arrays)
        chunks = container.encode(container.Contents(kind, settings, arrays))
        path = tmp_path / "forged.spinney"
        path.write_bytes(b"".join(bytes(chunk) for chunk in chunks))
        with pytest.raises(spinney.FormatError):
            spinney.load(path)

    loaded(lambda settings, arrays: settings["combined"].update(kind="sum"))
    loaded(lambda settings, arrays: settings["combined"].update(more=1))
    loaded(lambda settings, arrays: settings.pop("n_columns"))
    loaded(lambda settings, arrays: arrays.update(more=np.arange(3)))
    loaded(lambda settings, arrays: arrays.pop(sorted(arrays)[0]))
    if name == "weighted median":
        loaded(lambda settings, arrays: arrays.update(weights=np.ones(2)))
    if name == "isolation":
        loaded(lambda settings, arrays: settings["combined"].pop("offset"))
    if name == "weighted votes":

        def renamed(settings, arrays):
            text = arrays["model_json"].tobytes().replace(b'"own"', b'"new"')
            arrays["model_json"] = np.frombuffer(text, dtype=np.uint8)

        loaded(renamed)


def test_a_cascade_cannot_be_forged_into_a_combined_model(tmp_path):
    fast = spinney.accelerate(MODELS["isolation"][0].fit(X))
    settings, arrays = fast.__spinney_save__()
    chunks = container.encode(container.Contents("cascade", settings, arrays))
    path = tmp_path / "forged.spinney"
    path.write_bytes(b"".join(bytes(chunk) for chunk in chunks))
    with pytest.raises(spinney.FormatError):
        spinney.load(path)


def test_from_the_command_line(tmp_path):
    import joblib

    def run(*arguments):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    frame = pd.DataFrame(X, columns=list("abcde"))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for model, target, column in (
        (VotingClassifier(three), TEXTS, "label"),
        (VotingRegressor(numbers), NUMBERS, "prediction"),
        (forest, LABELS, "label_1"),
    ):
        model.fit(frame, target)
        joblib.dump(model, tmp_path / "model.joblib")
        out, answers = tmp_path / "fast.spinney", tmp_path / "answers.csv"
        run("accelerate", tmp_path / "model.joblib", "--trust", "-o", out)
        run("predict", out, tmp_path / "rows.csv", "-o", answers)
        expected = np.asarray(model.predict(frame))
        if expected.ndim == 2:
            expected = expected[:, 1]
        # As texts, for the reader of numbers in pandas 2 rounds the last digits.
        got = pd.read_csv(answers, dtype=str)[column].to_numpy()
        if target is NUMBERS:
            np.testing.assert_allclose(got.astype(float), expected, rtol=1e-15)
        else:
            assert (got == expected).all()
        assert "all trees are evaluated" in run("inspect", out)
        assert json.loads(run("inspect", out, "--json"))["forest"]["trees"] > 0
