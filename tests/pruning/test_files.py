"""Fitted pruners in files."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import datasets
import spinney
from spinney.errors import FormatError
from spinney.persistence.fields import part_forest_to_parts
from spinney.pruning import FeatureCostPruner

pytest.importorskip("ortools")


@pytest.fixture(scope="module")
def pruner():
    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(5, random_state=0).fit(X[:300], y[:300])
    return FeatureCostPruner(
        FrozenEstimator(model),
        budget=4.3,
        complete=True,
        feature_costs=np.linspace(0.5, 2.0, 30),
    ).fit(X[300:], y[300:])


def test_a_saved_pruner_comes_back_whole(pruner, tmp_path):
    X, _ = datasets.bundled("breast_cancer")
    spinney.save(pruner, tmp_path / "pruner")
    again = spinney.load(tmp_path / "pruner")
    assert np.array_equal(again.predict_proba(X), pruner.predict_proba(X))
    assert np.array_equal(again.predict_full(X), pruner.predict_full(X))
    assert np.array_equal(again.feature_cost(X), pruner.feature_cost(X))
    assert again.frontier_.breakpoints == pruner.frontier_.breakpoints
    assert repr(again.frontier_) == repr(pruner.frontier_)
    assert (again.point_, again.gap_) == (pruner.point_, pruner.gap_)
    forests = (one.forest_at(3).predict(X) for one in (again, pruner))
    assert np.array_equal(*forests)


@pytest.mark.parametrize(
    ("part", "forged", "words"),
    [
        ("kept_until", lambda a: a[:-1], "for each node"),
        ("kept_until", lambda a: a + 1000, "for each node"),
        ("item_of_column", lambda a: a + 1, "an item for each column"),
        ("item_cost", lambda a: -a, "neither below 0"),
        ("item_price", lambda a: a[:-1], "neither below 0"),
        ("cost", lambda a: a[:-1], "of equal length"),
        ("unit", lambda text: "1/0", "two whole numbers"),
        ("unit", lambda text: "9" * 5000 + "/1", "two whole numbers"),
        ("breakpoints", lambda texts: texts[::-1], "rise from 0"),
        ("breakpoints", lambda texts: [1] * len(texts), "two whole numbers"),
        ("point", lambda numbers: numbers[:-1], "must be 5 numbers"),
        ("point", lambda numbers: ["x"] * 5, "must be 5 numbers"),
    ],
)
def test_forged_parts_are_refused(pruner, part, forged, words):
    settings, arrays = pruner.__spinney_save__()
    where = settings if part in settings else arrays
    where[part] = forged(where[part])
    with pytest.raises(FormatError, match=words):
        FeatureCostPruner.__spinney_load__(settings, arrays)


def test_a_pruned_forest_of_another_full_one_is_refused(pruner):
    settings, arrays = pruner.__spinney_save__()
    other = pruner.full_forest_.take([0, 1])
    full_settings, full_arrays = part_forest_to_parts("full", other)
    settings |= full_settings
    arrays |= full_arrays
    with pytest.raises(FormatError, match="trees and columns of the full one"):
        FeatureCostPruner.__spinney_load__(settings, arrays)
