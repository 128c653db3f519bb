"""Bounds people ask for: at a decision threshold, for each class, on lost accuracy."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import spinney
from datasets import real
from spinney.acceleration import selection
from spinney.errors import InvalidArgumentError, SpinneyWarning, UnsupportedModelError
from spinney.sequential import problems

THRESHOLDS = (0.1, 0.3, 0.5, 0.9)

# Rare classes lose much here by design; where that matters, it is tested.
pytestmark = pytest.mark.filterwarnings("ignore:Early exit loses many")


def trees_as_times(classifiers, rows):
    """Stand in for `microseconds_per_row`: on a busy machine times are chance."""
    trees = [float(one.predict_counted(rows)[1].mean()) for one in classifiers]
    return [(mean, mean) for mean in trees]


@pytest.fixture(scope="module", autouse=True)
def _less_work():
    """Fit votes more roughly: rows that are held out bound them all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problems, "PATHS", (20_000, 5, 200))
        patch.setattr(selection, "microseconds_per_row", trees_as_times)
        yield


@pytest.fixture(scope="module")
def rare():
    """Return models of a rare class, with rows and labels they were not trained on."""
    X, y = make_classification(
        12_000,
        n_features=10,
        n_informative=5,
        weights=[0.9],
        flip_y=0.05,
        random_state=1,
    )
    X = X.astype(np.float32)
    labels = np.array(["ok", "rare"])[y]
    models = {
        "boosted": GradientBoostingClassifier(n_estimators=40, random_state=0),
        "forest": RandomForestClassifier(17, min_samples_leaf=3, random_state=0),
    }
    fitted = {name: one.fit(X[:2000], labels[:2000]) for name, one in models.items()}
    return fitted, X[2000:], labels[2000:]


def classifiers(models, **settings):
    """Return both classifiers, for the models that suit them."""
    return (
        spinney.CascadeClassifier(
            FrozenEstimator(models["boosted"]), random_state=0, **settings
        ),
        spinney.SequentialVotingClassifier(
            FrozenEstimator(models["forest"]), random_state=0, **settings
        ),
    )


# ------------------------------------------------------------------ thresholds


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("kind", [0, 1])
def test_labels_are_those_of_the_probability_at_the_threshold(
    rare, tmp_path, kind, threshold
):
    models, X, _ = rare
    quick = classifiers(models, max_disagreement=0.02, decision_threshold=threshold)[
        kind
    ].fit(X[:4000])
    model, new = models[("boosted", "forest")[kind]], X[4000:]
    expected = np.where(model.predict_proba(new)[:, 1] >= threshold, "rare", "ok")
    assert (quick.predict_full(new) == expected).all()
    assert (quick.predict_model(new) == expected).all()
    certificate = spinney.certify(quick, new)
    assert certificate.disagreement == np.mean(quick.predict(new) != expected)
    assert certificate.disagreement < 0.04
    labels, n_evaluated = quick.predict_counted(new)
    assert n_evaluated.mean() < 0.9 * quick.forest_.n_trees
    stayed = n_evaluated == quick.forest_.n_trees
    assert (labels[stayed] == expected[stayed]).all()
    monitor = spinney.Monitor(quick, share=1.0, random_state=0)
    assert (monitor.predict(new[:500]) == labels[:500]).all()
    assert monitor.status()["n_disagreements"] == np.count_nonzero(
        labels[:500] != expected[:500]
    )
    spinney.save(quick, tmp_path / "quick.spinney")
    loaded = spinney.load(tmp_path / "quick.spinney")
    assert loaded.decision_threshold == threshold
    assert (loaded.predict(new) == labels).all()
    assert (loaded.predict_full(new) == expected).all()
    assert (loaded.fit(X[:4000]).predict_full(new) == expected).all()


def test_a_threshold_for_all_trees_and_for_a_model_that_fit_trains(rare):
    models, X, y = rare
    model = models["forest"]
    same = spinney.AllTreesClassifier(FrozenEstimator(model), decision_threshold=0.2)
    expected = np.where(model.predict_proba(X)[:, 1] >= 0.2, "rare", "ok")
    assert (same.fit(X).predict(X) == expected).all()
    trained = spinney.CascadeClassifier(
        HistGradientBoostingClassifier(max_iter=20, random_state=0),
        decision_threshold=0.2,
        max_disagreement=0.02,
        random_state=0,
    ).fit(X, y)
    own = trained.estimator_.predict_proba(X)[:, 1]
    assert (trained.predict_full(X) == np.where(own >= 0.2, "rare", "ok")).all()


