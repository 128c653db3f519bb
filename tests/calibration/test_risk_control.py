"""Risk control keeps its bound in expectation, by going through all outcomes."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import multinomial

from spinney.calibration.risk_control import (
    control_risk,
    n_allowed,
    rows_to_control,
)

BOUNDS = st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 0.75])
# Each bolder candidate differs on the rows of the one before, and on some more.
NESTED = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]
# Each candidate differs on rows of its own.
APART = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]


def by_risk_control(differs, bound):
    """Return the choice that the library makes; one column for each candidate."""
    return control_risk(iter(differs.T), len(differs), bound)


def by_definition(differs, bound, more=1, monotone=True):
    """Return the same, slowly: with fractions, and every row counted anew.

    Without `more`, the new row is not counted among the lost ones; without `monotone`,
    a row is lost only where the candidate itself differs. Neither is valid.
    """
    n_rows, n_candidates = differs.shape
    chosen = None
    for j in range(n_candidates):
        n_lost = 0
        for row in differs.tolist():
            n_lost += any(row[: j + 1]) if monotone else row[j]
        if Fraction(n_lost + more, n_rows + more) > Fraction(str(bound)):
            break
        chosen = j
    return chosen


def expected_over_who_is_new(pool, bound, choose):
    """Return the exact chance that the new row differs, any of the pool being it."""
    pool = np.array(pool, dtype=bool)
    n_differ = 0
    for new in range(len(pool)):
        chosen = choose(np.delete(pool, new, axis=0), bound)
        n_differ += 0 if chosen is None else int(pool[new, chosen])
    return Fraction(n_differ, len(pool))


def expected_over_draws(outcomes, chances, n_rows, bound, choose):
    """Return the same for rows drawn independently, over all numbers of outcomes."""
    outcomes = np.array(outcomes, dtype=bool)
    rates = chances @ outcomes
    draws = multinomial(n_rows, chances)
    total = 0.0
    for counts in itertools.product(range(n_rows + 1), repeat=len(outcomes)):
        if sum(counts) == n_rows:
            chosen = choose(np.repeat(outcomes, counts, axis=0), bound)
            total += 0.0 if chosen is None else draws.pmf(counts) * rates[chosen]
    return total


@st.composite
def pools(draw, nested):
    """Draw on which rows each candidate differs; the new row is one of the pool."""
    n_rows, n_candidates = draw(st.integers(2, 14)), draw(st.integers(1, 5))
    row = st.lists(st.booleans(), min_size=n_candidates, max_size=n_candidates)
    pool = np.array(draw(st.lists(row, min_size=n_rows, max_size=n_rows)))
    return np.maximum.accumulate(pool, axis=1) if nested else pool


# ------------------------------------------------------------------ the promise


@given(pool=st.one_of(pools(nested=True), pools(nested=False)), bound=BOUNDS)
@example(pool=np.eye(4, dtype=bool), bound=0.25)
def test_whichever_row_is_the_new_one_the_mean_keeps_the_bound(pool, bound):
    found = expected_over_who_is_new(pool, bound, by_risk_control)
    assert found <= Fraction(str(bound))


def test_all_pools_of_five_rows_and_two_candidates_keep_the_bound():
    kinds = list(itertools.product([False, True], repeat=2))
    for rows in itertools.combinations_with_replacement(kinds, 5):
        for bound in (0.2, 0.4, 0.5, 0.6):
            found = expected_over_who_is_new(rows, bound, by_risk_control)
            assert found <= Fraction(str(bound))


@pytest.mark.parametrize("outcomes", [NESTED, APART])
@pytest.mark.parametrize("bound", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("n_rows", [3, 9])
def test_rows_drawn_independently_keep_the_bound_on_average(outcomes, bound, n_rows):
    rng = np.random.default_rng(0)
    for chances in rng.dirichlet(np.ones(4), size=8):
        found = expected_over_draws(outcomes, chances, n_rows, bound, by_risk_control)
        assert found <= bound * (1 + 1e-9)


def test_the_bound_is_met_with_equality_where_that_is_possible():
    # One row in four differs: if it is the new one, nothing is seen of it.
    pool = [[False], [False], [False], [True]]
    assert expected_over_who_is_new(pool, 0.25, by_risk_control) == Fraction(1, 4)


# ------------------------------------------------------------------ what breaks it


def test_without_the_new_row_among_the_lost_ones_the_promise_breaks():
    pool = [[False], [False], [False], [True], [True]]

    def choose(differs, bound):
        return by_definition(differs, bound, more=0)

    assert expected_over_who_is_new(pool, 0.25, choose) == Fraction(2, 5)
    assert expected_over_who_is_new(pool, 0.25, by_risk_control) <= Fraction(1, 4)


def test_without_the_maximum_along_the_ladder_the_promise_breaks():
    # Two candidates that differ on rows of their own, half of the rows each. What is
    # chosen then depends on which of them the rows happen to show less of, and the new
    # row is one of those that they do not show.
    pool = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [0, 0], [0, 1]], dtype=bool)

    def choose(differs, bound):
        return by_definition(differs, bound, monotone=False)

    assert expected_over_who_is_new(pool, 0.5, choose) == Fraction(5, 6)
    assert expected_over_who_is_new(pool, 0.5, by_risk_control) <= Fraction(1, 2)


def test_rows_drawn_independently_notice_that_the_new_row_is_left_out():
    chances, bound = np.array([0.41, 0.2, 0.28, 0.11]), 0.25

    def choose(differs, level):
        return by_definition(differs, level, more=0)

    valid = expected_over_draws(NESTED, chances, 4, bound, by_risk_control)
    invalid = expected_over_draws(NESTED, chances, 4, bound, choose)
    assert valid <= bound
    assert invalid > 1.1 * bound


# ------------------------------------------------------------------ the choice


@given(pool=st.one_of(pools(nested=True), pools(nested=False)), bound=BOUNDS)
def test_the_choice_is_the_one_of_the_definition(pool, bound):
    assert by_risk_control(pool, bound) == by_definition(pool, bound)


def test_no_candidate_beyond_the_first_that_is_too_bold_is_looked_at():
    asked = []

    def differs():
        for n_lost in [0, 1, 8, 0]:
            asked.append(n_lost)
            yield np.arange(99) < n_lost

    assert control_risk(differs(), 99, 0.05) == 1
    assert asked == [0, 1, 8]


@given(st.integers(1, 20_000), st.sampled_from([0.001, 0.003, 0.005, 0.01, 0.07]))
def test_as_many_rows_may_be_lost_as_the_decimal_number_says(n_rows, bound):
    allowed = n_allowed(n_rows, bound)
    assert Fraction(allowed + 1, n_rows + 1) <= Fraction(str(bound))
    assert Fraction(allowed + 2, n_rows + 1) > Fraction(str(bound))
    assert (allowed >= 0) == (n_rows >= rows_to_control(bound))


def test_a_thousandth_takes_999_rows():
    assert rows_to_control(0.001) == 999
    assert control_risk([np.zeros(999, dtype=bool)], 999, 0.001) == 0
    assert control_risk([np.zeros(998, dtype=bool)], 998, 0.001) is None
    assert control_risk([], 999, 0.001) is None
    assert control_risk([np.zeros(9, dtype=bool)], 9, 0.0) is None
