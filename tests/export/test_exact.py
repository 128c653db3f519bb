"""Exact arithmetic: the label on every row is the one that Python gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.native import Native, few_examples
from report.kinds import KINDS, fitted
from spinney.export.program import make_program
from spinney.runtime import EarlyExitEngine, ExitRule
from spinney.runtime.score_bins import ScoreBins
from spinney.runtime.scoring import scoring_forest
from strategies import forests, random_forest, random_rows

VOTERS = ("vote", "mean classes")
CLASSIFIERS = (*VOTERS, "mean score", "sum score", "sum classes", "sum by class")
NUMBERS = ("mean numbers", "sum numbers", "sum by number")
layouts = st.sampled_from(["fast", "packed"])
seeds = st.integers(0, 99)


def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c")


@few_examples
@given(forest=forests(tasks=CLASSIFIERS), layout=layouts, seed=seeds)
def test_classes_of_random_forests(forest, layout, seed, tmp_path_factory):
    native = Native(forest, folder(tmp_path_factory), layout=layout)
    rows = forest.engine.rows(random_rows(forest, 300, seed))
    classes, counts = native.counted(rows)
    assert np.array_equal(classes, forest.winners(forest.engine.raw(rows)))
    assert (counts == forest.n_trees).all()


@few_examples
@given(forest=forests(tasks=NUMBERS), layout=layouts, link=st.booleans(), seed=seeds)
def test_numbers_of_random_regressors(forest, layout, link, seed, tmp_path_factory):
    if link:
        forest = forest.replace(link="exp")
    native = Native(forest, folder(tmp_path_factory), layout=layout, numbers="predict")
    rows = forest.engine.rows(random_rows(forest, 200, seed))
    with np.errstate(over="ignore"):
        expected = forest.predictions(forest.engine.raw(rows)).reshape(len(rows), -1)
    found = native.numbers(rows)
    if link:  # NumPy's exponential and that of the C library differ in the last bit
        assert np.allclose(found, expected, rtol=1e-6)
    else:
        assert np.array_equal(found, expected)


@few_examples
@given(forest=forests(tasks=CLASSIFIERS), layout=layouts, seed=seeds)
def test_probabilities_and_scores(forest, layout, seed, tmp_path_factory):
    rows = forest.engine.rows(random_rows(forest, 100, seed))
    raw = forest.engine.raw(rows)
    scores = Native(forest, folder(tmp_path_factory), layout=layout, numbers="scores")
    assert np.array_equal(scores.numbers(rows), raw)
    proba = Native(
        forest, folder(tmp_path_factory), layout=layout, numbers="predict_proba"
    )
    rtol = 1e-5 if forest.sum_dtype == "float32" else 1e-13
    with np.errstate(over="ignore"):
        expected = forest.probabilities(raw)
    assert np.allclose(proba.numbers(rows), expected, rtol=rtol, atol=rtol)


# ------------------------------------------------------------------ early exit


def random_rule(forest, voting, seed):
    """Return a random order and rule for a forest."""
    rng = np.random.default_rng(seed)
    n_trees = forest.n_trees
    order = rng.permutation(n_trees)
    points = np.flatnonzero(rng.random(n_trees - 1) < 0.6) + 1
    scoring = scoring_forest(forest, voting)
    one = scoring.n_outputs == 1
    shape = (len(points), n_trees + 1)
    if voting == "hard" and rng.random() < 0.7:
        if not one:
            limits = rng.integers(-1, n_trees // 2 + 1, size=shape)
            return ExitRule.by_lead(order, points, limits)
        if rng.random() < 0.5:  # an interval, as strategies have them
            low, high = np.sort(rng.integers(-1, n_trees + 2, size=(2, len(points))), 0)
            votes = np.arange(n_trees + 1)
            answers = (votes >= high[:, None]).astype(int) - (votes >= low[:, None])
            answers = np.where(votes >= high[:, None], 1, answers)
        else:
            answers = rng.integers(-1, 2, size=shape)
        return ExitRule.by_count(order, points, answers, at_once=rng.random() < 0.1)
    scale = float(np.abs(scoring.value).mean()) * rng.choice([0.3, 1.0, 5.0])
    ends = np.sort(rng.normal(0, scale, size=(2, len(points))), axis=0)
    if voting == "hard":
        ends += points / 2
    ends[0, rng.random(len(points)) < 0.2] = -np.inf
    ends[1, rng.random(len(points)) < 0.2] = np.inf
    if scoring.tree_output is not None and rng.random() < 0.7:
        n = scoring.n_outputs
        leads = np.abs(rng.normal(0, scale, size=(len(points), n, n)))
        leads[rng.random(leads.shape) < 0.2] = np.inf
        return ExitRule.dropping(order, points, leads, scoring.tree_output)
    if one:
        return ExitRule.between(order, points, *ends, voting=voting)
    return ExitRule.by_margin(order, points, np.abs(ends[1]), voting=voting)


def assert_leaves_as_python(forest, rule, layout, path, seed):
    engine = EarlyExitEngine(forest, rule)
    native = Native(make_program(forest, rule), path, layout=layout)
    rows = forest.engine.rows(random_rows(forest, 400, seed))
    classes, counts = engine.evaluate(rows)
    found, found_counts = native.counted(rows)
    assert np.array_equal(found_counts, counts)
    assert np.array_equal(found, classes)


@few_examples
@given(forest=forests(tasks=CLASSIFIERS), layout=layouts, seed=seeds)
def test_scores_leave_as_in_python(forest, layout, seed, tmp_path_factory):
    rule = random_rule(forest, "soft", seed)
    assert_leaves_as_python(forest, rule, layout, folder(tmp_path_factory), seed)


@few_examples
@given(forest=forests(tasks=VOTERS), layout=layouts, seed=seeds)
def test_votes_leave_as_in_python(forest, layout, seed, tmp_path_factory):
    rule = random_rule(forest, "hard", seed)
    assert_leaves_as_python(forest, rule, layout, folder(tmp_path_factory), seed)


@pytest.mark.parametrize("early_exit", ["both", "negative", "positive"])
@pytest.mark.parametrize("n_points", [0, 5])
def test_bins_leave_as_in_python(early_exit, n_points, tmp_path):
    forest = random_forest(4, n_trees=12, depth=6, task="sum score", n_features=4)
    rng = np.random.default_rng(1)
    spread = float(np.abs(forest.value).mean())
    sizes = rng.integers(1, 9, size=n_points)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    mean = rng.normal(0, spread, size=offsets[-1])
    mean[rng.random(len(mean)) < 0.2] = np.nan
    deviation = np.abs(rng.normal(0, spread, size=len(mean)))
    deviation[rng.random(len(mean)) < 0.3] = 0.0
    bins = ScoreBins(
        beta=0.0,
        width=spread,
        first=rng.integers(-5, 0, size=n_points),
        offsets=offsets,
        mean=mean,
        deviation=deviation,
        gamma=1.0,
        early_exit=early_exit,
    )
    points = np.arange(1, 1 + 2 * n_points, 2)
    rule = ExitRule.by_bin(rng.permutation(12), points, bins)
    assert_leaves_as_python(forest, rule, "fast", tmp_path, 0)


def test_close_calls_are_settled_as_the_model_settles_them(tmp_path):
    """Sums that come out equal, but for the order in which they are added up."""
    rng = np.random.default_rng(0)
    n_trees = 40
    forest = random_forest(
        0, n_trees=n_trees, depth=1, shape="stump", task="sum score", n_features=8
    )
    values = rng.choice([0.1, 0.2, 0.3, -0.1, -0.2, -0.3], size=forest.value.shape)
    forest = forest.replace(value=values, threshold=np.zeros(forest.n_nodes))
    rule = ExitRule.between(rng.permutation(n_trees), [5], [-2.0], [2.0])
    rows = rng.normal(size=(5000, 8)).astype(np.float32)
    raw = forest.engine.raw(rows)[:, 0]
    assert (np.abs(raw) < 1e-12).sum() > 50  # there are such rows
    native = Native(make_program(forest, rule), tmp_path)
    expected = EarlyExitEngine(forest, rule).evaluate(rows)
    assert np.array_equal(native.counted(rows)[0], expected[0])
    # A naive sum in the order of the rule gives other answers for some of them.
    scores = forest.scores(rows)[:, rule.order]
    naive = np.zeros(len(rows))
    for tree in range(n_trees):
        naive += scores[:, tree]
    assert ((naive >= 0) != (raw >= 0)).any()


# ------------------------------------------------------------------ classifiers


@pytest.mark.parametrize("layout", ["fast", "packed"])
@pytest.mark.parametrize(
    "kind",
    # Voters that are no trees have no code.
    [kind for kind in KINDS if kind != "called voters"],
)
def test_every_kind_of_classifier(kind, layout, tmp_path):
    classifier, _, X, _ = fitted(kind)
    native = Native(classifier, tmp_path, layout=layout)
    rng = np.random.default_rng(0)
    rows = np.concatenate([X, X[rng.integers(len(X), size=2000)]])
    rows[len(X) :] += rng.normal(size=(2000, X.shape[1])) * X.std(axis=0)
    classes, counts = native.counted(rows)
    assert np.array_equal(classifier.classes_[classes], classifier.predict(rows))
    if hasattr(classifier, "predict_counted"):
        assert np.array_equal(counts, classifier.predict_counted(rows)[1])
