"""The boldest that keeps a bound, of both strengths, and what is said if none does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney import SpinneyWarning
from spinney.calibration.bounds import Certificate, rows_needed
from spinney.calibration.ladder import (
    boldest_kept,
    certificate_of,
    rows_to_promise,
    warn_of_certain_exits,
)
from spinney.calibration.limits import limits_for
from spinney.calibration.promise import Promise

FULL = np.zeros(1999, dtype=int)


def differs_on(n_rows):
    """Return the answers of a candidate that differs on the first rows."""
    return (np.arange(len(FULL)) < n_rows).astype(int)


def boldest(counts, bound, confidence):
    limits = limits_for(bound, False, np.arange(2), confidence)
    return boldest_kept(counts, differs_on, FULL, limits)


def test_on_average_one_more_than_were_lost_is_within_the_bound():
    kept = boldest([0, 5, 9, 10], 0.005, None)
    assert kept == (9, Promise("expected", 0.005, None, 1999, 9))
    assert certificate_of(kept[1]) is None


def test_a_confidence_takes_more():
    kept = boldest([0, 4, 5, 9], 0.005, 0.95)
    assert kept == (4, Promise("confidence", 0.005, 0.95, 1999, 4))
    assert certificate_of(kept[1]) == Certificate(4 / 1999, 0.005, 1999, 4, 0.95)


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_nothing_is_kept_if_the_first_is_too_bold(confidence):
    assert boldest([10, 0], 0.005, confidence) is None
    assert boldest([], 0.005, confidence) is None


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_no_candidate_is_made_after_the_first_that_is_too_bold(confidence):
    made = []

    def candidates():
        for count in (0, 50, 0):
            made.append(count)
            yield count

    assert boldest(candidates(), 0.005, confidence)[0] == 0
    assert made == [0, 50]


def test_rows_for_a_promise():
    assert rows_to_promise(0.001, None) == 999
    assert rows_to_promise(0.03, None) == 33
    assert rows_to_promise(0.001, 0.95) == rows_needed(0.001, 0.95) == 2995
    assert rows_to_promise(0.0, None) == rows_to_promise(0.0, 0.95) == 0


def warning(n_rows, n_given, bound, confidence):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_certain_exits(
            limits_for(bound, False, np.arange(2), confidence),
            np.zeros(n_rows, dtype=int),
            np.array([n_given]),
            share=0.5,
            fallback="all trees are evaluated",
            stacklevel=1,
        )
    assert [one.category for one in caught] == [SpinneyWarning]
    return str(caught[0].message)


def test_the_warning_says_how_many_rows_are_needed():
    text = warning(100, 200, 0.001, None)
    assert "at most 0.1 % on new rows, on average, could not be established" in text
    assert (
        "so all trees are evaluated. That needs 999 held-out calibration rows" in text
    )
    assert "1,049 rows in all, but X has 200" in text
    assert "larger max_disagreement: 0.00663 or more" in text
    text = warning(100, 200, 0.001, 0.95)
    assert "with 95 % confidence" in text
    assert "2,995 held-out calibration rows" in text
    assert "3,045 rows in all" in text


def test_the_warning_does_not_ask_for_numbers_that_are_there():
    text = warning(2000, 4000, 0.001, None)
    assert "on 2,000 calibration rows even the most conservative" in text


@given(n_given=st.integers(0, 5000), confidence=st.sampled_from([None, 0.9, 0.95]))
def test_the_bound_that_the_warning_allows_would_have_been_in_reach(
    n_given, confidence
):
    text = warning(0, n_given, 1e-9, confidence)
    _, found, rest = text.partition("larger max_disagreement: ")
    assert bool(found) == (n_given > 50)
    if found:
        level = float(rest.split()[0])
        assert rows_to_promise(level, confidence) + 50 <= n_given


PROMISES = [
    (Promise("never", 0.1), "Every prediction is that of the full ensemble."),
    (Promise("each row", 0.01), "a probability of at most 1 % over the random order"),
    (
        Promise("expected", 0.001, None, 2000, 1),
        "at most 0.1 % of the predictions differ, on average (1 of 2,000 calibration",
    ),
    (Promise("confidence", 0.001, 0.95, 5000, 1), "differ, with 95 % confidence (1 of"),
    (Promise("votes", 0.02), "At most 2 % of the predictions differ, on average over"),
    (Promise("out of bag", 0.02), "About 2 % of the predictions differ"),
]


@pytest.mark.parametrize(("promise", "words"), PROMISES)
def test_a_promise_says_what_it_is(promise, words):
    assert words in str(promise)
