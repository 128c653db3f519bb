"""Classes that are far behind are dropped, and their trees left out, in all engines."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spinney
import strategies
from spinney import InvalidArgumentError
from spinney.ordering import ScoreTable
from spinney.runtime import EarlyExitEngine, ExitRule
from spinney.runtime.choice import config
from spinney.runtime.exit_rule_checks import trees_of_stages
from spinney.runtime.scoring import rounding_tolerance, scoring_forest


def random_rule(forest, seed):
    rng = np.random.default_rng(seed)
    n_trees, n_classes = forest.n_trees, forest.n_outputs
    order = rng.permutation(n_trees)
    n_points = int(rng.integers(0, n_trees))
    points = np.sort(rng.choice(np.arange(1, n_trees), size=n_points, replace=False))
    scale = float(np.abs(forest.value).mean()) * rng.choice([0.3, 1.0, 5.0])
    leads = rng.normal(0.5 * scale, scale, size=(n_points, n_classes, n_classes))
    leads[rng.random(leads.shape) < 0.1] = np.inf
    leads[rng.random(leads.shape) < 0.05] = -np.inf
    return ExitRule.dropping(order, points, leads, forest.tree_output), leads


def one_by_one(forest, rule, leads, X):
    """Return classes and numbers of trees, tree by tree and class by class."""
    scoring = scoring_forest(forest, "soft")
    tolerance = rounding_tolerance(forest, scoring, "soft")
    full = forest.winners(forest.engine.raw(forest.engine.rows(X)))
    answers, counts = [], []
    for scores, decision in zip(scoring.scores(X), full, strict=True):
        sums = scoring.base_score.astype(float).copy()
        left = list(range(forest.n_outputs))
        n_evaluated = 0
        for step, tree in enumerate(rule.order.tolist()):
            if step in rule.exit_points and len(left) > 1:
                k = rule.exit_points.tolist().index(step)
                front = max(left, key=lambda c: (sums[c], -c))
                left = [
                    c
                    for c in left
                    if c == front or not sums[front] - sums[c] > leads[k, front, c]
                ]
            if len(left) == 1:
                break
            c = int(forest.tree_output[tree])
            if c in left:
                sums[c] += scores[tree, c]
                n_evaluated += 1
        front = max(left, key=lambda c: (sums[c], -c))
        close = any(not sums[front] - sums[c] > tolerance for c in left if c != front)
        answers.append(int(decision) if close else front)
        counts.append(n_evaluated)
    return np.array(answers, dtype=int), np.array(counts, dtype=int)


@given(strategies.forests_and_rows(tasks=("sum by class",)), st.integers(0, 99))
def test_classes_are_dropped_as_the_twin_says(case, seed):
    forest, X = case
    if forest.n_outputs < 3:
        return
    rule, leads = random_rule(forest, seed)
    engine = EarlyExitEngine(forest, rule)
    expected = one_by_one(forest, rule, leads, X)
    classes, n_evaluated = engine.evaluate(forest.engine.rows(X))
    np.testing.assert_array_equal(n_evaluated, expected[1])
    np.testing.assert_array_equal(classes, expected[0])
    predictor = engine.predictor()
    for row, answer in zip(X, expected[0], strict=True):
        assert predictor(row) == forest.classes[answer]


def several_classes(n_trees=26, seed=3, **settings):
    return strategies.random_forest(
        seed,
        n_trees=n_trees,
        depth=6,
        task="sum by class",
        n_outputs=4,
        n_features=5,
        **settings,
    )


@pytest.mark.parametrize("engine_name", ["compiled", "plain"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_blocks_and_single_rows_drop_alike(engine_name, n_jobs, monkeypatch):
    forest = several_classes()
    distinct = strategies.random_rows(forest, 40, dtype=np.float32)
    which = np.random.default_rng(0).integers(40, size=3000)
    monkeypatch.setattr(config, "_engine", engine_name)
    for seed in range(4):
        rule, leads = random_rule(forest, seed)
        expected = one_by_one(forest, rule, leads, distinct)
        engine = EarlyExitEngine(forest, rule)
        # The second part: so few are left after some stages that they go row by row.
        for rows in (which, which[:70]):
            given_rows = forest.engine.rows(distinct[rows])
            classes, counts = engine.evaluate(given_rows, n_jobs)
            np.testing.assert_array_equal(classes, expected[0][rows])
            np.testing.assert_array_equal(counts, expected[1][rows])
        predictor = engine.predictor()
        labels = [predictor(row) for row in distinct]
        np.testing.assert_array_equal(labels, forest.classes[expected[0]])


def test_tables_are_followed_as_the_engine_evaluates():
    forest = several_classes()
    X = strategies.random_rows(forest, 200, dtype=np.float32)
    scoring = scoring_forest(forest, "soft")
    rows = forest.engine.rows(X)
    own = scoring.engine.scores(rows, only_own=True)
    np.testing.assert_array_equal(own, scoring.engine.scores(rows).sum(axis=2))
    table = ScoreTable.of_scores(
        own,
        base=scoring.base_score,
        decisions=forest.winners(forest.engine.raw(rows)),
        tree_output=forest.tree_output,
        n_classes=4,
    )
    for seed in range(6):
        rule, leads = random_rule(forest, seed)
        expected = one_by_one(forest, rule, leads, X)
        for _ in range(2):  # the second time from what was kept
            decisions, counts = table.follow(rule)
            np.testing.assert_array_equal(counts, expected[1])
            np.testing.assert_array_equal(decisions, expected[0])


def test_zero_rows_and_no_exit_points():
    forest = several_classes()
    rule = ExitRule.dropping(np.arange(26), [], np.ones((0, 4, 4)), forest.tree_output)
    engine = EarlyExitEngine(forest, rule)
    X = strategies.random_rows(forest, 100, dtype=np.float32)
    classes, counts = engine.evaluate(forest.engine.rows(X))
    assert (counts == 26).all()
    np.testing.assert_array_equal(forest.classes[classes], forest.predict(X))
    classes, counts = engine.evaluate(forest.engine.rows(X[:0]))
    assert len(classes) == len(counts) == 0


def test_trees_of_stages_are_counted_by_class():
    stages = trees_of_stages([2, 0, 1, 3], [1, 3], [0, 1, 1, 0], 2)
    assert stages.tolist() == [[0, 1], [1, 1], [1, 0]]
    rule = ExitRule.dropping([0, 1], [1], np.ones((1, 3, 3)), [0, 2])
    assert rule.leads.shape == (1, 3, 3)
    assert rule.margin is None
    assert ExitRule.by_margin([0, 1], [1], [1.0]).leads is None


@pytest.mark.parametrize(
    "damage",
    [
        {"bounds": np.full((2, 16), np.nan)},
        {"bounds": np.zeros((2, 9))},
        {"bounds": np.zeros((1, 16))},
        {"table": np.zeros((3, 4), dtype=np.int32)},
        {"table": np.zeros((0, 1), dtype=np.int32)},
        {"voting": "hard"},
        {"exit_points": np.array([3, 3])},
    ],
)
def test_forged_rules_are_refused(damage):
    forest = several_classes()
    leads = np.ones((2, 4, 4))
    rule = ExitRule.dropping(np.arange(26), [4, 12], leads, forest.tree_output)
    EarlyExitEngine(forest, rule)
    parts = {
        name: getattr(rule, name)
        for name in ("kind", "voting", "order", "exit_points", "bounds", "table")
    }
    with pytest.raises(InvalidArgumentError):
        EarlyExitEngine(forest, ExitRule(**{**parts, **damage}))


def test_only_trees_of_one_class_each_can_be_dropped():
    forest = strategies.random_forest(1, n_trees=9, task="sum classes", n_outputs=3)
    rule = ExitRule.dropping(np.arange(9), [3], np.ones((1, 3, 3)), np.arange(9) % 3)
    with pytest.raises(InvalidArgumentError, match="each tree adds to one"):
        EarlyExitEngine(forest, rule)


def test_engines_share_stages_only_with_rules_of_the_same_stages():
    forest = several_classes()
    X = forest.engine.rows(strategies.random_rows(forest, 300, dtype=np.float32))
    order, points = np.arange(26), [4, 12]
    by_margin = ExitRule.by_margin(order, points, [1.0, 1.0])
    drops = ExitRule.dropping(order, points, np.ones((2, 4, 4)), forest.tree_output)
    first = EarlyExitEngine(forest, by_margin)
    before = first.evaluate(X)
    second = first.with_rule(drops)
    for engine, rule in ((second, drops), (second.with_rule(by_margin), by_margin)):
        fresh = EarlyExitEngine(forest, rule).evaluate(X)
        for got, wanted in zip(engine.evaluate(X), fresh, strict=True):
            np.testing.assert_array_equal(got, wanted)
    for got, wanted in zip(first.evaluate(X), before, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_members_that_are_called_have_no_classes_to_drop():
    rule = ExitRule.dropping([0, 1], [1], np.ones((1, 3, 3)), [0, 2])
    with pytest.raises(InvalidArgumentError, match="only if all members"):
        EarlyExitEngine(object(), rule)


@pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)
def test_save_and_load_keep_dropped_classes(tmp_path):
    pytest.importorskip("lightgbm")
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1)
    model.fit(X[:700], y[:700])
    fast = spinney.accelerate(model, X[700:1400], max_disagreement=0.02, random_state=0)
    assert fast.leads_.shape[1:] == (10, 10)
    spinney.save(fast, tmp_path / "fast.spinney")
    again = spinney.load(tmp_path / "fast.spinney")
    for got, wanted in zip(
        again.predict_counted(X[1400:]), fast.predict_counted(X[1400:]), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(again.leads_, fast.leads_)
