"""The straight way of a single row to the kernels answers like the other one."""

from __future__ import annotations

import numpy as np
import pytest

import spinney
import strategies
from spinney.runtime import engine as engine_module


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(spinney.config, "_engine", "compiled")


@pytest.mark.parametrize("categories", [None, "truncate", "floor", "exact"])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_a_single_row_of_any_kind_is_answered_as_in_a_batch(
    compiled, input_dtype, categories
):
    forest = strategies.random_forest(
        3,
        n_trees=11,
        task="sum classes",
        input_dtype=input_dtype,
        categories=categories,
    )
    assert (forest.engine.widened is None) == (categories is None)
    X = np.random.default_rng(0).normal(size=(60, forest.n_features)).astype("float32")
    X[3, 0] = np.nan
    X[::2] *= 8  # codes of categories, too
    X[::4] = np.rint(X[::4])
    expected = forest.predict_proba(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    kinds = {
        "float32": X,
        "float64": X.astype(np.float64),
        "not contiguous": np.asfortranarray(X),
        "read-only": frozen,
        "other byte order": X.astype(X.dtype.newbyteorder()),
        "lists": X.tolist(),
    }
    for _ in range(2):  # the second time the straight way is open
        for kind, rows in kinds.items():
            for i in (0, 3, 59):
                found = forest.predict_proba(rows[i : i + 1])
                assert np.array_equal(found, expected[i : i + 1]), kind
            assert np.array_equal(forest.predict_proba(rows[:9]), expected[:9]), kind


@pytest.mark.parametrize("shape", ["chain", "balanced"])
@pytest.mark.parametrize("task", ["sum classes", "mean classes"])
@pytest.mark.parametrize("depth", [1, 8, 10, 11, 23])
@pytest.mark.parametrize("n_trees", [1, 13])
def test_trees_of_any_depth_are_walked_to_the_end(shape, task, depth, n_trees):
    forest = strategies.random_forest(
        depth, n_trees=n_trees, task=task, shape=shape, depth=depth
    )
    engine = forest.engine
    rows = engine.rows(strategies.random_rows(forest, 20))
    assert engine.row_arguments(rows.dtype.type) is not None
    expected = engine._plain_raw(rows, 1)
    found = [engine._compiled_raw(rows[i : i + 1], 1)[0] for i in range(len(rows))]
    assert np.array_equal(found, expected)


def test_what_is_wrong_with_a_single_row_is_still_said(compiled):
    forest = strategies.random_forest(3, n_trees=3)
    row = np.zeros((1, forest.n_features), dtype=np.float32)
    assert len(forest.predict(row)) == len(forest.predict(row)) == 1
    with pytest.raises(ValueError, match="trained on"):
        forest.predict(np.zeros((1, forest.n_features + 1), dtype=np.float32))
    with pytest.raises(ValueError, match="two dimensions"):
        forest.predict(row[0])
    with pytest.raises(ValueError, match="n_jobs must be"):
        forest.predict(row, n_jobs=0)
    with pytest.raises(TypeError, match="real numbers"):
        forest.predict(row.astype(complex))


def test_the_plain_engine_answers_single_rows_once_it_is_insisted_on(monkeypatch):
    forest = strategies.random_forest(3, n_trees=3)
    row = np.zeros((1, forest.n_features), dtype=np.float32)
    monkeypatch.setattr(spinney.config, "_engine", "compiled")
    expected = forest.predict(row).tolist(), forest.predict(row).tolist()

    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(engine_module, "score_rows", refuse)
    with pytest.raises(AssertionError):
        forest.predict(row)
    monkeypatch.setattr(spinney.config, "_engine", "plain")
    assert (forest.predict(row).tolist(),) * 2 == expected
