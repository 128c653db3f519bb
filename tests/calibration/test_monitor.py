"""The monitor: alarms as rare as promised, counts that are right, and what it costs."""

from __future__ import annotations

import json
import math
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import BaseEstimator

import spinney
from spinney.calibration.evidence import (
    MULTIPLES,
    confidence_sequence,
    log_e_value,
    log_sum,
)
from spinney.errors import InvalidArgumentError


class Fixed(BaseEstimator):
    """A fitted classifier that disagrees with its model on rows that say so."""

    def __init__(self, max_disagreement=0.01):
        self.max_disagreement = max_disagreement
        self.n_full = 0

    def fit(self, X):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def predict_model(self, X):
        self.n_full += len(X)
        return np.asarray(X)[:, 0].astype(int)

    def predictor(self):
        return lambda row: 0


def rows(n_rows, n_wrong):
    """Return rows, of which the first disagree."""
    return (np.arange(n_rows) < n_wrong).astype(float).reshape(-1, 1)


# ------------------------------------------------------------------ the evidence


@given(
    n=st.integers(0, 300),
    share=st.floats(0, 1),
    bound=st.sampled_from([0.001, 0.02, 0.3, 0.9]),
)
def test_the_evidence_is_a_mixture_of_likelihood_ratios(n, share, bound):
    k = round(share * n)
    larger = [bound * m for m in MULTIPLES if bound * m < 1] or [(1 + bound) / 2]
    weights = np.array([1 / p for p in larger])
    null = Fraction(bound) ** k * (1 - Fraction(bound)) ** (n - k)
    mixed = sum(
        Fraction(weight) * Fraction(p) ** k * (1 - Fraction(p)) ** (n - k)
        for weight, p in zip(weights, larger, strict=True)
    )
    ratio = mixed / null / Fraction(weights.sum())
    expected = math.log(ratio.numerator) - math.log(ratio.denominator)
    assert log_e_value(k, n, bound) == pytest.approx(expected, abs=1e-6, rel=1e-9)


@pytest.mark.parametrize("bound", [0.01, 0.1, 0.6])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_the_expected_evidence_never_exceeds_one_while_the_bound_holds(bound, part):
    for n in (1, 10, 50):
        counts = np.arange(n + 1)
        evidence = np.exp([log_e_value(k, n, bound) for k in counts])
        mean = evidence @ binom.pmf(counts, n, part * bound)
        assert mean <= 1.0 + 1e-9


def test_false_alarms_are_as_rare_as_promised_by_exact_calculation():
    # All paths of counts up to 250 rows at the bound itself, by dynamic programming.
    bound, quiet = 0.05, np.array([1.0])
    for n in range(1, 251):
        stepped = np.zeros(n + 1)
        stepped[:-1] += quiet * (1 - bound)
        stepped[1:] += quiet * bound
        alarms = np.array([log_e_value(k, n, bound) for k in range(n + 1)])
        stepped[alarms >= math.log(20)] = 0.0
        quiet = stepped
    assert 0.95 <= quiet.sum() < 1.0


def test_the_confidence_sequence_holds_at_all_times_by_exact_calculation():
    truth, inside = 0.1, np.array([1.0])
    for n in range(1, 201):
        stepped = np.zeros(n + 1)
        stepped[:-1] += inside * (1 - truth)
        stepped[1:] += inside * truth
        ends = np.array([confidence_sequence(k, n) for k in range(n + 1)])
        stepped[(ends[:, 0] > truth) | (ends[:, 1] < truth)] = 0.0
        inside = stepped
    assert 0.95 <= inside.sum() < 1.0


