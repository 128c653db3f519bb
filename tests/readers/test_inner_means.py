"""Inner nodes: the weighted mean of the leaves below."""

from __future__ import annotations

import numpy as np
import pytest

from spinney.errors import InvalidForestError
from spinney.readers.inner_means import inner_means

# Tree 0: node 0 splits into leaf 1 and node 2, and that into leaves 3 and 4.
# Tree 1: leaf 5.
LEFT = np.array([1, -1, 3, -1, -1, -1])
RIGHT = np.array([2, -1, 4, -1, -1, -1])
ROOTS = np.array([0, 5])
VALUE = np.array([np.nan, 1.0, np.nan, 4.0, 8.0, 7.0])


def means_of(weight, value=VALUE, **kwargs):
    if weight is not None:
        weight = np.array(weight, dtype=float)
    return inner_means(LEFT, RIGHT, ROOTS, value, weight, **kwargs)


@pytest.mark.parametrize("remainder", [None, "left", "right"])
def test_leaves_count_by_their_weight(remainder):
    value, weight = means_of([99, 2, 99, 1, 3, 5], remainder=remainder)
    np.testing.assert_allclose(value[:, 0], [5.0, 1.0, 7.0, 4.0, 8.0, 7.0])
    np.testing.assert_array_equal(weight, [6, 2, 4, 1, 3, 5])


@pytest.mark.parametrize("remainder", [None, "left", "right"])
def test_leaves_without_weight_count_the_same(remainder):
    value, weight = means_of(None, remainder=remainder)
    np.testing.assert_allclose(value[:, 0], [13 / 3, 1.0, 6.0, 4.0, 8.0, 7.0])
    np.testing.assert_array_equal(weight, 0)
    # Only where nothing below has a weight: leaf 1 is all that counts at the root.
    value, _ = means_of([0, 2, 0, 0, 0, 0], remainder=remainder)
    np.testing.assert_allclose(value[:, 0], [1.0, 1.0, 6.0, 4.0, 8.0, 7.0])


def test_each_output_has_its_own_mean_and_the_arguments_stay():
    given = np.stack([VALUE, -VALUE], axis=1)
    value, _ = means_of([0, 2, 0, 1, 3, 5], given)
    np.testing.assert_allclose(value[:, 1], -value[:, 0])
    assert np.isnan(given[0]).all()


def test_huge_values_do_not_overflow():
    value, _ = means_of([0, 1, 0, 2, 3, 1], np.full(6, 1.5e308))
    np.testing.assert_allclose(value, 1.5e308)


def test_a_cycle_ends_in_an_error():
    with pytest.raises(InvalidForestError, match="levels"):
        inner_means(np.array([0, -1]), np.array([1, -1]), ROOTS[:1], VALUE[:2], None)
