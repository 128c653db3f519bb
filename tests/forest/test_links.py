"""From raw scores to probabilities: few rows go another way than many."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spinney.forest.links import (
    FEW,
    MANY,
    class_probabilities,
    likeliest_classes,
    softmax,
)

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e38, -1e38, 88.7, -88.8, 745.2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 2.0, 0.3])
def test_few_rows_have_the_bits_of_many(dtype, scale):
    drawn = np.random.default_rng(0).normal(scale=5.0, size=3000)
    raw = np.concatenate([SPECIAL, drawn]).astype(dtype).reshape(-1, 1)

    many = class_probabilities(raw, "logistic", scale)

    assert many.dtype == dtype
    for size in range(FEW + 1):
        parts = [raw[start : start + size] for start in range(0, 60, max(1, size))]
        parts += [raw[start : start + size] for start in range(60, 3000, 97)]
        for part in parts:
            few = class_probabilities(part, "logistic", scale)
            start = (part.ctypes.data - raw.ctypes.data) // raw.itemsize
            whole = many[start : start + len(part)]
            assert few.dtype == dtype
            assert few.shape == (len(part), 2)
            np.testing.assert_array_equal(few, whole)


@pytest.mark.parametrize("n_classes", [2, 3, 7, 20])
def test_softmax_as_in_c_calls_its_exponential_and_adds_in_order(n_classes):
    drawn = np.random.default_rng(n_classes).normal(scale=4.0, size=(300, n_classes))
    drawn[0] = 1.0
    drawn[1, 0] = 800.0
    expected = []
    for row in drawn.tolist():
        powers = [math.exp(score - max(row)) for score in row]
        total = 0.0
        for power in powers:
            total += power
        expected.append([power / total for power in powers])
    np.testing.assert_array_equal(softmax(drawn, as_in_c=True), expected)
    for size in (*range(FEW + 2), MANY - 1, MANY):
        few = softmax(drawn[:size], as_in_c=True)
        np.testing.assert_array_equal(few, expected[:size] or drawn[:0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_have_the_likeliest_classes_of_many(dtype):
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(400, 4))
    raw[::3, 1] = raw[::3, 0] + rng.choice([0, 1e-8, 1e-4, -1e-7], len(raw[::3]))
    raw[1], raw[2], raw[4] = 0.0, np.inf, -np.inf
    raw = raw.astype(dtype)
    with np.errstate(invalid="ignore"):
        many = likeliest_classes(raw, "softmax", 1.0)
        fewer = likeliest_classes(raw[: MANY - 1], "softmax", 1.0)
        expected = softmax(raw, as_in_c=True).argmax(axis=1)
        few = [likeliest_classes(raw[i : i + 1], "softmax", 1.0)[0] for i in range(400)]
    np.testing.assert_array_equal(many, expected)
    np.testing.assert_array_equal(fewer, expected[: MANY - 1])
    np.testing.assert_array_equal(few, expected)
    assert likeliest_classes(raw[:0], "softmax", 1.0).shape == (0,)


def test_likeliest_class_is_by_rounded_probability_only_where_scores_are_close():
    raw = np.array([[0, 2, 1], [3, 3, 0], [0, 1, 1 + 1e-7]], dtype=np.float32)

    found = likeliest_classes(raw, "softmax", 1.0)

    assert found.tolist() == softmax(raw, as_in_c=True).argmax(axis=1).tolist()
    assert likeliest_classes(raw[:1], "softmax", 1.0).tolist() == [1]
