"""The cascade classifier: scikit-learn's conventions, the promise, bad input."""

from __future__ import annotations

import warnings

import numba
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import spinney
from spinney.calibration.promise import Promise
from spinney.calibration.row_splits import plain_held_out_split
from spinney.cascade import CascadeClassifier
from spinney.cascade.tables import table_of
from spinney.errors import InvalidArgumentError, SpinneyWarning, UnsupportedModelError

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)

ORDERS = ("qwyc", "natural", "random", "individual_mse", "greedy_mse")
RULES = ("thresholds", "fan", "optimal")


def noisy(n_rows=4000, n_classes=2, seed=0):
    """Return rows on which trees often differ, and their labels."""
    return make_classification(
        n_rows,
        8,
        n_informative=5,
        n_classes=n_classes,
        flip_y=0.1,
        random_state=seed,
    )


@pytest.fixture(scope="module")
def boosted():
    """A boosted ensemble, with rows and labels it has not seen."""
    X, y = noisy()
    model = GradientBoostingClassifier(n_estimators=60, random_state=0)
    return model.fit(X[:1000], y[:1000]), X[1000:], y[1000:]


@pytest.fixture(scope="module")
def averaged():
    """An averaged forest, likewise."""
    X, y = noisy(seed=1)
    model = RandomForestClassifier(50, max_depth=6, random_state=0)
    return model.fit(X[:1000], y[:1000]), X[1000:], y[1000:]


@pytest.fixture(scope="module")
def four():
    """A boosted ensemble for four classes, likewise."""
    X, y = noisy(n_classes=4, seed=2)
    model = HistGradientBoostingClassifier(max_iter=25, random_state=0)
    return model.fit(X[:1000], y[:1000]), X[1000:], y[1000:]


def fitted(model, X, y=None, *, X_order=None, **parameters):
    parameters.setdefault("random_state", 0)
    parameters.setdefault("max_disagreement", 0.02)
    classifier = CascadeClassifier(FrozenEstimator(model), **parameters)
    return classifier.fit(X, y, X_order=X_order)


@pytest.mark.filterwarnings("ignore::spinney.errors.SpinneyWarning")
@parametrize_with_checks(
    [
        CascadeClassifier(RandomForestClassifier(7, random_state=0)),
        CascadeClassifier(
            GradientBoostingClassifier(n_estimators=9, random_state=0),
            rule="optimal",
            order="natural",
        ),
        CascadeClassifier(
            RandomForestClassifier(7, random_state=0), confidence=0.9, random_state=0
        ),
    ]
)
def test_it_does_what_scikit_learn_expects(estimator, check):
    check(estimator)


# ------------------------------------------------------------------ answers


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", ORDERS)
def test_every_order_goes_with_every_rule(boosted, order, rule):
    model, X, y = boosted
    quick = fitted(model, X[:1000], y[:1000], order=order, rule=rule)
    labels, n_asked = quick.predict_counted(X[2000:])
    assert n_asked.mean() < 0.8 * 60
    assert np.mean(labels != model.predict(X[2000:])) < 0.08
    assert quick.expected_disagreement_ <= 0.02
    assert set(n_asked.tolist()) <= {*quick.exit_points_.tolist(), 60}
    assert sorted(quick.order_.tolist()) == list(range(60))


@pytest.mark.parametrize("rule", RULES)
def test_the_runtime_follows_the_rule_as_it_was_fitted(boosted, averaged, rule):
    for model, X, _ in (boosted, averaged):
        quick = fitted(model, X[:2000], rule=rule)
        table = table_of(quick.forest_, quick.forest_.engine.rows(X[2000:]))
        decisions, expected = table.follow(quick.rule_)
        labels, n_asked = quick.predict_counted(X[2000:])
        np.testing.assert_array_equal(n_asked, expected)
        np.testing.assert_array_equal(labels, quick.classes_[decisions])
        np.testing.assert_array_equal(quick.predict_full(X), model.predict(X))


