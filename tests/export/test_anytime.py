"""Stopped after every possible step, the code answers as Python does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.native import Native, few_examples
from report.kinds import fitted
from spinney.anytime.orders import check_order
from spinney.export.program import make_program
from spinney.runtime.steps.engine import StepEngine
from strategies import forests, random_rows

CLASSIFIERS = ("vote", "mean classes", "mean score", "sum score", "sum classes")
CLASSIFIERS += ("sum by class",)
layouts = st.sampled_from(["fast", "packed"])


def answers_after_every_step(forest, order, rows):
    engine = StepEngine(forest, order)
    found = [engine.winners_after(rows, n_steps, None) for n_steps in range(len(order))]
    return np.stack([*found, engine.forest_winners(rows)], axis=1)


@few_examples
@given(
    forest=forests(tasks=CLASSIFIERS, max_trees=6, max_depth=6),
    layout=layouts,
    seed=st.integers(0, 99),
)
def test_random_forests_and_orders(forest, layout, seed, tmp_path_factory):
    order = np.repeat(np.arange(forest.n_trees), forest.depths)
    order = check_order(np.random.default_rng(seed).permutation(order), forest.depths)
    program = make_program(forest, step_order=order)
    native = Native(program, tmp_path_factory.mktemp("c"), layout=layout)
    rows = forest.engine.rows(random_rows(forest, 60, seed))
    expected = answers_after_every_step(forest, order, rows)
    assert np.array_equal(native.steps(rows), expected)
    assert np.array_equal(native.counted(rows)[0], expected[:, -1])


@pytest.mark.parametrize("layout", ["fast", "packed"])
def test_fitted_classifier(layout, tmp_path):
    classifier, _, X, _ = fitted("anytime")
    native = Native(classifier, tmp_path, layout=layout)
    answers = native.steps(X)
    for n_steps in (0, 1, 7, len(classifier.order_) - 1, len(classifier.order_)):
        expected = classifier.predict(X, max_steps=n_steps)
        assert np.array_equal(classifier.classes_[answers[:, n_steps]], expected)
    assert native.report.state_bytes > 0


@pytest.mark.parametrize("width", [32, 16, 8])
def test_integer_steps_end_as_the_simulation_says(width, tmp_path, monkeypatch):
    from spinney.export import certification
    from spinney.export.quantisation import quantise
    from spinney.export.simulation import final_answers

    monkeypatch.setattr(certification, "WIDTHS", (width,))
    classifier, _, X, _ = fitted("anytime")
    native = Native(
        classifier, tmp_path, arithmetic="integer", X=X, max_disagreement=0.5
    )
    assert native.report.width == width
    rows = classifier.forest_.engine.rows(X)
    steps = quantise(native.program, width).steps
    expected = final_answers(classifier.forest_, steps, rows)
    answers = native.steps(rows)
    assert np.array_equal(answers[:, -1], expected)
    assert np.array_equal(native.counted(rows)[0], expected)
    # Along the way rounding hardly ever changes the answer.
    exact = answers_after_every_step(classifier.forest_, classifier.order_, rows)
    assert (answers != exact).mean() < (0.001 if width > 8 else 0.02)