def test_a_threshold_behind_the_steps_of_a_pipeline(rare):
    _, X, y = rare
    piped = make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=20))
    piped.fit(X[:2000], y[:2000])
    quick = spinney.CascadeClassifier(
        FrozenEstimator(piped),
        decision_threshold=0.3,
        max_disagreement=0.05,
        random_state=0,
    ).fit(X[2000:5000])
    expected = np.where(piped.predict_proba(X)[:, 1] >= 0.3, "rare", "ok")
    assert (quick.predict_full(X) == expected).all()


def test_exported_code_decides_at_the_threshold(rare, tmp_path):
    models, X, _ = rare
    quick = classifiers(models, max_disagreement=0.02, decision_threshold=0.3)[0]
    quick.fit(X[:3000])
    report = spinney.export_c(quick, tmp_path / "quick.c")
    assert report is not None
    text = (tmp_path / "quick.c").read_text()
    assert "at most 2 % of the predictions differ" in text


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, 2, True, "half", float("nan")])
def test_thresholds_that_are_no_probabilities(rare, threshold):
    models, X, _ = rare
    for quick in classifiers(models, decision_threshold=threshold):
        with pytest.raises(InvalidArgumentError, match="decision_threshold must be"):
            quick.fit(X[:100])


def test_thresholds_where_there_are_none(rare):
    models, X, _ = rare
    hard = spinney.SequentialVotingClassifier(
        FrozenEstimator(models["forest"]), voting="hard", decision_threshold=0.3
    )
    with pytest.raises(InvalidArgumentError, match="voting='hard' counts votes"):
        hard.fit(X[:100])
    members = [LogisticRegression(C=c).fit(X[:100], X[:100, 0] > 0) for c in (1.0, 0.1)]
    called = spinney.SequentialVotingClassifier(
        members, voting="soft", decision_threshold=0.3
    )
    with pytest.raises(InvalidArgumentError, match="members of this list are called"):
        called.fit(X[:100])
    three, labels = make_classification(
        500, n_classes=3, n_informative=4, random_state=0
    )
    several = GradientBoostingClassifier(n_estimators=3).fit(three, labels)
    with pytest.raises(UnsupportedModelError, match="two classes, and it has 3"):
        spinney.CascadeClassifier(FrozenEstimator(several), decision_threshold=0.3).fit(
            three
        )


# ------------------------------------------------------------------ classes

BOUNDS = {"ok": 0.01, "rare": 0.05}


@pytest.mark.usefixtures("short_measurements")
@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("kind", [0, 1])
def test_each_class_has_a_bound(rare, tmp_path, kind, confidence):
    models, X, _ = rare
    quick = classifiers(models, max_disagreement=BOUNDS, confidence=confidence)[kind]
    quick.fit(X[:6000])
    by_class = {one.label: one for one in quick.promise_.by_class}
    for label, bound in BOUNDS.items():
        one = by_class[label]
        assert one.max_disagreement == bound
        assert one.n_disagreements <= bound * one.n_rows
    certificate = spinney.certify(quick, X[6000:], per_class=True)
    assert set(certificate.by_class) == set(BOUNDS)
    assert sum(one.n_rows for one in certificate.by_class.values()) == 4000
    for label, one in certificate.by_class.items():
        # Far beyond the bound only if there is something wrong.
        assert one.disagreement < 2.5 * BOUNDS[label]
    without_rows = spinney.certify(quick, X[:0], per_class=True)
    assert [one.n_rows for one in without_rows.by_class.values()] == [0, 0]
    assert without_rows.upper_bound == without_rows.by_class["rare"].upper_bound == 1.0
    with pytest.raises(InvalidArgumentError, match="per_class must be True or False"):
        spinney.certify(quick, X[6000:], per_class="rare")
    assert quick.predict_counted(X[6000:])[1].mean() < 0.8 * quick.forest_.n_trees
    spinney.save(quick, tmp_path / "quick.spinney")
    loaded = spinney.load(tmp_path / "quick.spinney")
    assert loaded.promise_ == quick.promise_
    assert loaded.max_disagreement == BOUNDS
    assert loaded.certificate_ == quick.certificate_
    assert (quick.certificate_ is None) == (confidence is None)
    if confidence is not None:
        assert quick.certificate_.by_class["rare"].upper_bound == 0.05
    monitor = spinney.Monitor(loaded, share=1.0, random_state=0)
    monitor.predict(X[6000:])
    status = json.loads(json.dumps(monitor.status()))
    assert [one["label"] for one in status["by_class"]] == ["ok", "rare"]
    other = spinney.Monitor(loaded, share=1.0).merge(status)
    assert other.status()["e_value"] == pytest.approx(status["e_value"])
    assert other.status()["by_class"] == status["by_class"]
    page = quick.report(X[6000:7000])
    assert "assigns to a class" in " ".join(str(page).split())
    json.dumps(dict(page))