def test_several_classes_leave_by_their_lead(four):
    model, X, _ = four
    for rule in ("thresholds", "optimal"):
        quick = fitted(model, X[:2000], rule=rule, max_disagreement=0.05)
        table = table_of(quick.forest_, quick.forest_.engine.rows(X[2000:]))
        decisions, expected = table.follow(quick.rule_)
        labels, n_asked = quick.predict_counted(X[2000:])
        np.testing.assert_array_equal(n_asked, expected)
        np.testing.assert_array_equal(labels, quick.classes_[decisions])
        assert n_asked.mean() < 90
        assert np.mean(labels != model.predict(X[2000:])) < 0.12
        assert quick.lower_ is None
        limits = quick.leads_ if rule == "thresholds" else quick.margin_
        assert len(limits) == len(quick.exit_points_)


def test_single_rows_are_answered_like_many(boosted, four):
    for (model, X, _), rule in ((boosted, "thresholds"), (four, "optimal")):
        quick = fitted(model, X[:2000], rule=rule)
        predictor = quick.predictor()
        rows = X[2000:2060].astype(np.float32)
        assert [predictor(row) for row in rows] == quick.predict(rows).tolist()
    model, X, _ = boosted
    quick = fitted(model, X[:2000], rule="fan")
    rows = X[2000:2010].astype(np.float32)
    predictor = quick.predictor()
    assert [predictor(row) for row in rows] == quick.predict(rows).tolist()


def test_an_explicit_permutation_is_taken(boosted):
    model, X, _ = boosted
    order = np.random.default_rng(0).permutation(60)
    quick = fitted(model, X, order=order)
    np.testing.assert_array_equal(quick.order_, order)


def test_with_costs_dear_trees_come_late(boosted):
    model, X, _ = boosted
    costs = np.where(np.arange(60) < 30, 1000.0, 1.0)
    quick = fitted(model, X, tree_costs=costs)
    assert np.mean(costs[quick.order_[:10]] == 1.0) > 0.8


def test_the_order_can_be_chosen_on_rows_of_its_own(boosted):
    model, X, _ = boosted
    quick = fitted(model, X[1000:], X_order=X[:1000])
    other = fitted(model, X[1000:], X_order=X[:500])
    assert quick.order_.tolist() != other.order_.tolist()
    assert quick.expected_disagreement_ <= 0.02


@pytest.mark.parametrize("early_exit", ["both", "negative", "positive"])
@pytest.mark.parametrize("order", ["natural", "qwyc", "random"])
def test_nothing_ever_differs_if_nothing_may(boosted, averaged, order, early_exit):
    for model, X, _ in (boosted, averaged):
        quick = fitted(
            model, X[:50], max_disagreement=0.0, order=order, early_exit=early_exit
        )
        assert quick.promise_ == Promise("never", 0.0)
        assert quick.expected_disagreement_ == 0.0
        np.testing.assert_array_equal(quick.predict(X), model.predict(X))


def test_nothing_ever_differs_of_several_classes(four):
    model, X, _ = four
    quick = fitted(model, X[:50], max_disagreement=0.0)
    np.testing.assert_array_equal(quick.predict(X), model.predict(X))


def test_the_same_seed_gives_the_same_classifier(boosted):
    model, X, _ = boosted
    first, second = fitted(model, X[:2000]), fitted(model, X[:2000])
    np.testing.assert_array_equal(first.order_, second.order_)
    np.testing.assert_array_equal(first.upper_, second.upper_)


def test_threads_change_nothing(boosted):
    model, X, _ = boosted
    alone, together = fitted(model, X), fitted(model, X, n_jobs=2)
    np.testing.assert_array_equal(alone.predict(X), together.predict(X))


# ------------------------------------------------------------------ filter and score


def test_rows_that_are_not_rejected_have_their_exact_full_score(boosted):
    model, X, _ = boosted
    quick = fitted(model, X[:2000], early_exit="negative")
    labels, n_asked = quick.predict_counted(X[2000:])
    early = n_asked < 60
    assert early.any()
    assert np.all(labels[early] == 0)
    scores = quick.decision_function(X[2000:])
    full = model.decision_function(X[2000:])
    np.testing.assert_allclose(scores[~early], full[~early], rtol=1e-12)
    assert scores[early].max() <= full.min()
    np.testing.assert_array_equal(scores > 0, labels == 1)


