"""The plain engine gives, bit for bit, what kernels and the slow reference give."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import reference
import spinney
import strategies
from spinney.runtime import EarlyExitEngine, Engine, ExitRule, plain
from spinney.runtime.choice import config
from spinney.runtime.scoring import scoring_forest


@pytest.fixture(autouse=True, scope="module")
def by_the_plain_engine():
    before, config.engine = config.engine, "plain"
    yield
    config.engine = before


def same_bits(got, expected):
    """Whether two arrays are equal in type, shape and every bit."""
    return (
        got.dtype == expected.dtype
        and got.shape == expected.shape
        and got.tobytes() == expected.tobytes()
    )


def by_kernels(evaluate):
    """Return what `evaluate()` returns when kernels serve."""
    config.engine = "compiled"
    try:
        return evaluate()
    finally:
        config.engine = "plain"


@given(strategies.forests_and_rows())
def test_every_method_agrees_with_the_reference(case):
    forest, X = case
    engine = Engine(forest)
    rows = engine.rows(X)
    assert np.array_equal(engine.leaves(rows), reference.leaves(forest, X))
    assert same_bits(engine.raw(rows), reference.raw(forest, X))
    scores = reference.scores(forest, X)
    expected = scores[:, :, 0] if forest.n_outputs == 1 else scores
    assert same_bits(engine.scores(rows), expected)
    if forest.votes_by_class:
        assert np.array_equal(engine.votes(rows), reference.votes(forest, X))


@given(strategies.forests(max_depth=200), st.sampled_from([1, 70, 300]))
def test_agrees_with_kernels_in_blocks_of_any_size(forest, n_rows):
    X = strategies.random_rows(forest, n_rows)
    engine = Engine(forest)
    rows = engine.rows(X)
    # Small blocks have a last one that is not full, of rows and of trees.
    with (
        patch.multiple(plain, PAIRS_PER_BLOCK=400, ROWS_PER_BLOCK=90, FEW_ROWS=20),
        patch.multiple(plain, FIRST_LEVELS=3, MORE_LEVELS=2),
    ):
        raw, leaves = engine.raw(rows, 2), engine.leaves(rows, 2)
    assert same_bits(raw, by_kernels(lambda: engine.raw(rows)))
    assert np.array_equal(leaves, by_kernels(lambda: engine.leaves(rows)))


@given(strategies.forests_and_rows(max_rows=80), st.integers(0, 99))
def test_rows_leave_as_with_kernels(case, seed):
    forest, X = case
    if forest.classes is None:
        return
    rng = np.random.default_rng(seed)
    n_trees = forest.n_trees
    order = rng.permutation(n_trees)
    points = np.arange(1, n_trees, int(rng.integers(1, 4)))
    scoring = scoring_forest(forest, "soft")
    scale = float(np.abs(scoring.value).mean())
    bounds = np.sort(rng.normal(0, scale, size=(2, len(points))), axis=0)
    if scoring.n_outputs == 1:
        rule = ExitRule.between(order, points, *bounds)
    else:
        rule = ExitRule.by_margin(order, points, np.abs(bounds[0]))
    rows = forest.engine.rows(X)
    found = EarlyExitEngine(forest, rule).evaluate(rows)
    expected = by_kernels(lambda: EarlyExitEngine(forest, rule).evaluate(rows))
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("n_rows", [0, 1, 2, 64, 65, 500])
@pytest.mark.parametrize("task", ["vote", "sum score", "sum by class"])
def test_sparse_and_dense_rows_of_any_number_agree(task, n_rows):
    forest = strategies.random_forest(3, n_trees=7, depth=30, task=task)
    X = strategies.random_rows(forest, n_rows, dtype=np.float32, missing=False)
    X[np.abs(X) < 1] = 0.0
    assert same_bits(forest.predict(csr_array(X)), forest.predict(X))
    assert np.array_equal(forest.leaves(csr_array(X)), reference.leaves(forest, X))


def test_one_leaf_is_a_tree_too():
    forest = strategies.random_forest(1, n_trees=4, shape="leaf", task="sum score")
    X = np.full((3, forest.n_features), np.nan)
    assert same_bits(forest.engine.raw(forest.engine.rows(X)), reference.raw(forest, X))


def test_single_rows_are_answered_without_kernels(cancer_model):
    model, X = cancer_model
    forest = spinney.read_model(model)
    rows = X[:20].astype(np.float32)
    label, share = forest.predictor(), forest.predictor(kind="proba")
    assert [label(row) for row in rows] == list(model.predict(rows))
    found = np.array([share(row) for row in rows])
    assert same_bits(found, model.predict_proba(rows))
    with pytest.raises(ValueError, match="one row"):
        label(rows)


def test_answers_as_the_library_does(cancer_model):
    model, X = cancer_model
    forest = spinney.read_model(model)
    assert same_bits(forest.predict_proba(X), model.predict_proba(X))
