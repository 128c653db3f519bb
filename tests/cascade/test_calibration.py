"""Sharing out rows: every part has rows of its own, or nothing is proven."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from spinney import CascadeClassifier, SpinneyWarning
from spinney.cascade.calibration import share_out


def shared_out(n_rows, *, to_prove):
    rows = np.arange(n_rows, dtype=np.float64).reshape(-1, 1)
    chance = np.random.RandomState(0)
    return share_out(
        rows, None, None, to_order=True, to_prove=to_prove, limit=100, chance=chance
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