def test_the_same_bound_for_each_class(rare):
    models, X, _ = rare
    fast = spinney.accelerate(
        models["boosted"],
        X,
        max_disagreement=0.04,
        per_class=True,
        method="cascade",  # all trees may be faster on a busy machine
        random_state=0,
    )
    assert [one.max_disagreement for one in fast.promise_.by_class] == [0.04, 0.04]
    assert fast.per_class is True
    assert fast.max_disagreement == 0.04
    assert "4 % of class 'rare'" in repr(fast)
    assert fast.acceleration_.max_disagreement == 0.04


def test_a_bound_for_each_of_several_classes():
    X, y = make_classification(
        5000, n_classes=3, n_informative=6, flip_y=0.1, random_state=2
    )
    model = RandomForestClassifier(15, min_samples_leaf=3, random_state=0)
    model.fit(X[:1000], y[:1000])
    bounds = {0: 0.02, 1: 0.03, 2: 0.05}
    fast = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=bounds, random_state=0
    ).fit(X[1000:])
    assert all(
        one.n_disagreements <= one.max_disagreement * one.n_rows
        for one in fast.promise_.by_class
    )


def test_too_few_rows_of_a_class_are_told(rare):
    models, X, _ = rare
    bounds = {"ok": 0.01, "rare": 0.001}
    full = models["boosted"].predict(X)
    n_rare = np.count_nonzero(full == "rare")
    quick = classifiers(models, max_disagreement=bounds)[0]
    words = (
        f"'rare' needs 999 held-out rows, 1,009 in all, but the model assigns "
        f"{n_rare:,} of X to it"
    )
    with pytest.warns(SpinneyWarning, match=words):
        quick.fit(X)
    assert quick.promise_.kind == "never"
    assert (quick.predict(X) == full).all()
    with pytest.warns(SpinneyWarning, match=words):
        fast = spinney.accelerate(models["boosted"], X, max_disagreement=bounds)
    assert (fast.predict(X) == full).all()


def test_a_rare_class_is_warned_of_unless_it_has_a_bound(rare):
    models, X, _ = rare
    settings = {"max_disagreement": 0.05, "random_state": 0}
    quick = spinney.CascadeClassifier(FrozenEstimator(models["boosted"]), **settings)
    with pytest.warns(SpinneyWarning, match="Pass per_class=True, or max_disagreement"):
        quick.fit(X)
    quick.set_params(per_class=True).fit(X)


def test_classes_and_votes_do_not_go_together(rare):
    models, X, _ = rare
    quick = spinney.SequentialVotingClassifier(
        FrozenEstimator(models["forest"]),
        max_disagreement=BOUNDS,
        voting="hard",
        random_state=0,
    )
    with pytest.raises(InvalidArgumentError, match="Leave votes out"):
        quick.fit(X, votes="uniform")
    quick.set_params(objective="minimax").fit(X[:100])
    assert quick.promise_ == spinney.calibration.promise.Promise("each row", 0.01)


@pytest.mark.parametrize("bounds", [{"rare": 0.1}, {"rare": 0.1, "ok": 0.1, "?": 0.1}])
def test_bounds_for_other_classes_are_refused(rare, bounds):
    models, X, _ = rare
    with pytest.raises(InvalidArgumentError, match="max_disagreement has"):
        spinney.accelerate(models["forest"], X, max_disagreement=bounds)
    for quick in classifiers(models, max_disagreement=bounds):
        with pytest.raises(InvalidArgumentError, match="max_disagreement has"):
            quick.fit(X[:100])


# ------------------------------------------------------------------ accuracy


@pytest.mark.usefixtures("short_measurements")
@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("model", ["boosted", "forest"])
def test_a_bound_on_the_loss_of_accuracy(rare, tmp_path, model, confidence):
    models, X, y = rare
    fast = spinney.accelerate(
        models[model],
        X[:7000],
        y[:7000],
        max_accuracy_loss=0.01,
        confidence=confidence,
        method="cascade" if model == "boosted" else "sequential",
        random_state=0,
    )
    assert fast.promise_.max_disagreement is None
    assert fast.promise_.accuracy.max_accuracy_loss == 0.01
    assert "at most 1 % more of the predictions are wrong" in repr(fast)
    labels, n_evaluated = fast.predict_counted(X[7000:])
    full = models[model].predict(X[7000:])
    lost = np.mean(labels != y[7000:]) - np.mean(full != y[7000:])
    assert lost < 0.02
    assert n_evaluated.mean() < 0.8 * fast.forest_.n_trees
    spinney.save(fast, tmp_path / "fast.spinney")
    assert spinney.load(tmp_path / "fast.spinney").promise_ == fast.promise_
    with pytest.raises(InvalidArgumentError, match="monitor checks the disagreement"):
        spinney.Monitor(fast)
    page = fast.report(X[7000:8000], y[7000:8000])
    assert "1 % more errors allowed" in " ".join(str(page).split())


