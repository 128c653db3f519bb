"""Sharing out rows: every part has rows of its own, or nothing is proven."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from spinney import CascadeClassifier, SpinneyWarning
from spinney.calibration.bounds import rows_needed
from spinney.cascade.calibration import folds_to_order, share_out
from spinney.cascade.fitting import averaged_order


def shared_out(n_rows, *, to_prove, bound=0.01, given=None, to_order=True):
    rows = np.arange(n_rows, dtype=np.float64).reshape(-1, 1)
    return share_out(
        rows,
        np.arange(n_rows),
        given,
        to_order=to_order,
        bound=bound,
        confidence=0.95 if to_prove else None,
        limit=100,
        chance=np.random.RandomState(0),
    )


@pytest.mark.parametrize("n_rows", [3, 4, 50])
def test_no_row_serves_two_purposes(n_rows):
    parts = shared_out(n_rows, to_prove=True)
    taken = np.concatenate([parts.to_order, parts.to_fit, parts.to_prove])[:, 0]
    assert np.array_equal(np.sort(taken), np.arange(n_rows))


def test_too_few_rows_prove_nothing():
    parts = shared_out(2, to_prove=True)
    assert len(parts.to_order) == len(parts.to_fit) == 2
    assert len(parts.to_prove) == 0


def test_with_too_few_rows_all_trees_are_asked():
    X, y = make_classification(300, random_state=0)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    quick = CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.3, confidence=0.5
    )
    both = [np.flatnonzero(model.predict(X) == label)[0] for label in (0, 1)]
    with pytest.warns(SpinneyWarning, match="so all trees are asked"):
        quick.fit(X[both])
    assert quick.certificate_ is None
    assert (quick.predict_counted(X)[1] == 5).all()


def test_without_a_proof_a_single_row_will_do():
    parts = shared_out(1, to_prove=False)
    assert len(parts.to_order) == len(parts.to_fit) == 1
    assert parts.to_prove is None


def test_of_many_rows_only_as_many_as_allowed_are_fitted_to():
    parts = shared_out(1000, to_prove=True)
    assert len(parts.to_order) == len(parts.to_fit) == 100
    assert len(parts.to_prove) == 400
    assert parts.n_folds == 1


# A bound of 1 % takes 299 rows to prove, of which none may disagree.


@pytest.mark.parametrize("n_rows", [349, 360, 747])
def test_where_rows_are_scarce_as_many_are_kept_as_a_proof_takes(n_rows):
    parts = shared_out(n_rows, to_prove=True)
    assert len(parts.to_prove) == 299 == rows_needed(0.01, 0.95)
    assert parts.n_folds == 5
    others = np.setdiff1d(np.arange(n_rows), parts.to_prove[:, 0])
    assert set(parts.to_order[:, 0]) | set(parts.to_fit[:, 0]) <= set(others)
    if n_rows < 399:  # the limit of 100 rows takes nothing away
        assert np.array_equal(np.sort(parts.to_order[:, 0]), others)
        assert np.array_equal(np.sort(parts.to_fit[:, 0]), others)


@pytest.mark.parametrize("n_rows", [3, 348, 748])
def test_rows_are_parted_as_usual_if_there_are_enough_or_far_too_few(n_rows):
    parts = shared_out(n_rows, to_prove=True)
    assert len(parts.to_prove) == pytest.approx(0.4 * n_rows, abs=1)
    assert parts.n_folds == 1


def test_folds_leave_every_row_out_once_and_labels_go_with_their_rows():
    parts = shared_out(380, to_prove=True)
    found = list(folds_to_order(parts))
    assert len(found) == 5
    times = np.zeros(380)
    for rows, labels in found:
        assert np.array_equal(rows[:, 0], labels)
        times[labels] += 1
    assert set(times) == {0.0, 4.0}  # none at all for rows that prove


def test_other_rows_to_order_on_leave_nothing_to_fold():
    other = np.full((30, 1), -1.0)
    parts = shared_out(380, to_prove=True, given=other)
    assert len(parts.to_prove) == 299
    assert len(parts.to_fit) == 81
    [(rows, _)] = folds_to_order(parts)
    assert np.array_equal(rows, other)
    parts = shared_out(380, to_prove=True, to_order=False)
    assert len(parts.to_fit) == 81
    assert list(folds_to_order(parts)) == [(None, None)]


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
