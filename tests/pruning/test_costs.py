"""Costs of features: checked, grouped, and as integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import InvalidArgumentError
from spinney.pruning.costs import integer_multiples, purchases_for

NAMES = ("age", "iron", "ferritin")


def test_decimal_numbers_are_taken_as_they_are_written():
    numbers, unit = integer_multiples(np.array([0.1, 0.25, 3.0, 0.0]))
    assert numbers.tolist() == [2, 5, 60, 0]
    assert unit == Fraction(1, 20)


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_integer_multiples_are_exact(values):
    numbers, unit = integer_multiples(np.array(values, dtype=np.float64))
    assert [number * unit for number in numbers.tolist()] == values


@given(st.lists(st.floats(0, 1e300), min_size=1))
def test_other_numbers_are_rounded_to_a_share_of_the_largest(values):
    values = np.array(values)
    numbers, unit = integer_multiples(values)
    assert (numbers >= 0).all()
    assert numbers.max() <= 10**6
    assert np.array_equal(numbers > 0, values > 0)
    allowed = float(values.max()) / 65536
    for number, value in zip(numbers.tolist(), values.tolist(), strict=True):
        assert abs(float(number * unit) - value) <= allowed * 1.0001


def test_everything_costs_1_unless_named():
    bought = purchases_for(3, NAMES, {"iron": 2.5}, None)
    assert bought.cost.tolist() == [1.0, 2.5, 1.0]
    assert purchases_for(2, None, None, None).cost.tolist() == [1.0, 1.0]
    assert purchases_for(3, None, {2: 0}, None).cost.tolist() == [1.0, 1.0, 0.0]


def test_columns_that_are_bought_together_are_one_item():
    groups = {"blood test": ["iron", "ferritin"]}
    bought = purchases_for(3, NAMES, {"blood test": 7}, groups)
    assert bought.cost.tolist() == [1.0, 7.0]
    assert bought.item_of_column.tolist() == [0, 1, 1]
    again = purchases_for(3, NAMES, [1, 7, 7], groups)
    assert again.cost.tolist() == bought.cost.tolist()


@pytest.mark.parametrize(
    ("costs", "groups", "words"),
    [
        ([1, -1, 1], None, "must not be negative.*-1.0 for column 1"),
        ([1, np.nan, 1], None, "NaN"),
        ([1, np.inf, 1], None, "infinite"),
        ([1, 2], None, r"shape \(3,\), got \(2,\).*one per column"),
        ("cheap", None, "must be numbers"),
        ({"age": -2}, None, "-2 for 'age'"),
        ({"age": "much"}, None, "'much' for 'age'"),
        ({"height": 1}, None, "'height': there is no such column. The columns are"),
        ({3: 1}, None, "column 3: columns are numbered from 0 to 2"),
        (None, ["age"], "must be a mapping"),
        (None, {"a": "age"}, "must give a list of columns"),
        (None, {"a": ["weight"]}, "'weight': there is no such column"),
        (None, {"a": [0], "b": ["age"]}, "must name each column once"),
        ([1, 2, 3], {"a": [1, 2]}, "must be equal.*got 2 and 3"),
        ({"iron": 2}, {"a": ["iron", "age"]}, "Give the cost of the group"),
    ],
)
def test_bad_costs_are_refused_with_a_remedy(costs, groups, words):
    with pytest.raises(InvalidArgumentError, match=words):
        purchases_for(3, NAMES, costs, groups)


def test_names_need_a_model_that_knows_them():
    with pytest.raises(InvalidArgumentError, match="has no column names"):
        purchases_for(3, None, {"age": 1}, None)
