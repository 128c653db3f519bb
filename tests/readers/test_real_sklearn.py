"""Models of scikit-learn on real tables, alone and inside others: every row alike.

`make test-oldest` runs these with scikit-learn 1.6.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import datasets
import spinney

# Columns of at most so many whole numbers are taken for categories.
MOST = {"adult": 42, "nomao": 4, "cdc_diabetes": 13, "diabetes130": 80}
SETS = [
    pytest.param(name, marks=[] if name == "adult" else pytest.mark.slow)
    for name in MOST
]
N_TRAINED = 2_000


@cache
def real_frame(name):
    """Return a real data set with columns of texts, and labels that are texts."""
    X, y = datasets.real(name, n_rows=5_000)
    columns = {}
    for j, column in enumerate(X.T.astype(np.float64)):
        known = np.unique(column[~np.isnan(column)])
        few = len(known) <= MOST[name] and (known == np.floor(known)).all()
        texts = [None if x != x else f"c{x:.0f}" for x in column]
        columns[f"f{j}"] = pd.Categorical(texts) if few else column
    labels = np.where(y == np.bincount(y).argmax(), "most", "else")
    return pd.DataFrame(columns), labels


def spoilt(frame, seed=0):
    """Return rows with missing and new values, and zeros with a sign."""
    rng = np.random.default_rng(seed)
    frame = frame.copy()
    for name in frame:
        some = rng.random(len(frame))
        if frame[name].dtype != "category":
            frame.loc[some < 0.03, name] = np.nan
            frame.loc[some > 0.98, name] = -0.0
            continue
        texts = frame[name].astype(object)
        texts[some < 0.03] = None
        texts[some > 0.97] = "new"
        frame[name] = pd.Categorical(texts, sorted(set(texts.dropna()), reverse=True))
    return frame


def encoding(*, one_hot):
    """Return steps for a table of texts and numbers."""
    texts = (
        make_pipeline(
            SimpleImputer(strategy="most_frequent"),
            OneHotEncoder(handle_unknown="ignore", min_frequency=5),
        )
        if one_hot
        else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    )
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return ColumnTransformer(
        [
            ("texts", texts, make_column_selector(dtype_include="category")),
            ("numbers", numbers, make_column_selector(dtype_exclude="category")),
        ],
        sparse_threshold=0.0,
    )


FORESTS = {
    "random forest": RandomForestClassifier(12, max_depth=9, random_state=0),
    "extra trees": ExtraTreesClassifier(
        12, max_depth=9, class_weight="balanced", random_state=0
    ),
    "histogram": HistGradientBoostingClassifier(max_iter=10, early_stopping=False),
    "ada": AdaBoostClassifier(
        DecisionTreeClassifier(max_depth=2), n_estimators=10, random_state=0
    ),
    "calibrated": CalibratedClassifierCV(
        RandomForestClassifier(8, max_depth=6, random_state=0), cv=3
    ),
    "isotonic": CalibratedClassifierCV(
        HistGradientBoostingClassifier(max_iter=8, early_stopping=False),
        method="isotonic",
        cv=2,
        ensemble=False,
    ),
    "voting": VotingClassifier(
        [
            ("f", RandomForestClassifier(6, max_depth=6, random_state=0)),
            ("h", HistGradientBoostingClassifier(max_iter=6, early_stopping=False)),
        ],
        voting="soft",
        weights=[2, 1],
    ),
    "stacking": StackingClassifier(
        [
            ("f", RandomForestClassifier(6, max_depth=6, random_state=0)),
            ("e", ExtraTreesClassifier(6, max_depth=6, random_state=0)),
        ],
        RandomForestClassifier(5, max_depth=4, random_state=0),
        cv=2,
    ),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", FORESTS)
def test_pipelines_answer_every_row_as_scikit_learn_does(kind, name):
    frame, y = real_frame(name)
    model = make_pipeline(encoding(one_hot=kind != "extra trees"), FORESTS[kind])
    model.fit(frame[:N_TRAINED], y[:N_TRAINED])
    fast = spinney.accelerate(model)
    for rows in (frame, spoilt(frame)):
        np.testing.assert_array_equal(fast.predict(rows), model.predict(rows))
        found, expected = fast.predict_proba(rows), model.predict_proba(rows)
        if kind in ("isotonic", "calibrated", "ada"):
            # Curves and logarithms of whole arrays may round otherwise than of parts.
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        else:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", SETS)
def test_categories_by_dtype_answer_every_row(name):
    frame, y = real_frame(name)
    model = HistGradientBoostingClassifier(
        max_iter=12, categorical_features="from_dtype", early_stopping=False
    ).fit(frame[:N_TRAINED], y[:N_TRAINED])
    forest, fast = spinney.read_model(model), spinney.accelerate(model)
    for rows in (frame, spoilt(frame), frame[frame.columns[::-1]]):
        ordered = rows[frame.columns]
        expected = model.decision_function(ordered)
        np.testing.assert_array_equal(forest.decision_function(rows), expected)
        np.testing.assert_array_equal(fast.predict(rows), model.predict(ordered))


@pytest.mark.parametrize("name", SETS)
def test_isolation_forests_and_regressors_answer_every_row(name):
    X, y = datasets.real(name, n_rows=5_000)
    X = np.nan_to_num(X)
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.02, -0.0, X)
    outliers = IsolationForest(n_estimators=15, random_state=0).fit(X[:N_TRAINED])
    fast = spinney.accelerate(outliers)
    np.testing.assert_array_equal(fast.predict(rows), outliers.predict(rows))
    np.testing.assert_allclose(
        fast.decision_function(rows), outliers.decision_function(rows), rtol=1e-12
    )
    numbers = RandomForestRegressor(8, max_depth=8, random_state=0)
    numbers.fit(X[:N_TRAINED], y[:N_TRAINED])
    np.testing.assert_array_equal(
        spinney.accelerate(numbers).predict(rows), numbers.predict(rows)
    )