def test_scores_are_on_the_side_of_the_answer(boosted, averaged):
    for model, X, _ in (boosted, averaged):
        quick = fitted(model, X[:2000], early_exit="negative")
        np.testing.assert_array_equal(
            quick.decision_function(X[2000:]) > 0, quick.predict(X[2000:]) == 1
        )


def test_positive_answers_alone_may_be_given_early(boosted, averaged):
    for model, X, _ in (boosted, averaged):
        quick = fitted(model, X[:2000], early_exit="positive")
        labels, n_asked = quick.predict_counted(X[2000:])
        assert np.all(labels[n_asked < quick.forest_.n_trees] == 1)


@pytest.mark.parametrize("early_exit", ["both", "positive"])
def test_partial_scores_are_never_ranked(boosted, early_exit):
    model, X, y = boosted
    quick = fitted(model, X[:2000], early_exit=early_exit)
    assert not hasattr(quick, "decision_function")
    with pytest.raises(AttributeError) as caught:
        quick.decision_function(X)
    assert "early_exit='negative'" in str(caught.value.__cause__)
    # Scorers go by probabilities, which are means of full ones.
    area = roc_auc_score(y[2000:], quick.predict_proba(X[2000:])[:, 1])
    assert get_scorer("roc_auc")(quick, X[2000:], y[2000:]) == area


def test_rows_that_are_scored_in_full_may_be_ranked(boosted):
    model, X, y = boosted
    quick = fitted(model, X[:2000], early_exit="negative")
    labels, scores = y[2000:], quick.decision_function(X[2000:])
    kept = scores > scores.min()
    full = model.decision_function(X[2000:])
    assert roc_auc_score(labels[kept], scores[kept]) == pytest.approx(
        roc_auc_score(labels[kept], full[kept])
    )
    assert get_scorer("roc_auc")(quick, X[2000:], labels) == pytest.approx(
        roc_auc_score(labels, scores)
    )


# ------------------------------------------------------------------ the promise


def test_confidence_keeps_the_bound_on_new_rows_and_says_so(boosted):
    model, X, _ = boosted
    quick = fitted(model, X[:2500], confidence=0.9, max_disagreement=0.05)
    assert quick.certificate_.upper_bound == 0.05
    assert quick.certificate_.n_rows == 1250  # one half
    assert quick.promise_.kind == "confidence"
    labels, n_asked = quick.predict_counted(X[2500:])
    assert np.mean(labels != model.predict(X[2500:])) <= 0.06
    assert n_asked.mean() < 60
    proof = spinney.certify(quick, X[2500:])
    assert proof.n_rows == 500


def test_by_default_new_rows_keep_the_bound_on_average(boosted):
    model, X, _ = boosted
    quick = fitted(model, X[:2000])
    promise = quick.promise_
    assert promise.kind == "expected"
    assert (promise.n_disagreements + 1) / (promise.n_rows + 1) <= 0.02
    assert promise.n_rows == 1000
    assert quick.certificate_ is None
    assert quick.expected_disagreement_ == promise.n_disagreements / 1000
    # Confidence is the stronger promise, and takes more trees.
    sure = fitted(model, X[:2000], confidence=0.95)
    assert quick.expected_trees_ < sure.expected_trees_


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("confidence", "words"), [(None, "needs 999 .*1,049 rows"), (0.95, "needs 2,995 ")]
)
def test_with_too_few_rows_nothing_differs_and_a_warning_says_how_many_it_takes(
    boosted, rule, confidence, words
):
    model, X, _ = boosted
    with pytest.warns(SpinneyWarning, match=words):
        quick = fitted(
            model, X[:300], confidence=confidence, max_disagreement=0.001, rule=rule
        )
    assert quick.certificate_ is None
    assert quick.promise_.kind == "never"
    np.testing.assert_array_equal(quick.predict(X), model.predict(X))


