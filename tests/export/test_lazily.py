"""Features are bought when a tree needs them, each at most once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.native import Native, few_examples
from report.kinds import fitted
from spinney.export.program import make_program
from spinney.pruning.lazy import predict_lazily
from strategies import forests, random_rows

CLASSIFIERS = ("vote", "mean classes", "sum score", "sum by class")


@few_examples
@given(
    forest=forests(tasks=CLASSIFIERS),
    layout=st.sampled_from(["fast", "packed"]),
    seed=st.integers(0, 99),
)
def test_same_answers_and_purchases_as_in_python(
    forest, layout, seed, tmp_path_factory
):
    program = make_program(forest, is_lazy=True)
    native = Native(program, tmp_path_factory.mktemp("c"), layout=layout)
    rows = forest.engine.rows(random_rows(forest, 60, seed))
    lazy = predict_lazily(forest, lambda f, which: rows[which, f], len(rows))
    classes, times = native.lazily(rows)
    assert np.array_equal(forest.classes[classes], lazy.labels)
    assert np.array_equal(times, lazy.bought.astype(int))


@pytest.mark.parametrize("arithmetic", ["exact", "integer"])
@pytest.mark.parametrize("kind", ["pruner", "budgeted"])
def test_fitted_classifiers(kind, arithmetic, tmp_path):
    classifier, _, X, _ = fitted(kind)
    options = {"arithmetic": arithmetic, "X": X} if arithmetic == "integer" else {}
    native = Native(classifier, tmp_path, **options)
    lazy = classifier.predict_lazily(lambda f, which: X[which, f], len(X))
    classes, times = native.lazily(X)
    assert np.array_equal(classifier.classes_[classes], lazy.labels)
    assert np.array_equal(times, lazy.bought.astype(int))
    assert times.max() == 1
    assert times.sum() < times.size