def test_the_confidence_sequence_narrows_around_what_was_seen():
    assert confidence_sequence(0, 0) == (0.0, 1.0)
    assert confidence_sequence(0, 10)[0] == 0.0
    assert confidence_sequence(10, 10)[1] == 1.0
    widths = []
    for n in (100, 1000, 10_000):
        lower, upper = confidence_sequence(n // 50, n)
        assert lower < 0.02 < upper
        widths.append(upper - lower)
    assert widths == sorted(widths, reverse=True)


def test_sums_of_numbers_beyond_those_a_float_holds():
    assert log_sum([2000.0, 2000.0]) == pytest.approx(2000.0 + math.log(2.0))
    assert log_sum([-2000.0, -1e9]) == pytest.approx(-2000.0)
    assert log_sum([math.inf, 3.0, math.inf]) == math.inf


def test_a_bound_of_zero_is_broken_by_one_row():
    assert log_e_value(0, 10**6, 0.0) == 0.0
    monitor = spinney.Monitor(Fixed(0.0), share=1.0)
    monitor.predict(rows(10, 0))
    assert not monitor.alarm
    monitor.predict(rows(10, 1))
    assert monitor.alarm
    assert json.dumps(monitor.status(), allow_nan=False)


# ------------------------------------------------------------------ watching


def test_a_random_share_is_checked_and_no_more():
    classifier = Fixed(0.5)
    monitor = spinney.Monitor(classifier, share=0.1, random_state=0)
    for size in (1, 7, 0, 1000, 20_000):
        assert len(monitor.predict(rows(size, size // 2))) == size
    status = monitor.status()
    assert status["n_seen"] == 21_008
    assert status["n_checked"] == classifier.n_full
    assert binom.cdf(classifier.n_full, 21_008, 0.1) == pytest.approx(0.5, abs=0.4999)
    assert status["disagreement"] == pytest.approx(0.5, abs=0.1)


def test_every_row_is_as_likely_to_be_checked_in_batches_and_alone():
    monitor = spinney.Monitor(Fixed(), share=0.2, random_state=1)
    times = np.zeros(10)
    for _ in range(4000):
        times[monitor._choose(10)] += 1
    # 800 of 4,000, with a standard deviation of 25: six of them.
    assert np.abs(times - 800).max() < 150
    answer = monitor.predictor()
    before = monitor.status()["n_checked"]
    for _ in range(2000):
        answer(np.zeros(1))
    assert 250 < monitor.status()["n_checked"] - before < 550


@pytest.mark.parametrize("share", [1.0, 0.3, 0.01])
def test_the_same_rows_are_checked_however_they_are_batched(share):
    one, many = (
        spinney.Monitor(Fixed(), share=share, random_state=3) for _ in range(2)
    )
    checked = one._choose(2000)
    assert len(np.unique(checked)) == len(checked)
    start, found = 0, []
    for size in (1, 0, 255, 1, 999, 744):
        found += (many._choose(size) + start).tolist()
        start += size
    assert found == checked.tolist()


@pytest.mark.parametrize("share", [1e-15, 1e-18, 5e-324])
def test_a_tiny_share_checks_no_row_by_mistake(share):
    classifier = Fixed()
    monitor = spinney.Monitor(classifier, share=share, random_state=0)
    for _ in range(3):
        monitor.predict(rows(1000, 500))
    assert classifier.n_full == 0


def test_drift_raises_an_alarm_that_stays():
    monitor = spinney.Monitor(Fixed(0.01), share=1.0, random_state=0)
    for _ in range(20):
        monitor.predict(rows(100, 1))
    assert not monitor.alarm
    assert monitor.status()["alarm_at"] is None
    for _ in range(20):
        monitor.predict(rows(100, 10))
    assert monitor.alarm
    first = monitor.status()["alarm_at"]
    assert 2000 < first <= 4000
    for _ in range(100):
        monitor.predict(rows(1000, 0))
    assert monitor.alarm
    assert monitor.status()["alarm_at"] == first
    assert "ALARM" in repr(monitor)


def test_certificates_can_be_repeated():
    monitor = spinney.Monitor(Fixed(0.05))
    assert math.isnan(monitor.certify(rows(0, 0)).disagreement)
    uppers = [monitor.certify(rows(500, 5)).upper_bound for _ in range(5)]
    assert uppers == sorted(uppers, reverse=True)
    last = monitor.certify(rows(500, 5))
    assert (last.n_rows, last.n_disagreements) == (3000, 30)
    assert 0.01 < last.upper_bound < 0.02


def test_counts_of_several_processes_add_up():
    one, other = (spinney.Monitor(Fixed(), share=1.0) for _ in range(2))
    one.predict(rows(1000, 18))
    other.predict(rows(1000, 18))
    assert not one.alarm
    assert not other.alarm
    both = spinney.Monitor(Fixed(), share=1.0)
    status = json.loads(json.dumps(other.status()))
    assert both.merge(one).merge(status) is both
    assert both.status()["n_checked"] == 2000
    assert both.status()["n_disagreements"] == 36
    assert both.alarm
    restored = pickle.loads(pickle.dumps(both))
    assert restored.status() == both.status()
    restored.predict(rows(5, 0))


def test_threads_lose_no_row():
    monitor = spinney.Monitor(Fixed(), share=0.5, random_state=0)
    answer = monitor.predictor()

    def serve():
        for _ in range(300):
            monitor.predict(rows(3, 1))
            answer(np.zeros(1))

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = monitor.status()
    assert status["n_seen"] == 4 * 300 * 4
    assert status["n_checked"] == monitor.classifier.n_full


def test_prometheus_reads_the_status():
    monitor = spinney.Monitor(Fixed(), share=1.0)
    text = monitor.to_prometheus("fraud")
    assert "fraud_disagreement NaN" in text
    monitor.predict(rows(100, 50))
    lines = monitor.to_prometheus("fraud").splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(values["fraud_checked_total"]) == 100
    assert float(values["fraud_disagreements_total"]) == 50
    assert float(values["fraud_alarm"]) == 1
    assert float(values["fraud_upper"]) == monitor.status()["upper"]
    assert sum(line.startswith("# TYPE") for line in lines) == len(values)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("prefix", ["", "two words", "9lives", "fraud-model", None])
def test_names_that_prometheus_does_not_take_are_refused(prefix):
    with pytest.raises(InvalidArgumentError, match="prefix must begin"):
        spinney.Monitor(Fixed()).to_prometheus(prefix)
    assert "_a:b9_seen_total" in spinney.Monitor(Fixed()).to_prometheus("_a:b9")


@pytest.mark.parametrize("share", [0.0, 1.5, -0.1, math.nan, "all", True])
def test_a_share_out_of_range_is_named(share):
    with pytest.raises(InvalidArgumentError, match="share must be above 0"):
        spinney.Monitor(Fixed(), share=share)


def test_a_share_may_be_any_number():
    assert spinney.Monitor(Fixed(), share=np.float32(0.5)).status()["n_seen"] == 0
    assert type(spinney.Monitor(Fixed(), share=np.float32(0.5)).share) is float


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one.pop("n_checked"), "n_checked and n_disagreements of each"),
        (lambda one: one.update(n_checked=7), "7 checked rows and 1 disagreements"),
        (lambda one: one.update(n_disagreements=11), "n_disagreements must be"),
        (lambda one: one.update(max_disagreement=0.3), "has the bounds"),
    ],
)
def test_counts_of_classes_that_are_none_are_refused(change, words):
    watched = Fixed({0: 0.1})
    one = spinney.Monitor(watched, share=1.0)
    one.predict(np.zeros((10, 1)))
    status = {**one.status(), "n_disagreements": 1}
    status["by_class"][0]["n_disagreements"] = 1
    assert spinney.Monitor(watched).merge(status).status()["n_disagreements"] == 1
    change(status["by_class"][0])
    other = spinney.Monitor(watched)
    with pytest.raises(InvalidArgumentError, match=words):
        other.merge(status)
    assert other.status()["n_seen"] == 0


def test_what_cannot_be_watched_is_named():
    with pytest.raises(InvalidArgumentError, match="got object without predict"):
        spinney.Monitor(object())
    with pytest.raises(InvalidArgumentError, match="Fixed has no max_disagreement"):
        spinney.Monitor(Fixed(None))
    monitor = spinney.Monitor(Fixed())
    with pytest.raises(InvalidArgumentError, match=r"bound of 0\.5"):
        monitor.merge(spinney.Monitor(Fixed(0.5)))
    with pytest.raises(InvalidArgumentError, match="lacks n_checked"):
        monitor.merge({"max_disagreement": 0.01, "n_seen": 1, "n_disagreements": 0})
    with pytest.raises(InvalidArgumentError, match="with itself"):
        monitor.merge(monitor)
    with pytest.raises(InvalidArgumentError, match="got NoneType"):
        monitor.merge(None)
    status = monitor.status()
    for forged in ({"n_checked": 5}, {"n_disagreements": 1}, {"n_seen": -1}):
        with pytest.raises(InvalidArgumentError, match="number of rows"):
            monitor.merge(status | forged)
    assert monitor.status() == status
