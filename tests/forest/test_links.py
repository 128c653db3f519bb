"""From raw scores to probabilities: few rows go another way than many."""

from __future__ import annotations

import numpy as np
import pytest

from spinney.forest.links import FEW, class_probabilities, likeliest_classes, softmax

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


def test_likeliest_class_is_by_rounded_probability_only_where_scores_are_close():
    raw = np.array([[0, 2, 1], [3, 3, 0], [0, 1, 1 + 1e-7]], dtype=np.float32)

    found = likeliest_classes(raw, "softmax", 1.0)

    assert found.tolist() == softmax(raw, as_in_c=True).argmax(axis=1).tolist()
    assert likeliest_classes(raw[:1], "softmax", 1.0).tolist() == [1]
