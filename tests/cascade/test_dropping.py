"""Rules that drop classes: curves, ladders, what is certain, and what is promised."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

import spinney
import strategies
from spinney.cascade.certain import certain_rule
from spinney.cascade.dropping import class_paths, drops_classes
from spinney.cascade.exit_points import spread_by_rounds
from spinney.cascade.rungs import RuleFamily, boldest_on_rows
from spinney.ordering import ScoreTable
from spinney.runtime import EarlyExitEngine
from spinney.runtime.exit_kinds import DROPPING

N_CLASSES, N_ROUNDS = 4, 15
needs_compiled = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="kernels have tests of their own"
)


def walks(seed, n_rows=1500):
    """Return a table in which rows drift to a class, round by round."""
    rng = np.random.default_rng(seed)
    drift = rng.normal(size=(n_rows, 1, N_CLASSES))
    scores = drift + 1.5 * rng.normal(size=(n_rows, N_ROUNDS, N_CLASSES))
    return ScoreTable.of_scores(
        scores.reshape(n_rows, -1),
        tree_output=np.tile(np.arange(N_CLASSES), N_ROUNDS),
        n_classes=N_CLASSES,
    )


POINTS = np.arange(1, N_ROUNDS) * N_CLASSES
ORDER = np.arange(N_ROUNDS * N_CLASSES)


def test_paths_know_the_risk_of_each_pair():
    table = walks(0, 4000)
    paths = class_paths(table, ORDER, POINTS)
    for k in (2, 8):
        sums = paths.sums[k]
        leader = sums.argmax(axis=1)
        for ahead in range(2):
            here = leader == ahead
            lead = sums[here, ahead] - sums[here, 3]
            risk = expit(
                -(paths.intercept[k, ahead, 3] + paths.slope[k, ahead, 3] * lead)
            )
            seen = table.decisions[here] == 3
            # Curves that were fitted to these rows are right on average.
            assert abs(risk.mean() - seen.mean()) < 0.01


def test_following_paths_counts_as_following_the_rule():
    table = walks(1)
    paths = class_paths(table, ORDER, POINTS)
    for tolerance in (1e-6, 1e-3, 0.1):
        rule = paths.rule_at(tolerance)
        _, left = paths.follow(paths.leads_at(tolerance))
        _, n_evaluated = table.follow(rule)
        stages = np.append(1.0, left) * N_CLASSES
        assert n_evaluated.mean() == pytest.approx(stages.sum())


def test_ladders_go_from_cautious_to_bold():
    table, fresh = walks(2), walks(3)
    family = RuleFamily("thresholds", "both", None, False)
    rng = np.random.RandomState(0)
    assert drops_classes(table)
    makers = family.ladder(table, ORDER, 0.02, POINTS, rng)
    followed = [fresh.follow(make()) for make in makers]
    wrong = [np.mean(decisions != fresh.decisions) for decisions, _ in followed]
    evaluated = [counts.mean() for _, counts in followed]
    assert all(make().kind == DROPPING for make in makers[::20])
    assert wrong[0] < 0.001
    assert wrong[-1] > 0.02
    assert np.mean(np.diff(evaluated) <= 1e-9) > 0.95
    assert np.mean(np.diff(wrong) >= 0.0) > 0.9
    # Fewer trees than by the lead of the best class alone.
    bold = boldest_on_rows(makers, table, 0.02)
    by_lead = RuleFamily("optimal", "both", None, False)
    other = by_lead.ladder(table, ORDER, 0.02, POINTS, rng)
    ahead = boldest_on_rows(other, table, 0.02)
    assert table.follow(bold)[1].mean() < 0.8 * table.follow(ahead)[1].mean()


def test_what_is_dropped_for_certain_never_wins():
    for seed in range(5):
        forest = strategies.random_forest(
            seed, n_trees=24, depth=3, task="sum by class", n_outputs=3, n_features=4
        )
        order = np.random.default_rng(seed).permutation(24)
        rule = certain_rule(forest, order, np.arange(1, 24))
        X = strategies.random_rows(forest, 500, dtype=np.float32)
        engine = EarlyExitEngine(forest, rule)
        classes, counts = engine.evaluate(forest.engine.rows(X))
        np.testing.assert_array_equal(forest.classes[classes], forest.predict(X))
        if rule.kind == DROPPING:
            assert counts.max() <= 24


def test_exit_points_lie_between_rounds():
    forest = strategies.random_forest(
        0, n_trees=24, depth=2, task="sum by class", n_outputs=3, n_features=4
    )
    in_rounds = forest.replace(tree_output=np.tile(np.arange(3), 8))
    assert (spread_by_rounds(in_rounds, np.arange(24)) % 3 == 0).all()
    mixed = in_rounds.replace(tree_output=np.repeat(np.arange(3), 8))
    assert 1 in spread_by_rounds(mixed, np.arange(24))


@pytest.fixture(scope="module")
def boosted():
    X, y = make_classification(
        6000, 12, n_informative=6, n_classes=4, flip_y=0.02, random_state=0
    )
    model = GradientBoostingClassifier(n_estimators=30, random_state=0)
    return model.fit(X[:800], y[:800]), X[800:]


@needs_compiled
@pytest.mark.usefixtures("short_measurements")
def test_boosting_of_several_classes_drops_them(boosted):
    model, X = boosted
    quick = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.01, random_state=0
    ).fit(X[:4000])
    assert quick.margin_ is None
    assert quick.leads_.shape == (len(quick.exit_points_), 4, 4)
    assert (quick.exit_points_ % 4 == 0).all()
    np.testing.assert_array_equal(quick.order_, np.arange(120))
    labels, n_evaluated = quick.predict_counted(X[4000:])
    assert n_evaluated.mean() < 70
    assert np.mean(labels != model.predict(X[4000:])) < 0.02
    assert quick.expected_trees_ == pytest.approx(n_evaluated.mean(), rel=0.1)
    report = quick.report(X[4000:])
    assert "far behind are dropped" in report["method"]
    assert "when one class is left" in report.to_markdown()
    chances = quick.predict_proba(X[4000:])
    np.testing.assert_array_equal(quick.classes_[chances.argmax(axis=1)], labels)
    same = labels == model.predict(X[4000:])
    own = quick.predict_proba_full(X[4000:])
    np.testing.assert_array_equal(chances[same], own[same])
    predict_row = quick.predictor()
    assert [predict_row(row) for row in X[4000:4050]] == labels[:50].tolist()


@needs_compiled
def test_accelerate_tells_what_dropping_came_to(boosted):
    model, X = boosted
    quick = spinney.accelerate(
        model, X[:4000], max_disagreement=0.01, method="cascade", random_state=0
    )
    names = {one.name for one in quick.acceleration_.candidates}
    assert names == {"all trees", "cascade, thresholds"}
    assert quick.leads_ is not None
    assert np.isfinite(quick.expected_trees_)
    assert np.isfinite(quick.expected_disagreement_)


def test_zero_means_never_with_classes_dropped(boosted):
    model, X = boosted
    quick = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.0, random_state=0
    ).fit(X[:1000])
    labels, n_evaluated = quick.predict_counted(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    assert n_evaluated.mean() < 120


@needs_compiled
def test_leads_can_be_drawn(boosted):
    pytest.importorskip("matplotlib")
    import matplotlib as mpl

    mpl.use("Agg")
    model, X = boosted
    quick = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.02, random_state=0
    ).fit(X[:2000])
    assert len(quick.plot().lines) == 4


@pytest.mark.guarantee
def test_the_bound_holds_on_average_with_classes_dropped(boosted):
    model, X = boosted
    full = model.predict(X)
    shares = []
    for seed in range(40):
        rows = np.random.RandomState(seed).permutation(len(X))
        quick = spinney.CascadeClassifier(
            FrozenEstimator(spinney.read_model(model)),
            max_disagreement=0.02,
            random_state=seed,
        ).fit(X[rows[:1500]])
        new = rows[1500:]
        shares.append(np.mean(quick.predict(X[new]) != full[new]))
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) <= 0.02 + 3 * error
