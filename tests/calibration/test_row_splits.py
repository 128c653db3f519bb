"""Sharing out rows: every part has rows of its own, or nothing is promised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from spinney import CascadeClassifier, SpinneyWarning
from spinney.calibration.bounds import rows_needed
from spinney.calibration.row_splits import (
    LEAST_TO_FIT,
    SHARES,
    SHARES_OF_ONE_CANDIDATE,
    SHARES_WITH_COMPARISON,
    at_most,
    held_out_split,
    plain_held_out_split,
    split_by_use,
)


def split(n_rows, shares=SHARES, n_to_prove=299):
    return split_by_use(n_rows, shares, n_to_prove, np.random.RandomState(0))


@given(
    n_rows=st.integers(0, 2000),
    shares=st.sampled_from([SHARES, SHARES_OF_ONE_CANDIDATE, SHARES_WITH_COMPARISON]),
    n_to_prove=st.integers(0, 1000),
)
def test_every_row_has_one_use_and_a_promise_gets_what_it_takes(
    n_rows, shares, n_to_prove
):
    parts = split(n_rows, shares, n_to_prove)
    taken = np.concatenate([parts.fit, parts.compare, parts.prove])
    assert np.array_equal(np.sort(taken), np.arange(n_rows))
    assert parts.n_given == n_rows
    if n_to_prove == 0:
        assert len(parts.prove) == 0
    elif n_to_prove + LEAST_TO_FIT <= n_rows:
        usual = shares["prove"] * n_rows
        assert len(parts.prove) >= n_to_prove
        assert len(parts.prove) == pytest.approx(max(usual, n_to_prove), abs=1)


def test_which_row_is_for_what_is_drawn_at_random():
    drawn = [
        split_by_use(400, SHARES, 100, np.random.RandomState(seed)).prove
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_too_few_rows_promise_nothing():
    parts = split(1)
    assert len(parts.fit) == 1
    assert len(parts.prove) == 0


def test_with_too_few_rows_no_answer_differs():
    X, y = make_classification(300, random_state=0)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    quick = CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.3, confidence=0.5
    )
    both = [np.flatnonzero(model.predict(X) == label)[0] for label in (0, 1)]
    with pytest.warns(SpinneyWarning):
        quick.fit(X[both])
    assert quick.certificate_ is None
    assert quick.promise_.kind == "never"
    assert (quick.predict(X) == model.predict(X)).all()


def test_of_many_rows_only_as_many_as_allowed_are_kept():
    rng = np.random.RandomState(0)
    kept = at_most(np.arange(100, 1000), 50, rng)
    assert len(set(kept.tolist())) == 50
    assert kept.min() >= 100
    few = np.arange(50)
    assert at_most(few, 50, rng) is few


# ------------------------------------------------------------------ kept from training


@pytest.mark.parametrize(("n_rows", "n_left"), [(2, 1), (7, 1), (8, 2), (1003, 250)])
def test_a_quarter_is_kept_back_whatever_the_labels(n_rows, n_left):
    trained_on, left = plain_held_out_split(n_rows, np.random.RandomState(0))
    assert len(left) == n_left
    assert np.array_equal(np.sort(np.append(trained_on, left)), np.arange(n_rows))
    assert (np.diff(left) > 0).all()
    assert (np.diff(trained_on) > 0).all()


def test_every_row_is_kept_back_as_often():
    rng, times = np.random.RandomState(0), np.zeros(12)
    for _ in range(4000):
        times[plain_held_out_split(12, rng)[1]] += 1
    # 1,000 of 4,000, with a standard deviation of 27: five of them.
    assert np.abs(times - 1000).max() < 140


def test_rare_classes_are_kept_back_like_others_only_by_the_plain_split():
    rare = np.arange(1000) >= 600
    y = np.where(rare, np.arange(1000), 0)
    rng = np.random.RandomState(0)
    assert not rare[held_out_split(y, rng)[1]].any()
    assert 70 < rare[plain_held_out_split(1000, rng)[1]].sum() < 130


def test_one_row_cannot_be_parted():
    for split_one in (
        lambda rng: plain_held_out_split(1, rng),
        lambda rng: held_out_split(np.zeros(1), rng),
    ):
        with pytest.raises(ValueError, match=r"n_samples=1,.* Pass more rows"):
            split_one(np.random.RandomState(0))


# ------------------------------------------------------------------ scarce rows

# A bound of 1 % takes 299 rows to prove with 95 % confidence, if none disagrees.


@pytest.mark.parametrize("n_rows", [349, 360, 597])
def test_where_rows_are_scarce_as_many_are_kept_as_a_proof_takes(n_rows):
    assert len(split(n_rows).prove) == 299 == rows_needed(0.01, 0.95)


@pytest.mark.parametrize("n_rows", [3, 348, 600])
def test_rows_are_parted_as_usual_if_there_are_enough_or_far_too_few(n_rows):
    assert len(split(n_rows).prove) == pytest.approx(0.5 * n_rows, abs=1)


def test_where_candidates_are_compared_the_other_uses_share_what_a_proof_leaves():
    parts = split(409, SHARES_WITH_COMPARISON)
    assert [len(part) for part in (parts.fit, parts.compare, parts.prove)] == [
        80,
        30,
        299,
    ]


@pytest.mark.parametrize("order", ["qwyc", "individual_mse"])
def test_scarce_rows_still_prove_a_bound(order):
    X, y = make_classification(4000, n_informative=6, class_sep=2.0, random_state=0)
    model = GradientBoostingClassifier(n_estimators=60, random_state=0)
    model.fit(X[:2000], y[:2000])
    quick = CascadeClassifier(
        FrozenEstimator(model),
        max_disagreement=0.02,
        confidence=0.95,
        order=order,
        random_state=0,
    ).fit(X[2000:2250], y[2000:2250])
    assert quick.certificate_.n_rows == rows_needed(0.02, 0.95) == 149
    assert quick.certificate_.upper_bound == 0.02
    labels, n_evaluated = quick.predict_counted(X[2250:])
    assert n_evaluated.mean() < 55
    assert np.mean(labels != model.predict(X[2250:])) <= 0.02
