"""Steps before a model in files: they transform as before, and nothing else gets in."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

import spinney
from spinney import FormatError, SpinneyWarning
from spinney.persistence.steps import steps_from_arrays, steps_to_arrays

NUMBERS, TEXTS = ["age", "hours"], ["job", "größe"]


def people(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_rows).astype(float),
            "job": rng.choice(np.array(["smith", "cook", "", "日本"], object), n_rows),
            "hours": rng.lognormal(size=n_rows),
            "größe": rng.choice(np.array(["s", "m", "l"], object), n_rows),
        }
    )
    y = (frame["age"] > 40) ^ (frame["job"] == "cook") ^ (rng.random(n_rows) < 0.1)
    frame.loc[::9, "age"] = np.nan
    frame.loc[::11, "job"] = None
    return frame, y.to_numpy().astype(int)


def new_people():
    frame, _ = people(200, seed=1)
    frame.loc[::7, "job"] = "unseen"
    frame.loc[::13, "größe"] = None
    return frame


def columns(step, which=NUMBERS, **settings):
    return ColumnTransformer([("step", step, which)], **settings)


FILLED = SimpleImputer(strategy="constant", fill_value="?")
STEPS = {
    "standard scaler": columns(StandardScaler()),
    "standard scaler, no mean": columns(StandardScaler(with_mean=False)),
    "min max": columns(MinMaxScaler(clip=True)),
    "max abs": columns(MaxAbsScaler()),
    "logarithm": columns(FunctionTransformer(np.log1p)),
    "robust": columns(RobustScaler()),
    "normalizer": columns(make_pipeline(SimpleImputer(), Normalizer())),
    "binarizer": columns(make_pipeline(SimpleImputer(), Binarizer(threshold=30))),
    "imputer with flags": columns(SimpleImputer(strategy="median", add_indicator=True)),
    "indicator": FeatureUnion(
        [("flags", columns(MissingIndicator())), ("rest", columns(RobustScaler()))]
    ),
    "quantiles": columns(QuantileTransformer(n_quantiles=20)),
    "powers": columns(PowerTransformer()),
    "bins": columns(
        make_pipeline(SimpleImputer(), KBinsDiscretizer(4, encode="ordinal"))
    ),
    "polynomials": columns(make_pipeline(SimpleImputer(), PolynomialFeatures(2))),
    "variance": make_pipeline(columns(SimpleImputer()), VarianceThreshold(0.1)),
    "one hot": columns(
        OneHotEncoder(handle_unknown="ignore", sparse_output=False), TEXTS
    ),
    "one hot, rare ones together": columns(
        make_pipeline(
            FILLED,
            OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                min_frequency=70,
                sparse_output=False,
                dtype=np.float32,
            ),
        ),
        TEXTS,
    ),
    "one hot, first dropped": columns(
        OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop="first"), TEXTS
    ),
    "ordinal": columns(
        OrdinalEncoder(
            handle_unknown="use_encoded_value",
            unknown_value=-1,
            encoded_missing_value=-2,
        ),
        TEXTS,
    ),
    "target": columns(make_pipeline(FILLED, TargetEncoder()), TEXTS),
    "passed through": columns("drop", TEXTS, remainder="passthrough"),
    "remainder": columns(MinMaxScaler(), ["age"], remainder=columns("drop", TEXTS)),
    "selector": ColumnTransformer(
        [("n", StandardScaler(), make_column_selector(dtype_include="number"))]
    ),
    "by number": ColumnTransformer(
        [("a", RobustScaler(), [0]), ("b", "passthrough", slice(2, 3))]
    ),
    "by flags": columns(StandardScaler(), [True, False, True, False]),
    "frames": columns(StandardScaler()).set_output(transform="pandas"),
    "nothing": make_pipeline(columns(StandardScaler()), FunctionTransformer()),
}


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.filterwarnings("ignore:Bins whose width")
@pytest.mark.filterwarnings("ignore:The current default behavior")
@pytest.mark.parametrize("name", STEPS)
def test_loaded_steps_transform_to_the_last_bit(name):
    frame, y = people()
    steps = STEPS[name].fit(frame, y)
    arrays = steps_to_arrays("steps", steps)
    again = steps_from_arrays("steps", dict(arrays))
    for rows in (frame, new_people()):
        before, after = steps.transform(rows), again.transform(rows)
        assert type(before) is type(after)
        before, after = np.asarray(before), np.asarray(after)
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)
    twice = steps_to_arrays("steps", again)
    assert {key: one.tobytes() for key, one in arrays.items()} == {
        key: one.tobytes() for key, one in twice.items()
    }


@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_a_classifier_keeps_its_pipeline_in_its_file(tmp_path):
    frame, y = people(2000)
    steps = ColumnTransformer(
        [
            ("n", SimpleImputer(), NUMBERS),
            ("t", STEPS["ordinal"].transformers[0][1], TEXTS),
        ]
    )
    model = make_pipeline(
        steps, RandomForestClassifier(20, max_depth=6, random_state=0)
    )
    search = GridSearchCV(model, {"randomforestclassifier__max_depth": [5]}, cv=2)
    search.fit(frame[:1000], y[:1000])
    fast = spinney.SequentialVotingClassifier(
        FrozenEstimator(search), max_disagreement=0.02, random_state=0
    ).fit(frame[1000:])
    spinney.save(fast, tmp_path / "a")
    again = spinney.load(tmp_path / "a")
    rows = new_people()
    assert np.array_equal(again.predict(rows), fast.predict(rows))
    assert np.array_equal(again.predict_full(rows), search.predict(rows))
    assert again.n_features_in_ == 4
    spinney.save(again, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    expected = again.predict(rows[:1])[0]
    ask = again.predictor()
    values = rows.iloc[0].to_dict()
    for row in (values, rows[:1], list(values.values()), rows.to_numpy(object)[0]):
        assert ask(row) == expected
    del values["job"]
    with pytest.raises(ValueError, match="missing are 'job'"):
        ask(values)


class Doubling(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return 2 * X


class OwnScaler(StandardScaler):
    pass


@pytest.mark.parametrize(
    "step",
    [FunctionTransformer(np.sort), Doubling(), OwnScaler()],
    ids=["function", "own", "inherited"],
)
def test_what_is_not_known_is_refused_and_named(step, tmp_path):
    frame, y = people()
    steps = columns(make_pipeline(SimpleImputer(), step)).fit(frame, y)
    with pytest.raises(TypeError, match=r"(?s)without pickle.*Hint.*StandardScaler"):
        steps_to_arrays("steps", steps)


def test_another_version_of_scikit_learn_is_told():
    frame, y = people()
    arrays = steps_to_arrays("steps", columns(StandardScaler()).fit(frame, y))
    document = json.loads(arrays["steps_json"].tobytes())
    document["sklearn"] = "0.21.3"
    arrays["steps_json"] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    with pytest.warns(SpinneyWarning, match="saved with scikit-learn '0.21.3'"):
        steps_from_arrays("steps", arrays)


def forged(steps):
    from sklearn import __version__

    text = json.dumps({"sklearn": __version__, "steps": steps})
    return {"steps_json": np.frombuffer(text.encode(), np.uint8)}


@pytest.mark.parametrize(
    "steps",
    [
        None,
        "text",
        [],
        {},
        {"a": 1, "b": 2},
        {"step": "StandardScaler"},
        {"step": ["os.system", {}]},
        {"step": ["RandomForestClassifier", {}]},
        {"step": ["StandardScaler", [1]]},
        {"step": [["StandardScaler"], {}]},
        {"step": ["StandardScaler", {"mean_": {"array": 0}}]},
        {"step": ["StandardScaler", {"mean_": {"array": "0"}}]},
        {"step": ["StandardScaler", {"mean_": {"estimator": 0}}]},
        {"step": ["StandardScaler", {"mean_": {"objects": ["object", [9], [1]]}}]},
        {"step": ["StandardScaler", {"mean_": {"objects": ["S", [1], [1]]}}]},
        {"step": ["StandardScaler", {"mean_": {"scalar": ["complex64", 1]}}]},
        {"step": ["StandardScaler", {"mean_": {"type": "os"}}]},
        {"step": ["StandardScaler", {"mean_": {"slice": ["a", 1]}}]},
        {"step": ["StandardScaler", {"mean_": {"dict": [[[1], 2]]}}]},
        {"step": ["StandardScaler", {"mean_": {"int": "x"}}]},
        {"step": ["LabelEncoder", {"__reduce__": 1}], "more": 1},
    ],
    ids=repr,
)
def test_forged_steps_are_refused(steps):
    with pytest.raises(FormatError):
        steps_from_arrays("steps", forged(steps))


def test_damaged_texts_and_arrays_are_refused():
    deep = {"tuple": []}
    for _ in range(100):
        deep = {"tuple": [deep]}
    for arrays in (
        {},
        {"steps_json": np.zeros(3)},
        {"steps_json": np.frombuffer(b"{", np.uint8)},
        {"steps_json": np.frombuffer(b"\xff", np.uint8)},
        {"steps_json": np.frombuffer(b"[" * 100_000, np.uint8)},
        {"steps_json": np.frombuffer(b"[]", np.uint8)},
        forged({"step": ["StandardScaler", {"mean_": deep}]}),
        forged({"step": ["StandardScaler", {}]}) | {"steps_7": np.zeros(2)},
    ):
        with pytest.raises(FormatError):
            steps_from_arrays("steps", dict(arrays))
