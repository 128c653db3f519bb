"""Nodes for single rows: slots for each way to take NaN, and words wide enough."""

from __future__ import annotations

import numpy as np

from spinney.forest import Forest


def _stumps(n_trees: int, missing_left: np.ndarray, column: np.ndarray) -> Forest:
    """Return trees of one split at zero: tree t says t on the left, -t on the right."""
    number = np.arange(n_trees, dtype=np.float64)
    inner = np.arange(n_trees) * 3
    feature = np.full(3 * n_trees, -1, dtype=np.int32)
    feature[inner] = column
    left, right = np.full((2, 3 * n_trees), -1, dtype=np.int32)
    left[inner], right[inner] = inner + 1, inner + 2
    value = np.zeros(3 * n_trees)
    value[inner + 1], value[inner + 2] = number, -number
    to_left = np.zeros(3 * n_trees, dtype=bool)
    to_left[inner] = missing_left
    return Forest(
        tree_offsets=np.arange(n_trees + 1) * 3,
        feature=feature,
        threshold=np.zeros(3 * n_trees),
        left=left,
        right=right,
        value=value,
        n_features=int(column.max()) + 1,
        aggregation="sum",
        missing_left=to_left,
    )


def test_a_column_has_a_slot_for_each_way_to_take_missing_values():
    column = np.array([0, 0, 1, 3, 3])
    missing_left = np.array([False, True, True, False, False])
    forest = _stumps(5, missing_left, column)
    arguments = forest.engine.row_arguments(np.float32)
    assert arguments.slots.tolist() == [0, 3, ~0, ~1]
    rows = np.array([[-1, 2, 9, np.nan], [np.nan] * 4, [1, -2, 9, 0]], dtype=np.float32)
    goes_left = np.where(np.isnan(rows[:, column]), missing_left, rows[:, column] <= 0)
    expected = np.where(goes_left, np.arange(5), -np.arange(5)).sum(axis=1)
    predict_row = forest.predictor()
    assert [predict_row(row) for row in rows] == expected.tolist()
    assert forest.predict(rows[:1]).tolist() == expected[:1].tolist()


def test_nodes_that_need_more_than_32_bits_get_wider_words():
    n_trees = 33_000  # columns of 16 bits, and children of 17
    rng = np.random.default_rng(0)
    missing_left = rng.random(n_trees) < 0.5
    forest = _stumps(n_trees, missing_left, np.arange(n_trees))
    assert forest.engine.row_arguments(np.float32).link.dtype == np.uint64
    row = rng.choice([-1.0, 0.0, 1.0, np.nan], size=n_trees).astype(np.float32)
    goes_left = np.where(np.isnan(row), missing_left, row <= 0)
    number = np.arange(n_trees)
    expected = np.where(goes_left, number, -number).sum()
    assert forest.predictor()(row) == expected
