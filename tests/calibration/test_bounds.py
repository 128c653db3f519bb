"""What is proven on held-out rows holds as often as it says, by exact calculation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from spinney.calibration.bounds import (
    Certificate,
    certify,
    clopper_pearson_upper,
    rows_needed,
)
from spinney.calibration.ladder import certify_sequence
from spinney.calibration.row_splits import split_rows
from spinney.errors import InvalidArgumentError

CONFIDENCES = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.999])
# The last digits of an inverse beta function are not ours to answer for.
ROUNDING = 1e-9


class Fixed:
    """A classifier whose answers are known beforehand."""

    def __init__(self, quick, full):
        self.quick, self.full = np.asarray(quick), np.asarray(full)

    def predict(self, X):
        return self.quick[: len(X)]

    def predict_full(self, X):
        return self.full[: len(X)]


# ------------------------------------------------------------------ the bound


@given(n_rows=st.integers(1, 40), confidence=CONFIDENCES, truth=st.floats(0, 1))
@example(n_rows=10, confidence=0.95, truth=0.0)
@example(n_rows=10, confidence=0.95, truth=1.0)
def test_the_bound_fails_no_more_often_than_it_says(n_rows, confidence, truth):
    fails = sum(
        binom.pmf(k, n_rows, truth)
        for k in range(n_rows + 1)
        if clopper_pearson_upper(k, n_rows, confidence) < truth * (1 - ROUNDING)
    )
    assert fails <= (1 - confidence) * (1 + ROUNDING)


@given(data=st.data(), n_rows=st.integers(1, 5000), confidence=CONFIDENCES)
def test_the_bound_is_where_so_few_events_become_too_unlikely(data, n_rows, confidence):
    k = data.draw(st.integers(0, n_rows - 1))
    bound = clopper_pearson_upper(k, n_rows, confidence)
    assert k / n_rows < bound < 1.0
    assert binom.cdf(k, n_rows, bound) == pytest.approx(1 - confidence, rel=1e-6)


def test_the_bound_has_exact_values_at_the_ends():
    assert clopper_pearson_upper(0, 200, 0.95) == pytest.approx(1 - 0.05 ** (1 / 200))
    assert clopper_pearson_upper(7, 7, 0.95) == 1.0
    assert clopper_pearson_upper(0, 0, 0.95) == 1.0
    assert clopper_pearson_upper(0, 1, 0.95) == pytest.approx(0.95)


@given(share=st.floats(1e-5, 0.99), confidence=CONFIDENCES, n_events=st.integers(0, 30))
def test_rows_needed_are_enough_and_one_less_is_not(share, confidence, n_events):
    n_rows = rows_needed(share, confidence, n_events)
    assert clopper_pearson_upper(n_events, n_rows, confidence) <= share
    if n_rows > n_events + 1:
        assert clopper_pearson_upper(n_events, n_rows - 1, confidence) > share


def test_rows_needed_without_a_disagreement_follow_the_rule_of_three():
    assert rows_needed(0.001, 0.95) == 2995
    assert rows_needed(0.001, 0.95) == math.ceil(math.log(0.05) / math.log(0.999))


@pytest.mark.parametrize("bound", [0.0, 1.0, -0.1, math.nan, True, "0.1"])
def test_rows_needed_refuses_what_rows_cannot_prove(bound):
    with pytest.raises(InvalidArgumentError, match="max_disagreement must be above 0"):
        rows_needed(bound, 0.95)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, -1.0, math.nan, True, None])
def test_confidence_outside_its_range_is_refused(confidence):
    with pytest.raises(InvalidArgumentError, match=r"write 0\.95 for 95 %"):
        clopper_pearson_upper(0, 10, confidence)
    with pytest.raises(InvalidArgumentError, match="confidence must be"):
        certify(Fixed([0], [0]), np.zeros((1, 1)), confidence=confidence)
    with pytest.raises(InvalidArgumentError, match="confidence must be"):
        certify_sequence([0], 10, max_disagreement=0.5, confidence=confidence)


@pytest.mark.parametrize(("n_events", "n_rows"), [(-1, 5), (6, 5), (1.0, 5), (True, 5)])
def test_impossible_counts_are_refused(n_events, n_rows):
    with pytest.raises(InvalidArgumentError, match="n_events must be an integer"):
        clopper_pearson_upper(n_events, n_rows, 0.95)


# ------------------------------------------------------------------ certify


def test_certify_counts_the_rows_that_differ():
    full = np.array(["a", "b"] * 500)
    quick = full.copy()
    quick[[3, 500, 999]] = "c"
    certificate = certify(Fixed(quick, full), np.zeros((1000, 2)))
    assert certificate.n_disagreements == 3
    assert certificate.n_rows == 1000
    assert certificate.disagreement == 0.003
    assert certificate.confidence == 0.95
    assert certificate.upper_bound == clopper_pearson_upper(3, 1000, 0.95)
    assert repr(certificate) == (
        "<Certificate: 3 of 1,000 rows (0.3 %) disagreed with the full ensemble; of "
        "new rows of the same kind at most 0.774 % do, with 95 % confidence.>"
    )


@given(st.floats(1e-12, 1.0))
def test_a_bound_is_never_written_smaller_than_it_is(bound):
    text = repr(Certificate(0.0, bound, 10, 0, 0.95))
    written = float(text.partition("at most ")[2].partition(" %")[0]) / 100
    assert bound * (1 - 1e-12) <= written <= bound * 1.011


def test_certify_knows_nothing_without_rows():
    certificate = certify(Fixed([], []), np.zeros((0, 2)))
    assert certificate.upper_bound == 1.0
    assert math.isnan(certificate.disagreement)
    assert "nothing is known" in repr(certificate)


def test_certify_names_the_method_that_is_missing():
    class Foreign:
        def predict(self, X):
            return np.zeros(len(X))

    with pytest.raises(InvalidArgumentError, match="Foreign without predict_full"):
        certify(Foreign(), np.zeros((3, 1)))


# ------------------------------------------------------------------ the sequence


def chance_of_a_false_promise(
    outcomes, chances, n_rows, max_disagreement, confidence, choose
):
    """Return the exact probability that the candidate chosen breaks the bound.

    A row has one of several outcomes: which candidates disagree on it. All numbers of
    rows with each outcome are gone through.
    """
    outcomes = np.array(outcomes)
    true_rates = chances @ outcomes
    draws = multinomial(n_rows, chances)
    total = 0.0
    for counts in itertools.product(range(n_rows + 1), repeat=len(outcomes)):
        if sum(counts) != n_rows:
            continue
        chosen = choose(np.array(counts) @ outcomes, n_rows)
        if chosen is not None and true_rates[chosen] > max_disagreement * (1 + 1e-9):
            total += draws.pmf(counts)
    return total


def by_sequence(max_disagreement, confidence):
    """Return the choice that the library makes."""

    def choose(disagreements, n_rows):
        accepted = certify_sequence(
            disagreements,
            n_rows,
            max_disagreement=max_disagreement,
            confidence=confidence,
        )
        return None if accepted is None else accepted.index

    return choose


def by_boldest(max_disagreement, confidence):
    """Return the choice that looks at all candidates, which is not valid."""

    def choose(disagreements, n_rows):
        passing = [
            index
            for index, count in enumerate(disagreements)
            if clopper_pearson_upper(count, n_rows, confidence) <= max_disagreement
        ]
        return passing[-1] if passing else None

    return choose


def probabilities(n_outcomes):
    """Draw the chances of the outcomes of a row."""
    weights = st.lists(st.floats(1e-3, 1), min_size=n_outcomes, max_size=n_outcomes)
    return weights.map(lambda drawn: np.array(drawn) / sum(drawn))


# Each bolder candidate differs on the rows of the one before, and on some more.
NESTED = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]
# Each candidate differs on rows of its own.
APART = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]


@given(
    chances=probabilities(4),
    outcomes=st.sampled_from([NESTED, APART]),
    n_rows=st.integers(4, 12),
    max_disagreement=st.sampled_from([0.1, 0.2, 0.3, 0.5]),
    confidence=st.sampled_from([0.6, 0.8, 0.95]),
)
def test_a_sequence_breaks_its_promise_no_more_often_than_it_says(
    chances, outcomes, n_rows, max_disagreement, confidence
):
    choose = by_sequence(max_disagreement, confidence)
    chance = chance_of_a_false_promise(
        outcomes, chances, n_rows, max_disagreement, confidence, choose
    )
    assert chance <= (1 - confidence) * (1 + ROUNDING)


def test_taking_the_boldest_that_passes_anywhere_would_break_the_promise():
    # Three bad candidates, each just above the bound, and 8 rows: the calculation
    # above does notice a choice that is not valid.
    chances = np.array([0.3, 0.233, 0.233, 0.234])
    setting = (8, 0.2325, 0.85)
    invalid = chance_of_a_false_promise(
        APART, chances, *setting, by_boldest(*setting[1:])
    )
    valid = chance_of_a_false_promise(
        APART, chances, *setting, by_sequence(*setting[1:])
    )
    assert invalid > 0.3
    assert valid <= 0.15


def test_a_sequence_stops_at_the_first_failure_and_asks_no_further():
    asked = []

    def counts():
        for count in [0, 0, 50, 0]:
            asked.append(count)
            yield count

    accepted = certify_sequence(counts(), 1000, max_disagreement=0.01, confidence=0.95)
    assert accepted.index == 1
    assert asked == [0, 0, 50]


def test_an_accepted_candidate_carries_the_bound_that_was_asked_for():
    accepted = certify_sequence([2], 1000, max_disagreement=0.05, confidence=0.9)
    assert accepted.certificate == Certificate(0.002, 0.05, 1000, 2, 0.9)
    assert "at most 5 % do, with 90 % confidence" in repr(accepted)


@pytest.mark.parametrize("bound", [0.0, math.nan])
def test_no_candidate_passes_a_bound_that_rows_cannot_prove(bound):
    kept = certify_sequence([0], 10**6, max_disagreement=bound, confidence=0.95)
    assert kept is None


def test_no_candidate_and_no_rows_prove_nothing():
    asked = {"max_disagreement": 0.9, "confidence": 0.95}
    assert certify_sequence([], 100, **asked) is None
    assert certify_sequence([0], 0, **asked) is None
    assert certify_sequence([0], 1, **asked) is None
    assert certify_sequence([0], 2, **asked).index == 0


# ------------------------------------------------------------------ parts


@given(
    n_rows=st.integers(0, 60),
    shares=st.lists(st.floats(0.01, 100), min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
)
def test_parts_hold_every_row_once_and_none_is_empty(n_rows, shares, seed):
    parts = split_rows(n_rows, shares, seed)
    assert len(parts) == len(shares)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n_rows))
    assert all((np.diff(part) > 0).all() for part in parts)
    if n_rows >= len(shares):
        assert all(len(part) for part in parts)


def test_parts_have_their_shares_and_come_again_with_the_same_seed():
    parts = split_rows(1000, (1, 1, 2), 7)
    assert [len(part) for part in parts] == [250, 250, 500]
    again = split_rows(1000, (1, 1, 2), 7)
    other = split_rows(1000, (1, 1, 2), 8)
    assert all(map(np.array_equal, parts, again))
    assert not np.array_equal(parts[0], other[0])


@pytest.mark.parametrize("shares", [(1, 0), (1, -1), (1, math.nan), 3.0, (1, math.inf)])
def test_shares_that_make_no_parts_are_refused(shares):
    with pytest.raises(InvalidArgumentError, match="shares must be positive"):
        split_rows(10, shares)
