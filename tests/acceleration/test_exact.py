"""``accelerate(model)`` without rows: a drop-in, whatever the model is."""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import spinney
from spinney import AllTreesClassifier, AllTreesRegressor

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
X[::37, 1] = np.nan
NUMBERS = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2])
TWO = (NUMBERS > 0).astype(int)
THREE = np.digitize(NUMBERS, [-0.5, 0.5])
TEXTS = np.array(["low", "mid", "top"])[THREE]
WHOLE = np.nan_to_num(X)


def lightgbm_models():
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"n_estimators": 6, "num_leaves": 5, "verbose": -1, "n_jobs": 1}
    yield lightgbm.LGBMClassifier(**settings).fit(X, TEXTS)
    yield lightgbm.LGBMRegressor(**settings).fit(X, NUMBERS)
    yield lightgbm.LGBMRanker(**settings).fit(X, THREE, group=[40] * 10)
    for objective, target in (("binary", TWO), ("regression", NUMBERS)):
        data = lightgbm.Dataset(X, target)
        yield lightgbm.train({"objective": objective, "verbose": -1}, data, 6)


def xgboost_models():
    xgboost = pytest.importorskip("xgboost")
    settings = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}
    yield xgboost.XGBClassifier(**settings).fit(X, THREE)
    yield xgboost.XGBRegressor(**settings).fit(X, NUMBERS)
    groups = np.repeat(np.arange(10), 40)
    yield xgboost.XGBRanker(**settings).fit(X, THREE, qid=groups)


def catboost_models():
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 6, "verbose": 0, "allow_writing_files": False}
    for model, target in (
        (catboost.CatBoostClassifier(**settings), TEXTS),
        (catboost.CatBoostRegressor(**settings), NUMBERS),
        (catboost.CatBoost({"loss_function": "Logloss", **settings}), TWO),
    ):
        yield model.fit(X, target)


def sklearn_models():
    yield RandomForestClassifier(6, random_state=0).fit(X, TEXTS)
    yield RandomForestRegressor(6, random_state=0).fit(X, NUMBERS)
    targets = np.column_stack([NUMBERS, X[:, 3]])
    yield RandomForestRegressor(6, random_state=0).fit(X, targets)
    yield HistGradientBoostingClassifier(max_iter=6).fit(X, THREE)
    yield GradientBoostingRegressor(n_estimators=6).fit(WHOLE, NUMBERS)
    yield make_pipeline(StandardScaler(), RandomForestClassifier(6)).fit(X, TWO)
    yield make_pipeline(StandardScaler(), RandomForestRegressor(6)).fit(X, NUMBERS)


def in_file(obj, folder):
    spinney.save(obj, folder / "fast.spinney")
    return spinney.load(folder / "fast.spinney")


# Sums are those of the library to the last bit; the exponential function of NumPy,
# which probabilities of several classes go through, may differ from it in that bit.
def assert_same(got, expected):
    if expected.dtype != object:  # texts of CatBoost, and those of a file
        assert got.dtype == expected.dtype
    if got.dtype.kind == "f":
        np.testing.assert_allclose(
            got, expected, rtol=4e-7 if got.itemsize == 4 else 1e-15
        )
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "models", [sklearn_models, lightgbm_models, xgboost_models, catboost_models]
)
def test_answers_are_those_of_the_model(models, tmp_path):
    for model in models():
        rows = WHOLE if isinstance(model, GradientBoostingRegressor) else X
        fast = spinney.accelerate(model)
        for each in (fast, in_file(fast, tmp_path)):
            assert type(each) is type(fast)
            got = each.predict(rows)
            assert_same(got, np.asarray(model.predict(rows)).reshape(got.shape))
            assert each.n_features_in_ == 5
            for method in ("predict_proba", "decision_function"):
                if isinstance(each, AllTreesClassifier) and hasattr(model, method):
                    assert_same(
                        getattr(each, method)(rows), getattr(model, method)(rows)
                    )
            if hasattr(model, "classes_") and hasattr(each, "classes_"):
                np.testing.assert_array_equal(each.classes_, model.classes_)
            one = each.predictor()
            dtype = each.forest_.input_dtype
            for row in rows[:40].astype(dtype):
                np.testing.assert_array_equal(one(row), each.predict(row[None])[0])