def test_a_class_that_vanishes_is_warned_of():
    X, y = make_classification(
        6000, 8, weights=[0.985], flip_y=0.0, class_sep=0.4, random_state=3
    )
    model = GradientBoostingClassifier(n_estimators=30, random_state=0)
    model.fit(X[:2000], y[:2000])
    with pytest.warns(
        SpinneyWarning, match=r"1 is predicted \d+ times by the full"
    ) as w:
        quick = fitted(model, X[2000:], max_disagreement=0.05)
    assert len(w) == 1
    usual, rare = quick.class_changes_
    assert (usual.label, rare.label) == (0, 1)
    assert rare.n_lost > 0.1 * rare.n_full
    assert usual.n_full + rare.n_full == usual.n_early + rare.n_early == 2000


def broken_promises(n_runs, n_rows, **parameters):
    """Return in how many runs the disagreement on many new rows exceeds the bound."""
    X, y = noisy(20_000, seed=5)
    model = GradientBoostingClassifier(n_estimators=40, random_state=0)
    model.fit(X[:1000], y[:1000])
    full = model.predict(X)
    rng = np.random.default_rng(0)
    broken = stopped = 0
    for seed in range(n_runs):
        rows = 1000 + rng.permutation(len(X) - 1000)
        with warnings.catch_warnings():
            # That all trees are asked is counted below, and keeps the promise.
            warnings.simplefilter("ignore", SpinneyWarning)
            quick = fitted(model, X[rows[:n_rows]], random_state=seed, **parameters)
        new = rows[n_rows:]
        labels, n_asked = quick.predict_counted(X[new])
        broken += np.mean(labels != full[new]) > parameters["max_disagreement"]
        stopped += n_asked.mean() < 40
    return broken, stopped


def test_a_promise_with_confidence_is_hardly_ever_broken():
    broken, stopped = broken_promises(
        8, 1500, max_disagreement=0.03, confidence=0.9, rule="optimal"
    )
    assert binom.sf(broken - 1, 8, 0.1) > 1e-6
    assert stopped == 8


@pytest.mark.guarantee
@pytest.mark.parametrize("rule", RULES)
def test_broken_promises_are_no_more_frequent_than_stated(rule):
    broken, stopped = broken_promises(
        100, 2000, max_disagreement=0.02, confidence=0.95, rule=rule
    )
    assert binom.sf(broken - 1, 100, 0.05) > 1e-6
    assert stopped >= 95


@pytest.mark.guarantee
def test_broken_promises_are_no_more_frequent_where_rows_are_scarce():
    # Half of them would be too few to prove anything: 99 are kept, and 71 fitted to.
    broken, stopped = broken_promises(200, 170, max_disagreement=0.03, confidence=0.95)
    assert binom.sf(broken - 1, 200, 0.05) > 1e-6
    assert stopped >= 100


@pytest.mark.guarantee
@pytest.mark.parametrize("name", ["adult", "nomao", "magic"])
def test_promises_hold_on_real_data(name):
    import datasets

    X, y = datasets.real(name)
    X = np.ascontiguousarray(X, dtype=np.float64)
    model = HistGradientBoostingClassifier(max_iter=100, random_state=0)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    model.fit(X[order[:5000]], y[order[:5000]])
    full = model.predict(X)
    n_runs, broken = 60, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpinneyWarning)  # all trees: a promise kept
        for seed in range(n_runs):
            rest = rng.permutation(order[5000:])
            fit_on, new = rest[: len(rest) // 2], rest[len(rest) // 2 :]
            quick = fitted(
                model,
                X[fit_on],
                max_disagreement=0.005,
                confidence=0.95,
                rule=("thresholds", "optimal")[seed % 2],
                random_state=seed,
            )
            broken += np.mean(quick.predict(X[new]) != full[new]) > 0.005
    # New rows are themselves a sample: their share scatters around the true one, so a
    # few more may exceed the bound than are promised.
    assert binom.sf(broken - 1, n_runs, 0.1) > 1e-3


# ------------------------------------------------------------------ special cases


def test_a_forest_and_a_data_frame_and_a_pipeline_are_taken(boosted):
    model, X, y = boosted
    quick = CascadeClassifier(spinney.read_model(model), random_state=0).fit(X)
    assert quick.predict_counted(X)[1].mean() < 60
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(8)])
    named = RandomForestClassifier(20, random_state=0).fit(frame[:500], y[:500])
    quick = fitted(named, frame[500:])
    assert quick.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(quick.predict_full(frame), named.predict(frame))
    piped = make_pipeline(StandardScaler(), ExtraTreesClassifier(20, random_state=0))
    piped.fit(X[:500], y[:500])
    quick = fitted(piped, X[500:], X_order=X[:500])
    np.testing.assert_array_equal(quick.predict_full(X), piped.predict(X))
    assert quick.predictor()(X[0]) == quick.predict(X[:1])[0]


