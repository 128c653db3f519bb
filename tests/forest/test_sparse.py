"""Sparse rows are answered as the library answers them, a dense block at a time."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import spinney
from spinney.forest import blocks, sparse
from spinney.forest.sparse import as_sparse_rows
from strategies import random_forest

F32 = np.dtype(np.float32)


def sparse_rows(n_rows=3000, n_columns=30, seed=0, density=0.15):
    X = sp.random(n_rows, n_columns, density=density, random_state=seed, format="csr")
    X.data[::17] = 0.0  # stored zeros
    X.data[1::19] -= 1.0
    y = (np.asarray(X[:, :6].sum(axis=1)).ravel() > 0.3).astype(int)
    return X, y


def models():
    yield RandomForestClassifier(10, random_state=0)
    yield GradientBoostingClassifier(n_estimators=8, random_state=0)
    lightgbm = pytest.importorskip("lightgbm")
    yield lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1)
    xgboost = pytest.importorskip("xgboost")
    yield xgboost.XGBClassifier(n_estimators=8, n_jobs=1)
    catboost = pytest.importorskip("catboost")
    yield catboost.CatBoostClassifier(
        iterations=8, verbose=0, allow_writing_files=False, thread_count=1
    )


@pytest.mark.parametrize(
    "model", list(models()), ids=lambda model: type(model).__name__
)
def test_every_library_is_answered_for(model, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)  # blocks of 64 rows
    X, y = sparse_rows()
    model.fit(X[:1000], y[:1000])
    forest = spinney.read_model(model)
    expected = model.predict(X)
    for kind in (sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.coo_array):
        np.testing.assert_array_equal(forest.predict(kind(X)), expected)
    np.testing.assert_allclose(
        forest.predict_proba(X), model.predict_proba(X), rtol=1e-5, atol=1e-7
    )


def test_absent_entries_are_missing_to_xgboost_and_zero_to_others():
    xgboost = pytest.importorskip("xgboost")
    X, y = sparse_rows()
    model = xgboost.XGBClassifier(n_estimators=8, n_jobs=1).fit(X, y)
    differ = model.predict(X) != model.predict(X.toarray())
    assert differ.any()  # the case that this test is about
    forest = spinney.read_model(model)
    assert forest.absent == "missing"
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        forest.predict(X.toarray()), model.predict(X.toarray())
    )


def test_never_more_than_a_block_is_dense(monkeypatch):
    dense = []
    whole = sparse.SparseRows.dense

    def watched(self):
        dense.append(len(self))
        return whole(self)

    monkeypatch.setattr(sparse.SparseRows, "dense", watched)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2**14)
    X, y = sparse_rows(4000, 64)
    model = RandomForestClassifier(20, max_depth=6, random_state=0)
    fast = spinney.SequentialVotingClassifier(
        FrozenEstimator(model.fit(X[:500], y[:500])), random_state=0
    ).fit(X[500:2000])
    fast.predict(X)
    spinney.read_model(model).predict_proba(X)
    assert max(dense) == 64
    assert sum(dense) >= 2 * 4000


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_the_dense_matrix_is_never_there(kind):
    xgboost = pytest.importorskip("xgboost")
    X, y = sparse_rows(10_000, 2000, density=0.002)
    model = xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1)
    model.fit(X[:2000], y[:2000])
    forest = spinney.read_model(model)
    expected, X = model.predict(X), kind(X)
    forest.predict(X[:100])
    tracemalloc.start()
    answers = forest.predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(answers, expected)
    # A block of 16 MB, twice for a moment; all of it would be 80 MB.
    assert peak < 60e6


@pytest.mark.parametrize("n_rows", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize("absent", [0.0, np.nan])
def test_blocks_are_the_rows(n_rows, absent, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    X, _ = sparse_rows(n_rows, 7)
    rows = as_sparse_rows(X, 7, F32, absent)
    # The obvious twin: entry by entry.
    expected = np.full((n_rows, 7), absent, dtype=np.float32)
    for i, j, value in zip(*_stored(X), strict=True):
        expected[i, j] = value
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks())), expected)
    np.testing.assert_array_equal(rows.dense(), expected)
    some = np.arange(n_rows)[::-2]
    np.testing.assert_array_equal(rows[some].dense(), expected[some])
    np.testing.assert_array_equal(rows[some, ...].dense(), expected[some])
    np.testing.assert_array_equal(
        rows[expected[:, 0] > 0].dense(), expected[expected[:, 0] > 0]
    )
    if n_rows:
        np.testing.assert_array_equal(rows[n_rows - 1], expected[-1])


def _stored(X):
    X = sp.coo_matrix(X)
    return X.row, X.col, X.data


def test_entries_stored_twice_are_added_up():
    twice = sp.coo_matrix(([1.0, 2.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    rows = as_sparse_rows(twice, 2, F32, 0.0)
    np.testing.assert_array_equal(rows.dense(), [[0, 3], [5, 0]])
    raw = sp.csr_matrix(
        (np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 2)
    )
    np.testing.assert_array_equal(as_sparse_rows(raw, 2, F32, 0.0).dense(), [[0, 3]])
    assert raw.nnz == 2  # the caller's own is left alone


def test_types_are_those_of_dense_rows():
    X, _ = sparse_rows(10, 5)
    for given, wanted, expected in (
        (np.float64, np.float32, np.float32),
        (np.float64, np.float64, np.float64),
        (np.float32, np.float64, np.float32),
        (np.int64, np.float64, np.float64),
        (np.bool_, np.float32, np.float32),
    ):
        rows = as_sparse_rows(X.astype(given), 5, np.dtype(wanted), 0.0)
        assert rows.dtype == expected
    with pytest.raises(TypeError, match="real numbers"):
        as_sparse_rows(X.astype(complex), 5, F32, 0.0)
    with pytest.raises(ValueError, match="X has 5 features"):
        as_sparse_rows(X, 6, F32, 0.0)


@pytest.mark.parametrize("method", ["votes", "scores", "leaves", "decision_function"])
def test_all_that_a_forest_tells_is_told_of_sparse_rows(method, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    forest = random_forest(0, task="mean")
    X = sp.random(150, forest.n_features, density=0.5, random_state=0, format="csr")
    tell = getattr(forest, method)
    np.testing.assert_array_equal(tell(X), tell(X.toarray()))


def test_a_pipeline_may_hand_over_sparse_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (3000, 6))
    y = (X[:, 0] % 2 == 0) ^ (X[:, 1] > 6)
    model = make_pipeline(
        OneHotEncoder(), ExtraTreesClassifier(20, max_depth=8, random_state=0)
    ).fit(X[:1000], y[:1000])
    assert sp.issparse(model[:-1].transform(X))
    for make in (
        spinney.AllTreesClassifier,
        partial(spinney.CascadeClassifier, max_disagreement=0.05, random_state=0),
        spinney.AnytimeForestClassifier,
    ):
        fast = make(FrozenEstimator(model)).fit(X[1000:2000], y[1000:2000])
        assert np.mean(fast.predict(X[2000:]) != model.predict(X[2000:])) < 0.1


def test_classifiers_that_need_dense_rows_say_so():
    X, y = sparse_rows()
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="dense data is required"):
        spinney.AnytimeForestClassifier(FrozenEstimator(model)).fit(X, y)