def test_a_booster_answers_with_probabilities_and_with_labels_once_rows_come():
    lightgbm = pytest.importorskip("lightgbm")
    for parameters, target in (
        ({"objective": "binary"}, TWO),
        ({"objective": "multiclass", "num_class": 3}, THREE),
    ):
        data = lightgbm.Dataset(X, target)
        booster = lightgbm.train({"verbose": -1, **parameters}, data, 6)
        fast = spinney.accelerate(booster)
        expected = booster.predict(X)
        np.testing.assert_allclose(fast.predict(X), expected, rtol=1e-15)
        np.testing.assert_allclose(fast.predictor()(X[3]), expected[3], rtol=1e-15)
        labels, counts = fast.predict_counted(X)
        assert (labels == fast.forest_.predict(X)).all()
        assert (counts == fast.forest_.n_trees).all()
        assert fast.predict_proba(X).shape == (len(X), len(fast.classes_))
        assert spinney.certify(fast, X).n_disagreements == 0
        early = spinney.accelerate(booster, X, max_disagreement=0.0)
        assert (early.predict(X) == labels).all()


def test_a_file_is_taken_as_the_object_that_was_saved(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1}, lightgbm.Dataset(X, TWO), 6
    )
    booster.save_model(tmp_path / "model.txt")
    fast = spinney.accelerate(tmp_path / "model.txt")
    np.testing.assert_array_equal(fast.predict(X), booster.predict(X))


def test_frames_and_their_names():
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = RandomForestRegressor(4, random_state=0).fit(frame, NUMBERS)
    fast = spinney.accelerate(model)
    assert list(fast.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(fast.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(
        fast.predict(frame[list("edcba")]), model.predict(frame)
    )
    assert fast.predictor()(dict(zip("abcde", X[0], strict=True))) == fast.predict(
        frame[:1]
    )


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_frames_of_other_libraries_give_no_warning(library):
    module = pytest.importorskip(library)
    name, settings = {
        "lightgbm": ("LGBMClassifier", {"n_estimators": 4, "verbose": -1}),
        "xgboost": ("XGBClassifier", {"n_estimators": 4}),
        "catboost": (
            "CatBoostClassifier",
            {"iterations": 4, "verbose": False, "allow_writing_files": False},
        ),
    }[library]
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = getattr(module, name)(**settings).fit(frame, TWO)
    fast = spinney.accelerate(model)
    # Warnings are errors here.
    expected = model.predict(frame)
    np.testing.assert_array_equal(fast.predict(frame), expected)
    np.testing.assert_array_equal(fast.predict(X), expected)
    np.testing.assert_array_equal(fast.predict(frame[list("edcba")]), expected)
    with pytest.raises(ValueError, match="4 features"):
        fast.predict(frame[list("abcd")])


def test_a_pipeline_that_was_fitted_on_texts(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 2] > 0, "yes", "no")})
    by_column = ColumnTransformer(
        [("texts", OneHotEncoder(), ["b"])], remainder="passthrough"
    )
    for last, target in (
        (RandomForestRegressor(4, random_state=0), NUMBERS),
        (RandomForestClassifier(4, random_state=0), TEXTS),
    ):
        pipeline = make_pipeline(by_column, last).fit(frame, target)
        fast = in_file(spinney.accelerate(pipeline), tmp_path)
        np.testing.assert_array_equal(fast.predict(frame), pipeline.predict(frame))
        row = {"a": 0.5, "b": "no"}
        expected = pipeline.predict(pd.DataFrame([row]))[0]
        assert fast.predictor()(row) == expected
    share = fast.predictor(kind="proba")({"a": 0.5, "b": "no"})
    np.testing.assert_array_equal(share, pipeline.predict_proba(pd.DataFrame([row]))[0])


def test_another_decision_threshold():
    model = RandomForestClassifier(9, max_depth=3, random_state=0).fit(X, TWO)
    fast = spinney.accelerate(model, decision_threshold=0.8)
    share = model.predict_proba(X)
    np.testing.assert_array_equal(fast.predict(X), (share[:, 1] >= 0.8).astype(int))
    np.testing.assert_array_equal(fast.predict_proba(X)[:, 1], share[:, 1])


def test_a_regressor_cannot_leave_early_and_is_told_what_works():
    model = RandomForestRegressor(4).fit(X, NUMBERS)
    for kind in (
        spinney.accelerate,
        lambda model, X: spinney.CascadeClassifier(FrozenEstimator(model)).fit(X),
    ):
        with pytest.raises(spinney.UnsupportedModelError, match="Early exit is for"):
            kind(model, X)


