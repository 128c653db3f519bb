"""LightGBM models, out of memory and out of text files.

Raw scores are compared bit for bit. Probabilities go through `exp`, which comes from
NumPy here and from the C library there: they may differ by `ULPS` units in the last
place of 1.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRanker, LGBMRegressor
from sklearn.exceptions import NotFittedError

import datasets
import reference
import spinney
from spinney import InvalidArgumentError, UnsupportedModelError, read_model
from spinney.forest import ZERO_BAND
from spinney.readers.lightgbm import read_lightgbm, read_lightgbm_text
from strategies import random_rows

MODELS = Path(__file__).parents[1] / "models" / "lightgbm"
ULPS = 4
QUIET = {"verbose": -1, "num_threads": 1}
SMALL = QUIET | {"num_leaves": 15, "min_data_in_leaf": 5}
BOOSTERS = {
    "gbdt": {},
    "goss": {"data_sample_strategy": "goss"},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
}
MISSING = {
    "nan": {},
    "none": {"use_missing": False},
    "zero": {"zero_as_missing": True},
}


def train(X, y, n_trees=10, categorical_feature="auto", **parameters):
    data = lightgbm.Dataset(X, y, categorical_feature=categorical_feature)
    return lightgbm.train(SMALL | parameters, data, n_trees)


def holey(name="breast_cancer", seed=0):
    """A bundled set, centred, with many zeros and missing values."""
    rng = np.random.default_rng(seed)
    X, y = datasets.bundled(name)
    X = X - np.median(X, axis=0)
    X[rng.random(X.shape) < 0.15] = 0
    X[rng.random(X.shape) < 0.15] = np.nan
    return X, y


def with_categories(n_rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.integers(0, 70, n_rows),
            rng.normal(size=n_rows),
            rng.integers(0, 5, n_rows),
            rng.integers(0, 400, n_rows) * 7,
        ]
    )
    y = (X[:, 0] * 7919 % 13 > 6) ^ (X[:, 2] == 2) ^ (X[:, 3] * 31 % 11 > 6)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y.astype(int)


def rounded(X):
    """Rows as float32; what is beyond its range becomes infinite or zero."""
    with np.errstate(over="ignore", under="ignore"):
        return X.astype(np.float32)


def raw_scores(booster, X, forest):
    """Raw scores of LightGBM; it hands out the sum where it decides by the mean."""
    raw = booster.predict(X, raw_score=True).reshape(len(X), -1)
    if forest.aggregation == "mean":
        return raw / (forest.n_trees // forest.n_outputs)
    return raw


def assert_answers_alike(booster, forest, X):
    """Raw scores, probabilities and labels of a bare Booster and its forest."""
    raw = raw_scores(booster, X, forest)
    np.testing.assert_array_equal(
        forest.decision_function(X).reshape(len(X), -1), raw, strict=True
    )
    predicted = booster.predict(X)
    if forest.source != "LightGBM LGBMClassifier":
        np.testing.assert_allclose(
            forest.predict_model(X), predicted, rtol=ULPS * np.finfo(float).eps, atol=0
        )
    if forest.classes is None:
        np.testing.assert_allclose(
            forest.predict(X), predicted, rtol=ULPS * np.finfo(float).eps, atol=0
        )
        return
    if predicted.ndim == 1:
        predicted = np.column_stack([1 - predicted, predicted])
    np.testing.assert_allclose(
        forest.predict_proba(X), predicted, rtol=0, atol=ULPS * np.finfo(float).eps
    )
    np.testing.assert_array_equal(forest.predict(X), predicted.argmax(axis=1))


def assert_exact(booster, n_rows=300, seed=0):
    """Compare on rows made to be difficult, in every layout; return the forest."""
    forest = read_lightgbm(booster)
    for dtype in (np.float64, np.float32):
        X = random_rows(forest, n_rows, seed, dtype)
        for rows in (X, np.asfortranarray(X), X[::-2], X[:1]):
            assert_answers_alike(booster, forest, rows)
        np.testing.assert_array_equal(
            reference.raw(forest, X[:15]), raw_scores(booster, X[:15], forest)
        )
    return forest


def rebuilt(text, change):
    """A model text with `change(block)` in place of each tree, sizes put right."""
    head, *blocks = re.split(r"(?m)^(?=Tree=|end of trees)", text)
    tail = blocks.pop()
    blocks = [change(block) for block in blocks]
    sizes = " ".join(str(len(block)) for block in blocks)
    head = re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", head)
    return head + "".join(blocks) + tail


def with_line(block, name, numbers):
    """A tree with other numbers in one of its lines."""
    line = f"{name}=" + " ".join(format(number, ".17g") for number in numbers)
    return re.sub(f"(?m)^{name}=.*$", line, block)


def numbers_in(block, name):
    return re.search(f"(?m)^{name}=(.*)$", block)[1].split()


# ------------------------------------------------------------------ exactness


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("boosting", BOOSTERS)
def test_two_classes_are_read_exactly(boosting, missing):
    X, y = holey()
    parameters = BOOSTERS[boosting] | MISSING[missing]
    forest = assert_exact(train(X, y, objective="binary", sigmoid=0.7, **parameters))
    assert forest.classes_.tolist() == [0, 1]
    assert (forest.zero_is_missing is not None) == (missing == "zero")


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
@pytest.mark.parametrize("boosting", BOOSTERS)
def test_several_classes_are_read_exactly(boosting, objective):
    X, y = holey("wine")
    parameters = BOOSTERS[boosting] | {"objective": objective, "num_class": 3}
    forest = assert_exact(train(X, y, 6, sigmoid=2.0, **parameters))
    assert (forest.n_trees, forest.n_outputs) == (18, 3)


@pytest.mark.parametrize("boosting", BOOSTERS)
@pytest.mark.parametrize(
    "objective",
    [
        *("regression", "regression_l1", "huber", "fair", "quantile", "mape"),
        *("poisson", "gamma", "tweedie"),
    ],
)
def test_numbers_are_read_exactly(objective, boosting):
    X, y = holey("diabetes")
    forest = assert_exact(
        train(X, y, 5, objective=objective, **BOOSTERS[boosting]), n_rows=60
    )
    assert forest.classes_ is None


def test_cross_entropy_is_read_as_the_probability_of_the_second_class():
    X, y = holey("diabetes")
    for sigmoid in (1.0, 2.0):  # which it does not use
        assert_exact(train(X, y / y.max(), objective="cross_entropy", sigmoid=sigmoid))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_an_objective_of_the_users_own_gives_raw_scores(n_outputs):
    X, y = holey("wine")

    def squared_error(scores, data):
        target = np.eye(3)[y][:, :n_outputs].reshape(scores.shape)
        return scores - target, np.ones_like(scores)

    booster = train(X, y, 4, objective=squared_error, num_class=n_outputs)
    forest = assert_exact(booster)
    np.testing.assert_array_equal(
        forest.predict(X), booster.predict(X).reshape(forest.predict(X).shape)
    )


@pytest.mark.parametrize("missing", MISSING)
@pytest.mark.parametrize("onehot", [1, 100])
def test_categories_are_read_exactly(missing, onehot):
    X, y = with_categories()
    booster = train(
        X,
        y,
        categorical_feature=[0, 2, 3],
        objective="binary",
        min_data_per_group=5,
        cat_smooth=1,
        max_cat_to_onehot=onehot,
        **MISSING[missing],
    )
    forest = assert_exact(booster, n_rows=600)
    assert (forest.category_set >= 0).sum() > 50
    # Seen, unseen, negative, fractional and huge categories, and numbers that are
    # taken for zero.
    values = [0, -0.0, 1, 1.999, 2, 4, 5, 69, 70, 399 * 7, 2800, -1, -0.5, -0.999]
    values += [1e9, 2.0**31, 2.0**32, 2.0**32 + 2, 2.0**63, 1e300, -1e300, np.inf]
    values += [-np.inf, np.nan, ZERO_BAND, -ZERO_BAND, 5e-324, 0.999999999999]
    rng = np.random.default_rng(1)
    rows = rng.choice(values, size=(1000, 4))
    assert_answers_alike(booster, forest, rows)
    assert_answers_alike(booster, forest, rounded(rows))


def test_every_kind_of_decision_agrees_on_every_threshold_around_zero():
    X, y = holey()
    text = train(X[:, :3], y, 30, objective="binary").model_to_string()
    around = [-ZERO_BAND, -1e-36, -5e-324, -0.0, 0.0, 5e-324, 1e-36, ZERO_BAND]
    around += [np.nextafter(b, s) for b in (ZERO_BAND, -ZERO_BAND) for s in (1, -1)]
    around += [float(np.float32(1.1e-35)), -1.1e-35, 1e-40, -1e-40, 1e300, -1e300, 0.1]
    rng = np.random.default_rng(0)

    def change(block):
        size = len(numbers_in(block, "threshold"))
        block = with_line(block, "threshold", rng.choice(around, size))
        # Bit 0, categories, stays out: what counts as missing, and where that goes.
        kinds = rng.choice([0, 2, 4, 6, 8, 10], size)
        return with_line(block, "decision_type", kinds)

    booster = lightgbm.Booster(model_str=rebuilt(text, change))
    forest = assert_exact(booster)
    assert forest.zero_is_missing.any()
    near = rng.choice([*around, np.nan, np.inf, -np.inf], size=(2000, 3))
    assert_answers_alike(booster, forest, near)
    assert_answers_alike(booster, forest, rounded(near))


@pytest.mark.parametrize("sigmoid", [0.3, 1.0, 5.0, 2000.0])
def test_the_decision_flips_at_the_same_score(sigmoid):
    X, y = holey()
    text = train(X, y, 1, objective="binary", sigmoid=sigmoid).model_to_string()
    rng = np.random.default_rng(0)
    seen = set()
    for scale in (2.0**-55, 2.0**-54, 2.0**-50, 1.0, 1e3):
        ladder = np.arange(-7, 8) * scale / sigmoid

        def change(block, ladder=ladder):
            return with_line(block, "leaf_value", rng.permutation(ladder))

        booster = lightgbm.Booster(model_str=rebuilt(text, change))
        forest = read_lightgbm(booster)
        assert_answers_alike(booster, forest, X)
        seen |= set(forest.predict(X).tolist())
    assert seen == {0, 1}


@pytest.mark.parametrize(
    ("objective", "scores"),
    [
        ("multiclass", [-1e-20, 0.0, -5.0]),
        ("multiclass", [-800.0, -1e-20, 0.0]),
        ("multiclassova", [40.0, 50.0, 1.0]),
        ("multiclassova", [-800.0, -900.0, -750.0]),
    ],
)
def test_classes_whose_probabilities_round_to_the_same_tie(objective, scores):
    X, y = holey("wine")
    text = train(
        X, y, 1, objective=objective, num_class=3, min_data_in_leaf=1000
    ).model_to_string()
    left = iter(scores)
    text = rebuilt(text, lambda block: with_line(block, "leaf_value", [next(left)]))
    booster = lightgbm.Booster(model_str=text)
    forest = read_lightgbm(booster)
    assert_answers_alike(booster, forest, X[:1])
    # The first of the best wins, though a later one has the larger raw score.
    assert forest.predict(X[:1])[0] < np.argmax(scores)


@pytest.mark.parametrize("name", ["adult", "nomao", "covertype", "letter"])
def test_real_data_is_answered_exactly(name):
    X, y = datasets.real(name, 3000)
    labels = np.array([f"class {label}" for label in y])
    model = LGBMClassifier(n_estimators=12, **QUIET).fit(X[:2000], labels[:2000])
    forest = read_model(model)
    for rows in (X, X.astype(np.float32)):
        np.testing.assert_array_equal(
            forest.decision_function(rows), model.predict(rows, raw_score=True)
        )
        np.testing.assert_array_equal(forest.predict(rows), model.predict(rows))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8, bool])
def test_whole_numbers_are_answered_alike(dtype):
    X, y = datasets.bundled("digits")
    booster = train(X, y, 3, objective="multiclass", num_class=10)
    rows = X.astype(dtype)
    assert_answers_alike(booster, read_lightgbm(booster), rows)
    assert_answers_alike(booster, read_lightgbm(booster), np.asfortranarray(rows))


def test_zero_rows_have_zero_answers():
    X, y = holey()
    forest = read_lightgbm(train(X, y, objective="binary"))
    assert forest.predict(X[:0]).shape == (0,)
    assert forest.predict_proba(X[:0]).shape == (0, 2)


def test_one_tree_is_enough():
    X, y = holey()
    assert assert_exact(train(X, y, 1, objective="binary")).n_trees == 1


@pytest.mark.parametrize("boosting", BOOSTERS)
def test_trees_that_are_a_single_leaf_are_read(boosting):
    X, y = holey("wine")
    parameters = BOOSTERS[boosting] | {"min_data_in_leaf": 1000}
    forest = assert_exact(
        train(X, y, 3, objective="multiclass", num_class=3, **parameters)
    )
    assert forest.depths.max() == 0


def test_single_leaves_among_other_trees_are_read():
    # Three rows of the third class cannot be split off, the others can.
    X, y = holey("wine")
    keep = (y < 2) | (np.cumsum(y == 2) <= 3)
    forest = assert_exact(
        train(
            X[keep],
            y[keep],
            4,
            objective="multiclass",
            num_class=3,
            min_sum_hessian_in_leaf=5,
        )
    )
    assert set(np.unique(forest.depths)) > {0}


# ------------------------------------------------------------------ estimators


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [-1, 1], [2.0, 7.0], [False, True], ["a", "b", "c"]]
)
def test_labels_of_a_classifier_are_its_own(labels):
    X, y = holey("wine")
    y = np.array(labels)[y % len(labels)]
    model = LGBMClassifier(n_estimators=6, **QUIET).fit(X, y)
    forest = read_model(model)
    expected = model.predict(X)
    assert forest.predict(X).dtype == expected.dtype
    np.testing.assert_array_equal(forest.predict(X), expected)
    np.testing.assert_allclose(
        forest.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-15
    )


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova", "cross_entropy"])
def test_two_classes_may_be_trained_with_any_objective_for_classes(objective):
    X, y = holey()
    classes = {"num_class": 2} if objective.startswith("multi") else {}
    model = LGBMClassifier(n_estimators=5, objective=objective, **classes, **QUIET)
    model.fit(X, y)
    np.testing.assert_array_equal(read_model(model).predict(X), model.predict(X))


def test_regressors_and_rankers_are_read_exactly():
    X, y = holey("diabetes")
    regressor = LGBMRegressor(n_estimators=8, **QUIET).fit(X, y)
    np.testing.assert_array_equal(
        read_model(regressor).predict(X), regressor.predict(X)
    )
    ranker = LGBMRanker(n_estimators=8, **QUIET)
    ranker.fit(
        X, (y > 100).astype(int) + (y > 200), group=[len(X) // 2, -(-len(X) // 2)]
    )
    np.testing.assert_array_equal(read_model(ranker).predict(X), ranker.predict(X))


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
@pytest.mark.parametrize("boosting", ["gbdt", "rf"])
def test_early_stopping_keeps_the_trees_up_to_the_best_iteration(boosting):
    X, y = holey("wine")
    model = LGBMClassifier(
        n_estimators=60, learning_rate=0.5, **QUIET, **BOOSTERS[boosting]
    )
    model.fit(
        X[::2],
        y[::2],
        eval_set=[(X[1::2], y[1::2])],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
    )
    best = model.best_iteration_
    assert 0 < best < 60
    forest = read_model(model)
    assert forest.n_trees == 3 * best
    assert_answers_alike(model.booster_, forest, X)


def test_a_booster_that_kept_trees_beyond_the_best_iteration_leaves_them_out():
    X, y = holey()
    data = lightgbm.Dataset(X[::2], y[::2])
    booster = lightgbm.train(
        SMALL | {"objective": "binary", "learning_rate": 0.5},
        data,
        60,
        valid_sets=[data.create_valid(X[1::2], y[1::2])],
        callbacks=[lightgbm.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    assert 0 < booster.best_iteration < booster.current_iteration()
    assert assert_exact(booster).n_trees == booster.best_iteration


def test_trees_added_by_a_second_training_are_read():
    X, y = holey()
    first = train(X, y, 5, objective="binary")
    second = lightgbm.train(
        SMALL | {"objective": "binary"}, lightgbm.Dataset(X, y), 4, init_model=first
    )
    assert assert_exact(second).n_trees == 9


# ------------------------------------------------------------------ data frames


def test_names_of_columns_are_kept():
    X, y = holey()
    names = ["größe", "a b", "x\u00a0y", "k=v", *map(str, range(X.shape[1] - 4))]
    booster = train(pd.DataFrame(X, columns=names), y, 2, objective="binary")
    forest = read_lightgbm(booster)
    assert forest.feature_names == tuple(booster.feature_name())
    np.testing.assert_array_equal(
        forest.decision_function(X), booster.predict(X, raw_score=True)
    )


def frame_with_category_column(categories):
    X, y = with_categories()
    codes = X[:, 2]
    frame = pd.DataFrame({"number": X[:, 1]})
    frame["kind"] = pd.Categorical.from_codes(
        np.where(np.isnan(codes), -1, codes).astype(int), categories
    )
    return frame, y


def test_a_category_column_that_was_not_declared_is_refused_with_what_to_do():
    frame, y = frame_with_category_column(list("abcde"))
    frame = frame[["kind", "number"]]
    frame["number"] = frame["number"].gt(0).astype(int)
    booster = train(frame, y, 2, objective="binary", categorical_feature=["number"])
    forest = read_lightgbm(booster)
    with pytest.raises(InvalidArgumentError, match="categorical_feature='auto'"):
        forest.predict(frame)


def test_category_columns_whose_values_are_their_codes_are_read():
    frame, y = frame_with_category_column([0, 1, 2, 3, 4])
    booster = train(frame, y, objective="binary", min_data_per_group=5)
    forest = read_lightgbm(booster)
    assert (forest.category_set >= 0).any()
    # The second frame has a category that was not there in training.
    for kinds in (frame["kind"], pd.Categorical(np.resize([4, 9, 0, 2], len(frame)))):
        frame["kind"] = kinds
        np.testing.assert_array_equal(
            forest.decision_function(frame.astype(float)),
            booster.predict(frame, raw_score=True),
        )


@pytest.mark.parametrize(
    "categories",
    [
        [1, 2, 3, 4, 5],
        [4, 3, 2, 1, 0],
        list("abcde"),
        [0.0, 1, 2, 3, 4],
        [0.5, -1.5, 2.0, 3.0, 1e300],
        ["", "ü", "\n", "日本", "end of parameters"],
    ],
)
def test_category_columns_are_mapped_as_lightgbm_does(categories):
    frame, y = frame_with_category_column(categories)
    booster = train(frame, y, objective="binary", min_data_per_group=5)
    forest = read_lightgbm(booster)
    column, at = "kind", 1
    assert forest.categories_[at] == tuple(frame[column].cat.categories)
    other = frame.copy()
    unseen = "new" if isinstance(categories[0], str) else 77
    other[column] = other[column].cat.set_categories([unseen, *categories[::-1]])
    other.iloc[::5, at] = unseen
    other.iloc[::7, at] = None
    for rows in (frame, other):
        raw = booster.predict(rows, raw_score=True)
        np.testing.assert_array_equal(forest.decision_function(rows), raw)
    codes = frame.copy()
    codes[column] = codes[column].cat.codes
    np.testing.assert_array_equal(
        forest.decision_function(codes.to_numpy(float)),
        booster.predict(frame, raw_score=True),
    )


@pytest.mark.parametrize("categories", [[0, 1], [0, 1, 2], [1.0, 0.0, 3.0]])
def test_categories_of_booleans_meet_numbers_as_in_lightgbm(categories):
    kind = np.array(categories)[np.arange(300) % len(categories)]
    frame = pd.DataFrame({"kind": pd.Categorical(kind, categories=categories)})
    booster = train(frame, kind == 1, objective="binary", min_data_per_group=5)
    forest = read_lightgbm(booster)
    for values in ([False, True], [True, False]):
        other = pd.DataFrame({"kind": pd.Categorical(kind == 1, categories=values)})
        np.testing.assert_array_equal(
            forest.decision_function(other), booster.predict(other, raw_score=True)
        )


def test_a_model_of_the_oldest_version_maps_a_frame_as_it_did():
    stored = json.loads((MODELS / "frame-v4.json").read_text(encoding="utf-8"))
    assert stored["lightgbm"] == "4.0.0"
    forest = read_model(MODELS / "frame-v4.txt")
    frame = pd.DataFrame(stored["frame"]).astype({"size": "category"})
    for rows in (frame, frame.astype({"job": "category"})):
        np.testing.assert_array_equal(
            forest.decision_function(rows), stored["raw_of_frame"]
        )


def test_category_columns_that_cannot_be_told_apart_are_refused():
    frame, y = frame_with_category_column(list("abcde"))
    frame["more"] = frame["kind"].cat.as_ordered()
    booster = train(frame, y, objective="binary", min_data_per_group=5)
    with pytest.raises(UnsupportedModelError, match=r"(?s)2 category columns.*Hint"):
        read_lightgbm(booster)


def test_categories_of_several_types_are_refused():
    frame, y = frame_with_category_column(list("abcde"))
    text = train(frame, y, objective="binary").model_to_string()
    line = 'pandas_categorical:[["a", '
    assert line in text
    with pytest.raises(UnsupportedModelError, match="several types"):
        read_lightgbm_text(text.replace(line, "pandas_categorical:[[1, "))


# ------------------------------------------------------------------ inner nodes


@pytest.mark.parametrize("boosting", BOOSTERS)
@pytest.mark.parametrize("objective", ["binary", "regression", "regression_l1"])
def test_inner_nodes_have_values_on_the_scale_of_their_leaves(objective, boosting):
    X, y = holey("breast_cancer")
    y = y if objective == "binary" else np.nanmean(X, axis=1)
    forest = read_lightgbm(train(X, y, 5, objective=objective, **BOOSTERS[boosting]))
    inner = np.flatnonzero(forest.feature >= 0)
    lowest, highest = forest.value[:, 0].copy(), forest.value[:, 0].copy()
    for node in inner[::-1]:  # in these trees children come after their parents
        below = [forest.left[node], forest.right[node]]
        lowest[node], highest[node] = lowest[below].min(), highest[below].max()
    slack = 1e-5 * np.abs(forest.value).max()  # six digits
    assert (forest.value[inner, 0] >= lowest[inner] - slack).all()
    assert (forest.value[inner, 0] <= highest[inner] + slack).all()


def test_renewed_leaves_give_their_inner_nodes_the_mean():
    X, y = holey("diabetes")
    forest = read_lightgbm(train(X, y, 2, objective="quantile", alpha=0.3))
    for tree in range(2):
        root = forest.tree_offsets[tree]
        nodes = np.arange(root, forest.tree_offsets[tree + 1])
        leaves = nodes[forest.feature[nodes] < 0]
        mean = np.average(
            forest.value[leaves, 0], weights=forest.n_node_samples[leaves]
        )
        assert forest.value[root, 0] == pytest.approx(mean, rel=1e-12)


def test_nodes_know_how_many_training_rows_they_had():
    X, y = holey()
    forest = read_lightgbm(train(X, y, objective="binary"))
    samples = forest.n_node_samples
    assert (samples[forest.tree_offsets[:-1]] == len(X)).all()
    inner = forest.feature >= 0
    np.testing.assert_array_equal(
        samples[inner], samples[forest.left[inner]] + samples[forest.right[inner]]
    )


# ------------------------------------------------------------------ text files


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.txt")), ids=lambda p: p.stem)
def test_stored_models_answer_as_on_the_day_they_were_trained(path):
    stored = json.loads(path.with_suffix(".json").read_text())
    rows = np.array(stored["rows"])
    forest = read_model(path)
    raw = np.array(stored["raw"])
    if forest.aggregation == "mean":
        raw /= forest.n_trees // forest.n_outputs
    np.testing.assert_array_equal(forest.decision_function(rows), raw)
    predicted = np.array(stored["predicted"])
    if forest.classes is None:
        ours = forest.predict(rows)
    else:
        ours = forest.predict_proba(rows)
        ours = ours[:, 1] if predicted.ndim == 1 else ours
    np.testing.assert_allclose(ours, predicted, rtol=1e-15, atol=1e-15)


def test_a_file_on_disk_is_read(tmp_path):
    X, y = holey("wine")
    booster = train(X, y, 4, objective="multiclass", num_class=3)
    booster.save_model(tmp_path / "model.txt")
    assert_answers_alike(booster, read_model(tmp_path / "model.txt"), X)
    assert_answers_alike(booster, read_model(str(tmp_path / "model.txt")), X)


def test_text_is_read_without_lightgbm(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    assert read_lightgbm_text((MODELS / "binary-v4.txt").read_text()).n_trees == 4


def test_older_text_without_some_lines_is_read():
    X, y = holey("wine")
    new = train(X, y, 4, objective="multiclass", num_class=3, min_data_in_leaf=1000)
    old = rebuilt(
        new.model_to_string().replace("version=v4", "version=v3"),
        lambda block: with_line(block.replace("is_linear=0\n", ""), "leaf_count", []),
    )
    forest = read_lightgbm_text(old)
    assert forest.n_node_samples is None
    assert_answers_alike(lightgbm.Booster(model_str=old), forest, X)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "regression", "linear_tree": True}, "linear_tree=False"),
        ({"objective": "regression", "reg_sqrt": True}, "reg_sqrt"),
        ({"objective": "cross_entropy_lambda"}, "cross_entropy_lambda"),
        ({"objective": "binary", "sigmoid": 0.123456789}, "six digits"),
        ({"objective": "binary", "sigmoid": 1e-18}, "larger sigmoid"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused_with_a_hint(parameters, message):
    X, y = datasets.bundled("breast_cancer")
    booster = train(X, y, 3, **parameters)
    with pytest.raises(UnsupportedModelError, match=f"(?s){message}") as caught:
        read_lightgbm(booster)
    assert "\nHint: " in str(caught.value)


def test_a_sigmoid_that_lost_digits_can_be_read_from_the_saved_text():
    X, y = holey()
    booster = train(X, y, 3, objective="binary", sigmoid=0.123456789)
    assert_exact(lightgbm.Booster(model_str=booster.model_to_string()))


def test_estimators_that_answer_differently_from_their_booster_are_refused():
    X, y = holey()

    def own(y, scores):
        return scores - y, np.ones_like(scores)

    for model, message in [
        (LGBMClassifier(pred_early_stop=True), "pred_early_stop"),
        (LGBMClassifier(objective=own), "no class probabilities"),
        (LGBMClassifier(objective="regression"), "no class probabilities"),
        (LGBMRegressor(objective="binary"), "predicts probabilities"),
        (LGBMClassifier(objective="multiclass", num_class=4), "2 classes.*num_class=4"),
    ]:
        model.set_params(n_estimators=3, **QUIET).fit(X, y)
        with pytest.raises(UnsupportedModelError, match=message):
            read_model(model)


@pytest.mark.parametrize("kind", [LGBMClassifier, LGBMRegressor, LGBMRanker])
def test_an_untrained_estimator_is_not_fitted(kind):
    with pytest.raises(NotFittedError, match=f"{kind.__name__} has not been trained"):
        read_model(kind())


def test_other_objects_of_lightgbm_are_refused():
    X, y = holey()
    data = lightgbm.Dataset(X, y, params=QUIET)
    with pytest.raises(UnsupportedModelError, match="Dataset is not a single trained"):
        read_model(data)
    with pytest.raises(UnsupportedModelError, match="one of its boosters"):
        read_model(lightgbm.CVBooster())
    untrained = lightgbm.Booster(SMALL | {"objective": "binary"}, data)
    with pytest.raises(UnsupportedModelError, match="no trees"):
        read_model(untrained)


@pytest.fixture(scope="module")
def sound():
    """A model text that has everything in it: categories, names, several classes."""
    X, y = with_categories()
    return train(
        X,
        y + (X[:, 1] > 1),
        2,
        [0, 2],
        objective="multiclass",
        num_class=3,
        num_leaves=5,
        min_data_per_group=5,
        cat_smooth=1,
    ).model_to_string()


def test_a_text_cut_off_anywhere_in_its_trees_is_refused(sound):
    end = sound.index("end of trees") + len("end of trees")
    read_lightgbm_text(sound)
    for length in range(0, end + 1, 7):
        with pytest.raises(UnsupportedModelError):
            read_lightgbm_text(sound[:length])


def test_a_text_cut_off_in_its_parameters_is_refused(sound):
    start, end = sound.index("\nparameters:"), sound.index("\nend of parameters")
    for length in range(start + len("\nparameters:"), end, 301):
        with pytest.raises(UnsupportedModelError, match="inside the parameters"):
            read_lightgbm_text(sound[:length])


NEEDED = (
    *("num_leaves", "num_cat", "split_feature", "threshold", "decision_type"),
    *("left_child", "right_child", "leaf_value", "internal_value", "internal_count"),
    *("cat_boundaries", "cat_threshold"),
)


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize(
    "words", [None, "", "x", "1", "-1", "99999999999999999999", "nan", "4294967296"]
)
def test_a_damaged_line_is_named_or_seen(sound, name, words):
    def change(block):
        line = "" if words is None else f"{name}={words}\n"
        return re.sub(f"(?m)^{name}=.*\n", line, block)

    with pytest.raises(UnsupportedModelError, match=r"damaged.*\nHint: save") as caught:
        read_lightgbm_text(rebuilt(sound, change))
    if words is None or words == "x":
        assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", ["left_child", "right_child", "split_feature"])
@pytest.mark.parametrize("number", [-(2**40), -6, -1, 4, 2**31, 2**40])
def test_nodes_that_make_no_tree_are_refused(sound, name, number):
    # Twice the same child makes no tree, wherever it points; there are 4 columns.
    def change(block):
        numbers = [int(word) for word in numbers_in(block, name)]
        return with_line(block, name, [number, number, *numbers[2:]])

    with pytest.raises(UnsupportedModelError, match="damaged"):
        read_lightgbm_text(rebuilt(sound, change))


def test_a_circle_of_nodes_is_refused(sound):
    # The second and the third node are each other's left children.
    def change(block):
        return with_line(block, "left_child", [-1, 2, 1, -2])

    with pytest.raises(UnsupportedModelError, match="damaged"):
        read_lightgbm_text(rebuilt(sound, change))


@pytest.mark.parametrize(
    "forgery",
    [
        ("max_feature_idx=3", "max_feature_idx=2000000000"),
        ("max_feature_idx=3", "max_feature_idx=-2"),
        ("num_tree_per_iteration=3", "num_tree_per_iteration=0"),
        ("num_tree_per_iteration=3", "num_tree_per_iteration=2000000000"),
        ("num_tree_per_iteration=3", "num_tree_per_iteration=1"),
        ("tree_sizes=", "tree_sizes=9000000000000000000 "),
        ("tree_sizes=", "tree_sizes=-5 "),
        ("tree_sizes=", "sizes="),
        ("objective=multiclass", "objective=binary sigmoid:1"),
        ("objective=multiclass num_class:3", "objective=multiclassova sigmoid:-1"),
        ("objective=multiclass num_class:3", "objective=multiclassova sigmoid:x"),
        ("feature_names=", "feature_names=one_more "),
        ("version=v4", "version=v1"),
        ("version=v4", "version=v5"),
        ("version=v4", "version=v4\nversion=v3"),
        ("version=v4", "version=v2\naverage_output"),
        ("tree\n", "forest\n"),
        ("pandas_categorical:null", "pandas_categorical:[[0, 1"),
        ("pandas_categorical:null", "pandas_categorical:7"),
        ("pandas_categorical:null", "pandas_categorical:" + "[" * 100_000),
    ],
    ids=lambda forgery: forgery[1][:40],
)
def test_forged_text_is_refused_without_taking_memory(sound, forgery):
    assert forgery[0] in sound
    with pytest.raises(UnsupportedModelError):
        read_lightgbm_text(sound.replace(*forgery))


def test_random_damage_is_refused_or_harmless(sound):
    rng = np.random.default_rng(0)
    end = sound.index("end of trees")
    alphabet = list("0123456789-=. \nxe")
    for _ in range(200):
        at = int(rng.integers(end))
        text = sound[:at] + str(rng.choice(alphabet)) + sound[at + 1 :]
        try:
            forest = read_lightgbm_text(text)
        except UnsupportedModelError:
            continue
        assert np.isfinite(forest.decision_function(np.ones((1, 4)))).all()


@pytest.mark.parametrize(
    "line", ["version=v4\n", "max_feature_idx=", "objective=multiclass", "num_cat="]
)
def test_what_a_future_version_may_add_is_refused(sound, line):
    new = f"{line} strange:1" if "objective" in line else f"tree_scale=0.5\n{line}"
    if line == "num_cat=":  # the sizes of the trees change with it
        start, end = sound.index("Tree=0"), sound.index("Tree=1")
        block = sound[start:end].replace(line, new)
        sizes = re.search(r"tree_sizes=(\d+)", sound)
        head = sound[:start].replace(sizes.group(), f"tree_sizes={len(block)}")
        forged = head + block + sound[end:]
    else:
        forged = sound.replace(line, new, 1)
    with pytest.raises(UnsupportedModelError, match=r"does not know .'(tree_scale|st)"):
        read_lightgbm_text(forged)


def test_a_row_by_name_or_with_categories_is_rounded_as_little_as_a_frame():
    rng = np.random.default_rng(0)
    numbers = 2**24 + rng.integers(0, 64, 400) / 4
    frame = pd.DataFrame({"a": numbers, "b": pd.Categorical(["x", "y"] * 200)})
    booster = train(frame, numbers % 2 > 1, 5, objective="binary", min_data_in_bin=1)
    predict_one = spinney.accelerate(booster).predictor()
    expected = booster.predict(frame[:50])
    for as_row in (dict, lambda row: list(row.values())):
        rows = frame[:50].to_dict("records")
        assert [predict_one(as_row(row)) for row in rows] == expected.tolist()


@pytest.mark.parametrize(
    "dtype", [np.int64, np.int32, np.uint64, object, np.longdouble, ">f8"]
)
def test_numbers_beyond_float32_are_rounded_as_lightgbm_does(dtype):
    rng = np.random.default_rng(0)
    X = 2**24 + rng.integers(0, 64, (400, 3))
    y = X.sum(axis=1) % 3 > 0
    settings = {"n_estimators": 5, "min_child_samples": 2, "verbose": -1, "n_jobs": 1}
    model = LGBMClassifier(**settings).fit(X.astype(np.float64), y)
    forest, booster = read_model(model), read_model(model.booster_)
    rows = X.astype(dtype)
    assert (model.booster_.predict(rows) != model.booster_.predict(X * 1.0)).any()
    for own, read in ((model, forest), (model.booster_, booster)):
        np.testing.assert_array_equal(read.predict_model(rows), own.predict(rows))
        fast = spinney.accelerate(own)
        np.testing.assert_array_equal(fast.predict(rows), own.predict(rows))
    if np.dtype(dtype).kind in "iu":
        frame = pd.DataFrame(rows)
        np.testing.assert_array_equal(
            booster.predict_model(frame), model.booster_.predict(frame)
        )
        np.testing.assert_array_equal(
            booster.predict_model(rows.tolist()), model.booster_.predict(rows.tolist())
        )


@pytest.mark.parametrize("objective", ["multiclass", "poisson", "gamma", "tweedie"])
def test_exponentials_have_the_bits_of_the_c_library(objective, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = np.clip(np.round(np.exp(X[:, 0]) + rng.random(3000)), 1, 8)
    settings = {"objective": objective, "n_estimators": 20, **QUIET}
    if objective == "multiclass":
        model = LGBMClassifier(**settings).fit(X, y)
        of = "predict_proba"
    else:
        model = LGBMRegressor(**settings).fit(X, y)
        of = "predict"
    expected = getattr(model, of)(X)
    forest, exact = read_model(model), spinney.accelerate(model)
    for number, ours in enumerate((forest, exact)):
        spinney.save(ours, tmp_path / f"{number}.spinney")
        for same in (ours, spinney.load(tmp_path / f"{number}.spinney")):
            np.testing.assert_array_equal(getattr(same, of)(X), expected)
        one = ours.predictor(**{"kind": "proba"} if of == "predict_proba" else {})
        for row, answer in zip(X[:300], expected, strict=False):
            np.testing.assert_array_equal(getattr(ours, of)(row[None])[0], answer)
            np.testing.assert_array_equal(one(row), answer)
