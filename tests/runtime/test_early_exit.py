"""Rows leave as the rule says, in blocks, row by row and one at a time."""

from __future__ import annotations

import threading
from math import comb
from unittest.mock import patch

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import reference
import spinney
import strategies
from spinney.runtime import EarlyExitEngine, ExitRule
from spinney.runtime.count_tables import (
    counts_of_ranks,
    n_ranks,
    packed,
    ranks_of_counts,
    unpacked,
)
from spinney.runtime.scoring import decision_threshold, scoring_forest

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)
CLASSIFIERS = (
    "vote",
    "mean classes",
    "mean score",
    "sum score",
    "sum classes",
    "sum by class",
)
VOTERS = ("vote", "mean classes")


def two_sided(rng, n_sums, order, points, scale):
    """Return a rule on real sums and what it means in plain Python."""
    if n_sums == 1:
        ends = np.sort(rng.normal(0, scale, size=(2, len(points))), axis=0)
        never = rng.random(ends.shape) < 0.2
        ends[never] = np.where(np.arange(2)[:, None], np.inf, -np.inf).repeat(
            len(points), axis=1
        )[never]

        def leave(k, sums):
            if sums[0] < ends[0, k]:
                return 0
            return 1 if sums[0] > ends[1, k] else None

        return ExitRule.between(order, points, *ends), leave
    margin = np.abs(rng.normal(0, scale, size=len(points)))

    def leave_ahead(k, sums):
        best = int(sums.argmax())
        second = np.delete(sums, best).max()
        return best if sums[best] - second > margin[k] else None

    return ExitRule.by_margin(order, points, margin), leave_ahead