def test_one_tree_or_one_row_or_one_class():
    X, y = noisy(200)
    one_tree = RandomForestClassifier(1, random_state=0).fit(X, y)
    for rule in RULES:
        quick = fitted(one_tree, X, rule=rule)
        assert quick.exit_points_.tolist() == []
        np.testing.assert_array_equal(quick.predict(X), one_tree.predict(X))
    one_class = RandomForestClassifier(3, random_state=0).fit(X, np.zeros(200))
    quick = fitted(one_class, X)
    np.testing.assert_array_equal(quick.predict(X), np.zeros(200))
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.warns(SpinneyWarning, match="for all 1 rows"):
        quick = fitted(model, X[:1])
    np.testing.assert_array_equal(quick.predict(X), model.predict(X))


def test_rows_of_one_decision_only_mean_all_trees_and_a_warning(boosted):
    model, X, _ = boosted
    negative = X[model.predict(X) == 0]
    with pytest.warns(SpinneyWarning, match="some of every class"):
        quick = fitted(model, negative)
    np.testing.assert_array_equal(quick.predict(X), model.predict(X))


def test_only_part_of_very_many_rows_is_kept_in_tables(boosted, monkeypatch):
    import spinney.cascade.tables as tables

    model, X, _ = boosted
    monkeypatch.setattr(tables, "MAX_NUMBERS", 60 * 100)
    quick = fitted(model, X)
    assert quick.predict_counted(X)[1].mean() < 60


def test_an_unfitted_estimator_is_trained(boosted):
    _, X, y = boosted
    quick = CascadeClassifier(
        RandomForestClassifier(20, random_state=0),
        max_disagreement=0.02,
        random_state=0,
    ).fit(X, y)
    assert quick.score(X, y) > 0.7
    with pytest.raises(NotFittedError):
        clone(quick).predict(X)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"max_disagreement": 1.0}, "max_disagreement"),
        ({"max_disagreement": "few"}, "max_disagreement"),
        ({"order": "best"}, "order must be one of"),
        ({"order": [0, 1, 2]}, "order must name each of the 60 trees"),
        ({"order": [0] * 60}, "names tree 0 more than once"),
        ({"rule": "guess"}, "rule must be one of"),
        ({"early_exit": "never"}, "early_exit must be one of"),
        ({"tree_costs": [1.0, 2.0]}, r"tree_costs must have shape \(60,\)"),
        ({"tree_costs": [0.0] * 60}, "tree_costs must be positive"),
        ({"tree_costs": [np.nan] * 60}, "got nan for tree 0"),
        ({"tree_costs": [-1.0] * 60}, "got -1.0 for tree 0"),
        ({"confidence": 1.0}, "confidence must be above 0 and below 1"),
        ({"order": "greedy_mse"}, "needs labels"),
        ({"order": "individual_mse"}, "needs labels"),
    ],
)
def test_bad_parameters_are_named(boosted, parameters, words):
    model, X, _ = boosted
    with pytest.raises(InvalidArgumentError, match=words):
        fitted(model, X[:200], **parameters)


def test_settings_for_two_classes_are_refused_for_more(four):
    model, X, _ = four
    with pytest.raises(InvalidArgumentError, match="early_exit='negative' is for two"):
        fitted(model, X, early_exit="negative")
    with pytest.raises(InvalidArgumentError, match="rule='fan' is for two"):
        fitted(model, X, rule="fan")


