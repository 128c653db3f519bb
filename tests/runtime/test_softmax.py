"""The softmax of one row by a kernel: the bits are those of NumPy's way."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from spinney.forest.links import softmax
from spinney.runtime import choice
from spinney.runtime.choice import are_ready, kernels_at_once
from spinney.runtime.engine import SOFTMAX
from spinney.runtime.softmax_kernel import softmax_row

SLOW = bool(numba.config.DISABLE_JIT)
N_ROWS = 200 if SLOW else 20_000


def by_kernel(row):
    """Return the softmax of one row; None if the kernel is not sure of it."""
    shares = np.full((1, len(row)), np.nan, dtype=np.float32)
    return shares[0] if softmax_row(row.reshape(1, -1), shares) else None


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7, 8, 9, 26, 130])
@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 6.0])
def test_the_bits_are_those_of_numpy(n_classes, scale):
    rng = np.random.default_rng(n_classes)
    raw = (scale * rng.normal(size=(N_ROWS, n_classes))).astype(np.float32)
    raw[::7] = np.round(raw[::7], 1)  # equal scores among them
    expected = softmax(raw)
    n_sure = 0
    for row, shares in zip(raw, expected, strict=True):
        found = by_kernel(row)
        if found is not None:
            n_sure += 1
            assert found.tobytes() == shares.tobytes()
    assert n_sure >= 0.999 * N_ROWS


@pytest.mark.parametrize(
    "row",
    [
        [np.nan, 0.0, 1.0],
        [0.0, 1.0, np.nan],
        [np.inf, 0.0, 1.0],
        [0.0, -np.inf, 1.0],
        [np.inf, np.inf, np.inf],
        [-88.0, 0.0, 0.0],
        [3e38, -3e38, 0.0],
    ],
)
def test_extremes_are_left_to_numpy(row):
    assert by_kernel(np.array(row, dtype=np.float32)) is None


def test_a_number_next_to_where_rounding_changes_is_left_to_numpy():
    # Three powers whose sum is half way between two floats, and one that is below the
    # last bit of the sum.
    half_way = next(
        x
        for x in np.arange(-1000, 0, dtype=np.float32) * np.float32(1e-6)
        if _is_half_way(2.0 + float(np.float32(np.exp(np.float64(x)))))
    )
    row = np.array([0.0, 0.0, half_way, -80.0], dtype=np.float32)
    assert by_kernel(row) is None
    assert by_kernel(row[:3]).tobytes() == softmax(row[:3].reshape(1, -1)).tobytes()


def _is_half_way(number):
    """Whether a number between 2 and 4 is in the middle of two floats."""
    return (number * 2.0**22) % 1.0 == 0.5


def test_single_rows_of_xgboost_have_the_bits_of_batches(monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    import spinney

    monkeypatch.setattr(choice, "_ready", set())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1], [-2, -1, 0, 0.5, 1, 2])
    model = xgboost.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1).fit(X, y)
    forest = spinney.read_model(model)
    batch = forest.predict_proba(X)
    assert batch.dtype == np.float32
    with kernels_at_once():
        one_by_one = [forest.predict_proba(row.reshape(1, -1))[0] for row in X]
        predict = forest.predictor(kind="proba")
        thinly = [predict(row) for row in X]
    assert np.array(one_by_one).tobytes() == batch.tobytes()
    assert np.array(thinly).tobytes() == batch.tobytes()
    assert SLOW or are_ready(SOFTMAX)


def test_the_plain_engine_does_not_need_it(monkeypatch):
    from strategies import random_forest, random_rows

    monkeypatch.setattr(choice.config, "_engine", "plain")
    monkeypatch.setattr(choice, "_ready", set())
    forest = random_forest(3, task="sum by class", sum_dtype="float32")
    forest = forest.replace(link="softmax")
    X = random_rows(forest, 20)
    one_by_one = [forest.predict_proba(row.reshape(1, -1))[0] for row in X]
    assert np.array(one_by_one).tobytes() == forest.predict_proba(X).tobytes()
    assert not are_ready(SOFTMAX)
