"""Sharing out rows: every part has rows of its own, or nothing is proven."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from spinney import CascadeClassifier, SpinneyWarning
from spinney.calibration.bounds import rows_needed
from spinney.calibration.row_splits import (
    at_most,
    held_out_split,
    plain_held_out_split,
    split_by_use,
)
from spinney.cascade.fitting import averaged_order

SHARES = {"order": 1.0, "fit": 2.0, "prove": 2.0}


def split(n_rows, shares=SHARES, bound=0.01):
    return split_by_use(
        n_rows,
        shares,
        max_disagreement=bound,
        confidence=0.95 if "prove" in shares else None,
        rng=np.random.RandomState(0),
    )


@pytest.mark.parametrize("n_rows", [3, 4, 50])
def test_no_row_serves_two_purposes(n_rows):
    parts = split(n_rows)
    taken = np.concatenate([parts.order, parts.fit, parts.prove])
    assert np.array_equal(np.sort(taken), np.arange(n_rows))


def test_too_few_rows_prove_nothing():
    parts = split(2)
    assert len(parts.order) == len(parts.fit) == 2
    assert len(parts.prove) == 0


def test_with_too_few_rows_all_trees_are_evaluated():
    X, y = make_classification(300, random_state=0)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    quick = CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.3, confidence=0.5
    )
    both = [np.flatnonzero(model.predict(X) == label)[0] for label in (0, 1)]
    with pytest.warns(SpinneyWarning, match="so all trees are evaluated"):
        quick.fit(X[both])
    assert quick.certificate_ is None
    assert (quick.predict_counted(X)[1] == 5).all()


def test_without_a_proof_a_single_row_will_do():
    parts = split(1, {"order": 1.0, "fit": 1.0})
    assert len(parts.order) == len(parts.fit) == 1
    assert parts.prove is None


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

# A bound of 1 % takes 299 rows to prove, of which none may disagree.


@pytest.mark.parametrize("n_rows", [349, 360, 747])
def test_where_rows_are_scarce_as_many_are_kept_as_a_proof_takes(n_rows):
    parts = split(n_rows)
    assert len(parts.prove) == 299 == rows_needed(0.01, 0.95)
    assert parts.n_folds == 5
    others = np.setdiff1d(np.arange(n_rows), parts.prove)
    assert np.array_equal(np.sort(parts.order), others)
    assert np.array_equal(np.sort(parts.fit), others)


@pytest.mark.parametrize("n_rows", [3, 348, 748])
def test_rows_are_parted_as_usual_if_there_are_enough_or_far_too_few(n_rows):
    parts = split(n_rows)
    assert len(parts.prove) == pytest.approx(0.4 * n_rows, abs=1)
    assert parts.n_folds == 1


def test_where_candidates_are_compared_the_other_uses_share_what_a_proof_leaves():
    shares = {"order": 0.15, "fit": 0.25, "compare": 0.15, "prove": 0.45}
    parts = split(409, shares)
    assert len(parts.prove) == 299
    assert parts.n_folds == 1
    taken = [parts.order, parts.fit, parts.compare, parts.prove]
    assert np.array_equal(np.sort(np.concatenate(taken)), np.arange(409))
    assert [len(part) for part in taken[:3]] == [30, 50, 30]


def test_folds_leave_every_row_out_once():
    parts = split(380)
    found = list(parts.folds_to_order())
    assert len(found) == 5
    times = np.zeros(380)
    for index in found:
        times[index] += 1
    assert set(times) == {0.0, 4.0}  # none at all for rows that prove


def test_without_rows_to_order_on_there_is_nothing_to_fold():
    parts = split(380, {"fit": 2.0, "prove": 2.0})
    assert len(parts.prove) == 299
    assert len(parts.fit) == 81
    assert list(parts.folds_to_order()) == [None]


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
    ).fit(X[2000:2300], y[2000:2300])
    assert quick.certificate_.n_rows == rows_needed(0.02, 0.95) == 149
    assert quick.certificate_.upper_bound == 0.02
    labels, n_asked = quick.predict_counted(X[2300:])
    assert n_asked.mean() < 55
    assert np.mean(labels != model.predict(X[2300:])) <= 0.02


def test_the_warning_tells_how_few_rows_would_do():
    X, y = make_classification(600, random_state=0)
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    quick = CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.01, confidence=0.95
    )
    with pytest.warns(SpinneyWarning, match=r"299 rows .*349 in all.*348 in all"):
        quick.fit(X[:348])


def test_one_order_is_its_own_average_and_more_agree_on_the_first():
    chance = np.random.default_rng(0)
    one = chance.permutation(40)
    assert np.array_equal(averaged_order([one]), one)
    several = [chance.permutation(40) for _ in range(3)]
    found = averaged_order([np.concatenate([[7], p[p != 7]]) for p in several])
    assert found[0] == 7
    assert np.array_equal(np.sort(found), np.arange(40))