def test_both_bounds_hold_if_both_are_passed(rare):
    models, X, y = rare
    for bounds in (0.01, {"ok": 0.02, "rare": 0.1}):
        fast = spinney.accelerate(
            models["boosted"],
            X,
            y,
            max_disagreement=bounds,
            max_accuracy_loss=0.01,
            method="cascade",
            random_state=0,
        )
        assert fast.promise_.accuracy is not None
        assert fast.promise_.max_disagreement is not None
        assert len(fast.promise_.by_class) == 2 * isinstance(bounds, dict)


def test_the_bound_that_is_stated_and_monitored_is_the_one_promised(rare):
    # Rules aim at less where lost accuracy has the tighter bound.
    models, X, y = rare
    fast = spinney.accelerate(
        models["boosted"],
        X,
        y,
        max_disagreement=0.2,
        max_accuracy_loss=0.005,
        method="cascade",
        random_state=0,
    )
    assert fast.promise_.accuracy is not None
    assert fast.promise_.max_disagreement == 0.2
    assert fast.max_disagreement == 0.2
    assert spinney.Monitor(fast).status()["max_disagreement"] == 0.2


def test_labels_that_are_missing_are_asked_for(rare):
    models, X, y = rare
    settings = {"max_accuracy_loss": 0.01, "random_state": 0}
    with pytest.raises(InvalidArgumentError, match="Pass the labels of X as y"):
        spinney.accelerate(models["forest"], X, **settings)
    holes = y.astype(object)
    holes[[3, 5]] = None
    with pytest.raises(InvalidArgumentError, match="2 of 10,000 labels are missing"):
        spinney.accelerate(models["forest"], X, holes, **settings)
    mixed = y.astype(object)
    mixed[3] = 7
    for other in (np.where(y == "ok", "no", y), mixed):
        with pytest.raises(InvalidArgumentError, match="which the model does not know"):
            spinney.accelerate(models["forest"], X, other, **settings)
    pandas = pytest.importorskip("pandas")
    holes = pandas.Series(y, dtype="string")
    holes[3] = None
    with pytest.raises(InvalidArgumentError, match="1 of 10,000 labels are missing"):
        spinney.accelerate(models["forest"], X, holes, **settings)
    with pytest.raises(InvalidArgumentError, match="Pass a single column of labels"):
        spinney.accelerate(models["forest"], X, "ok", **settings)
    with pytest.raises(InvalidArgumentError, match="10,000 rows, but y 9,999 labels"):
        spinney.accelerate(models["forest"], X, y[:-1], **settings)
    with pytest.raises(InvalidArgumentError, match="Pass a single column of labels"):
        spinney.accelerate(models["forest"], X, np.column_stack([y, y]), **settings)
    with pytest.raises(InvalidArgumentError, match="needs rows and their labels"):
        spinney.accelerate(models["forest"], **settings)
    for loss in (1.0, -0.1, "1 %"):
        with pytest.raises(InvalidArgumentError, match="max_accuracy_loss must be in"):
            spinney.accelerate(models["forest"], X, y, max_accuracy_loss=loss)


def test_too_few_rows_for_a_loss_of_accuracy(rare):
    models, X, y = rare
    with pytest.warns(SpinneyWarning, match="A loss of accuracy of at most 0.1 %"):
        fast = spinney.accelerate(
            models["boosted"], X[:500], y[:500], max_accuracy_loss=0.001
        )
    assert (fast.predict(X) == models["boosted"].predict(X)).all()


def test_no_loss_at_all_means_never(rare):
    models, X, y = rare
    fast = spinney.accelerate(models["boosted"], X[:500], y[:500], max_accuracy_loss=0)
    assert fast.promise_.kind == "never"


# ------------------------------------------------------------------ real data


@pytest.mark.guarantee
def test_a_rare_class_of_sepsis_is_kept():
    lightgbm = pytest.importorskip("lightgbm")
    X, y = real("sepsis_survival")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    train, rest = order[:20_000], order[20_000:]
    model = lightgbm.LGBMClassifier(
        n_estimators=300, verbose=-1, n_jobs=1, random_state=0
    )
    model.fit(X[train], y[train])
    rows = rest[:60_000]
    full = model.predict(X[rows])
    lost = []
    for seed in range(20):
        parted = np.random.default_rng(seed).permutation(len(rows))
        given, new = parted[:40_000], parted[40_000:]
        quick = spinney.CascadeClassifier(
            FrozenEstimator(model),
            max_disagreement=0.1,
            per_class=True,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpinneyWarning)
            quick.fit(X[rows[given]])
        here = full[new] == 1
        lost.append(np.mean(quick.predict(X[rows[new]])[here] != 1))
    assert np.mean(lost) <= 0.1
