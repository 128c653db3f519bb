"""XGBoost models out of memory, out of .json and .ubj files, and damaged ones."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import datasets
import reference
from spinney import (
    SpinneyWarning,
    UnsupportedModelError,
    accelerate,
    load,
    read_model,
    save,
)
from spinney.forest.links import class_probabilities
from spinney.readers.xgboost import read_xgboost_document, read_xgboost_ubj
from strategies import random_rows

MODELS = Path(__file__).parents[1] / "models" / "xgboost"
F32 = np.float32

# Raw scores are compared bit for bit. Probabilities and exponentials come from another
# exponential function: a few units in the last place of a float32.
# A probability that is one minus another has the rounding of that other one.
RTOL = 3 * float(np.finfo(np.float32).eps)
ATOL = 2 * float(np.finfo(np.float32).eps)

# Files of Boosters that were stopped early are warned about.
with_later_trees = pytest.mark.filterwarnings(
    "ignore:The XGBoost file has:spinney.SpinneyWarning"
)


@pytest.fixture(scope="module")
def xgb():
    """XGBoost, not complaining about settings that do not matter in one case."""
    xgboost = pytest.importorskip("xgboost")
    with xgboost.config_context(verbosity=0):
        yield xgboost


def document_of(model):
    booster = getattr(model, "get_booster", lambda: model)()
    return json.loads(bytes(booster.save_raw("json")))


def trees_of(document):
    booster = document["learner"]["gradient_booster"]
    return booster.get("gbtree", booster)["model"]["trees"]


def assert_same(forest, model, X):
    """The forest gives the answers of an estimator, raw scores bit for bit."""
    raw = model.predict(X, output_margin=True)
    np.testing.assert_array_equal(forest.decision_function(X), raw)
    few = X[:25]
    np.testing.assert_array_equal(
        reference.raw(forest, few).reshape(raw[:25].shape), raw[:25]
    )
    if forest.classes_ is None:
        np.testing.assert_allclose(forest.predict(X), model.predict(X), rtol=RTOL)
        return
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    np.testing.assert_array_equal(forest.predict_model(X), model.predict(X))
    np.testing.assert_array_equal(forest.classes_, np.arange(len(forest.classes_)))
    np.testing.assert_allclose(
        forest.predict_proba(X), model.predict_proba(X), rtol=RTOL, atol=ATOL
    )


def assert_same_booster(xgb, forest, booster, X):
    raw = booster.predict(xgb.DMatrix(X, nthread=1), output_margin=True)
    np.testing.assert_array_equal(forest.decision_function(X), raw)
    predicted = booster.predict(xgb.DMatrix(X, nthread=1))
    np.testing.assert_allclose(forest.predict_model(X), predicted, rtol=RTOL, atol=ATOL)


# ------------------------------------------------------------------ estimators

CLASSIFIERS = {
    "hist": {},
    "exact, pruned": {"tree_method": "exact", "gamma": 1.0},
    "approx": {"tree_method": "approx"},
    "leaf-wise": {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
    "one tree": {"n_estimators": 1},
    "stumps": {"max_depth": 1},
    "deep": {"max_depth": 14, "min_child_weight": 0, "reg_lambda": 0},
    "single leaves": {"gamma": 1e9},
    "some single leaves": {"gamma": 5.0, "n_estimators": 40},
    "parallel trees": {"num_parallel_tree": 3, "subsample": 0.6},
    "random columns": {"colsample_bynode": 0.4, "learning_rate": 0.05},
    "base score": {"base_score": 0.2},
    "base score near one": {"base_score": 0.9999},
    "unbalanced": {"scale_pos_weight": 5.0},
    "dart": {"booster": "dart", "rate_drop": 0.3},
    "dart, skipping": {"booster": "dart", "rate_drop": 0.6, "normalize_type": "forest"},
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("data", ["breast_cancer", "wine"])
def test_classifiers_answer_bit_for_bit(xgb, name, data):
    X, y = datasets.bundled(data)
    settings = {"n_estimators": 15, "max_depth": 4} | CLASSIFIERS[name]
    model = xgb.XGBClassifier(**settings, n_jobs=1, random_state=0).fit(X, y)
    forest = read_model(model)
    assert_same(forest, model, X)
    assert_same(forest, model, random_rows(forest, 300))
    assert_same_booster(xgb, read_model(model.get_booster()), model.get_booster(), X)
    assert forest.n_trees == len(trees_of(document_of(model)))
    assert forest.feature_names is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tree_method": "exact"},
        {"objective": "reg:absoluteerror"},
        {"objective": "reg:pseudohubererror"},
        {"objective": "reg:squaredlogerror"},
        {"objective": "reg:quantileerror", "quantile_alpha": 0.3},
        {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
        {"objective": "count:poisson"},
        {"objective": "reg:gamma", "base_score": 120.0},
        {"objective": "reg:tweedie", "tweedie_variance_power": 1.3},
        {"booster": "dart", "rate_drop": 0.4},
    ],
    ids=str,
)
def test_regressors_answer_bit_for_bit(xgb, settings):
    X, y = datasets.bundled("diabetes")
    model = xgb.XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1, **settings)
    model.fit(X, y)
    forest = read_model(model)
    assert_same(forest, model, X)
    assert_same(forest, model, random_rows(forest, 200))


@pytest.mark.parametrize(
    ("booster", "strategy"),
    [
        ("gbtree", "one_output_per_tree"),
        ("gbtree", "multi_output_tree"),
        ("dart", "one_output_per_tree"),
    ],
)
def test_regressors_of_several_numbers_answer_bit_for_bit(xgb, booster, strategy):
    X, y = datasets.bundled("diabetes")
    model = xgb.XGBRegressor(
        n_estimators=6, max_depth=3, multi_strategy=strategy, booster=booster, n_jobs=1
    ).fit(X, np.column_stack([y, y**0.5, -y]))
    forest = read_model(model)
    assert forest.n_outputs == 3
    assert_same(forest, model, random_rows(forest, 200))


def test_classifier_with_vector_leaves_answers_bit_for_bit(xgb):
    X, y = datasets.bundled("wine")
    model = xgb.XGBClassifier(
        n_estimators=8, max_depth=3, multi_strategy="multi_output_tree", n_jobs=1
    ).fit(X, y)
    forest = read_model(model)
    assert (forest.n_trees, forest.n_outputs) == (8, 3)
    assert_same(forest, model, random_rows(forest, 200))


@pytest.mark.filterwarnings("ignore:`XGBRF:FutureWarning")  # since XGBoost 3.3
def test_random_forests_of_xgboost_answer_bit_for_bit(xgb):
    X, y = datasets.bundled("wine")
    model = xgb.XGBRFClassifier(n_estimators=7, max_depth=4, n_jobs=1).fit(X, y)
    assert_same(read_model(model), model, X)
    model = xgb.XGBRFRegressor(n_estimators=7, max_depth=4, n_jobs=1).fit(X, y)
    assert_same(read_model(model), model, X)


@pytest.mark.parametrize("objective", ["multi:softmax", "multi:softprob"])
def test_boosters_of_several_classes(xgb, objective):
    X, y = datasets.bundled("digits")
    booster = xgb.train(
        {"objective": objective, "num_class": 10, "max_depth": 3, "nthread": 1},
        xgb.DMatrix(X, y),
        5,
    )
    forest = read_model(booster)
    predicted = booster.predict(xgb.DMatrix(X))
    if objective == "multi:softmax":
        assert forest.decides_by == "raw"
        np.testing.assert_array_equal(forest.predict(X), predicted)
    else:
        np.testing.assert_array_equal(forest.predict(X), predicted.argmax(axis=1))
        np.testing.assert_allclose(forest.predict_proba(X), predicted, rtol=RTOL)
    assert_same_booster(xgb, forest, booster, X)


def test_softmax_estimators_compare_raw_scores(xgb):
    X, y = datasets.bundled("wine")
    model = xgb.XGBClassifier(objective="multi:softmax", n_estimators=5, n_jobs=1)
    assert_same(read_model(model.fit(X, y)), model, X)


def test_the_softmax_of_softmax_estimators_is_that_of_scipy(xgb, tmp_path):
    X, y = datasets.bundled("digits")
    model = xgb.XGBClassifier(objective="multi:softmax", n_estimators=4, n_jobs=1)
    expected = model.fit(X, y).predict_proba(X)
    save(accelerate(model), tmp_path / "fast.spinney")
    for fast in (accelerate(model), load(tmp_path / "fast.spinney")):
        np.testing.assert_array_equal(fast.predict_proba(X), expected, strict=True)
        predict_one = fast.predictor("proba")
        assert (np.array([predict_one(x) for x in X[:50]]) == expected[:50]).all()


def test_raw_logits_mean_the_second_class_above_one_half(xgb):
    X, y = datasets.bundled("breast_cancer")
    model = xgb.XGBClassifier(
        objective="binary:logitraw", n_estimators=5, base_score=0.5, n_jobs=1
    )
    forest = read_model(model.fit(X, y))
    assert_same(forest, model, X)
    assert forest.decision_threshold == np.nextafter(F32(0.5), F32(1))


def test_own_objectives_are_read_as_what_they_are_stored_as(xgb):
    X, y = datasets.bundled("breast_cancer")

    def logistic(truth, raw):
        p = 1 / (1 + np.exp(-raw))
        return p - truth, p * (1 - p)

    model = xgb.XGBClassifier(objective=logistic, n_estimators=5, n_jobs=1).fit(X, y)
    assert_same(read_model(model), model, X)


def test_a_single_class_is_read(xgb):
    X, _ = datasets.bundled("iris")
    model = xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, np.zeros(len(X), int))
    forest = read_model(model)
    np.testing.assert_array_equal(forest.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        forest.decision_function(X), model.predict(X, output_margin=True)
    )


def test_reg_logistic_is_read_from_a_classifier_only(xgb, tmp_path):
    X, y = datasets.bundled("breast_cancer")
    settings = {"objective": "reg:logistic", "n_estimators": 4, "n_jobs": 1}
    model = xgb.XGBClassifier(**settings).fit(X, y)
    assert_same(read_model(model), model, X)
    model.save_model(tmp_path / "model.json")
    assert_same(read_model(tmp_path / "model.json"), model, X)
    for refused in (xgb.XGBRegressor(**settings).fit(X, y), model.get_booster()):
        with pytest.raises(UnsupportedModelError, match="reg:logistic"):
            read_model(refused)


# ------------------------------------------------------------------ rows


@pytest.fixture(scope="module")
def cancer(xgb):
    X, y = datasets.bundled("breast_cancer")
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    model = xgb.XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1).fit(X, y)
    return model, read_model(model), X


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [0, 1, 569])
def test_types_orders_and_numbers_of_rows(cancer, dtype, order, n_rows):
    model, forest, X = cancer
    rows = np.asarray(X[:n_rows], dtype=dtype, order=order)
    raw = forest.decision_function(rows)
    assert raw.dtype == np.float32
    assert raw.shape == (n_rows,)
    if n_rows:  # XGBoost itself cannot take an empty array
        np.testing.assert_array_equal(raw, model.predict(rows, output_margin=True))


def test_never_disagrees_on_thresholds_and_their_neighbours(cancer):
    model, forest, _ = cancer
    inner = np.flatnonzero(forest.feature >= 0)
    near = forest.threshold[inner].astype(F32)
    rows = []
    # The stored number, the threshold of XGBoost next to it, and a number between.
    after = np.nextafter(near, F32(np.inf))
    between = (near.astype(np.float64) + after) / 2
    for values in (near, after, np.nextafter(near, F32(-np.inf)), between):
        rows.append(np.full((len(inner), forest.n_features), np.nan))
        rows[-1][np.arange(len(inner)), forest.feature[inner]] = values
    X = np.vstack(rows)
    np.testing.assert_array_equal(
        forest.decision_function(X), model.predict(X, output_margin=True)
    )
    # XGBoost's own threshold goes right, the number before it left.
    for values, expected in ((near, True), (after, False)):
        for node, value in zip(inner, values, strict=True):
            assert reference.goes_left(forest, node, float(value)) is expected


def test_zeros_of_both_signs_and_denormals(xgb):
    tiny = np.array([-1e-40, -1e-45, -0.0, 0.0, 1e-45, 1e-40, 1e-38], dtype=F32)
    X = np.repeat(tiny, 30)[:, np.newaxis]
    y = np.repeat([0, 1, 0, 0, 1, 0, 1], 30)
    model = xgb.XGBClassifier(n_estimators=5, tree_method="exact", n_jobs=1).fit(X, y)
    assert_same(read_model(model), model, X)


def test_single_rows_through_the_predictor(cancer):
    model, forest, X = cancer
    predict = forest.predictor()
    rows = X[:20].astype(F32)
    assert [predict(row) for row in rows] == model.predict(rows).tolist()


@pytest.mark.parametrize(
    ("name", "n_rows", "settings"),
    [
        ("adult", 4000, {"max_depth": 6, "n_estimators": 40}),
        ("nomao", 2500, {"max_depth": 5, "n_estimators": 20, "tree_method": "exact"}),
        ("letter", 2000, {"max_depth": 4, "n_estimators": 4}),
    ],
)
def test_real_data(xgb, name, n_rows, settings):
    X, y = datasets.real(name, n_rows)
    y = np.unique(y, return_inverse=True)[1]
    half = n_rows // 2
    model = xgb.XGBClassifier(n_jobs=1, **settings).fit(X[:half], y[:half])
    forest = read_model(model)
    for dtype in (np.float32, np.float64):
        assert_same(forest, model, np.asarray(X[half:], dtype=dtype))


# ------------------------------------------------------------------ decisions


def leaf_only(document, leaves):
    """A document whose trees are single leaves with these values."""
    document = copy.deepcopy(document)
    model = document["learner"]["gradient_booster"]["model"]
    tree = {
        **{name: [] for name in model["trees"][0] if name.startswith("categories")},
        **{"left_children": [-1], "right_children": [-1], "parents": [2**31 - 1]},
        **{"split_indices": [0], "default_left": [0], "split_type": [0]},
        **{"loss_changes": [0.0], "sum_hessian": [1.0], "base_weights": [0.0]},
    }
    model["trees"] = [
        tree
        | {
            "id": n,
            "split_conditions": [float(leaf)],
            "tree_param": model["trees"][0]["tree_param"] | {"num_nodes": "1"},
        }
        for n, leaf in enumerate(leaves)
    ]
    model["tree_info"] = list(range(len(leaves)))
    model["iteration_indptr"] = [0, len(leaves)]
    model["gbtree_model_param"]["num_trees"] = str(len(leaves))
    return document


def loaded(xgb, document):
    model = xgb.XGBClassifier(n_jobs=1)
    model.load_model(bytearray(json.dumps(document).encode()))
    return model


def test_the_second_class_begins_at_the_same_raw_score(xgb):
    X, y = datasets.bundled("breast_cancer")
    document = document_of(
        xgb.XGBClassifier(n_estimators=1, base_score=0.5, n_jobs=1).fit(X, y)
    )
    threshold = F32(read_xgboost_document(document).decision_threshold)
    assert 0 < threshold < 1e-6
    rank = int(threshold.view(np.int32))
    for step in (-(2**15), -64, -1, 0, 1, 64, 2**15):
        leaf = np.array(rank + step, dtype=np.int32).view(F32)
        single = leaf_only(document, [leaf])
        expected = loaded(xgb, single).predict(X[:1])
        assert expected == [step >= 0]
        assert read_xgboost_document(single).predict(X[:1]) == expected


@pytest.mark.parametrize("first", [0.3, 0.7, 3.0])
def test_classes_whose_probabilities_round_to_the_same_number(xgb, first):
    X, y = datasets.bundled("iris")
    model = xgb.XGBClassifier(n_estimators=1, base_score=0.0, n_jobs=1).fit(X, y)
    document = document_of(model)
    for steps in range(4):
        leaf = F32(first)
        for _ in range(steps):
            leaf = np.nextafter(leaf, F32(np.inf))
        for leaves in ([first, leaf, -1.0], [-1.0, first, leaf], [leaf, 0.0, first]):
            single = leaf_only(document, np.array(leaves, dtype=F32))
            expected = loaded(xgb, single).predict(X[:1])
            assert read_xgboost_document(single).predict(X[:1]) == expected


def test_close_scores_of_many_classes_are_decided_as_the_library_does(xgb):
    X, y = datasets.bundled("iris")
    model = xgb.XGBClassifier(n_estimators=1, n_jobs=1).fit(X, y)
    forest = read_model(model)
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(20_000, 3)).astype(F32)
    raw[:, 1] = np.nextafter(raw[:, 0], F32(np.inf))
    settings = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}
    data = xgb.DMatrix(np.zeros((len(raw), 1)), np.zeros(len(raw)), nthread=1)
    data.set_base_margin(raw.ravel())
    bare = xgb.train(settings, data, 0)
    expected = bare.predict(data)
    np.testing.assert_array_equal(forest.winners(raw), expected.argmax(axis=1))
    ours = class_probabilities(raw, forest.link, forest.link_scale)
    np.testing.assert_allclose(ours, expected, rtol=RTOL)


# ------------------------------------------------------------------ base score


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson"])
def test_the_base_score_becomes_the_same_raw_score(xgb, objective):
    X, y = datasets.bundled("breast_cancer")
    rng = np.random.default_rng(0)
    data = xgb.DMatrix(X[:40, :2], y[:40], nthread=1)
    scores = np.concatenate([rng.random(40), 10.0 ** rng.uniform(-8, 0, 10)])
    for score in [*scores, *(1 - scores[-10:])]:
        settings = {
            "objective": objective,
            "base_score": float(F32(score)),
            "gamma": 1e9,
        }
        booster = xgb.train(settings | {"nthread": 1}, data, 1)
        assert_same_booster(xgb, read_model(booster), booster, X[:2, :2])


@pytest.mark.parametrize("version", [[3, 1, 3], [3, 2, 0]])
def test_the_base_score_is_kept_from_zero_since_version_3_2(version):
    document = json.loads((MODELS / "v3.2.0-pruned.json").read_text())
    document["learner"]["objective"]["name"] = "binary:logistic"
    document["version"] = version
    settings = document["learner"]["learner_model_param"]
    settings["base_score"] = "6.5E-7"
    expected = -14.246293 if version < [3, 2] else -13.81551  # what XGBoost itself has
    assert read_xgboost_document(document).base_score == [F32(expected)]


@pytest.mark.parametrize("text", ["2.5E-1", "[2.5E-1]", "0.25", [0.25], 0.25])
def test_the_base_score_is_read_in_every_form(xgb, text):
    X, y = datasets.bundled("breast_cancer")
    model = xgb.XGBClassifier(n_estimators=3, base_score=0.25, n_jobs=1).fit(X, y)
    document = document_of(model)
    document["learner"]["learner_model_param"]["base_score"] = text
    assert_same(read_xgboost_document(document), model, X)


@pytest.mark.parametrize("score", [0.5, [0.1, 0.2, 0.7]])
def test_classes_may_have_base_scores_of_their_own(xgb, score):
    if isinstance(score, list) and version_of(xgb) < (3, 1):
        pytest.skip("this XGBoost has one base score for all classes")
    X, y = datasets.bundled("iris")
    model = xgb.XGBClassifier(n_estimators=3, base_score=score, n_jobs=1).fit(X, y)
    forest = read_model(model)
    np.testing.assert_array_equal(forest.base_score, F32(score) * np.ones(3, F32))
    assert_same(forest, model, X)


# ------------------------------------------------------------------ early stopping


@pytest.fixture(scope="module")
def stopped(xgb):
    X, y = datasets.bundled("wine")
    model = xgb.XGBClassifier(
        n_estimators=60,
        learning_rate=0.8,
        early_stopping_rounds=4,
        num_parallel_tree=2,
        n_jobs=1,
    )
    model.fit(X[::2], y[::2], eval_set=[(X[1::2], y[1::2])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    return model, X


def test_estimators_stop_at_the_best_iteration_and_boosters_do_not(xgb, stopped):
    model, X = stopped
    forest = read_model(model)
    assert forest.n_trees == 6 * (model.best_iteration + 1)
    assert_same(forest, model, X)
    booster = model.get_booster()
    whole = read_model(booster)
    assert whole.n_trees == 6 * booster.num_boosted_rounds()
    assert_same_booster(xgb, whole, booster, X)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_files_stop_at_the_best_iteration_as_loaded_estimators_do(
    xgb, stopped, suffix, tmp_path
):
    model, X = stopped
    path = tmp_path / f"model.{suffix}"
    model.save_model(path)
    again = xgb.XGBClassifier()
    again.load_model(path)
    assert_same(read_model(path), again, X)
    # A Booster that writes the file would use all trees itself.
    model.get_booster().save_model(path)
    with pytest.warns(SpinneyWarning, match="a Booster predicts with all"):
        forest = read_model(path)
    assert_same(forest, again, X)


def test_older_files_do_not_say_where_iterations_end(stopped):
    model, X = stopped
    document = document_of(model)
    document["learner"]["attributes"]["scikit_learn"] = json.dumps(
        {"_estimator_type": "classifier"}
    )
    del document["learner"]["gradient_booster"]["model"]["iteration_indptr"]
    for tree in trees_of(document):
        tree["tree_param"]["size_leaf_vector"] = "0"
        del tree["split_type"]
    assert_same(read_xgboost_document(document), model, X)


def test_dart_stops_at_the_best_iteration_too(xgb):
    X, y = datasets.bundled("breast_cancer")
    model = xgb.XGBClassifier(
        n_estimators=25,
        booster="dart",
        rate_drop=0.3,
        early_stopping_rounds=3,
        n_jobs=1,
        random_state=3,
    )
    model.fit(X[::2], y[::2], eval_set=[(X[1::2], y[1::2])], verbose=False)
    forest = read_model(model)
    assert forest.n_trees == model.best_iteration + 1
    assert_same(forest, model, X)


# ------------------------------------------------------------------ categories


@pytest.fixture(scope="module", params=[1, 100], ids=["sets", "one against all"])
def categorical(xgb, request):
    rng = np.random.default_rng(0)
    code = rng.integers(0, 70, 900)
    X = np.column_stack([code, rng.normal(size=900), rng.integers(0, 5, 900)])
    y = (code % 3 == 0) ^ (X[:, 1] > 0.2) ^ (X[:, 2] == 3)
    X[::13, 0] = np.nan
    X[::7, 2] = np.nan
    model = xgb.XGBClassifier(
        n_estimators=10,
        max_depth=5,
        tree_method="hist",
        enable_categorical=True,
        feature_types=["c", "q", "c"],
        max_cat_to_onehot=request.param,
        n_jobs=1,
    ).fit(X, y.astype(int))
    return model, X


def test_category_sets_answer_bit_for_bit(categorical):
    model, X = categorical
    forest = read_model(model)
    assert (forest.category_set >= 0).sum() > 10
    assert_same(forest, model, X)
    assert_same(forest, model, random_rows(forest, 600))
    assert_same(read_xgboost_document(document_of(model)), model, X)


def test_odd_numbers_as_categories(categorical):
    model, X = categorical
    forest = read_model(model)
    odd = [-0.0, 0.5, 0.99, -0.5, -0.99, -1, -1.5, 2.7, 69.9, 70, 71, 95, 96, 1e30]
    odd += [
        2.0**24 - 1,
        2.0**24,
        2.0**31,
        2.0**32,
        2.0**32 + 2,
        np.inf,
        -np.inf,
        np.nan,
    ]
    rows = np.repeat(X[:20], len(odd), axis=0)
    rows[:, 0] = np.tile(odd, 20)
    assert_same(forest, model, rows)
    rows[:, 2] = rows[::-1, 0]
    assert_same(forest, model, rows)


def version_of(xgb):
    return tuple(map(int, xgb.__version__.split(".")[:2]))


@pytest.mark.parametrize("onehot", [1, 10])
@pytest.mark.parametrize("labels", [["d", "b", "", "longer"], [13, -3, 33, 23]])
def test_categories_are_mapped_as_xgboost_does(xgb, labels, onehot):
    pandas = pytest.importorskip("pandas")
    if version_of(xgb) < (3, 1):
        pytest.skip("the codes are the contract before 3.1")
    rng = np.random.default_rng(0)
    code = rng.integers(0, 4, 400)
    x = pandas.Categorical.from_codes(code, labels)
    frame = pandas.DataFrame({"z": rng.normal(size=400), "x": x})
    y = (code % 2 == 0) ^ (frame.z > 0.3)
    settings = {"enable_categorical": True, "max_cat_to_onehot": onehot, "n_jobs": 1}
    model = xgb.XGBClassifier(n_estimators=4, **settings).fit(frame, y)
    forest = read_model(model)
    assert forest.categories_ == (None, tuple(labels))
    other = frame.copy()
    other["x"] = other.x.cat.set_categories(sorted(labels))
    other.loc[::7, "x"] = None
    for rows in (frame, other, other[["z", "x"]].astype({"x": x.dtype})):
        raw = model.predict(rows, output_margin=True)
        np.testing.assert_array_equal(forest.decision_function(rows), raw)
    codes = np.column_stack([frame.z, code])
    np.testing.assert_array_equal(
        forest.decision_function(codes), model.predict(frame, output_margin=True)
    )
    unseen = "new" if isinstance(labels[0], str) else 7
    other["x"] = other.x.cat.add_categories([unseen])
    np.testing.assert_array_equal(  # no row has it
        forest.decision_function(other),
        forest.decision_function(other.assign(x=other.x.cat.set_categories(labels))),
    )
    other.loc[3, "x"] = unseen
    with pytest.raises(ValueError, match=r"not trained on.*Leave these rows out"):
        forest.predict(other)
    loaded = read_xgboost_document(document_of(model))
    assert loaded.categories_ == forest.categories_


def test_names_of_categories_that_xgboost_damages_are_refused(xgb):
    pandas = pytest.importorskip("pandas")
    if version_of(xgb) < (3, 1):
        pytest.skip("the codes are the contract before 3.1")
    x = pandas.Categorical(np.array(["ä", "ö", "z"])[np.arange(90) % 3])
    frame = pandas.DataFrame({"x": x, "z": np.arange(90.0)})
    model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1)
    with pytest.raises(UnsupportedModelError, match=r"beyond ASCII[\s\S]*Hint"):
        read_model(model.fit(frame, np.arange(90) % 3 == 1))


@pytest.mark.parametrize(
    "damaged",
    [
        {"offsets": [0, 2, 1, 4]},
        {"offsets": [0, 1, 2, 9]},
        {"offsets": [1, 2, 3, 4]},
        {"values": [97, 98, 99, 4000]},
    ],
)
def test_damaged_categories_are_refused(xgb, damaged):
    pandas = pytest.importorskip("pandas")
    if version_of(xgb) < (3, 1):
        pytest.skip("the codes are the contract before 3.1")
    x = pandas.Categorical(np.array(["a", "b", "cd"])[np.arange(90) % 3])
    frame = pandas.DataFrame({"x": x, "z": np.arange(90.0)})
    model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1)
    document = document_of(model.fit(frame, np.arange(90) % 3 == 1))
    kept = document["learner"]["gradient_booster"]["model"]["cats"]
    kept["enc"][0] |= damaged
    with pytest.raises(UnsupportedModelError, match="damaged"):
        read_xgboost_document(document)
    kept["enc"][0] = {"type": 16, "values": [1, 2, 3]}
    with pytest.raises(UnsupportedModelError, match="signed integers"):
        read_xgboost_document(document)


def test_categories_that_are_their_own_codes_may_be_numbers(xgb):
    pandas = pytest.importorskip("pandas")
    code = np.random.default_rng(0).integers(0, 4, 200)
    model = xgb.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1)
    frame = pandas.DataFrame({"x": pandas.Categorical(code), "z": code * 0.5})
    model.fit(frame, code > 1)
    forest = read_model(model)
    assert forest.feature_names == ("x", "z")
    X = frame.to_numpy(dtype=float)
    np.testing.assert_array_equal(
        forest.decision_function(X), model.predict(frame, output_margin=True)
    )


# ------------------------------------------------------------------ inner values


@pytest.mark.parametrize("method", ["exact", "hist"])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_inner_values_are_means_of_the_leaves_below(xgb, method, booster):
    X, y = datasets.bundled("diabetes")
    model = xgb.XGBRegressor(
        n_estimators=6,
        max_depth=3,
        learning_rate=0.1,
        tree_method=method,
        booster=booster,
        rate_drop=0.5,
        n_jobs=1,
    ).fit(X, y)
    forest = read_model(model)
    leaves = forest.leaves(X)
    # With squared error every training row weighs the same.
    for tree in range(forest.n_trees):
        root = forest.tree_offsets[tree]
        below = forest.value[leaves[:, tree], 0]
        assert math.isclose(forest.value[root, 0], below.mean(), abs_tol=1e-4)
        if forest.left[root] >= 0:
            left = forest.left[root]
            goes = X[:, forest.feature[root]].astype(F32) <= forest.threshold[root]
            assert math.isclose(forest.value[left, 0], below[goes].mean(), abs_tol=1e-4)
    assert forest.n_node_samples is None


def test_leaves_without_weight_count_the_same(xgb):
    X, y = datasets.bundled("breast_cancer")
    document = document_of(
        xgb.XGBClassifier(n_estimators=1, max_depth=1, n_jobs=1).fit(X, y)
    )
    trees_of(document)[0]["sum_hessian"] = [0.0, 0.0, 0.0]
    value = read_xgboost_document(document).value[:, 0]
    assert value[0] == (value[1] + value[2]) / 2


# ------------------------------------------------------------------ files


@with_later_trees
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.answers")), ids=lambda p: p.stem)
def test_stored_models_answer_as_on_the_day_they_were_trained(path):
    (stored,) = set(MODELS.glob(f"{path.stem}.*")) - {path}
    answers = json.loads(path.read_text())
    rows = np.array(answers["rows"])
    forest = read_model(stored)
    raw = np.array(answers["raw"], dtype=F32)
    np.testing.assert_array_equal(forest.decision_function(rows), raw)
    np.testing.assert_array_equal(reference.raw(forest, rows).reshape(raw.shape), raw)
    predicted = np.array(answers["predicted"], dtype=F32)
    np.testing.assert_array_equal(forest.predict(rows), predicted)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("kind", ["estimator", "booster"])
def test_files_answer_as_the_model_that_wrote_them(cancer, suffix, kind, tmp_path):
    model, forest, X = cancer
    path = tmp_path / f"model.{suffix}"
    (model if kind == "estimator" else model.get_booster()).save_model(path)
    read = read_model(str(path))
    assert_same(read, model, X)
    for name in ("feature", "threshold", "left", "right", "value", "missing_left"):
        np.testing.assert_array_equal(getattr(read, name), getattr(forest, name))


def test_names_of_columns_are_kept(xgb):
    X, y = datasets.bundled("iris")
    names = ["sepal length", "sepal width", "petal length", "Blütenblattbreite"]
    data = xgb.DMatrix(X, y, feature_names=names)
    booster = xgb.train({"nthread": 1}, data, 2)
    assert read_model(booster).feature_names == tuple(names)
    assert read_xgboost_document(document_of(booster)).feature_names == tuple(names)


def test_a_file_of_a_regressor_with_probabilities_is_refused(xgb, tmp_path):
    X, y = datasets.bundled("breast_cancer")
    model = xgb.XGBRegressor(objective="binary:logistic", n_estimators=2, n_jobs=1)
    model.fit(X, y).save_model(tmp_path / "model.json")
    with pytest.raises(UnsupportedModelError, match="regressor"):
        read_model(tmp_path / "model.json")
    assert_same_booster(xgb, read_model(model.get_booster()), model.get_booster(), X)


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"booster": "gblinear"}, "gblinear.*\n.*gbtree"),
        ({"objective": "binary:hinge"}, "binary:hinge.*\n.*binary:logistic"),
        ({"objective": "count:poisson"}, "classifier with objective='count:poisson'"),
        ({"missing": np.inf}, r"missing=inf.*\n.*NaN"),
        (
            {"objective": "multi:softprob", "num_class": 2},
            "two classes.*\n.*get_booster",
        ),
    ],
)
def test_classifiers_that_cannot_be_read_exactly_are_refused(xgb, settings, reason):
    X, y = datasets.bundled("breast_cancer")
    model = xgb.XGBClassifier(n_estimators=2, n_jobs=1, **settings).fit(X, y)
    with pytest.raises(UnsupportedModelError, match=reason.replace(".*\n", r"[\s\S]*")):
        read_model(model)


def test_two_softmax_classes_are_read_from_the_booster(xgb):
    X, y = datasets.bundled("breast_cancer")
    settings = {"objective": "multi:softprob", "num_class": 2, "nthread": 1}
    booster = xgb.train(settings, xgb.DMatrix(X, y), 3)
    predicted = booster.predict(xgb.DMatrix(X))
    np.testing.assert_array_equal(read_model(booster).predict(X), predicted.argmax(1))


def test_several_labels_at_once_are_refused(xgb):
    X, y = datasets.bundled("breast_cancer")
    model = xgb.XGBClassifier(n_estimators=2, n_jobs=1).fit(
        X, np.column_stack([y, 1 - y])
    )
    with pytest.raises(UnsupportedModelError, match="2 labels at once"):
        read_model(model)


def test_other_objects_are_refused(xgb):
    X, _ = datasets.bundled("iris")
    with pytest.raises(UnsupportedModelError, match="DMatrix"):
        read_model(xgb.DMatrix(X))


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:pairwise", "rank:map"])
def test_rankers_score_as_xgboost_does(xgb, objective, tmp_path):
    X, y = datasets.bundled("iris")
    y = np.minimum(y, 1)  # grades that every objective takes
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    groups = np.sort(np.arange(len(X)) % 10)
    ranker = xgb.XGBRanker(n_estimators=5, n_jobs=1, objective=objective)
    ranker.fit(X, y, qid=groups)
    forest = read_model(ranker)
    np.testing.assert_array_equal(forest.predict(X), ranker.predict(X))
    booster = ranker.get_booster()
    assert_same_booster(xgb, read_model(booster), booster, X)
    ranker.save_model(tmp_path / "ranker.json")
    from_file = read_model(tmp_path / "ranker.json")
    np.testing.assert_array_equal(from_file.predict(X), ranker.predict(X))


@pytest.mark.parametrize("objective", ["survival:cox", "survival:aft"])
@pytest.mark.parametrize("settings", [{}, {"base_score": 2.5}])
def test_survival_models_predict_as_xgboost_does(xgb, objective, settings):
    X, y = datasets.bundled("diabetes")
    rows = xgb.DMatrix(X, nthread=1)
    if objective == "survival:cox":
        rows.set_label(np.where(np.arange(len(y)) % 4 == 0, -y, y))
    else:
        rows.set_float_info("label_lower_bound", y)
        late = np.where(np.arange(len(y)) % 4 == 0, np.inf, y)
        rows.set_float_info("label_upper_bound", late)
    settings = settings | {"objective": objective, "nthread": 1, "max_depth": 3}
    booster = xgb.train(settings, rows, 8)
    assert_same_booster(xgb, read_model(booster), booster, X)


@pytest.mark.parametrize("missing", [-999, 0, 0.1, np.float32(0.1)])
def test_a_number_that_means_missing_is_missing(xgb, missing, tmp_path):
    import scipy.sparse as sp

    X, y = datasets.bundled("breast_cancer")
    rng = np.random.default_rng(0)
    X = X.copy()
    X[rng.random(X.shape) < 0.2] = missing
    X[rng.random(X.shape) < 0.05] = np.nan
    model = xgb.XGBClassifier(n_estimators=5, missing=missing, n_jobs=1).fit(X, y)
    forest = read_model(model)
    for rows in (X, X.astype(F32), X[:0], X[:1]):
        expected = model.predict(rows, output_margin=True)
        # Without rows, XGBoost 3.4 returns an array of two dimensions.
        np.testing.assert_array_equal(forest.decision_function(rows), expected.ravel())
    ask = forest.predictor()
    labels = model.predict(X)
    assert [ask(row) for row in X[:20].astype(F32)] == labels[:20].tolist()
    sparse = sp.csr_matrix(X)
    np.testing.assert_array_equal(forest.predict(sparse), model.predict(sparse))
    save(forest, tmp_path / "forest.spinney")
    np.testing.assert_array_equal(load(tmp_path / "forest.spinney").predict(X), labels)


def test_untrained_models_are_named(xgb):
    for model in (xgb.XGBClassifier(), xgb.XGBRegressor(), xgb.Booster()):
        with pytest.raises(
            NotFittedError, match=f"{type(model).__name__} has not been"
        ):
            read_model(model)
    X, y = datasets.bundled("iris")
    with pytest.raises(UnsupportedModelError, match="no trees"):
        read_model(xgb.train({"nthread": 1}, xgb.DMatrix(X, y), 0))


# ------------------------------------------------------------------ damaged

STORED = sorted(MODELS.glob("v3.2*.json")) + sorted(MODELS.glob("v3.2*.ubj"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_truncated_files_are_refused(path, tmp_path):
    content = path.read_bytes()
    cut = tmp_path / path.name
    for end in np.linspace(1, len(content) - 1, 60).astype(int):
        cut.write_bytes(content[:end])
        with pytest.raises(UnsupportedModelError, match="damaged"):
            read_model(cut)


@with_later_trees
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_changed_bytes_are_read_or_refused(path, tmp_path):
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    changed = tmp_path / path.name
    for _ in range(150):
        forged = bytearray(content)
        for place in rng.integers(1, len(content), rng.integers(1, 4)):
            forged[place] = rng.integers(256)
        changed.write_bytes(forged)
        try:
            forest = read_model(changed)
        except UnsupportedModelError:
            continue
        forest.decision_function(np.zeros((1, forest.n_features)))


def places(part, path=()):
    """Yield the way to every value of a document."""
    pairs = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


# A forged number of the version is a version that nobody has tested.
@pytest.mark.filterwarnings(
    "ignore:The model was saved by XGBoost:spinney.SpinneyWarning"
)
@pytest.mark.parametrize("name", ["categories", "vector", "pruned"])
def test_documents_with_any_one_value_forged_are_read_or_refused(name):
    document = json.loads((MODELS / f"v3.2.0-{name}.json").read_text())
    rng = np.random.default_rng(0)
    forgeries = (
        None,
        -1,
        2**31 - 1,
        2**70,
        "x",
        [],
        {},
        math.nan,
        [[1], [2, 3]],
        "9" * 50,
    )
    refused = 0
    everywhere = list(places(document))
    for way in [everywhere[n] for n in rng.integers(0, len(everywhere), 400)]:
        forged = copy.deepcopy(document)
        holder = forged
        for key in way[:-1]:
            holder = holder[key]
        holder[way[-1]] = forgeries[rng.integers(len(forgeries))]
        try:
            forest = read_xgboost_document(forged)
        except UnsupportedModelError:
            refused += 1
            continue
        forest.decision_function(np.zeros((1, forest.n_features)))
    assert refused > 50


def broken(change):
    """The reason why a stored model is refused after `change` of its document."""
    document = json.loads((MODELS / "v3.2.0-categories.json").read_text())
    change(document, trees_of(document)[0])
    with pytest.raises(UnsupportedModelError) as caught:
        read_xgboost_document(document)
    return str(caught.value)


def test_what_is_wrong_with_a_document_is_said():
    def model(document):
        return document["learner"]["gradient_booster"]["model"]

    settings = "learner_model_param"
    assert "'learner'" in broken(lambda d, t: d.clear())
    assert "'base_score'" in broken(lambda d, t: d["learner"][settings].clear())
    assert "'base_score'" in broken(
        lambda d, t: d["learner"][settings].update(base_score="[1,2]")
    )
    assert "probability" in broken(
        lambda d, t: d["learner"][settings].update(base_score="2E0")
    )
    assert "outputs" in broken(
        lambda d, t: d["learner"][settings].update(num_class="2000000000")
    )
    assert "'tree_info'" in broken(lambda d, t: model(d).update(tree_info=[0]))
    assert "no trees" in broken(lambda d, t: model(d).update(tree_info=[], trees=[]))
    assert "outside its own nodes" in broken(
        lambda d, t: t["left_children"].__setitem__(0, 10**6)
    )
    assert "two parents" in broken(lambda d, t: t["right_children"].__setitem__(0, 1))
    assert "'default_left' has 1" in broken(lambda d, t: t.update(default_left=[0]))
    assert "finite" in broken(
        lambda d, t: t.update(split_conditions=[math.inf] * len(t["split_conditions"]))
    )
    assert "the best iteration is given as 99" in broken(
        lambda d, t: d["learner"]["attributes"].update(best_iteration="99")
    )
    assert "categories are missing" in broken(
        lambda d, t: t.update(
            categories_nodes=[], categories_segments=[], categories_sizes=[]
        )
    )
    assert "outside its categories" in broken(lambda d, t: t.update(categories=[]))
    assert "category outside" in broken(
        lambda d, t: t["categories"].__setitem__(0, 2**24)
    )
    assert "feature must be" in broken(
        lambda d, t: t["split_indices"].__setitem__(0, 77)
    )


def test_forged_category_sets_cannot_fill_the_memory():
    def forge(document, tree):
        nodes = [n for n, child in enumerate(tree["left_children"]) if child != -1]
        assert nodes
        tree["split_type"] = [
            int(n in nodes) for n in range(len(tree["left_children"]))
        ]
        tree["categories_nodes"] = nodes
        tree["categories_segments"] = [0] * len(nodes)
        tree["categories_sizes"] = [1] * len(nodes)
        tree["categories"] = [2**24 - 1]
        booster = document["learner"]["gradient_booster"]["model"]
        booster["trees"] = [tree] * 100
        booster["tree_info"] = [0] * 100

    assert "category sets" in broken(forge)


def test_a_chain_of_nodes_is_walked_in_a_moment():
    def forge(document, tree):
        n_inner = 30_000
        n_nodes = 2 * n_inner + 1
        left = np.full(n_nodes, -1)
        left[np.r_[0, 2 : 2 * n_inner : 2]] = np.arange(1, n_nodes, 2)
        tree["left_children"] = left.tolist()
        tree["right_children"] = np.where(left < 0, -1, left + 1).tolist()
        for name in ("split_indices", "default_left", "split_type"):
            tree[name] = [0] * n_nodes
        for name in ("split_conditions", "sum_hessian"):
            tree[name] = [0.5] * n_nodes

    assert "levels" in broken(forge)


@pytest.mark.parametrize("default_left", [0, 1])
def test_a_threshold_of_minus_infinity_sends_every_number_right(xgb, default_left):
    document = json.loads((MODELS / "v2.1.4-pruned.json").read_text())
    tree = trees_of(document)[0]
    # XGBoost's parser knows no infinities, but overflows to one.
    tree["split_conditions"][0] = -math.inf
    tree["default_left"][0] = default_left
    text = json.dumps(document).replace("-Infinity", "-1e99")
    forest = read_xgboost_document(document)
    rows = np.full((5, 3), [[-math.inf], [-3e38], [0.0], [math.inf], [math.nan]])
    model = loaded(xgb, json.loads(text))
    np.testing.assert_array_equal(
        forest.decision_function(rows), model.predict(rows, output_margin=True)
    )
    # The children of this root have changed places, and only NaN goes left or right.
    goes = [reference.goes_left(forest, 0, float(row[0])) for row in rows]
    assert goes == [True, True, True, True, not default_left]


def test_a_member_that_comes_twice_is_refused():
    with pytest.raises(UnsupportedModelError, match="'a' comes twice"):
        read_xgboost_ubj(b"{U\x01aZU\x01aZ}")


def test_ubjson_that_is_no_model_is_refused():
    with pytest.raises(UnsupportedModelError, match="'learner'"):
        read_xgboost_ubj(b"{U\x01aZ}")
    with pytest.raises(UnsupportedModelError, match="'learner'"):
        read_xgboost_ubj(b"[]")


@pytest.mark.parametrize(
    "way",
    [
        (),
        ("learner",),
        ("learner", "gradient_booster"),
        ("learner", "gradient_booster", "model"),
        ("learner", "gradient_booster", "model", "cats"),
        ("learner", "gradient_booster", "model", "gbtree_model_param"),
        ("learner", "gradient_booster", "model", "trees", 1),
        ("learner", "gradient_booster", "model", "trees", 1, "tree_param"),
        ("learner", "learner_model_param"),
        ("learner", "objective"),
    ],
)
def test_what_a_future_version_may_add_is_refused(way):
    document = json.loads((MODELS / "v3.4.1-pruned.json").read_text())
    read_xgboost_document(document)
    holder = document
    for key in way:
        holder = holder[key]
    holder["tree_scale"] = [0.5]
    with pytest.raises(UnsupportedModelError, match=r"does not know .'tree_scale'"):
        read_xgboost_document(document)


@pytest.mark.parametrize("place", ["gradient_booster", "model"])
def test_weights_of_trees_are_never_overlooked(place):
    document = json.loads((MODELS / "v3.2.0-pruned.json").read_text())
    booster = document["learner"]["gradient_booster"]
    plain = read_xgboost_document(document)
    holder = booster if place == "gradient_booster" else booster["model"]
    holder["weight_drop"] = [0.5] * plain.n_trees
    halved = read_xgboost_document(document)
    leaves = plain.feature == -1
    np.testing.assert_array_equal(halved.value[leaves], plain.value[leaves] / 2)


def test_a_newer_major_version_is_warned_about():
    document = json.loads((MODELS / "v3.4.1-pruned.json").read_text())
    document["version"] = [4, 0, 0]
    with pytest.warns(SpinneyWarning, match=r"XGBoost 4\.0\.0.*tested with .*3\.4\.1"):
        read_xgboost_document(document)


def test_a_number_of_classes_without_trees_is_refused():
    document = json.loads((MODELS / "v3.2.0-pruned.json").read_text())
    document["learner"]["learner_model_param"]["num_class"] = str(2**20)
    document["learner"]["objective"]["name"] = "multi:softprob"
    with pytest.raises(UnsupportedModelError, match="outputs"):
        read_xgboost_document(document)