def test_early_exit_by_name_needs_rows():
    model = RandomForestClassifier(4).fit(X, TWO)
    with pytest.raises(spinney.InvalidArgumentError, match="needs rows"):
        spinney.accelerate(model, method="cascade")


def test_each_class_refuses_models_of_the_other_kind():
    regressor = FrozenEstimator(RandomForestRegressor(4).fit(X, NUMBERS))
    classifier = FrozenEstimator(RandomForestClassifier(4).fit(X, TWO))
    with pytest.raises(spinney.UnsupportedModelError, match="Use AllTreesRegressor"):
        AllTreesClassifier(regressor).fit()
    for rows in (None, X):
        with pytest.raises(spinney.UnsupportedModelError, match="AllTreesClassifier"):
            AllTreesRegressor(classifier).fit(rows)
    with pytest.raises(spinney.InvalidArgumentError, match="kind must be"):
        AllTreesClassifier(classifier).fit().predictor(kind="raw")


def test_decision_function_is_there_only_where_the_model_has_one():
    forest = spinney.accelerate(RandomForestClassifier(4).fit(X, TWO))
    assert not hasattr(forest, "decision_function")


def test_what_is_no_tree_is_refused():
    model = LogisticRegression().fit(WHOLE, TWO)
    with pytest.raises(spinney.UnsupportedModelError, match="cannot be read"):
        spinney.accelerate(model)


