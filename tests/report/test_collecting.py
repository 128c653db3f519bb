"""The numbers of a report are those of the classifier, computed in another way."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spinney
from report.kinds import (
    KINDS,
    LABELLED_OR_NOT,
    STOPPING,
    WITHOUT_LABELS,
    fitted,
    forest,
    reported,
    rows,
)
from spinney.calibration.bounds import clopper_pearson_upper
from spinney.calibration.limits import largest_bound
from spinney.calibration.promise import Promise
from spinney.report import Report, collect, make_report
from spinney.report import sweep as sweeping
from spinney.report.stopping import _chance
from spinney.report.sweep import levels_around
from spinney.runtime.early_exit import scoring_forest
from spinney.sequential.classifier import SequentialVotingClassifier

WITH_MODEL = [kind for kind in KINDS if kind not in ("called voters", "budgeted")]


def is_plain(value):
    """Whether JSON holds a value as it is."""
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


@pytest.mark.parametrize(("kind", "labelled"), LABELLED_OR_NOT)
def test_reports_are_plain_values_and_survive_json(kind, labelled):
    report = reported(kind, labelled)
    assert is_plain(dict(report))
    again = Report(json.loads(report.to_json()))
    assert again == report
    assert again.to_markdown() == report.to_markdown()


@pytest.mark.parametrize("kind", STOPPING)
def test_trees_evaluated_are_those_that_predict_counted_tells(kind):
    classifier, _, X, _ = fitted(kind)
    report = reported(kind)
    evaluated = np.sort(classifier.predict_counted(X)[1])
    n_rows = len(evaluated)
    trees = report["trees"]
    assert trees["mean"] == pytest.approx(evaluated.sum() / n_rows)
    assert trees["share"] == pytest.approx(
        evaluated.sum() / n_rows / len(classifier.order_)
    )
    assert trees["median"] == pytest.approx(
        (evaluated[(n_rows - 1) // 2] + evaluated[n_rows // 2]) / 2
    )
    assert trees["percentile_95"] == evaluated[int(np.ceil(0.95 * n_rows)) - 1]
    histogram = trees["histogram"]
    counted = [
        int(((evaluated >= first) & (evaluated <= last)).sum())
        for first, last in zip(histogram["first"], histogram["last"], strict=True)
    ]
    assert counted == histogram["rows"]
    assert sum(counted) == n_rows
    for at in trees["done"]:
        assert np.mean(evaluated <= at["trees"]) >= at["share"] - 1e-12
        assert np.mean(evaluated < at["trees"]) < at["share"]


@pytest.mark.parametrize(
    "kind", [k for k in WITH_MODEL if k in (*STOPPING, "all trees")]
)
def test_disagreement_and_errors_are_those_against_the_model_and_the_truth(kind):
    classifier, model, X, y = fitted(kind)
    report = reported(kind)
    labels, own = classifier.predict(X), model.predict(X)
    if kind == "threshold":
        own = (model.predict_proba(X)[:, 1] >= 0.2).astype(int)
    n_differ = int((labels != own).sum())
    assert report["disagreement"]["n_disagreements"] == n_differ
    assert report["disagreement"]["share"] == pytest.approx(n_differ / len(X))
    assert report["disagreement"]["upper_bound_if_fresh"] == pytest.approx(
        clopper_pearson_upper(n_differ, len(X), 0.95)
    )
    assert report["error"]["early"] == pytest.approx((labels != y).mean())
    assert report["error"]["full"] == pytest.approx((own != y).mean())
    if kind in WITHOUT_LABELS:
        assert reported(kind, labelled=False)["error"] is None


@pytest.mark.parametrize("kind", ["hard votes", "soft votes", "thresholds", "optimal"])
def test_rows_stop_where_the_reported_bounds_say(kind):
    classifier, _, X, _ = fitted(kind)
    stopping = reported(kind)["stopping"]
    voting = "hard" if kind == "hard votes" else "soft"
    scoring = scoring_forest(classifier.forest_, voting)
    partial = np.full(len(X), scoring.base_score[0])
    said = scoring.scores(X).reshape(len(X), -1)[:, classifier.order_]
    evaluated = np.full(len(X), len(classifier.order_))
    sums = partial[:, None] + np.cumsum(said, axis=1)
    checks = list(
        zip(stopping["steps"], stopping["lower"], stopping["upper"], strict=True)
    )
    close = np.zeros(len(X), dtype=bool)
    for step, lower, upper in reversed(checks):
        here = sums[:, step - 1]
        low = -np.inf if lower is None else lower
        high = np.inf if upper is None else upper
        if voting == "hard":
            stops = (here <= low) | (here >= high)
        else:
            stops = (here < low) | (here > high)
            close |= np.minimum(np.abs(here - low), np.abs(here - high)) < 1e-9
        evaluated[stops] = step
    np.testing.assert_array_equal(
        evaluated[~close], classifier.predict_counted(X)[1][~close]
    )


@pytest.mark.parametrize(
    "kind", ["hard votes of several", "soft votes of several", "optimal of several"]
)
def test_rows_that_stop_early_lead_by_the_reported_margin(kind):
    classifier, _, X, _ = fitted(kind)
    stopping = reported(kind)["stopping"]
    scoring = scoring_forest(
        classifier.forest_, "hard" if kind.startswith("hard") else "soft"
    )
    each = scoring.scores(X)
    sums = np.zeros((len(X), scoring.n_outputs)) + scoring.base_score
    each = each[:, classifier.order_]
    evaluated = classifier.predict_counted(X)[1]
    seen = 0
    for step, margin in zip(stopping["steps"], stopping["margin"], strict=True):
        ordered = np.sort(sums + each[:, :step].sum(axis=1), axis=1)
        lead = ordered[:, -1] - ordered[:, -2]
        left = evaluated == step
        seen += left.sum()
        if step == stopping["all_done_after"]:
            assert (evaluated <= step).all()
        elif left.any():
            assert (lead[left] >= margin - 1e-9).all()
    assert seen == (evaluated < len(classifier.order_)).sum()
    assert seen > 0


def test_votes_are_counted_by_row():
    _, model, X, _ = fitted("hard votes")
    cast = sum(tree.predict(X) for tree in model.estimators_)
    found = reported("hard votes")["distribution"]
    assert found["what"] == "votes"
    assert found["border"] == 10.5
    expected = np.bincount(cast.astype(int), minlength=22)
    assert found["histogram"]["first"] == list(range(22))
    assert found["histogram"]["rows"] == expected.tolist()


def test_scores_are_those_of_the_model():
    _, model, X, _ = fitted("thresholds")
    found = reported("thresholds")["distribution"]
    scores = model.decision_function(X)
    assert found["histogram"]["first"][0] == pytest.approx(scores.min())
    assert found["histogram"]["last"][-1] == pytest.approx(scores.max())
    assert sum(found["histogram"]["rows"]) == len(X)
    # Bins on either side of the border hold the rows with either answer.
    last = np.array(found["histogram"]["last"])
    below = np.array(found["histogram"]["rows"])[last <= found["border"]].sum()
    assert below <= (model.predict(X) == model.classes_[0]).sum()


@pytest.fixture
def rows_of_rules(monkeypatch):
    """Return rows that rules were fitted to, and those that each rule answered."""
    kind = SequentialVotingClassifier
    seen = []
    at_levels, counted = kind.at_levels, kind.predict_counted

    def noting(self, X, levels):
        for rule in at_levels(self, X, levels):
            rule._noted = []
            seen.append((keys(X), rule._noted))
            yield rule

    def answering(self, X):
        getattr(self, "_noted", []).extend(keys(X))
        return counted(self, X)

    monkeypatch.setattr(kind, "at_levels", noting)
    monkeypatch.setattr(kind, "predict_counted", answering)
    return seen


def keys(X):
    return [row.tobytes() for row in np.asarray(X)]


def test_other_levels_are_measured_on_rows_they_were_not_fitted_to(rows_of_rules):
    classifier, _, X, _ = fitted("hard votes")
    report = make_report(classifier, X)
    answered = []
    for fitted_on, asked in rows_of_rules:
        assert not set(fitted_on) & set(asked)
        assert len(fitted_on) < len(X) / 2  # the rest of the half is kept back
        answered += asked
    assert set(answered) == set(keys(X))
    assert report["sweep"]["n_measured"] == len(X)


@pytest.mark.parametrize("kind", STOPPING)
def test_at_its_own_level_the_sweep_is_the_classifier_itself(kind):
    report = reported(kind)
    (own,) = [point for point in report["sweep"]["points"] if point["is_own"]]
    assert own["trees"] == report["trees"]["mean"]
    assert own["n_disagreements"] == report["disagreement"]["n_disagreements"]
    assert own["disagreement"] == report["disagreement"]["share"]
    errors = report["error"]
    assert own["errors_added"] == pytest.approx(errors["early"] - errors["full"])
    if kind == "per class":
        lost = {one["label"]: one["n_lost"] for one in report["classes"]}
        assert own["worst_class"]["n_lost"] == lost[own["worst_class"]["label"]]


def test_other_levels_keep_their_bound_as_the_classifier_does():
    # Established on rows kept back: about the bound on average, far from 20 times it.
    for kind in ("threshold", "per class"):
        for point in reported(kind)["sweep"]["points"]:
            assert point["disagreement"] <= 2.0 * point["level"], kind
    points = reported("accuracy loss")["sweep"]["points"]
    assert all(point["errors_added"] <= point["level"] + 0.01 for point in points)


def test_levels_of_accuracy_need_labels():
    classifier, _, X, _ = fitted("accuracy loss")
    sweep = make_report(classifier, X)["sweep"]
    assert sweep["points"] == []
    assert "pass y" in sweep["reason"]


@pytest.mark.parametrize("kind", STOPPING)
def test_the_sweep_has_the_own_level_and_numbers_that_fit_together(kind):
    classifier, _, _, _ = fitted(kind)
    sweep = reported(kind)["sweep"]
    levels = [point["level"] for point in sweep["points"]]
    assert levels == sorted(levels)
    own = [point["level"] for point in sweep["points"] if point["is_own"]]
    if kind == "accuracy loss":
        assert own == [classifier.promise_.accuracy.max_accuracy_loss]
    else:
        assert own == [largest_bound(classifier.max_disagreement)]
    for point in sweep["points"]:
        assert point["speed_up"] * point["share"] == pytest.approx(1.0)
        assert point["disagreement"] == point["n_disagreements"] / sweep["n_measured"]
    # The boldest evaluates no more than the most cautious.
    assert sweep["points"][-1]["trees"] <= sweep["points"][0]["trees"]


@pytest.mark.parametrize("own", [0.0, 1e-6, 1e-3, 0.005, 0.05, 0.3, 0.9])
def test_levels_are_few_hold_the_own_one_and_begin_with_none(own):
    levels = levels_around(own)
    assert own in levels
    assert levels[0] == 0.0
    assert 2 <= len(levels) <= 8
    assert levels == sorted(set(levels))
    assert max(levels) < 1.0


def test_what_is_certified_is_told():
    classifier, _, _, _ = fitted("certified votes")
    certificate = reported("certified votes")["certificate"]
    assert certificate == {
        name: getattr(classifier.certificate_, name) for name in certificate
    }
    assert certificate["confidence"] == 0.9
    assert reported("soft votes")["certificate"] is None


def test_accelerated_classifiers_tell_what_was_compared():
    _, (X_fit, _), (X, y) = rows("breast_cancer")
    quick = spinney.accelerate(
        forest("breast_cancer"), X_fit, max_disagreement=0.05, random_state=1
    )
    report = make_report(quick, X, y)
    assert report["acceleration"] == quick.acceleration_.to_dict()
    for candidate in quick.acceleration_.candidates:
        assert candidate.name in report.to_markdown()
    assert reported("soft votes")["acceleration"] is None


def test_times_are_measured_and_positive():
    for kind in ("soft votes", "thresholds", "all trees"):
        times = reported(kind)["microseconds"]
        for name in ("batch", "batch_full", "single", "single_full"):
            assert times[name] > 0.0
    assert reported("called voters")["microseconds"]["single"] is None


def test_anytime_curve_is_the_accuracy_or_else_the_agreement():
    classifier, model, X, y = fitted("anytime")
    curve = reported("anytime")["curve"]
    assert curve["values"][-1] == pytest.approx((model.predict(X) == y).mean())
    step = len(classifier.order_) // 3
    expected = (classifier.predict(X, max_steps=step) == y).mean()
    assert curve["values"][step] == pytest.approx(expected)
    soon, last = curve["steps_to_99_percent"], curve["values"][-1]
    assert min(curve["values"][soon:]) >= 0.99 * last
    assert soon == 0 or curve["values"][soon - 1] < 0.99 * last
    agreement = reported("anytime", labelled=False)["curve"]
    same = classifier.predict(X, max_steps=step) == model.predict(X)
    assert agreement["values"][step] == pytest.approx(same.mean())
    assert agreement["values"][-1] == 1.0
    assert agreement["what"] == "agreement"


def test_pruner_costs_are_those_of_the_features_on_the_paths():
    classifier, model, X, y = fitted("pruner")
    report = reported("pruner")
    costs = np.arange(1.0, X.shape[1] + 1.0)
    paths, starts = model.decision_path(X)
    used = np.zeros(X.shape, dtype=bool)
    for tree, start, end in zip(
        model.estimators_, starts[:-1], starts[1:], strict=True
    ):
        visited = paths[:, start:end].toarray().astype(bool)
        for node, feature in enumerate(tree.tree_.feature):
            if feature >= 0:
                used[visited[:, node], feature] = True
    assert report["cost"]["full"] == pytest.approx((used @ costs).mean())
    assert report["cost"]["mean"] == pytest.approx(classifier.feature_cost(X).mean())
    assert report["cost"]["mean"] < report["cost"]["full"]
    for feature in report["features"]["listed"]:
        column = int(feature["name"].removeprefix("column "))
        assert feature["cost"] == costs[column]
        assert feature["before"] == pytest.approx(used[:, column].mean())
    pruned = classifier.predict(X)
    assert report["error"]["pruned"] == pytest.approx((pruned != y).mean())
    assert report["error"]["full"] == pytest.approx((model.predict(X) != y).mean())
    frontier = report["frontier"]
    assert frontier["cost"] == classifier.frontier_.cost.tolist()
    assert frontier["chosen"]["cost"] == classifier.point_.cost
    first = frontier["measured"][0]
    largest = classifier.forest_at(0)
    assert first["error"] == pytest.approx((largest.predict(X) != y).mean())
    # What is measured passes through the forest in use.
    own = {"cost": report["cost"]["mean"], "error": report["error"]["pruned"]}
    assert {**own, "n_rows": len(y)} in frontier["measured"]
    assert reported("pruner", labelled=False)["frontier"]["measured"] == []


def test_budgeted_forest_tells_cost_and_growth():
    classifier, _, X, y = fitted("budgeted")
    report = reported("budgeted")
    assert report["cost"]["mean"] == pytest.approx(classifier.feature_cost(X).mean())
    assert report["growth"]["mean_cost"] == classifier.mean_costs_.tolist()
    assert report["error"]["full"] == pytest.approx((classifier.predict(X) != y).mean())
    total = sum(f["cost"] * f["bought"] for f in report["features"]["listed"])
    assert total == pytest.approx(report["cost"]["mean"])


@pytest.mark.parametrize(
    "kind",
    [
        "hard votes",
        "soft votes of several",
        "thresholds",
        "fan",
        "all trees",
        "anytime",
        "pruner",
        "budgeted",
    ],
)
def test_loaded_classifiers_report_the_same(kind, tmp_path):
    classifier, _, X, y = fitted(kind)
    spinney.save(classifier, tmp_path / "file.spinney")
    report = make_report(spinney.load(tmp_path / "file.spinney"), X, y)
    expected = reported(kind)
    for name in set(expected) - {"date", "microseconds", "sweep"}:
        assert report[name] == expected[name], name
    if "sweep" in expected:
        assert len(report["sweep"]["points"]) == len(expected["sweep"]["points"])


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_are_refused(kind):
    classifier, _, X, _ = fitted(kind)
    with pytest.raises(ValueError, match="Pass at least one"):
        make_report(classifier, X[:0])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_another_width_are_refused(kind):
    classifier, _, X, _ = fitted(kind)
    with pytest.raises(ValueError, match="features"):
        make_report(classifier, X[:, :-1])


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_checked(kind):
    classifier, _, X, y = fitted(kind)
    unknown = np.array([77], dtype=y.dtype)  # or the text of it
    with pytest.raises(ValueError, match="does not know"):
        make_report(classifier, X, np.where(np.arange(len(y)) == 3, unknown, y))
    with pytest.raises(ValueError, match="one label for each"):
        make_report(classifier, X, y[:-1])


def test_a_missing_label_is_an_unknown_one():
    classifier, _, X, y = fitted("hard votes")
    with pytest.raises(ValueError, match="does not know"):
        make_report(classifier, X, np.where(np.arange(len(y)) == 3, np.nan, y))


def test_classifiers_must_be_fitted_and_spinneys():
    X, y = rows("breast_cancer")[2]
    model = forest("breast_cancer")
    unfitted = SequentialVotingClassifier(FrozenEstimator(model))
    with pytest.raises(NotFittedError):
        make_report(unfitted, X, y)
    with pytest.raises(NotFittedError):
        make_report(spinney.BudgetedForestClassifier(), X, y)
    with pytest.raises(ValueError, match="RandomForestClassifier"):
        make_report(model, X, y)


def test_one_class_one_tree_and_one_row_have_reports():
    X, y = rows("breast_cancer")[0]
    one_class = SequentialVotingClassifier(
        FrozenEstimator(forest_of_one_class(X)), random_state=0
    ).fit(X)
    one_tree = SequentialVotingClassifier(
        FrozenEstimator(forest("breast_cancer", 1)), random_state=0
    ).fit(X)
    one_tree_cascade = spinney.CascadeClassifier(
        FrozenEstimator(forest("breast_cancer", 1)), random_state=0
    ).fit(X)
    for classifier in (one_class, one_tree, one_tree_cascade):
        for n_rows in (len(X), 1):
            report = make_report(classifier, X[:n_rows])
            assert report["disagreement"]["n_disagreements"] == 0
            assert report["rows"]["n_rows"] == n_rows
            assert report.to_html()
            assert report.to_text()
    for kind in KINDS:
        classifier, _, X, y = fitted(kind)
        report = make_report(classifier, X[:1], y[:1])
        assert report.to_html()


def forest_of_one_class(X):
    """Return a forest that has seen one class only."""
    model = forest("breast_cancer", 5)
    return type(model)(5, random_state=0).fit(X, np.zeros(len(X)))


def test_one_class_has_no_other_levels():
    X, _ = rows("breast_cancer")[0]
    classifier = SequentialVotingClassifier(
        FrozenEstimator(forest_of_one_class(X)), random_state=0
    ).fit(X)
    sweep = make_report(classifier, X)["sweep"]
    assert sweep["points"] == []
    assert "one class" in sweep["reason"]


def test_of_many_rows_some_are_drawn_to_fit_other_levels(monkeypatch, rows_of_rules):
    monkeypatch.setattr(sweeping, "MOST_ROWS", 40)
    classifier, _, X, _ = fitted("hard votes")
    report = make_report(classifier, X)
    assert {len(fitted_on) for fitted_on, _ in rows_of_rules} <= set(range(15, 35))
    assert report["sweep"]["n_measured"] == report["rows"]["n_rows"] == len(X)


def test_few_rows_have_no_other_levels():
    classifier, _, X, _ = fitted("soft votes")
    sweep = make_report(classifier, X[:20])["sweep"]
    assert sweep["points"] == []
    assert "20 rows are too few" in sweep["reason"]


def test_data_frames_and_their_names():
    (X, y), (X_fit, y_fit), (X_new, y_new) = rows("breast_cancer")
    names = [f"size {place}" for place in range(X.shape[1])]
    frame, frame_fit, frame_new = (
        pd.DataFrame(values, columns=names) for values in (X, X_fit, X_new)
    )
    labels = np.where(y == 1, "benign", "malignant")
    truth = pd.Series(np.where(y_new == 1, "benign", "malignant"))
    model = type(forest("breast_cancer"))(15, random_state=0).fit(frame, labels)
    pruner = spinney.FeatureCostPruner(FrozenEstimator(model), trade_off=1e-3)
    pruner.fit(frame_fit, np.where(y_fit == 1, "benign", "malignant"))
    listed = make_report(pruner, frame_new, truth)["features"]["listed"]
    assert {feature["name"] for feature in listed} <= set(names)
    quick = SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.05, random_state=0
    ).fit(frame_fit)
    report = make_report(quick, frame_new, truth)
    assert report["model"]["classes"] == ["benign", "malignant"]
    assert report["sweep"]["points"]
    assert report["error"]["full"] == pytest.approx(
        (model.predict(frame_new) != truth).mean()
    )


def test_pipelines_have_reports():
    (X, y), (X_fit, _), (X_new, _) = rows("breast_cancer")
    inner = type(forest("breast_cancer"))(11, random_state=0)
    model = make_pipeline(StandardScaler(), inner)
    model.fit(X, y)
    quick = SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.05, random_state=0
    ).fit(X_fit)
    report = make_report(quick, X_new)
    differ = quick.predict(X_new) != model.predict(X_new)
    assert report["disagreement"]["n_disagreements"] == differ.sum()
    assert report["microseconds"]["single"] is None


def test_report_is_a_method_of_classifiers_too():
    for kind in ("hard votes", "anytime", "pruner", "budgeted", "all trees"):
        classifier, _, X, y = fitted(kind)
        assert classifier.report(X, y)["kind"] == reported(kind)["kind"]


def test_collect_returns_what_the_report_holds():
    classifier, _, X, y = fitted("anytime")
    facts = collect(classifier, X, y)
    assert type(facts) is dict
    assert facts["curve"] == reported("anytime")["curve"]


def test_the_chance_of_many_disagreements_counts_the_draw_of_calibration_rows():
    rng = np.random.default_rng(0)
    n_calibration, n_new, bound = 199, 300, 0.05
    # Where along a ladder each row begins to differ; the rule of risk control is the
    # last one at which (lost + 1) / (rows + 1) keeps the bound.
    begins = np.sort(rng.random((4000, n_calibration)), axis=1)
    rule = begins[:, round(bound * (n_calibration + 1)) - 1]
    differing = (rng.random((4000, n_new)) < rule[:, None]).sum(axis=1)
    promise = Promise("expected", bound, n_rows=n_calibration)
    for many in (10, 15, 20, 30):
        chance = _chance(many, n_new, promise)
        assert chance == pytest.approx((differing >= many).mean(), abs=0.03)


def test_a_promise_with_confidence_leaves_less_to_chance_than_one_on_average():
    on_average = _chance(50, 3000, Promise("expected", 0.01, n_rows=1500))
    sure = _chance(50, 3000, Promise("confidence", 0.01, 0.95, n_rows=1500))
    assert on_average > 0.01 > sure
    assert _chance(200, 3000, Promise("expected", 0.01, n_rows=1500)) < 1e-6
    # Over the order of the trees, of which a report sees one.
    assert _chance(50, 3000, Promise("each row", 0.01)) is None
