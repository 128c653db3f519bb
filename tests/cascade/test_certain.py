"""Exits that cannot be wrong: not on any row, whatever rounding does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import spinney
from spinney.cascade.certain import certain_rule
from spinney.forest import Forest
from spinney.runtime.early_exit import EarlyExitEngine


def stumps(values, **parts):
    """Return a forest whose trees split the only column at 0, 1, 2, ..."""
    n_trees, n_outputs = len(values), values.shape[2]
    value = np.zeros((n_trees, 3, n_outputs))
    value[:, 1:] = values
    return Forest(
        tree_offsets=np.arange(n_trees + 1) * 3,
        feature=np.tile([0, -1, -1], n_trees).astype(np.int32),
        threshold=np.repeat(np.arange(n_trees, dtype=float), 3),
        left=np.tile([1, -1, -1], n_trees).astype(np.int32)
        + np.repeat(np.arange(n_trees) * 3, 3) * np.tile([1, 0, 0], n_trees),
        right=np.tile([2, -1, -1], n_trees).astype(np.int32)
        + np.repeat(np.arange(n_trees) * 3, 3) * np.tile([1, 0, 0], n_trees),
        value=value.reshape(-1, n_outputs),
        n_features=1,
        **parts,
    )


def check_certain(forest, rows, order, early_exit="both"):
    points = np.arange(1, forest.n_trees)
    rule = certain_rule(forest, order, points, early_exit)
    converted = forest.engine.rows(rows)
    classes, n_evaluated = EarlyExitEngine(forest, rule).evaluate(converted)
    full = forest.winners(forest.engine.raw(converted))
    np.testing.assert_array_equal(classes, full)
    return n_evaluated


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_trees=st.integers(2, 9),
    scale=st.sampled_from([1.0, 0.1, 1e-8, 1e8]),
    grid=st.sampled_from([1, 2, 1000]),
    dtype=st.sampled_from(["float32", "float64"]),
    early_exit=st.sampled_from(["both", "negative", "positive"]),
)
def test_sums_of_two_classes_that_leave_early_are_right(
    seed, n_trees, scale, grid, dtype, early_exit
):
    rng = np.random.default_rng(seed)
    # Few different values: sums that come out at the threshold, or next to it.
    values = scale * rng.integers(-grid, grid + 1, (n_trees, 2, 1)) / (3 * grid)
    forest = stumps(
        values,
        aggregation="sum",
        classes=np.array([0, 1]),
        base_score=scale * rng.integers(-1, 2) / 3,
        sum_dtype=dtype,
        decision_threshold=scale * rng.integers(-1, 2) / 3,
    )
    rows = np.arange(-1.0, n_trees + 1).reshape(-1, 1)
    check_certain(forest, rows, rng.permutation(n_trees), early_exit)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_trees=st.integers(2, 9),
    n_classes=st.integers(2, 4),
    aggregation=st.sampled_from(["vote", "mean", "sum"]),
    grid=st.sampled_from([1, 2, 1000]),
)
def test_votes_means_and_sums_that_leave_early_are_right(
    seed, n_trees, n_classes, aggregation, grid
):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, grid + 1, (n_trees, 2, n_classes)) / grid
    parts = {"aggregation": aggregation, "classes": np.arange(n_classes)}
    if aggregation != "sum":
        values[..., 0] += values.sum(axis=2) == 0
        values /= values.sum(axis=2, keepdims=True)
    elif n_classes > 2:
        parts["tree_output"] = rng.integers(0, n_classes, n_trees).astype(np.int32)
        values = values[..., :1]
        parts["n_outputs"] = n_classes
        parts["base_score"] = rng.integers(0, 2, n_classes) / 3
    forest = stumps(values, **parts)
    rows = np.arange(-1.0, n_trees + 1).reshape(-1, 1)
    check_certain(forest, rows, rng.permutation(n_trees))


def test_clear_rows_do_leave_early():
    values = np.zeros((9, 2, 1))
    values[0] = [[-100.0], [100.0]]
    values[1:, 1] = 1.0
    forest = stumps(values, aggregation="sum", classes=np.array([0, 1]))
    rows = np.arange(-1.0, 10.0).reshape(-1, 1)
    assert (check_certain(forest, rows, np.arange(9)) == 1).all()
    assert (check_certain(forest, rows, np.arange(9)[::-1].copy()) == 9).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_real_models_are_answered_as_they_answer(n_classes):
    X, y = make_classification(
        1500, 8, n_informative=5, n_classes=n_classes, random_state=0
    )
    rng = np.random.default_rng(0)
    strange = rng.normal(scale=30.0, size=(500, 8))
    for model in (
        RandomForestClassifier(15, max_depth=5, random_state=0),
        GradientBoostingClassifier(n_estimators=15, learning_rate=0.5, random_state=0),
    ):
        forest = spinney.read_model(model.fit(X[:800], y[:800]))
        order = rng.permutation(forest.n_trees)
        n_evaluated = check_certain(forest, np.vstack([X, strange]), order)
        assert n_evaluated.min() < forest.n_trees