class Nameless(TransformerMixin, BaseEstimator):
    """A step that does not know how many columns it takes."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X)

    def __sklearn_is_fitted__(self):
        return True


def test_a_pipeline_need_not_tell_its_columns():
    pipeline = make_pipeline(Nameless(), RandomForestClassifier(3)).fit(X, TWO)
    expected = pipeline.predict(X)
    fast = spinney.accelerate(pipeline)
    np.testing.assert_array_equal(fast.predict(X), expected)
    assert not hasattr(fast, "n_features_in_")
    assert [fast.predictor()(row) for row in X[:5]] == expected[:5].tolist()
    one = pd.DataFrame(X[:1])
    assert fast.predictor()(one) == expected[0]
    whole = AllTreesClassifier(FrozenEstimator(pipeline)).fit(X)
    np.testing.assert_array_equal(whole.predict(X), expected)


def test_a_column_transformer_takes_further_columns_as_scikit_learn_does():
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    chosen = ColumnTransformer([("scaled", StandardScaler(), ["c1", "c0"])])
    pipeline = make_pipeline(chosen, RandomForestClassifier(3, random_state=0))
    more = frame.assign(more="x")[["more", *frame.columns]]
    for model in (pipeline, VotingClassifier([("a", pipeline)], voting="soft")):
        fast = spinney.accelerate(model.fit(frame, TWO))
        expected = model.predict_proba(more)
        np.testing.assert_array_equal(fast.predict_proba(more), expected)
        assert (fast.predictor("proba")(more[:1]) == expected[0]).all()
        with pytest.raises(ValueError, match="c0"):
            fast.predict(more.drop(columns="c0"))


WORDS = np.array(["good", "bad", "fine", "odd", "house", "tree"])
LETTERS = [
    " ".join(words)
    for words in np.random.default_rng(0).choice(WORDS, size=(len(X), 5))
]
GOOD = np.array(["good" in text for text in LETTERS])


@pytest.mark.parametrize(
    "vectoriser", [TfidfVectorizer(), HashingVectorizer(n_features=16)]
)
def test_a_pipeline_may_begin_with_texts(vectoriser, tmp_path):
    model = RandomForestClassifier(8, random_state=0)
    pipeline = make_pipeline(vectoriser, model).fit(LETTERS, GOOD)
    for fast in (
        spinney.accelerate(pipeline),
        spinney.CascadeClassifier(FrozenEstimator(pipeline), random_state=0).fit(
            LETTERS
        ),
    ):
        own = fast.predict_model(LETTERS)
        assert own.tolist() == pipeline.predict(LETTERS).tolist()
        labels = fast.predict(LETTERS).tolist()
        assert [fast.predictor()(text) for text in LETTERS[:9]] == labels[:9]
        share = fast.predictor(kind="proba")(LETTERS[0])
        np.testing.assert_array_equal(share, fast.predict_proba(LETTERS[:1])[0])
        monitor = spinney.Monitor(fast, share=1.0)
        assert [monitor.predictor()(text) for text in LETTERS[:9]] == labels[:9]
        assert monitor.status()["n_checked"] == 9
        with pytest.raises(TypeError, match="without pickle"):
            spinney.save(fast, tmp_path / "fast.spinney")
        pytest.importorskip("skops")
        spinney.save(fast, tmp_path / "fast.spinney", unknown_steps="skops")
        again = spinney.load(tmp_path / "fast.spinney", trusted=[])
        assert again.predict(LETTERS).tolist() == labels
        assert again.predictor()(LETTERS[0]) == labels[0]
        assert fast.report(LETTERS, GOOD)["model"]["n_features"] > 1
    # A table is no text: scikit-learn says so, as the pipeline itself does.
    with pytest.raises((AttributeError, TypeError, ValueError)):
        fast.predict(X)


def test_rows_of_a_pipeline_may_be_dicts_of_any_names():
    rows = [dict.fromkeys(text.split(), 1.0) for text in LETTERS]
    model = RandomForestClassifier(8, random_state=0)
    pipeline = make_pipeline(DictVectorizer(), model).fit(rows, GOOD)
    fast = spinney.accelerate(pipeline)
    expected = pipeline.predict(rows).tolist()
    assert fast.predict(rows).tolist() == expected
    assert [fast.predictor()(row) for row in rows[:9]] == expected[:9]


@pytest.mark.parametrize("steps", [["passthrough"], [None, StandardScaler()]])
def test_a_pipeline_may_begin_with_a_step_that_does_nothing(steps):
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    steps = [(f"step{k}", step) for k, step in enumerate(steps)]
    pipeline = Pipeline([*steps, ("forest", RandomForestClassifier(3))])
    fast = spinney.accelerate(pipeline.fit(frame, TWO))
    np.testing.assert_array_equal(fast.predict(frame), pipeline.predict(frame))
    assert fast.n_features_in_ == X.shape[1]
    assert list(fast.feature_names_in_) == list(frame.columns)


@parametrize_with_checks(
    [AllTreesRegressor(DecisionTreeRegressor(max_depth=3, random_state=0))]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_a_regressor_is_trained_inside_cross_validation():
    scores = cross_val_score(
        AllTreesRegressor(RandomForestRegressor(8, random_state=0)),
        WHOLE,
        NUMBERS,
        cv=3,
    )
    own = cross_val_score(
        RandomForestRegressor(8, random_state=0), WHOLE, NUMBERS, cv=3
    )
    np.testing.assert_array_equal(scores, own)


def test_a_forged_regressor_is_refused(tmp_path):
    from spinney.persistence import container

    fast = spinney.accelerate(RandomForestRegressor(2).fit(X, NUMBERS))
    settings, arrays = fast.__spinney_save__()
    arrays["forest.classes"] = np.arange(1)
    chunks = container.encode(
        container.Contents("all_trees_regressor", settings, arrays)
    )
    path = tmp_path / "forged.spinney"
    path.write_bytes(b"".join(bytes(chunk) for chunk in chunks))
    with pytest.raises(spinney.FormatError, match="must not have classes"):
        spinney.load(path)


def test_exported_code_of_a_regressor(tmp_path):
    model = RandomForestRegressor(3, max_depth=3, random_state=0).fit(WHOLE, NUMBERS)
    fast = spinney.accelerate(model)
    spinney.export_c(fast, tmp_path / "model.c")
    assert "double" in (tmp_path / "model.c").read_text()


def test_raw_scores_are_the_models_where_its_probabilities_are_of_a_mean(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = lightgbm.LGBMClassifier(
        boosting_type="rf",
        n_estimators=3,
        bagging_freq=1,
        bagging_fraction=0.6,
        verbose=-1,
        n_jobs=1,
    ).fit(X, X[:, 0] > 0)
    fast = spinney.accelerate(model)
    for each in (fast, in_file(fast, tmp_path)):
        assert hasattr(each, "decision_function") == hasattr(model, "decision_function")
        if hasattr(each, "decision_function"):  # since LightGBM 4.7
            assert_same(each.decision_function(X), model.predict(X, raw_score=True))
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
