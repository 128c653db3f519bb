"""Rows that no rule of a ladder can get wrong are not evaluated, and it never shows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier

import spinney
from spinney.calibration.ladder_rows import LadderRows
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule

POINTS = [12, 36, 60]


@pytest.fixture(scope="module")
def forest_and_rows():
    X, y = make_classification(
        3000, 8, n_informative=5, n_classes=4, class_sep=0.7, random_state=0
    )
    model = GradientBoostingClassifier(n_estimators=20, max_depth=2, random_state=0)
    forest = spinney.read_model(model.fit(X[:1000], y[:1000]))
    return forest, forest.engine.rows(X[1000:])


def rules(forest, n_rules, seed=0):
    """Return rules from the most cautious to the boldest, and some absurd ones."""
    rng = np.random.default_rng(seed)
    order = np.arange(forest.n_trees)
    shape = (len(POINTS), forest.n_outputs, forest.n_outputs)
    for scale in np.geomspace(8.0, 1e-3, n_rules):
        leads = scale * rng.uniform(0.2, 1.0, shape)
        leads[rng.random(shape) < 0.1] = np.inf
        yield ExitRule.dropping(order, POINTS, leads, forest.tree_output)
    yield ExitRule.dropping(order, POINTS, np.full(shape, -1.0), forest.tree_output)


def test_answers_are_those_of_the_engine_for_every_rule(forest_and_rows):
    forest, rows = forest_and_rows
    full = forest.winners(forest.engine.raw(rows))
    shared = LadderRows(rows, full, None)
    n_wrong = []
    for rule in rules(forest, 12):
        engine = EarlyExitEngine(forest, rule)
        expected, _ = engine.evaluate(rows)
        np.testing.assert_array_equal(shared.answers(engine), expected)
        n_wrong.append(np.sum(expected != full))
    assert n_wrong[0] == 0
    assert n_wrong[-1] > 100


def test_only_rows_in_doubt_are_evaluated(forest_and_rows, monkeypatch):
    forest, rows = forest_and_rows
    full = forest.winners(forest.engine.raw(rows))
    shared = LadderRows(rows, full, None)
    engine = EarlyExitEngine(forest, next(iter(rules(forest, 1))))
    shared.answers(engine)
    sizes = []
    evaluate = EarlyExitEngine.evaluate

    def noted(self, rows, n_jobs=None):
        sizes.append(len(rows))
        return evaluate(self, rows, n_jobs)

    monkeypatch.setattr(EarlyExitEngine, "evaluate", noted)
    shared.answers(engine)
    assert len(sizes) == 1
    assert 0 < sizes[0] < len(rows) / 2


def test_other_exit_points_are_looked_at_anew(forest_and_rows):
    forest, rows = forest_and_rows
    full = forest.winners(forest.engine.raw(rows))
    shared = LadderRows(rows, full, None)
    shape = (1, forest.n_outputs, forest.n_outputs)
    for point in (60, 4):
        rule = ExitRule.dropping(
            np.arange(forest.n_trees), [point], np.zeros(shape), forest.tree_output
        )
        engine = EarlyExitEngine(forest, rule)
        expected, _ = engine.evaluate(rows)
        np.testing.assert_array_equal(shared.answers(engine), expected)


def test_rows_that_tie_at_an_exit_point_are_in_doubt(forest_and_rows):
    forest, rows = forest_and_rows
    tied = forest.replace(value=np.zeros_like(forest.value), base_score=0.0)
    full = np.zeros(len(rows), dtype=np.intp)
    shared = LadderRows(rows, full, None)
    engine = EarlyExitEngine(tied, next(iter(rules(tied, 1))))
    np.testing.assert_array_equal(shared.answers(engine), engine.evaluate(rows)[0])
