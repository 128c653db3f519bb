"""accelerate: what it returns, what it promises, and what it says of bad input."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import spinney
from datasets import real
from spinney import FormatError, SpinneyWarning, UnsupportedModelError
from spinney.acceleration import selection, timing
from spinney.base.comparison import Candidate, Comparison
from spinney.calibration.class_changes import ClassChange
from spinney.runtime import compile_notice
from spinney.sequential import problems

X, Y = make_classification(
    7000, 12, n_informative=6, class_sep=1.5, flip_y=0.05, random_state=0
)
X = X.astype(np.float32)
TRAINING, GIVEN, NEW = slice(0, 1500), slice(1500, 5000), slice(5000, 7000)


FULL_PATHS = problems.PATHS
MEASURE = selection.microseconds_per_row


@pytest.fixture(scope="module", autouse=True)
def _less_work():
    """Fit votes more roughly, and let time be what the trees evaluated suggest."""

    def times(classifiers, rows):
        trees = [one.predict_counted(rows)[1].mean() for one in classifiers]
        return [(float(n_trees), 2.0 * float(n_trees)) for n_trees in trees]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "microseconds_per_row", times)
        patch.setattr(problems, "PATHS", (20_000, 5, 200))
        yield


@pytest.fixture(scope="module")
def forest():
    model = RandomForestClassifier(50, max_depth=6, random_state=0)
    return model.fit(X[TRAINING], Y[TRAINING])


@pytest.fixture(scope="module")
def boosted():
    model = GradientBoostingClassifier(n_estimators=60, random_state=0)
    return model.fit(X[TRAINING], Y[TRAINING])


@pytest.mark.parametrize("verbose", [None, False])
def test_silence_covers_what_is_said_of_compiling(boosted, monkeypatch, verbose):
    notice = compile_notice._Notice()
    monkeypatch.setattr(compile_notice, "_notice", notice)
    said = []
    usual = selection.microseconds_per_row

    def times(classifiers, rows):
        said.append(notice.has_told_slow)
        return usual(classifiers, rows)

    monkeypatch.setattr(selection, "microseconds_per_row", times)
    spinney.accelerate(
        boosted, X[GIVEN], max_disagreement=0.02, random_state=0, verbose=verbose
    )
    assert said
    assert all(one is (verbose is False) for one in said)
    assert not notice.has_told_slow


@pytest.fixture(scope="module")
def faster(forest):
    return spinney.accelerate(forest, X[GIVEN], max_disagreement=0.01, random_state=0)


# ------------------------------------------------------------------ what comes out


def test_fewer_trees_of_a_forest_are_evaluated(forest, faster):
    assert faster.predict_counted(X[NEW])[1].mean() < 0.6 * forest.n_estimators
    promise = faster.promise_
    assert promise.kind == "expected"
    assert (promise.n_disagreements + 1) / (promise.n_rows + 1) <= 0.01
    assert promise.n_rows == round(0.45 * len(X[GIVEN]))


def test_new_rows_disagree_about_as_often_as_allowed(forest, faster):
    n_different = np.count_nonzero(faster.predict(X[NEW]) != forest.predict(X[NEW]))
    # Fails only if the rate were twice the bound with much evidence.
    assert binom.sf(n_different - 1, len(X[NEW]), 0.02) > 1e-6


@pytest.mark.parametrize("method", ["auto", "cascade"])
def test_gradient_boosting_becomes_a_cascade(boosted, method):
    quick = spinney.accelerate(
        boosted, X[GIVEN], max_disagreement=0.01, method=method, random_state=0
    )
    assert isinstance(quick, (spinney.CascadeClassifier, spinney.AllTreesClassifier))
    tried = {candidate.method for candidate in quick.acceleration_.candidates}
    assert tried == {"all trees", "cascade"}
    assert np.mean(quick.predict(X[GIVEN]) != boosted.predict(X[GIVEN])) <= 0.01


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("sequential", spinney.SequentialVotingClassifier),
        ("cascade", spinney.CascadeClassifier),
    ],
)
def test_a_method_that_is_named_is_used(forest, method, kind):
    quick = spinney.accelerate(
        forest, X[GIVEN], max_disagreement=0.02, method=method, random_state=0
    )
    assert type(quick) is kind
    assert quick.acceleration_.chosen.method == method


def test_the_comparison_tells_what_was_measured(forest, faster):
    comparison = faster.acceleration_
    first, *others = comparison.candidates
    assert first.name == "all trees"
    assert first.trees == forest.n_estimators
    assert first.disagreement == 0.0
    assert {candidate.name for candidate in others} == {
        "soft votes",
        "hard votes",
        "cascade, optimal",
    }
    given = len(X[GIVEN])
    assert comparison.n_fitted == pytest.approx(0.4 * given, abs=1)
    assert comparison.n_compared == pytest.approx(0.15 * given, abs=1)
    assert sum(candidate.chosen for candidate in comparison.candidates) == 1
    chosen = comparison.chosen
    assert chosen.kept_promise
    assert chosen.disagreement <= 0.01
    assert chosen.microseconds_batch > 0.0
    assert chosen.microseconds_single > 0.0
    for candidate in others:
        assert candidate.kept_promise == (not math.isnan(candidate.microseconds_batch))


def test_the_fastest_stands_there_as_compared_and_as_promised(faster):
    comparison = faster.acceleration_
    promised = comparison.chosen
    assert promised.level == "as promised"
    assert promised.disagreement == (
        faster.promise_.n_disagreements / faster.promise_.n_rows
    )
    at = comparison.candidates.index(promised)
    compared = comparison.candidates[at - 1]
    assert (compared.name, compared.level) == (promised.name, "as compared")
    assert not compared.chosen
    others = [one for one in comparison.candidates[1:] if one.level == "as compared"]

    def slowness(one):
        return one.microseconds_batch * one.microseconds_single

    # At the level of the others it is the fastest, so the choice explains itself.
    kept = [one for one in others if one.kept_promise]
    assert min(kept, key=slowness) == compared
    cells = comparison.cells()
    assert cells[at - 1][-1] == "fastest"
    assert (cells[at][0].strip(), cells[at][-1]) == ("as promised", "chosen")
    assert "as promised" in repr(faster)
    assert "exiting as early as the promise allows" in comparison.description


def test_what_is_chosen_is_faster_than_all_trees(faster):
    full, chosen = faster.acceleration_.candidates[0], faster.acceleration_.chosen
    assert chosen.microseconds_batch < full.microseconds_batch
    assert chosen.microseconds_single < full.microseconds_single


def test_predicted_classes_before_and_after_are_told(forest, faster):
    changes = faster.acceleration_.class_changes
    assert changes == faster.class_changes_
    n_rows = faster.promise_.n_rows
    assert sum(one.n_full for one in changes) == n_rows
    assert sum(one.n_early for one in changes) == n_rows
    assert sum(one.n_lost for one in changes) == faster.promise_.n_disagreements
    assert "by the model  early exit  lost  share lost" in repr(faster)


def test_a_class_that_vanishes_is_warned_of():
    rows, labels = make_classification(
        6000, 8, weights=[0.985], flip_y=0.0, class_sep=0.4, random_state=3
    )
    model = GradientBoostingClassifier(n_estimators=30, random_state=0)
    model.fit(rows[:2000], labels[:2000])
    with pytest.warns(SpinneyWarning, match="1 is predicted") as caught:
        quick = spinney.accelerate(
            model, rows[2000:], max_disagreement=0.05, random_state=0
        )
    assert [one.filename for one in caught] == [__file__]
    assert quick.acceleration_.class_changes[1].loses_much(0.05)


def test_times_are_measured_for_batches_and_single_rows(forest, monkeypatch):
    monkeypatch.setattr(timing, "BATCH", 500)
    monkeypatch.setattr(timing, "ROUNDS", 2)
    full = spinney.AllTreesClassifier(FrozenEstimator(forest)).fit(X[GIVEN])
    frame = pd.DataFrame(X[GIVEN])
    named = spinney.AllTreesClassifier(FrozenEstimator(forest)).fit(frame)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3))
    pipeline.fit(X[TRAINING], Y[TRAINING])
    piped = spinney.AllTreesClassifier(FrozenEstimator(pipeline)).fit(X[GIVEN])
    for classifier, rows in ((full, X[GIVEN]), (named, frame), (piped, X[GIVEN])):
        for few in (rows, rows[:3]):
            [(batch, single)] = MEASURE([classifier], few)
            assert 0.0 < batch < 1e6
            assert 0.0 < single < 1e6


def test_repr_shows_the_comparison(faster):
    text = repr(faster)
    assert "all trees" in text
    assert "soft votes" in text
    assert "Chosen:" in text
    assert max(map(len, text.splitlines()[1:])) < 140


def test_a_classifier_fitted_by_hand_has_no_comparison(forest):
    plain = spinney.SequentialVotingClassifier(
        FrozenEstimator(forest), max_disagreement=0.01, random_state=0
    ).fit(X[GIVEN])
    assert not hasattr(plain, "acceleration_")
    assert "\n" not in repr(plain).replace("\n          ", "")


def test_the_same_seed_gives_the_same_candidates(forest):
    def disagreements(seed):
        quick = spinney.accelerate(
            forest, X[GIVEN], max_disagreement=0.01, random_state=seed
        )
        return [
            (candidate.name, candidate.disagreement, candidate.trees)
            for candidate in quick.acceleration_.candidates
        ]

    assert disagreements(3) == disagreements(3)
    assert disagreements(3) != disagreements(4)


def test_what_evaluates_fewer_trees_but_takes_longer_is_not_chosen(forest, monkeypatch):
    monkeypatch.setattr(
        selection,
        "microseconds_per_row",
        lambda classifiers, rows: [(1.0, 1.0)] + [(2.0, 1.0)] * (len(classifiers) - 1),
    )
    settings = {"max_disagreement": 0.01, "random_state": 0}
    quick = spinney.accelerate(forest, X[GIVEN], **settings)
    assert type(quick) is spinney.AllTreesClassifier
    assert "No other candidate that kept the bound was faster" in repr(quick)
    named = spinney.accelerate(forest, X[GIVEN], method="cascade", **settings)
    assert type(named) is spinney.CascadeClassifier


def test_nothing_faster_than_a_single_tree():
    model = RandomForestClassifier(1, max_depth=2, random_state=0)
    model.fit(X[TRAINING], Y[TRAINING])
    quick = spinney.accelerate(model, X[GIVEN], random_state=0)
    assert type(quick) is spinney.AllTreesClassifier
    assert "all 1 trees are evaluated" in quick.acceleration_.outcome
    assert np.array_equal(quick.predict(X[NEW]), model.predict(X[NEW]))
    assert quick.predict_counted(X[NEW])[1].tolist() == [1] * len(X[NEW])
    assert quick.predictor()(X[NEW][0]) == model.predict(X[NEW][:1])[0]


def test_a_bound_of_zero_never_disagrees_on_the_given_rows(forest):
    quick = spinney.accelerate(forest, X[GIVEN], max_disagreement=0.0, random_state=0)
    assert np.array_equal(quick.predict(X[GIVEN]), forest.predict(X[GIVEN]))


def test_several_classes():
    rows, labels = make_classification(
        5000, 10, n_informative=6, n_classes=4, class_sep=2.0, random_state=1
    )
    model = RandomForestClassifier(40, max_depth=6, random_state=0)
    model.fit(rows[:1000], labels[:1000])
    quick = spinney.accelerate(
        model, rows[1000:], max_disagreement=0.02, random_state=0
    )
    assert np.mean(quick.predict(rows[1000:]) != model.predict(rows[1000:])) <= 0.02


def test_a_model_of_one_class_is_evaluated_in_full():
    model = RandomForestClassifier(5).fit(X[:50], np.zeros(50))
    quick = spinney.accelerate(model, X[GIVEN])
    assert type(quick) is spinney.AllTreesClassifier
    assert (quick.predict(X[NEW]) == 0.0).all()


def test_labels_may_be_texts(forest):
    names = np.array(["no", "yes"])
    model = RandomForestClassifier(30, max_depth=5, random_state=0)
    model.fit(X[TRAINING], names[Y[TRAINING]])
    quick = spinney.accelerate(model, X[GIVEN], max_disagreement=0.02, random_state=0)
    assert set(quick.predict(X[NEW])) == {"no", "yes"}


# ------------------------------------------------------------------ what goes in


@pytest.mark.parametrize("wrap", [FrozenEstimator, spinney.read_model])
def test_frozen_models_and_forests_are_taken(forest, faster, wrap):
    quick = spinney.accelerate(
        wrap(forest), X[GIVEN], max_disagreement=0.01, random_state=0
    )
    before = [candidate.disagreement for candidate in faster.acceleration_.candidates]
    assert [
        candidate.disagreement for candidate in quick.acceleration_.candidates
    ] == before


def test_a_model_file_is_taken(forest, tmp_path):
    path = tmp_path / "forest.spinney"
    spinney.save(spinney.read_model(forest), path)
    quick = spinney.accelerate(path, X[GIVEN], max_disagreement=0.01, random_state=0)
    assert np.mean(quick.predict(X[GIVEN]) != forest.predict(X[GIVEN])) <= 0.01


def test_a_booster_without_parameters_is_taken():
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(X[TRAINING], Y[TRAINING])
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1}, data, 40
    )
    quick = spinney.accelerate(booster, X[GIVEN], max_disagreement=0.01, random_state=0)
    full = booster.predict(X[GIVEN]) > 0.5
    assert np.mean(quick.predict(X[GIVEN]) != full) <= 0.01


def test_a_pipeline_keeps_its_preprocessing():
    model = make_pipeline(
        StandardScaler(), RandomForestClassifier(40, max_depth=5, random_state=0)
    ).fit(X[TRAINING], Y[TRAINING])
    quick = spinney.accelerate(model, X[GIVEN], max_disagreement=0.02, random_state=0)
    assert np.mean(quick.predict(X[GIVEN]) != model.predict(X[GIVEN])) <= 0.02


def test_a_data_frame_keeps_its_names(forest):
    frame = pd.DataFrame(X, columns=[f"column {number}" for number in range(12)])
    model = RandomForestClassifier(40, max_depth=5, random_state=0)
    model.fit(frame[TRAINING], Y[TRAINING])
    quick = spinney.accelerate(
        model, frame[GIVEN], max_disagreement=0.02, random_state=0
    )
    assert quick.feature_names_in_[0] == "column 0"
    assert np.mean(quick.predict(frame[GIVEN]) != model.predict(frame[GIVEN])) <= 0.02


def test_rows_that_nobody_can_decide_early_do_no_harm(boosted):
    # All of one class: thresholds have nothing to learn from.
    positive = X[GIVEN][boosted.predict(X[GIVEN]) == 1]
    with pytest.warns(SpinneyWarning, match="some of every class") as caught:
        quick = spinney.accelerate(
            boosted, positive, max_disagreement=0.01, random_state=0
        )
    assert [one.filename for one in caught] == [__file__]
    assert np.array_equal(quick.predict(positive), boosted.predict(positive))


# ------------------------------------------------------------------ the reference


@pytest.mark.parametrize("threshold", [0.2, 0.8])
def test_the_bound_is_about_the_decision_threshold(forest, boosted, threshold):
    piped = make_pipeline(StandardScaler(), GradientBoostingClassifier(random_state=0))
    piped.fit(X[TRAINING], Y[TRAINING])
    for model in (forest, boosted, piped):
        quick = spinney.accelerate(
            model,
            X[GIVEN],
            max_disagreement=0.02,
            decision_threshold=threshold,
            random_state=0,
        )
        expected = (model.predict_proba(X)[:, 1] >= threshold).astype(int)
        assert np.array_equal(quick.predict_full(X), expected)
        assert quick.promise_.kind in ("expected", "never")
        assert np.mean(quick.predict(X[NEW]) != expected[NEW]) <= 0.04
        assert spinney.certify(quick, X[NEW]).disagreement <= 0.04


@pytest.mark.parametrize("threshold", [0.0, 1.0, "half"])
def test_a_decision_threshold_out_of_range_is_named(forest, threshold):
    with pytest.raises(ValueError, match="decision_threshold must be"):
        spinney.accelerate(forest, X[GIVEN], decision_threshold=threshold)


def test_hard_votes_are_kept_only_if_they_agree_with_the_model():
    # Shallow trees on noise: the majority is often another than the mean.
    rows, labels = make_classification(
        6000, 10, n_informative=3, class_sep=0.3, flip_y=0.3, random_state=0
    )
    model = RandomForestClassifier(60, max_depth=3, random_state=0)
    model.fit(rows[:1000], labels[:1000])
    given = rows[1000:]
    majority = spinney.read_model(model).votes(given).mean(axis=1) > 0.5
    assert np.mean(majority != model.predict(given)) > 0.02
    quick = spinney.accelerate(model, given, max_disagreement=0.005, random_state=0)
    compared = {one.name: one for one in quick.acceleration_.candidates}
    assert not compared["hard votes"].kept_promise
    assert not compared["hard votes"].chosen
    assert np.mean(quick.predict(given) != model.predict(given)) <= 0.005


# ------------------------------------------------------------------ with confidence


def test_a_bound_with_confidence_comes_with_a_certificate(forest):
    quick = spinney.accelerate(
        forest, X[GIVEN], max_disagreement=0.01, confidence=0.9, random_state=0
    )
    certificate = quick.certificate_
    assert certificate.upper_bound == 0.01
    assert certificate.confidence == 0.9
    assert certificate.n_rows == round(0.45 * len(X[GIVEN]))
    assert quick.confidence == 0.9
    assert "with 90 % confidence" in repr(quick)
    fresh = spinney.certify(quick, X[NEW], confidence=0.9)
    assert fresh.n_rows == len(X[NEW])


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_rows_for_the_promise_are_looked_at_once_the_choice_is_made(
    forest, monkeypatch, confidence
):
    seen = []
    likely = selection.Selection._is_likely_kept
    promised = selection.Selection.promised

    def spy_likely(self, disagreement):
        seen.append("compared")
        return likely(self, disagreement)

    def spy_promised(self, chosen, must_be_faster):
        ladder = list(chosen.ladder)
        seen.append("promised")
        result = promised(self, chosen, must_be_faster)
        assert chosen.ladder == ladder
        return result

    monkeypatch.setattr(selection.Selection, "_is_likely_kept", spy_likely)
    monkeypatch.setattr(selection.Selection, "promised", spy_promised)
    spinney.accelerate(
        forest, X[GIVEN], max_disagreement=0.01, confidence=confidence, random_state=0
    )
    assert seen.count("promised") == 1
    assert seen[-1] == "promised"


@pytest.mark.parametrize(
    ("n_rows", "confidence", "words"),
    [(3000, 0.95, "3,045 rows in all"), (1040, None, "1,049 rows in all")],
)
def test_with_too_few_rows_nothing_differs_and_a_warning_says_how_many_it_takes(
    forest, n_rows, confidence, words
):
    few = X[GIVEN][:n_rows]
    with pytest.warns(SpinneyWarning, match=words) as caught:
        quick = spinney.accelerate(
            forest, few, max_disagreement=0.001, confidence=confidence, random_state=0
        )
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert quick.promise_.kind == "never"
    assert quick.acceleration_.confidence == confidence
    assert np.array_equal(quick.predict(X), forest.predict(X))


@pytest.mark.parametrize(
    ("n_rows", "confidence", "n_kept"), [(400, 0.95, 299), (200, None, 99)]
)
def test_where_rows_are_scarce_the_promise_gets_as_many_as_it_takes(
    forest, n_rows, confidence, n_kept
):
    # 299 rows prove 1 % if none disagrees; 45 % of 400 would be too few. 99 do it on
    # average.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpinneyWarning)
        quick = spinney.accelerate(
            forest,
            X[GIVEN][:n_rows],
            max_disagreement=0.01,
            confidence=confidence,
            random_state=0,
        )
    tried = [one for one in quick.acceleration_.candidates if one.name != "all trees"]
    assert tried
    assert quick.promise_.n_rows in (0, n_kept)


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_zero_means_never_on_any_row(forest, boosted, confidence):
    rng = np.random.default_rng(0)
    other = rng.normal(scale=10.0, size=(3000, X.shape[1]))
    for model in (forest, boosted):
        for method in ("auto", "cascade"):
            quick = spinney.accelerate(
                model,
                X[GIVEN][:500],
                max_disagreement=0.0,
                confidence=confidence,
                method=method,
                random_state=0,
            )
            assert quick.promise_.kind == "never"
            for rows in (X, other):
                assert np.array_equal(quick.predict(rows), model.predict(rows))


def broken_promises(name, model, max_disagreement, n_repeats, n_trained):
    """Return in how many random splits new rows disagree more often than proven."""
    rows, labels = real(name, 30_000)
    n_broken = 0
    for seed in range(n_repeats):
        shuffled = np.random.default_rng(seed).permutation(len(rows))
        trained, given, new = np.split(shuffled, [n_trained, n_trained + 9000])
        model.fit(rows[trained], labels[trained])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpinneyWarning)
            quick = spinney.accelerate(
                model,
                rows[given],
                max_disagreement=max_disagreement,
                confidence=0.95,
                random_state=seed,
            )
        differ = np.mean(quick.predict(rows[new]) != model.predict(rows[new]))
        n_broken += bool(differ > max_disagreement)
    return n_broken


@pytest.mark.guarantee
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("adult", RandomForestClassifier(100, max_depth=8, n_jobs=2)),
        ("nomao", GradientBoostingClassifier(n_estimators=60)),
        ("magic", RandomForestClassifier(60)),
    ],
)
def test_a_promise_with_confidence_is_broken_in_few_splits(name, model, monkeypatch):
    monkeypatch.setattr(problems, "PATHS", FULL_PATHS)
    n_repeats = 40
    n_broken = broken_promises(name, model, 0.005, n_repeats, 5000)
    # Allowed: 5 % of the splits. Fails only on evidence for more.
    assert binom.sf(n_broken - 1, n_repeats, 0.05) > 0.01


def test_a_promise_with_confidence_is_kept_on_new_rows(forest):
    for seed in range(2):
        shuffled = np.random.default_rng(seed).permutation(np.arange(1500, 7000))
        given, new = shuffled[:2500], shuffled[2500:]
        quick = spinney.accelerate(
            forest,
            X[given],
            max_disagreement=0.02,
            confidence=0.9,
            method="sequential",
            random_state=seed,
        )
        assert quick.certificate_ is not None
        n_differ = np.count_nonzero(quick.predict(X[new]) != forest.predict(X[new]))
        # New rows are few: fails only on evidence for more than the bound.
        assert binom.sf(n_differ - 1, len(new), 0.02) > 1e-3


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_disagreement": -0.1}, "max_disagreement"),
        ({"max_disagreement": 1.0}, "max_disagreement"),
        ({"max_disagreement": "0.1"}, "max_disagreement"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 95}, "confidence"),
        ({"method": "anytime"}, "method"),
    ],
)
def test_a_setting_out_of_range_is_named(forest, settings, message):
    with pytest.raises(ValueError, match=message):
        spinney.accelerate(forest, X[GIVEN], **settings)


def test_too_few_rows_to_part_are_refused(forest):
    with pytest.raises(ValueError, match=r"too few rows: X has 5.*at least 6"):
        spinney.accelerate(forest, X[:5])


def test_few_rows_for_a_small_bound_are_warned_of(forest):
    with pytest.warns(SpinneyWarning, match="needs 9,999 held-out calibration rows"):
        spinney.accelerate(forest, X[1500:1800], max_disagreement=1e-4, random_state=0)


@pytest.mark.parametrize("bad", [X[:100, :5], X[0], np.full((100, 12), "a")])
def test_rows_that_the_model_does_not_take_are_refused(forest, bad):
    with pytest.raises(ValueError, match=r"features|array|convert|numeric"):
        spinney.accelerate(forest, bad)


def test_votes_of_a_sum_of_trees_are_refused(boosted):
    with pytest.raises(UnsupportedModelError, match="method='cascade'"):
        spinney.accelerate(boosted, X[GIVEN], method="sequential")


def test_regressors_and_other_models_are_refused():
    regressor = RandomForestRegressor(3).fit(X[:100], Y[:100])
    with pytest.raises(UnsupportedModelError, match="is for classifiers, got a regr"):
        spinney.accelerate(regressor, X[GIVEN])
    with pytest.raises(UnsupportedModelError):
        spinney.accelerate(LogisticRegression().fit(X[:100], Y[:100]), X[GIVEN])


def test_a_missing_model_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        spinney.accelerate(tmp_path / "nowhere.txt", X[GIVEN])


# ------------------------------------------------------------------ files


def test_the_comparison_survives_a_file(faster, tmp_path):
    path = tmp_path / "fast.spinney"
    spinney.save(faster, path)
    again = spinney.load(path)
    # A time that is not known is NaN, which equals nothing.
    assert again.acceleration_.to_dict() == faster.acceleration_.to_dict()
    assert np.array_equal(again.predict(X[NEW]), faster.predict(X[NEW]))


def test_all_trees_survive_a_file(tmp_path):
    rows, labels = load_iris(return_X_y=True)
    model = RandomForestClassifier(5, random_state=0).fit(rows, labels)
    path = tmp_path / "full.spinney"
    spinney.save(spinney.AllTreesClassifier(FrozenEstimator(model)).fit(rows), path)
    again = spinney.load(path)
    assert type(again) is spinney.AllTreesClassifier
    assert np.array_equal(again.predict(rows), model.predict(rows))
    assert again.order_.tolist() == list(range(5))


def a_comparison():
    full = Candidate(
        "all trees", "all trees", math.nan, 0.0, 9.0, 2.0, 5.0, True, False
    )
    votes = Candidate("soft votes", "sequential", 0.001, 0.0, 3.0, 1.0, 2.0, True, True)
    changes = (ClassChange("no", 30, 31, 0), ClassChange("yes", 10, 9, 1))
    chosen = "Chosen: soft votes."
    return Comparison((full, votes), 9, 60, 40, 0.001, None, chosen, changes)


def test_a_comparison_of_an_older_file_knows_no_classes():
    parts = a_comparison().to_dict()
    del parts["class_changes"]
    assert Comparison.from_dict(parts).class_changes == ()


def test_a_comparison_of_an_older_file_knows_one_level():
    parts = a_comparison().to_dict()
    for one in parts["trials"]:
        del one["level"]
    assert Comparison.from_dict(parts).to_dict() == a_comparison().to_dict()
    assert "promised" not in str(a_comparison())


def test_what_is_not_faster_as_promised_is_shown_all_the_same():
    full, votes = a_comparison().candidates
    tried = replace(votes, chosen=False)
    promised = replace(tried, level="as promised", trees=9.0)
    shown = replace(
        a_comparison(), candidates=(replace(full, chosen=True), tried, promised)
    )
    assert [row[-1] for row in shown.cells()] == ["chosen", "fastest", "not faster"]
    assert Comparison.from_dict(shown.to_dict()).cells() == shown.cells()


def test_a_comparison_goes_through_json():
    parts = json.loads(json.dumps(a_comparison().to_dict(), allow_nan=False))
    assert Comparison.from_dict(parts).class_changes == a_comparison().class_changes
    assert str(Comparison.from_dict(parts)) == str(a_comparison())
    assert math.isnan(Comparison.from_dict(parts).candidates[0].aimed_at)


@pytest.mark.parametrize(
    "damage",
    [
        lambda parts: parts.pop("trials"),
        lambda parts: parts.update(trials=[]),
        lambda parts: parts.update(trials=[1]),
        lambda parts: parts.update(n_trees="nine"),
        lambda parts: parts.update(n_trees=True),
        lambda parts: parts.update(more=1),
        lambda parts: parts["trials"][0].update(chosen=True),
        lambda parts: parts["trials"][1].update(chosen=False),
        lambda parts: parts["trials"][1].update(trees=None, name=None),
        lambda parts: parts["trials"][1].pop("trees"),
        lambda parts: parts["trials"][1].update(level="as dreamt"),
        lambda parts: parts["trials"][1].update(level=None),
        lambda parts: parts.update(confidence="much"),
        lambda parts: parts.update(class_changes=1),
        lambda parts: parts.update(class_changes=[1]),
        lambda parts: parts["class_changes"][0].update(label=None),
        lambda parts: parts["class_changes"][0].update(n_full="many"),
        lambda parts: parts["class_changes"][0].pop("n_lost"),
        lambda parts: parts.update(max_disagreement=math.inf),
        lambda parts: parts["trials"][1].update(trees=math.nan),
    ],
)
def test_a_forged_comparison_is_refused(damage):
    parts = a_comparison().to_dict()
    damage(parts)
    with pytest.raises(FormatError):
        Comparison.from_dict(parts)


# ------------------------------------------------------------------ all trees


@parametrize_with_checks(
    [spinney.AllTreesClassifier(RandomForestClassifier(5, random_state=0))]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_all_trees_evaluate_all_trees(forest):
    full = spinney.AllTreesClassifier(FrozenEstimator(forest)).fit(X[GIVEN])
    labels, counts = full.predict_counted(X[NEW])
    assert np.array_equal(labels, forest.predict(X[NEW]))
    assert (counts == 50).all()
    assert np.array_equal(full.predict_full(X[NEW]), labels)
    assert full.max_disagreement == 0.0
    assert spinney.certify(full, X[NEW]).n_disagreements == 0