def test_labels_and_rows_for_the_order_do_not_go_together(boosted):
    model, X, y = boosted
    with pytest.raises(InvalidArgumentError, match="Leave X_order out"):
        fitted(model, X, y, order="greedy_mse", X_order=X)


def test_a_regressor_is_refused():
    X, y = noisy(100)
    model = RandomForestRegressor(3).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="Early exit is for classifiers"):
        fitted(model, X)


# ------------------------------------------------------------------ files, pictures


@pytest.mark.parametrize("rule", RULES)
def test_a_saved_classifier_answers_the_same(boosted, tmp_path, rule):
    pytest.importorskip("safetensors")
    model, X, _ = boosted
    quick = fitted(model, X[:2000], rule=rule, confidence=0.9, max_disagreement=0.05)
    spinney.save(quick, tmp_path / "quick.spinney")
    again = spinney.load(tmp_path / "quick.spinney")
    for one, other in zip(
        quick.predict_counted(X), again.predict_counted(X), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert again.certificate_ == quick.certificate_
    assert again.expected_trees_ == quick.expected_trees_
    assert again.get_params()["rule"] == rule


def test_a_saved_classifier_of_several_classes_answers_the_same(four, tmp_path):
    pytest.importorskip("safetensors")
    model, X, _ = four
    quick = fitted(model, X[:2000])
    spinney.save(quick, tmp_path / "quick.spinney")
    again = spinney.load(tmp_path / "quick.spinney")
    np.testing.assert_array_equal(quick.predict(X), again.predict(X))
    np.testing.assert_array_equal(quick.margin_, again.margin_)


def test_pictures_show_thresholds_and_counts(boosted, four):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    model, X, _ = boosted
    quick = fitted(model, X[:2000])
    ax = quick.plot()
    assert len(ax.lines) == 2
    counts = quick.plot("trees", X=X[2000:])
    assert sum(bar.get_height() for bar in counts.patches) == 1000
    of_four = fitted(four[0], four[1][:2000], rule="optimal")
    assert len(of_four.plot(ax=pyplot.figure().gca()).lines) == 1
    with pytest.raises(InvalidArgumentError, match="pass X"):
        quick.plot("trees")
    with pytest.raises(InvalidArgumentError, match="cannot be drawn"):
        fitted(model, X[:2000], rule="fan").plot()
    pyplot.close("all")


def test_progress_never_goes_back_and_ends_at_1(capsys):
    X, y = make_classification(300, 6, random_state=0)
    model = RandomForestClassifier(12, max_depth=4, random_state=0).fit(X, y)
    shares = []
    spinney.CascadeClassifier(
        FrozenEstimator(model), verbose=shares.append, random_state=0
    ).fit(X, y)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) >= 2
    spinney.CascadeClassifier(FrozenEstimator(model), verbose=True, random_state=0).fit(
        X, y
    )
    assert "calibrating [########################################] 100%" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("order", ["qwyc", "individual_mse", "greedy_mse"])
@pytest.mark.parametrize("n_known", [2, 3])
def test_a_class_that_training_missed_is_no_class_of_the_model(order, n_known):
    X, y = make_classification(
        600, n_informative=6, n_classes=n_known, random_state=n_known
    )
    kept_back = plain_held_out_split(600, np.random.RandomState(0))[1]
    y[kept_back[:3]] = 9
    quick = CascadeClassifier(
        RandomForestClassifier(11, random_state=0),
        max_disagreement=0.1,
        order=order,
        random_state=0,
    )
    with pytest.warns(SpinneyWarning, match=r"1 of the \d classes \(9\)"):
        quick.fit(X, y)
    assert quick.classes_.tolist() == list(range(n_known))
    assert quick.score(X, y) > 0.7
    strange = CascadeClassifier(FrozenEstimator(quick.estimator_), order=order)
    with pytest.raises(ValueError, match="holds the label 9"):
        strange.fit(X, y)