def by_votes(rng, n_sums, order, points, scale):
    """Return a rule on numbers of votes and what it means in plain Python."""
    n_trees = len(order)
    shape = (len(points), n_trees + 1)
    if n_sums == 1:
        answers = rng.integers(-1, 2, size=shape)

        def leave(k, sums):
            answer = answers[k, int(sums[0])]
            return None if answer < 0 else int(answer)

        return ExitRule.by_count(order, points, answers), leave
    if n_sums <= 6 and rng.integers(2):
        answers = [
            rng.integers(-1, n_sums, n_ranks(m, n_sums)) for m in points.tolist()
        ]

        def leave_by_all(k, sums):
            answer = int(answers[k][rank(sums)])
            return None if answer < 0 else answer

        return ExitRule.by_all_counts(order, points, answers), leave_by_all
    limits = rng.integers(-1, n_trees // 2 + 1, size=shape)

    def leave_ahead(k, sums):
        best = int(sums.argmax())
        second = np.delete(sums, best).max()
        return best if second <= limits[k, int(sums[best])] else None

    return ExitRule.by_lead(order, points, limits), leave_ahead


def rank(counts):
    """Return the number of counts that come before these, one after another."""
    ends = np.cumsum(np.asarray(counts, dtype=int))[:-1]
    return sum(comb(int(end) + v, v + 1) for v, end in enumerate(ends))


def made(forest, voting, seed):
    """Return an engine with a random order and rule, and the rule in plain Python."""
    rng = np.random.default_rng(seed)
    n_trees = forest.n_trees
    order = rng.permutation(n_trees)
    n_points = int(rng.integers(0, n_trees))
    points = np.sort(rng.choice(np.arange(1, n_trees), size=n_points, replace=False))
    scoring = scoring_forest(forest, voting)
    make = by_votes if voting == "hard" else two_sided
    scale = float(np.abs(scoring.value).mean()) * rng.choice([0.3, 1.0, 5.0])
    rule, leave = make(rng, scoring.n_outputs, order, points, scale)
    return EarlyExitEngine(forest, rule), leave


def evaluate(engine, X, n_jobs=None):
    """Evaluate rows that are still to be converted."""
    return engine.evaluate(engine.ensemble.engine.rows(X), n_jobs)


def assert_evaluates_as_reference(engine, leave, X, n_jobs=None):
    rule = engine.rule
    expected = reference.evaluate_early(
        engine.ensemble, rule.voting, rule.order, rule.exit_points, leave, X
    )
    classes, n_evaluated = evaluate(engine, X, n_jobs)
    assert np.array_equal(n_evaluated, expected[1])
    assert np.array_equal(classes, expected[0])
    return expected


@given(strategies.forests_and_rows(tasks=CLASSIFIERS), st.integers(0, 99))
def test_scores_leave_as_the_reference_says(case, seed):
    forest, X = case
    engine, leave = made(forest, "soft", seed)
    expected, _ = assert_evaluates_as_reference(engine, leave, X)
    predictor = engine.predictor()
    for row, answer in zip(X, expected, strict=True):
        assert predictor(row) == forest.classes[answer]


@given(strategies.forests_and_rows(tasks=VOTERS), st.integers(0, 99))
def test_votes_leave_as_the_reference_says(case, seed):
    forest, X = case
    engine, leave = made(forest, "hard", seed)
    expected, _ = assert_evaluates_as_reference(engine, leave, X)
    predictor = engine.predictor()
    for row, answer in zip(X, expected, strict=True):
        assert predictor(row) == forest.classes[answer]


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("task", CLASSIFIERS)
def test_blocks_of_rows_leave_as_single_rows_do(task, n_jobs):
    forest = strategies.random_forest(
        3, n_trees=13, depth=9, task=task, n_outputs=3, n_features=5, shape="unequal"
    )
    n_rows = 120 if WITHOUT_JIT else 3000
    distinct = strategies.random_rows(forest, 40, dtype=np.float32)
    which = np.random.default_rng(0).integers(40, size=n_rows)
    for voting in ("hard", "soft") if task in VOTERS else ("soft",):
        for seed in range(3):
            engine, leave = made(forest, voting, seed)
            rule = engine.rule
            expected = reference.evaluate_early(
                forest, voting, rule.order, rule.exit_points, leave, distinct
            )
            classes, counts = evaluate(engine, distinct[which], n_jobs)
            assert np.array_equal(classes, expected[0][which])
            assert np.array_equal(counts, expected[1][which])


def test_a_rule_without_exit_points_asks_all_trees_and_answers_as_the_forest():
    forest = strategies.random_forest(1, n_trees=9, task="mean classes", n_outputs=3)
    X = strategies.random_rows(forest, 200)
    engine = EarlyExitEngine(forest, ExitRule.never(np.arange(9)[::-1], 3))
    classes, counts = evaluate(engine, X)
    assert (counts == 9).all()
    assert np.array_equal(forest.classes[classes], forest.predict(X))


def test_sums_too_close_to_call_are_settled_by_the_forest_itself():
    # 0.1 + 0.2 - 0.3 is not zero in floating point, but is in another order.
    value = np.array([[0.1], [0.2], [-0.3], [1e-17]])
    single = {
        "tree_offsets": np.arange(5),
        "feature": np.full(4, -1),
        "threshold": np.zeros(4),
        "left": np.full(4, -1),
        "right": np.full(4, -1),
        "n_features": 1,
        "aggregation": "sum",
        "classes": np.array(["no", "yes"]),
        "link": "logistic",
    }
    from spinney import Forest

    for threshold in (0.0, 1e-17, 2.8e-17, 5.6e-17, 1e-16):
        forest = Forest(value=value, decision_threshold=threshold, **single)
        for order in ([0, 1, 2, 3], [2, 1, 0, 3], [3, 2, 1, 0]):
            engine = EarlyExitEngine(forest, ExitRule.never(order, 1))
            X = np.zeros((60, 1), dtype=np.float32)
            classes, _ = evaluate(engine, X)
            assert np.array_equal(forest.classes[classes], forest.predict(X))
            assert engine.predictor()(X[0]) == forest.predict(X[:1])[0]


def test_zero_rows_give_zero_answers():
    forest = strategies.random_forest(1, n_trees=5, task="vote", n_outputs=2)
    engine, _ = made(forest, "hard", 0)
    classes, counts = evaluate(engine, np.empty((0, forest.n_features)))
    assert classes.shape == counts.shape == (0,)


def test_scores_add_up_to_what_the_forest_decides_by():
    forest = strategies.random_forest(5, n_trees=7, task="mean classes", n_outputs=2)
    X = strategies.random_rows(forest, 50)
    margin = scoring_forest(forest, "soft").scores(X).sum(axis=1)
    raw = forest.decision_function(X)
    np.testing.assert_allclose(margin, (raw[:, 1] - raw[:, 0]) / 2, atol=1e-12)
    votes = scoring_forest(forest, "hard").scores(X).sum(axis=1)
    assert np.array_equal(votes, (forest.votes(X) == 1).sum(axis=1))
    assert decision_threshold(forest, "hard") == 4


def test_threads_that_evaluate_at_once_get_the_same_answers():
    forest = strategies.random_forest(2, n_trees=20, depth=8, task="vote", n_outputs=2)
    X = strategies.random_rows(forest, 300, dtype=np.float32)
    engine, _ = made(forest, "hard", 1)
    expected = evaluate(EarlyExitEngine(forest, engine.rule), X)
    got = [None] * 8

    def run(i):
        got[i] = evaluate(engine, X)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for classes, counts in got:
        assert np.array_equal(classes, expected[0])
        assert np.array_equal(counts, expected[1])


@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_an_engine_with_another_rule_is_a_new_engine(voting):
    X, y = make_classification(400, 6, random_state=0)
    forest = spinney.read_model(
        RandomForestClassifier(9, max_depth=4, random_state=0).fit(X, y)
    )
    order = np.random.default_rng(0).permutation(9)
    rules = [
        ExitRule.between(order, [2, 5], [0.5, 1.0], [1.5, 3.0], voting),
        ExitRule.between(order, [2, 5], [0.2, 0.0], [1.9, 4.5], voting),
        ExitRule.between(order, [1, 3, 7], [0.2, 0.0, 1.0], [0.9, 2.5, 5.5], voting),
        ExitRule.between(order[::-1], [2, 5], [0.5, 1.0], [1.5, 3.0], voting),
        ExitRule.between(order, [2, 5], [0.5, 0.0], [0.6, 0.1], "soft"),
    ]
    engine = EarlyExitEngine(forest, rules[0])
    first = evaluate(engine, X)
    for rule in rules:
        other, new = engine.with_rule(rule), EarlyExitEngine(forest, rule)
        for got, wanted in zip(evaluate(other, X), evaluate(new, X), strict=True):
            assert np.array_equal(got, wanted)
        assert other.predictor()(X[0]) == new.predictor()(X[0])
    for got, wanted in zip(evaluate(engine, X), first, strict=True):
        assert np.array_equal(got, wanted)


def test_a_rule_that_does_not_fit_is_refused_by_with_rule_too():
    X, y = make_classification(100, 6, random_state=0)
    forest = spinney.read_model(RandomForestClassifier(5, random_state=0).fit(X, y))
    order = np.arange(5)
    engine = EarlyExitEngine(forest, ExitRule.between(order, [2], [0], [1], "hard"))
    with pytest.raises(ValueError, match="does not fit a forest of 5 trees"):
        engine.with_rule(ExitRule.between(order, [5], [0], [1], "hard"))


def test_before_the_first_tree_all_rows_may_leave_at_once():
    forest = strategies.random_forest(1, n_trees=5, task="vote", n_outputs=2)
    X = strategies.random_rows(forest, 20)
    rule = ExitRule.by_count(np.arange(5), [], np.zeros((0, 6)), at_once=True)
    engine = EarlyExitEngine(forest, rule)
    classes, n_evaluated = evaluate(engine, X)
    assert (classes == 0).all()
    assert (n_evaluated == 0).all()
    assert engine.predictor()(X[0]) == forest.classes[0]


@pytest.mark.parametrize(
    "kind", ["between", "by_count", "by_margin", "by_lead", "by_all_counts"]
)
def test_a_rule_in_plain_arrays_says_what_the_kernels_say(kind):
    n_outputs = 2 if kind in ("between", "by_count") else 3
    forest = strategies.random_forest(
        4, n_trees=11, depth=4, task="vote", n_outputs=n_outputs, n_features=4
    )
    X = forest.engine.rows(strategies.random_rows(forest, 300, dtype=np.float32))
    rng = np.random.default_rng(0)
    order, points = rng.permutation(11), np.array([1, 3, 6])
    rule = {
        "between": lambda: ExitRule.between(
            order, points, [0, 1, 2], [1, 2, 4], "hard"
        ),
        "by_count": lambda: ExitRule.by_count(
            order, points, rng.integers(-1, 2, size=(3, 12))
        ),
        "by_margin": lambda: ExitRule.by_margin(order, points, [1, 2, 1], "hard"),
        "by_lead": lambda: ExitRule.by_lead(
            order, points, rng.integers(-1, 3, size=(3, 12))
        ),
        "by_all_counts": lambda: ExitRule.by_all_counts(
            order, points, [rng.integers(-1, 3, n_ranks(m, 3)) for m in points.tolist()]
        ),
    }[kind]()
    each = scoring_forest(forest, "hard").engine.scores(X).reshape(300, 11, -1)

    def add(start, end, rows, totals):
        totals += each[rows][:, order[start:end]].sum(axis=1)

    sums = np.full((300, each.shape[2]), -1.0)
    start = np.zeros_like(sums)
    classes, n_evaluated, left, _ = rule.follow(start, add, sums)
    engine = EarlyExitEngine(forest, rule)
    expected = engine.evaluate(X)
    with_sums = engine.evaluate_with_sums(X)
    assert np.array_equal(with_sums[0], expected[0])
    assert np.array_equal(with_sums[1], expected[1])
    evaluated = np.argsort(order) < n_evaluated[:, None]
    assert np.array_equal(with_sums[2], (each * evaluated[:, :, None]).sum(axis=1))
    assert np.array_equal(sums[n_evaluated < 11], with_sums[2][n_evaluated < 11])
    few = engine.evaluate_with_sums(X[:5])
    assert all(np.array_equal(a, b[:5]) for a, b in zip(few, with_sums, strict=True))
    assert np.array_equal(n_evaluated, expected[1])
    early = n_evaluated < 11
    assert np.array_equal(classes[early], expected[0][early])
    assert np.array_equal(left, np.flatnonzero(~early))
    assert early.sum() > 0


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
@pytest.mark.parametrize("n_votes", [0, 1, 2, 7])
def test_counts_are_numbered_without_a_gap(n_votes, n_classes):
    counts = counts_of_ranks(n_votes, n_classes)
    assert len(counts) == n_ranks(n_votes, n_classes)
    assert (counts.sum(axis=1) == n_votes).all()
    assert np.array_equal(ranks_of_counts(counts), np.arange(len(counts)))
    assert [rank(each) for each in counts] == list(range(len(counts)))
    rng = np.random.default_rng(0)
    answers = [rng.integers(-1, n_classes, len(counts)), np.full(3, -1)]
    table = packed(answers)
    assert np.array_equal(unpacked(table[0], np.arange(len(counts))), answers[0])
    assert (unpacked(table[1], np.arange(8)) == -1).all()


def test_tables_of_all_counts_that_kernels_could_not_follow_are_refused():
    forest = strategies.random_forest(1, n_trees=5, task="vote", n_outputs=3)
    order, full = np.arange(5), [np.zeros(n_ranks(m, 3)) for m in (2, 4)]
    EarlyExitEngine(forest, ExitRule.by_all_counts(order, [2, 4], full))
    for answers, words in (
        ([full[0], full[0]], "all that votes can come to"),
        ([full[0] + 3, full[1]], "answers must be classes"),
        ([full[0]], "a table of predictions for each exit point"),
    ):
        with pytest.raises(ValueError, match=words):
            EarlyExitEngine(forest, ExitRule.by_all_counts(order, [2, 4], answers))
    two = strategies.random_forest(1, n_trees=5, task="vote", n_outputs=2)
    with pytest.raises(ValueError, match="does not fit a forest of 5 trees"):
        EarlyExitEngine(two, ExitRule.by_all_counts(order, [2], full[:1]))


def sums_that_round(rng, dtype):
    """Return a forest of stumps whose sums lose digits on the way, and rows."""
    n_trees, n_features = 40, 12
    stumps = 3 * np.arange(n_trees)
    feature = np.full(3 * n_trees, -1)
    feature[::3] = rng.integers(n_features, size=n_trees)
    left = np.full(3 * n_trees, -1)
    left[::3] = stumps + 1
    right = np.full(3 * n_trees, -1)
    right[::3] = stumps + 2
    value = rng.normal(size=3 * n_trees) * 10.0 ** rng.integers(-3, 4, size=3 * n_trees)
    forest = spinney.Forest(
        tree_offsets=3 * np.arange(n_trees + 1),
        feature=feature,
        threshold=rng.normal(size=3 * n_trees),
        left=left,
        right=right,
        value=value.astype(dtype),
        n_features=n_features,
        aggregation="sum",
        classes=[0, 1],
        base_score=float(np.float32(rng.normal())),
        sum_dtype=dtype,
    )
    return forest, rng.normal(size=(400, n_features)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(1 if WITHOUT_JIT else 10))
def test_rows_on_the_threshold_are_decided_as_the_forest_rounds(seed, dtype):
    rng = np.random.default_rng(seed)
    forest, rows = sums_that_round(rng, dtype)
    raw = forest.engine.raw(forest.engine.rows(rows))[:, 0]
    # Any threshold: that of a row, or the next number beside it.
    for border in rng.choice(raw, 10):
        beside = np.nextafter(border, rng.choice([-np.inf, np.inf]).astype(dtype))
        for at in (border, beside):
            judge = forest.replace(decision_threshold=float(at))
            order = rng.permutation(forest.n_trees)
            never = ExitRule.between(order, [20], [-np.inf], [np.inf])
            classes, _ = evaluate(EarlyExitEngine(judge, never), rows)
            assert np.array_equal(classes, raw >= at)


def test_few_rows_are_too_close_to_call():
    forest, rows = sums_that_round(np.random.default_rng(0), "float32")
    raw = forest.engine.raw(forest.engine.rows(rows))[:, 0]
    judge = forest.replace(decision_threshold=float(raw[0]))
    never = ExitRule.between(np.arange(40), [20], [-np.inf], [np.inf])
    engine = EarlyExitEngine(judge, never)
    # Rows that are left to the forest itself are evaluated by its own engine.
    with patch.object(type(judge.engine), "raw", wraps=judge.engine.raw) as again:
        evaluate(engine, rows)
    (close, _), _ = again.call_args
    assert 1 <= len(close) <= 10
