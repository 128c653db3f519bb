"""Probabilities of classifiers that leave early: exact at the end, honest before."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import scipy.sparse
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import spinney
from forging import with_arrays
from spinney import CascadeClassifier, FormatError, SequentialVotingClassifier
from spinney.base.all_trees import AllTreesClassifier

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="the kernels have tests of their own"
)


def noisy(n_classes):
    return make_classification(
        4000, 8, n_informative=5, n_classes=n_classes, flip_y=0.1, random_state=0
    )


ROWS = {n_classes: noisy(n_classes) for n_classes in (2, 4)}
MODELS = {
    "forest": lambda: RandomForestClassifier(40, max_depth=6, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=40, random_state=0),
    "several": lambda: HistGradientBoostingClassifier(max_iter=20, random_state=0),
    "pipeline": lambda: make_pipeline(
        StandardScaler(), RandomForestClassifier(20, max_depth=5, random_state=0)
    ),
    "called": lambda: VotingClassifier(
        [
            (str(k), member)
            for k, member in enumerate(
                [GaussianNB(), LogisticRegression()]
                + [DecisionTreeClassifier(max_depth=k, random_state=0) for k in (2, 5)]
            )
        ],
        voting="soft",
    ),
}
CASES = {
    "soft": (SequentialVotingClassifier, "forest", 2, {}),
    "hard": (SequentialVotingClassifier, "forest", 2, {"voting": "hard"}),
    "soft of four": (SequentialVotingClassifier, "forest", 4, {}),
    "hard of four": (SequentialVotingClassifier, "forest", 4, {"voting": "hard"}),
    "called": (SequentialVotingClassifier, "called", 2, {}),
    "called of four": (SequentialVotingClassifier, "called", 4, {}),
    "pipeline": (SequentialVotingClassifier, "pipeline", 2, {}),
    "thresholds": (CascadeClassifier, "boosting", 2, {}),
    "optimal": (CascadeClassifier, "boosting", 2, {"rule": "optimal"}),
    "fan": (CascadeClassifier, "boosting", 2, {"rule": "fan", "order": "natural"}),
    "rejected": (CascadeClassifier, "boosting", 2, {"early_exit": "negative"}),
    "averaged": (CascadeClassifier, "forest", 2, {}),
    "several": (CascadeClassifier, "several", 4, {"rule": "optimal"}),
    "dropped": (CascadeClassifier, "several", 4, {}),
    "exact": (CascadeClassifier, "boosting", 2, {"max_disagreement": 0.0}),
}
CACHE = {}


def fitted(name):
    """Return a classifier, its model, fresh rows and their labels."""
    if name not in CACHE:
        kind, model, n_classes, parameters = CASES[name]
        X, y = ROWS[n_classes]
        key = model, n_classes
        if key not in CACHE:
            CACHE[key] = MODELS[model]().fit(X[:1000], y[:1000])
        settings = {"max_disagreement": 0.03, "random_state": 0} | parameters
        quick = kind(FrozenEstimator(CACHE[key]), **settings).fit(X[1000:3000])
        CACHE[name] = quick, CACHE[key], X[3000:], y[3000:]
    return CACHE[name]


@pytest.mark.parametrize("name", CASES)
def test_probabilities_agree_with_the_answers_and_are_exact_at_the_end(name):
    quick, model, X, _ = fitted(name)
    found = quick.predict_proba(X)
    labels, n_evaluated = quick.predict_counted(X)
    own = model.predict_proba(X)
    assert found.shape == own.shape
    assert ((found >= 0) & (found <= 1)).all()
    assert np.allclose(found.sum(axis=1), 1.0)
    assert np.array_equal(quick.classes_[found.argmax(axis=1)], labels)
    last = n_evaluated == len(quick.order_)
    assert not last.all()
    if name.startswith("called"):
        assert np.allclose(found[last], own[last], rtol=0, atol=1e-12)
    elif name.startswith("hard"):  # where the vote decides as the probabilities do
        same = last & (model.predict(X) == labels)
        assert np.array_equal(found[same], own[same])
    else:
        assert np.array_equal(found[last], own[last])
    assert np.allclose(quick.predict_proba_full(X), own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_probabilities_rank_usefully_and_are_those_of_the_model_on_average(name):
    quick, model, X, y = fitted(name)
    found, own = quick.predict_proba(X), model.predict_proba(X)
    assert np.abs(found.mean(axis=0) - own.mean(axis=0)).max() < 0.015
    # Where the model is as sure as can be, so are these, and by exit point.
    n_evaluated = quick.predict_counted(X)[1]
    for point in np.unique(n_evaluated):
        some = n_evaluated == point
        if some.sum() >= 100:
            gap = found[some].mean(axis=0) - own[some].mean(axis=0)
            assert np.abs(gap).max() < 0.04
    if found.shape[1] == 2:
        areas = [roc_auc_score(y, p[:, 1]) for p in (found, own)]
        # Few trees or voters have few values, and their ties cost something.
        assert areas[0] > areas[1] - (0.05 if name == "called" else 0.03)
        assert areas[0] > roc_auc_score(y, quick.predict(X)) + 0.01


@pytest.mark.parametrize("name", CASES)
def test_single_rows_get_the_same(name):
    quick, _, X, _ = fitted(name)
    rows = X[:150].astype(np.float32)
    answer = quick.predictor(kind="proba")
    one_by_one = np.array([answer(row) for row in rows])
    assert np.allclose(one_by_one, quick.predict_proba(rows), rtol=0, atol=1e-12)
    assert np.allclose(answer(rows[0].tolist()), one_by_one[0], rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="kind must be one of"):
        quick.predictor(kind="score")


@pytest.mark.parametrize(
    "name", [name for name in CASES if "called" not in name and name != "pipeline"]
)
def test_a_file_brings_them_back(name, tmp_path):
    quick, _, X, _ = fitted(name)
    path = tmp_path / "quick.spinney"
    spinney.save(quick, path)
    again = spinney.load(path)
    assert np.array_equal(again.predict_proba(X), quick.predict_proba(X))
    one = again.predictor("proba")(X[0].astype(np.float32))
    assert np.array_equal(one, quick.predictor("proba")(X[0].astype(np.float32)))


def test_threads_sparse_rows_one_row_and_no_rows_change_nothing():
    quick, _, X, _ = fitted("soft")
    found = quick.predict_proba(X)
    threaded = spinney.SequentialVotingClassifier(quick.estimator, n_jobs=2)
    vars(threaded).update(vars(quick) | {"n_jobs": 2})
    assert np.array_equal(threaded.predict_proba(X), found)
    assert np.array_equal(quick.predict_proba(scipy.sparse.csr_array(X)), found)
    assert np.array_equal(quick.predict_proba(X[:1]), found[:1])
    for name in ("soft", "hard of four", "thresholds", "fan", "several"):
        quick, _, X, _ = fitted(name)
        none = quick._probabilities(quick._rows(X[:1])[:0])
        assert none.shape == (0, len(quick.classes_))


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.8])
def test_at_another_decision_threshold_they_are_on_the_side_of_the_answer(threshold):
    _, model, X, _ = fitted("thresholds")
    rows = ROWS[2][0][1000:3000]
    forest = spinney.read_model(model, decision_threshold=threshold)
    quick = CascadeClassifier(forest, max_disagreement=0.03, random_state=0).fit(rows)
    found = quick.predict_proba(X)[:, 1]
    labels, n_evaluated = quick.predict_counted(X)
    assert np.array_equal(found >= threshold, labels == quick.classes_[1])
    last = n_evaluated == len(quick.order_)
    assert np.array_equal(found[last], model.predict_proba(X)[last, 1])
    one_by_one = quick.predictor("proba")
    rows = X[:50].astype(np.float32)
    single = np.array([one_by_one(row)[1] for row in rows])
    assert np.allclose(single, quick.predict_proba(rows)[:, 1], rtol=0, atol=1e-12)


def test_a_hard_vote_that_contradicts_the_model_is_moved_to_its_side():
    quick, model, X, _ = fitted("hard of four")
    own = model.predict_proba(X)
    answers = (own.argmax(axis=1) + np.arange(len(X)) % 2) % 4
    moved = quick._agreeing(own, answers)
    assert np.array_equal(moved.argmax(axis=1), answers)
    assert np.array_equal(moved[::2], own[::2])
    two, model, X, _ = fitted("hard")
    own = model.predict_proba(X)
    answers = np.arange(len(X)) % 2
    moved = two._agreeing(own, answers)
    assert np.array_equal(moved.argmax(axis=1), answers)


def test_scorers_searches_and_displays_of_scikit_learn_take_them():
    quick, _, X, y = fitted("thresholds")
    assert get_scorer("roc_auc")(quick, X, y) > 0.85
    assert get_scorer("neg_log_loss")(quick, X, y) > -0.5
    X, y = ROWS[2]
    search = GridSearchCV(
        CascadeClassifier(
            GradientBoostingClassifier(n_estimators=10, random_state=0),
            max_disagreement=0.05,
            random_state=0,
        ),
        {"rule": ["thresholds", "optimal"]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    pyplot = pytest.importorskip("matplotlib.pyplot")
    shown = CalibrationDisplay.from_estimator(quick, X[3000:], y[3000:])
    assert np.abs(shown.prob_true - shown.prob_pred).mean() < 0.2
    pyplot.close("all")


def test_copies_with_another_rule_learn_anew():
    quick, _, X, _ = fitted("soft")
    (copy,) = quick.at_levels(ROWS[2][0][1000:3000], [0.1])
    with pytest.raises(NotFittedError, match=r"fit_probabilities\(X\)"):
        copy.predict_proba(X)
    with pytest.raises(NotFittedError, match=r"fit_probabilities\(X\)"):
        copy.predictor("proba")
    assert copy.fit_probabilities(ROWS[2][0][1000:3000]) is copy
    found = copy.predict_proba(X)
    assert np.array_equal(copy.classes_[found.argmax(axis=1)], copy.predict(X))


def test_many_rows_are_thinned_out(monkeypatch):
    quick, _, X, _ = fitted("thresholds")
    (copy,) = quick.at_levels(ROWS[2][0][1000:3000], [0.1])
    copy.fit_probabilities(X)
    all_of_them = copy.predict_proba(X)
    monkeypatch.setattr("spinney.base.early_probabilities.MOST_ROWS", 600)
    copy.fit_probabilities(X)
    some = copy.predict_proba(X)
    assert not np.array_equal(some, all_of_them)
    assert np.abs(some - all_of_them).mean() < 0.03


def test_all_trees_have_the_probabilities_of_the_model():
    _, model, X, _ = fitted("soft")
    whole = AllTreesClassifier(FrozenEstimator(model)).fit(X)
    assert np.array_equal(whole.predict_proba(X), model.predict_proba(X))
    row = X[0].astype(np.float32)
    assert np.allclose(whole.predictor("proba")(row), whole.predict_proba(row[None])[0])


def test_what_accelerate_returns_has_them():
    _, model, X, _ = fitted("soft")
    fast = spinney.accelerate(
        model,
        ROWS[2][0][1000:],
        max_disagreement=0.03,
        method="sequential",
        random_state=0,
    )
    found = fast.predict_proba(X)
    assert np.array_equal(fast.classes_[found.argmax(axis=1)], fast.predict(X))


def test_one_class_and_one_tree():
    X, y = ROWS[2]
    only = RandomForestClassifier(3, random_state=0).fit(X[:50], np.zeros(50))
    for kind in (SequentialVotingClassifier, CascadeClassifier):
        quick = kind(FrozenEstimator(only), max_disagreement=0.1).fit(X[:200])
        assert np.array_equal(quick.predict_proba(X[:5]), np.ones((5, 1)))
        assert quick.predictor("proba")(X[0].astype(np.float32)).tolist() == [1.0]
        tree = RandomForestClassifier(1, random_state=0).fit(X[:200], y[:200])
        quick = kind(FrozenEstimator(tree), max_disagreement=0.0).fit(X[:200])
        assert np.array_equal(quick.predict_proba(X), tree.predict_proba(X))
        row = X[:1].astype(np.float32)
        expected = tree.predict_proba(row)[0]
        assert np.array_equal(quick.predictor("proba")(row[0]), expected)


def test_rows_that_leave_before_the_first_tree_have_the_mean():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = (rng.uniform(size=3000) < 0.02).astype(int)
    model = RandomForestClassifier(9, max_depth=2, random_state=0).fit(X, y)
    quick = SequentialVotingClassifier(
        FrozenEstimator(model),
        voting="hard",
        min_votes=0,
        max_disagreement=0.5,
        random_state=0,
    ).fit(X)
    assert quick.rule_.at_once
    found = quick.predict_proba(X[:4])
    mean = model.predict_proba(X)[:, 1].mean()
    assert np.allclose(found[:, 1], mean)
    assert np.allclose(quick.predictor("proba")(X[0].astype(np.float32)), found[0])


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_probabilities_keep_the_type_of_the_library(library):
    module = pytest.importorskip(library)
    X, y = ROWS[2]
    settings = {"n_estimators": 30, "n_jobs": 1}
    if library == "lightgbm":
        model = module.LGBMClassifier(verbose=-1, **settings).fit(X[:1000], y[:1000])
    else:
        model = module.XGBClassifier(**settings).fit(X[:1000], y[:1000])
    quick = CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.03, random_state=0
    ).fit(X[1000:3000])
    found, own = quick.predict_proba(X[3000:]), model.predict_proba(X[3000:])
    assert found.dtype == own.dtype
    labels, n_evaluated = quick.predict_counted(X[3000:])
    assert np.array_equal(found.argmax(axis=1), labels)
    last = n_evaluated == len(quick.order_)
    assert last.any()
    assert np.array_equal(found[last], own[last])


def test_files_of_older_versions_learn_them_and_forged_ones_are_refused(tmp_path):
    quick, _, X, _ = fitted("several")
    path = tmp_path / "quick.spinney"
    spinney.save(quick, path)
    saved = path.read_bytes()

    def without(arrays):
        mine = [name for name in arrays if name.startswith("probability_")]
        assert len(mine) == 4
        for name in mine:
            del arrays[name]

    path.write_bytes(with_arrays(saved, without))
    loaded = spinney.load(path)
    assert np.array_equal(loaded.predict(X), quick.predict(X))
    with pytest.raises(NotFittedError, match="older version"):
        loaded.predict_proba(X)
    loaded.fit_probabilities(ROWS[4][0][1000:3000])
    assert np.array_equal(loaded.predict_proba(X), quick.predict_proba(X))
    for wrong in (lambda t: t[1:], lambda t: t + 10**6, lambda t: t[:, :2]):

        def forge(arrays, wrong=wrong):
            code, tables = arrays["probability_tables"]
            arrays["probability_tables"] = code, wrong(tables)

        path.write_bytes(with_arrays(saved, forge))
        with pytest.raises(FormatError, match="probabilities of early exits"):
            spinney.load(path)


@pytest.mark.parametrize("name", ["soft", "hard", "averaged"])
def test_rows_of_forests_rank_by_their_leaves(name, tmp_path):
    quick, model, X, _ = fitted(name)
    means = quick._exit_probabilities.leaf_means
    n_evaluated = quick.predict_counted(X)[1]
    here = n_evaluated == means.point
    assert here.sum() > 100
    found = quick.predict_proba(X[here])[:, 1]
    trees = quick.forest_.take(quick.order_[: means.point])
    votes = trees.votes(X[here]).sum(axis=1, dtype=np.int64)
    # Votes have few values; leaves tell apart rows with the same ones.
    assert len(np.unique(found)) > 3 * len(np.unique(votes))
    most = np.bincount(votes).argmax()
    own = model.predict_proba(X[here])[votes == most, 1]
    assert np.corrcoef(found[votes == most], own)[0, 1] > 0.3
    path = tmp_path / "quick.spinney"
    spinney.save(quick, path)
    saved = path.read_bytes()
    for name, wrong in (
        ("probability_leaf_means", lambda one: one[1:]),
        ("probability_leaf_point", lambda one: one + 1),
        ("probability_leaf_point", lambda one: np.append(one, one)),
    ):

        def forge(arrays, name=name, wrong=wrong):
            code, array = arrays[name]
            arrays[name] = code, wrong(array)

        path.write_bytes(with_arrays(saved, forge))
        with pytest.raises(FormatError, match="means of leaves"):
            spinney.load(path)


def test_means_of_leaves_in_a_file_of_boosting_are_refused(tmp_path):
    quick, _, _, _ = fitted("thresholds")
    path = tmp_path / "quick.spinney"
    spinney.save(quick, path)
    point = quick.exit_points_[:1].astype(np.int64)
    n_nodes = quick.forest_.take(quick.order_[: point[0]]).n_nodes

    def forge(arrays):
        arrays["probability_leaf_point"] = "I64", point
        arrays["probability_leaf_means"] = "F64", np.full(n_nodes, 0.5)

    path.write_bytes(with_arrays(path.read_bytes(), forge))
    with pytest.raises(FormatError, match="means of leaves"):
        spinney.load(path)


def test_two_classes_with_an_output_each_agree_in_float32():
    xgboost = pytest.importorskip("xgboost")
    X, y = ROWS[2]
    model = xgboost.train(
        {"objective": "multi:softprob", "num_class": 2, "max_depth": 3, "nthread": 1},
        xgboost.DMatrix(X[:1000], y[:1000]),
        20,
    )
    quick = CascadeClassifier(
        FrozenEstimator(spinney.read_model(model)), max_disagreement=0.1, random_state=0
    ).fit(X[1000:1100])
    low, high = quick._probability_limits()
    assert np.float32(low) < np.float32(high)


def test_rows_with_category_values_are_encoded_once():
    catboost = pytest.importorskip("catboost")
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(1500, 3))
    colours = rng.choice(["red", "green", "blue"], size=1500)
    y = (numbers[:, 0] + (colours == "red") + 0.5 * rng.normal(size=1500) > 0).astype(
        int
    )
    X = np.empty((1500, 4), dtype=object)
    X[:, :3], X[:, 3] = numbers.astype(np.float32), colours
    model = catboost.CatBoostClassifier(
        iterations=30, depth=3, verbose=False, thread_count=1, random_seed=0
    ).fit(X[:500], y[:500], cat_features=[3])
    quick = CascadeClassifier(
        spinney.read_model(model), max_disagreement=0.0, random_state=0
    ).fit(X[500:1200])
    found = quick.predict_proba(X[1200:])
    labels, n_evaluated = quick.predict_counted(X[1200:])
    assert np.array_equal(found.argmax(axis=1), labels)
    last = n_evaluated == len(quick.order_)
    assert 0 < last.sum() < 300
    assert np.array_equal(found[last], model.predict_proba(X[1200:])[last])
    answer = quick.predictor("proba")
    one_by_one = np.array([answer(row) for row in X[1200:1240]])
    assert np.allclose(one_by_one, found[:40], rtol=0, atol=1e-12)
