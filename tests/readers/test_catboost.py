"""CatBoost: labels, raw scores and probabilities against the library's own."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import datasets
import reference
from spinney import UnsupportedModelError, read_model
from spinney.readers.catboost import read_catboost_document

STORED = Path(__file__).parents[1] / "models" / "catboost"

# CatBoost's softmax and exponential use a fast exponential function that is off by a
# few units in the last place, and sums of such numbers by a few more.
FAST_EXP = 1e-13


@pytest.fixture(scope="module")
def catboost():
    return pytest.importorskip("catboost")


def settings(**changes):
    """Return parameters for a small model that writes nothing anywhere."""
    return {
        "iterations": 20,
        "depth": 4,
        "random_seed": 0,
        "thread_count": 2,
        "verbose": False,
        "allow_writing_files": False,
    } | changes


def raw_of(model, X):
    from catboost import CatBoost

    # The method of the base class: a ranker's own takes no prediction type.
    raw = CatBoost.predict(model, X, prediction_type="RawFormulaVal")
    return np.asarray(raw).reshape(len(X), -1)


def exported(model, path):
    model.save_model(str(path), format="json")
    return json.loads(path.read_text(encoding="utf-8"))


def hard_rows(forest, n_rows=400, seed=0):
    """Return float64 rows of values on and around thresholds, and special ones.

    Between a border and the float32 above it lie float64 numbers that go left or
    right according to which of the two they are rounded to.
    """
    rng = np.random.default_rng(seed)
    columns = []
    for feature in range(forest.n_features):
        border = np.unique(forest.threshold[forest.feature == feature])
        with np.errstate(over="ignore"):
            narrow = border.astype(np.float32)
            above = np.nextafter(narrow, np.float32(np.inf)).astype(np.float64)
            below = np.nextafter(narrow, np.float32(-np.inf)).astype(np.float64)
        middle = border / 2 + above / 2
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e39, -1e39, 1e-46, 5e-324]
        candidates = [border, above, below, middle, special]
        candidates += [np.nextafter(border, -np.inf), np.nextafter(border, np.inf)]
        candidates += [np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)]
        columns.append(rng.choice(np.concatenate(candidates), n_rows))
    return np.stack(columns, axis=1)


def agree(model, X):
    """Check the forest of `model` against it on `X` and on hard rows; return it."""
    forest = read_model(model)
    hard = hard_rows(forest)
    with np.errstate(over="ignore", under="ignore"):
        hard32 = hard.astype(np.float32)
    for rows in (X, np.asarray(X, dtype=np.float32), hard, hard32):
        expected = raw_of(model, rows)
        raw = forest.decision_function(rows).reshape(expected.shape)
        assert np.array_equal(raw, expected)
        own = model.predict(rows)
        found = forest.predict_model(rows)
        if own.dtype.kind == "f":
            np.testing.assert_allclose(found, own.reshape(found.shape), rtol=1e-13)
        else:
            assert np.array_equal(found, own.ravel())
        if forest.classes_ is not None:
            labels = model.predict(rows, prediction_type="Class").ravel()
            assert np.array_equal(forest.predict(rows), labels)
    few = hard[:50]
    assert np.array_equal(reference.raw(forest, few), raw_of(model, few))
    return forest


# ---------------------------------------------------------------- exactness


@pytest.fixture(scope="module")
def cancer():
    X, y = datasets.bundled("breast_cancer")
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X, gaps, y


@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
def test_two_classes_agree_bit_for_bit_with_missing_values(
    catboost, cancer, policy, nan_mode
):
    _, X, y = cancer
    params = settings(grow_policy=policy, nan_mode=nan_mode)
    model = catboost.CatBoostClassifier(**params).fit(X, y)
    forest = agree(model, X)
    assert forest.aggregation == "sum"
    assert forest.link == "logistic"
    assert forest.classes_.dtype == np.int64
    assert np.array_equal(forest.predict_proba(X), model.predict_proba(X))


def test_missing_values_that_training_never_saw_go_left(catboost, cancer):
    X, gaps, y = cancer
    for nan_mode in ("Min", "Max"):
        params = settings(nan_mode=nan_mode)
        model = catboost.CatBoostClassifier(**params).fit(X, y)
        forest = agree(model, gaps)
        assert forest.missing_left.all()


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
@pytest.mark.parametrize("loss", ["MultiClass", "MultiClassOneVsAll"])
def test_several_classes_agree_bit_for_bit(catboost, policy, loss):
    X, y = datasets.bundled("digits")
    params = settings(grow_policy=policy, loss_function=loss, iterations=12)
    model = catboost.CatBoostClassifier(**params).fit(X, y)
    forest = agree(model, X)
    expected = model.predict_proba(X)
    tolerance = FAST_EXP if loss == "MultiClass" else 0
    np.testing.assert_allclose(forest.predict_proba(X), expected, rtol=tolerance)


@pytest.mark.parametrize(
    "loss",
    ["RMSE", "MAE", "Quantile:alpha=0.3", "Huber:delta=3", "LogLinQuantile", "Cox"],
)
def test_regressors_agree_bit_for_bit(catboost, loss):
    X, y = datasets.bundled("diabetes")
    model = catboost.CatBoostRegressor(**settings(loss_function=loss)).fit(X, y)
    forest = agree(model, X)
    assert forest.classes_ is None
    assert np.array_equal(forest.predict(X), model.predict(X))


@pytest.mark.parametrize("loss", ["Poisson", "Tweedie:variance_power=1.5"])
def test_regressors_on_a_log_scale_agree_but_for_the_exponential(catboost, loss):
    X, y = datasets.bundled("diabetes")
    model = catboost.CatBoostRegressor(**settings(loss_function=loss)).fit(X, y)
    forest = agree(model, X)
    np.testing.assert_allclose(forest.predict(X), model.predict(X), rtol=FAST_EXP)


@pytest.mark.parametrize("loss", ["MultiRMSE", "MultiQuantile:alpha=0.1,0.9"])
def test_regressors_of_several_numbers_agree_bit_for_bit(catboost, loss):
    X, y = datasets.bundled("diabetes")
    target = np.stack([y, -2 * y], axis=1) if loss == "MultiRMSE" else y
    model = catboost.CatBoostRegressor(**settings(loss_function=loss)).fit(X, target)
    forest = agree(model, X)
    assert np.array_equal(forest.predict(X), model.predict(X))


def test_a_ranker_agrees_bit_for_bit(catboost):
    X, y = datasets.bundled("diabetes")
    group = np.arange(len(y)) // 10
    model = catboost.CatBoostRanker(**settings(loss_function="QueryRMSE"))
    model.fit(X, y / y.max(), group_id=group)
    assert np.array_equal(agree(model, X).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("adult", {"iterations": 60, "depth": 6}),
        ("magic", {"iterations": 40, "depth": 10}),
        ("letter", {"iterations": 20, "depth": 5}),
        ("letter", {"iterations": 20, "grow_policy": "Depthwise"}),
    ],
)
def test_real_data_agree_bit_for_bit(catboost, name, changes):
    X, y = datasets.real(name, n_rows=4000)
    model = catboost.CatBoostClassifier(**settings(**changes)).fit(X[:2000], y[:2000])
    agree(model, X)


def test_denormal_numbers_are_compared_not_flushed(catboost):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * [1e-42, 1e-38]
    y = X[:, 0] * 1e42 + X[:, 1] * 1e38 > 0
    model = catboost.CatBoostClassifier(**settings()).fit(X, y)
    forest = agree(model, X)
    assert (np.abs(forest.threshold[forest.feature == 0]) < 1e-38).all()


def test_trees_without_a_split_are_single_leaves(catboost, tmp_path):
    X, y = datasets.bundled("iris")
    model = catboost.CatBoostClassifier(**settings(iterations=6)).fit(X, y)
    document = exported(model, tmp_path / "model.json")
    for tree in document["oblivious_trees"][1::2]:
        tree |= {"splits": None, "leaf_weights": [150]}
        tree["leaf_values"] = tree["leaf_values"][:3]
    path = tmp_path / "shortened.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    model = catboost.CatBoostClassifier().load_model(str(path), format="json")
    assert agree(model, X).depths.tolist() == [4, 0, 4, 0, 4, 0]


# ---------------------------------------------------------------- decisions


def with_constant_score(catboost, document, score, path):
    """Return a classifier whose raw score is `score` on every row."""
    document = copy.deepcopy(document)
    document["scale_and_bias"] = [1, [score]]
    for tree in document["oblivious_trees"]:
        tree["leaf_values"] = [0.0] * len(tree["leaf_values"])
    path.write_text(json.dumps(document), encoding="utf-8")
    return catboost.CatBoostClassifier().load_model(str(path), format="json")


@pytest.mark.parametrize("probability", [None, 0.3, 0.7, 0.99, 1e-5, 0.0, 1.0])
def test_the_decision_turns_at_the_same_score(catboost, cancer, probability, tmp_path):
    X, _, y = cancer
    model = catboost.CatBoostClassifier(**settings(iterations=1)).fit(X, y)
    model.set_probability_threshold(probability)
    forest = agree(model, X)
    turn = forest.decision_threshold
    document = exported(model, tmp_path / "model.json")
    seen = set()
    # With probabilities 0 and 1 the turn lies at an end of the line of numbers.
    turns = [turn, np.nextafter(turn, -np.inf)] if abs(turn) < 1e300 else []
    for score in (*turns, 0.0, 5e-324, -5e-324, 1e300, -1e300):
        path = tmp_path / "constant.json"
        constant = with_constant_score(catboost, document, float(score), path)
        label = read_model(constant).predict(X[:1])
        assert label == constant.predict(X[:1])
        seen.add(int(label[0]))
    assert seen == ({0, 1} if turns else {1 - int(probability)})


@pytest.mark.parametrize(
    "labels",
    [
        [5, 7],
        [-1, 1],
        [0.5, 2.5],
        [0.0, 1.0],
        ["no", "yes"],
        ["0", "1"],
        [False, True],
        ["a", "b", "c"],
        [10, 20, 30],
    ],
    ids=str,
)
def test_labels_keep_their_values_and_types(catboost, labels):
    X, y = datasets.bundled("iris")
    kept = y < len(labels)
    X, y = X[kept], np.array(labels)[y[kept]]
    model = catboost.CatBoostClassifier(**settings(iterations=5)).fit(X, y)
    forest = agree(model, X)
    assert forest.classes_.dtype == forest.predict(X).dtype == model.predict(X).dtype
    assert np.array_equal(forest.classes_, model.classes_)


def test_labels_in_another_order_stay_in_that_order(catboost):
    X, y = datasets.bundled("iris")
    names = np.array(["low", "middle", "high"])
    params = settings(iterations=5, class_names=names.tolist())
    model = catboost.CatBoostClassifier(**params).fit(X, names[y])
    assert agree(model, X).classes_.tolist() == names.tolist()


def test_targets_that_are_probabilities_give_two_classes(catboost, cancer):
    X, _, y = cancer
    params = settings(loss_function="CrossEntropy")
    model = catboost.CatBoostClassifier(**params).fit(X, np.where(y, 0.8, 0.1))
    assert agree(model, X).classes_.tolist() == [0, 1]


def test_two_classes_under_a_multiclass_loss_have_two_outputs(catboost, cancer):
    X, _, y = cancer
    params = settings(loss_function="MultiClass")
    forest = agree(catboost.CatBoostClassifier(**params).fit(X, y), X)
    assert forest.n_outputs == 2


def test_the_plain_class_is_read_as_what_its_loss_makes_of_it(catboost, cancer):
    X, _, y = cancer
    model = catboost.CatBoost(settings(loss_function="Logloss")).fit(X, y)
    assert agree(model, X).classes_.tolist() == [0, 1]


def test_a_sum_of_models_is_read(catboost, cancer):
    X, _, y = cancer
    models = [
        catboost.CatBoostClassifier(**settings(random_seed=seed)).fit(X, y)
        for seed in range(2)
    ]
    summed = catboost.sum_models(models, weights=[0.3, 0.7])
    assert agree(summed, X).n_trees == 40


def test_only_the_trees_up_to_the_best_iteration_are_read(catboost, cancer):
    X, _, y = cancer
    params = settings(iterations=300, depth=6, learning_rate=0.5)
    model = catboost.CatBoostClassifier(**params)
    model.fit(X[:150], y[:150], eval_set=(X[150:], y[150:]), early_stopping_rounds=5)
    assert model.best_iteration_ + 1 < 300
    assert agree(model, X).n_trees == model.best_iteration_ + 1


def test_a_subclass_is_read(catboost, cancer):
    class OwnClassifier(catboost.CatBoostClassifier):
        pass

    X, _, y = cancer
    agree(OwnClassifier(**settings(iterations=5)).fit(X, y), X)


# ---------------------------------------------------------------- nodes


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide"])
def test_inner_nodes_hold_the_mean_of_the_training_rows_below(catboost, cancer, policy):
    X, _, y = cancer
    params = settings(grow_policy=policy, iterations=5)
    forest = read_model(catboost.CatBoostClassifier(**params).fit(X, y))
    assert (forest.n_node_samples[forest.tree_offsets[:-1]] == len(X)).all()
    leaves = reference.leaves(forest, X)
    rows_below = np.zeros(forest.n_nodes)
    np.add.at(rows_below, leaves.ravel(), 1)
    leaf = forest.feature == -1
    assert np.array_equal(forest.n_node_samples[leaf], rows_below[leaf])
    for tree, root in enumerate(forest.tree_offsets[:-1]):
        mean = forest.value[leaves[:, tree], 0].mean()
        assert forest.value[root, 0] == pytest.approx(mean, rel=1e-12)


def test_leaves_without_weights_count_alike(catboost, tmp_path):
    X, y = datasets.bundled("iris")
    model = catboost.CatBoostClassifier(**settings(iterations=3, depth=2)).fit(X, y)
    document = exported(model, tmp_path / "model.json")
    values = [np.reshape(t["leaf_values"], (4, 3)) for t in document["oblivious_trees"]]
    for tree in document["oblivious_trees"]:
        del tree["leaf_weights"]
    bare = read_catboost_document(document)
    assert bare.n_node_samples is None
    for tree in document["oblivious_trees"]:
        tree["leaf_weights"] = [0, 0, 0, 0]
    empty = read_catboost_document(document)
    for forest in (bare, empty):
        roots = forest.value[forest.tree_offsets[:-1]]
        np.testing.assert_allclose(roots, [v.mean(axis=0) for v in values], rtol=1e-12)


def test_columns_keep_their_places_and_names(catboost):
    pandas = pytest.importorskip("pandas")
    X, y = datasets.bundled("iris")
    frame = pandas.DataFrame(X, columns=["sl", "sw", "pl", "pw"])
    frame.insert(0, "always", 1.0)
    frame["unused"] = frame["pl"]
    params = settings(iterations=5, ignored_features=["unused"])
    model = catboost.CatBoostClassifier(**params).fit(frame, y)
    forest = read_model(model)
    assert forest.feature_names == tuple(frame.columns)
    assert np.array_equal(forest.predict(frame), model.predict(frame).ravel())
    unnamed = catboost.CatBoostClassifier(**params | {"ignored_features": [5]})
    assert read_model(unnamed.fit(frame.to_numpy(), y)).feature_names is None


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["multiclass-v1.2", "lossguide-v1.2"])
def test_stored_models_answer_as_they_did_when_they_were_stored(name):
    forest = read_model(STORED / f"{name}.json")
    with np.load(STORED / f"{name}.npz", allow_pickle=False) as stored:
        X, raw = stored["X"], stored["raw"]
        labels, probabilities = stored["labels"], stored["probabilities"]
    assert np.array_equal(forest.decision_function(X), raw)
    assert np.array_equal(forest.predict(X).astype(str), labels)
    np.testing.assert_allclose(forest.predict_proba(X), probabilities, rtol=FAST_EXP)


def test_a_json_export_is_read_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)  # importing it would fail
    assert read_model(STORED / "multiclass-v1.2.json").n_trees == 5


def test_a_binary_file_is_read_by_way_of_the_library(catboost, cancer, tmp_path):
    X, gaps, y = cancer
    model = catboost.CatBoostClassifier(**settings(iterations=5)).fit(gaps, y)
    model.set_probability_threshold(0.8)
    path = tmp_path / "model.cbm"
    model.save_model(str(path))
    forest = read_model(path)
    assert np.array_equal(forest.decision_function(X), raw_of(model, X)[:, 0])
    assert np.array_equal(forest.predict(gaps), model.predict(gaps))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UnsupportedModelError, match="CatBoost cannot load it"):
        read_model(path)


def test_a_binary_file_without_the_library_is_refused_with_a_way_out(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "catboost", None)
    path = tmp_path / "model.cbm"
    path.write_bytes(b"CBM1" + bytes(100))
    with pytest.raises(
        UnsupportedModelError, match=r"not installed.*\n.*format='json'"
    ):
        read_model(path)


def test_reading_leaves_no_file_behind(catboost, cancer, tmp_path, monkeypatch):
    X, _, y = cancer
    model = catboost.CatBoostClassifier(**settings(iterations=2)).fit(X, y)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    read_model(model)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    "kind", ["CatBoost", "CatBoostClassifier", "CatBoostRegressor"]
)
def test_a_model_that_was_not_trained_is_told_apart(catboost, kind):
    with pytest.raises(NotFittedError, match=f"{kind} has not been trained"):
        read_model(getattr(catboost, kind)())


def test_other_objects_of_the_library_are_refused(catboost):
    with pytest.raises(UnsupportedModelError, match="type Pool"):
        read_model(catboost.Pool([[1.0], [2.0]], [0, 1]))


def test_text_features_are_refused(catboost, cancer):
    pandas = pytest.importorskip("pandas")
    X, _, y = cancer
    frame = pandas.DataFrame({"x": X[:, 0], "text": np.where(y, "hi you", "bye me")})
    model = catboost.CatBoostClassifier(**settings(text_features=["text"]))
    with pytest.raises(UnsupportedModelError, match="text or embedding features"):
        read_model(model.fit(frame, y))


def test_losses_with_other_answers_are_refused(catboost, cancer):
    X, _, y = cancer
    several = catboost.CatBoostClassifier(**settings(loss_function="MultiLogloss"))
    with pytest.raises(UnsupportedModelError, match="several labels at once"):
        read_model(several.fit(X, np.stack([y, 1 - y], axis=1)))
    pair = catboost.CatBoostRegressor(**settings(loss_function="RMSEWithUncertainty"))
    with pytest.raises(UnsupportedModelError, match="a mean and a variance"):
        read_model(pair.fit(X, y))


def test_classes_that_never_occurred_are_refused(catboost):
    X, y = datasets.bundled("iris")
    params = settings(classes_count=5, loss_function="MultiClass")
    model = catboost.CatBoostClassifier(**params).fit(X, np.array([0, 1, 3])[y])
    with pytest.raises(UnsupportedModelError, match="5 classes and was trained on"):
        read_model(model)


def test_a_single_class_is_refused(catboost, cancer):
    X, _, y = cancer
    model = catboost.CatBoostClassifier(**settings(allow_const_label=True))
    with pytest.raises(UnsupportedModelError, match="1 classes"):
        read_model(model.fit(X, np.zeros_like(y)))


def test_a_scaled_model_is_refused(catboost, cancer):
    X, _, y = cancer
    model = catboost.CatBoostClassifier(**settings(iterations=3)).fit(X, y)
    model.set_scale_and_bias(0.3, 1.0)
    with pytest.raises(
        UnsupportedModelError, match=r"scale 0\.3.*\n.*set_scale_and_bias"
    ):
        read_model(model)
    model.set_scale_and_bias(1.0, 0.7)
    agree(model, X)


def test_a_model_without_trees_is_refused(catboost, cancer):
    X, _, y = cancer
    model = catboost.CatBoostClassifier(**settings(iterations=3)).fit(X, y)
    model.shrink(0)
    with pytest.raises(UnsupportedModelError, match="no trees"):
        read_model(model)


# ---------------------------------------------------------------- damaged documents


def stored_document(name):
    return json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("depth", [17, 31, 200, 100_000])
def test_a_forged_depth_is_refused_before_memory_is_asked_for(depth):
    document = stored_document("multiclass-v1.2")
    tree = document["oblivious_trees"][0]
    tree["splits"] = tree["splits"][:1] * depth
    with pytest.raises(
        UnsupportedModelError, match=r"tree 0 has .* (splits|leaf values)"
    ):
        read_catboost_document(document)


def test_a_deep_chain_of_nodes_is_read_without_recursion():
    document = stored_document("lossguide-v1.2")
    leaf = {"value": 0.5, "weight": 1}
    chain = leaf
    for _ in range(5000):
        chain = {
            "split": document["trees"][0]["split"],
            "left": chain,
            "right": leaf,
        }
    document["trees"] = [chain]
    assert read_catboost_document(document).depths.tolist() == [5000]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("model_info",), None, "'model_info' of the document must be dict"),
        (("model_info", "params"), {}, "no 'loss_function'"),
        (("model_info", "loss_function"), "{", "not valid JSON"),
        (("model_info", "class_params", "class_names"), ["a", "b"], "2 classes"),
        (("model_info", "class_params", "class_names"), ["a", "b", 3], "not of type"),
        (("model_info", "class_params", "classes_count"), 10**15, None),
        (("model_info", "class_params", "class_label_type"), "Word", "'Word'"),
        (("model_info", "class_params", "class_to_label"), [2, 1, 0], "trained on"),
        (("features_info",), {}, "lists no features"),
        (("features_info", "float_features"), {}, "must be list"),
        (("features_info", "float_features", 0, "flat_feature_index"), -1, "is -1"),
        (
            ("features_info", "float_features", 0, "flat_feature_index"),
            2**40,
            "is 1099",
        ),
        (("features_info", "float_features", 0, "flat_feature_index"), 1, "column 1"),
        (("features_info", "float_features", 0, "feature_index"), True, "must be int"),
        (("features_info", "float_features", 0, "nan_value_treatment"), "x", "'x'"),
        (("features_info", "float_features", 0, "has_nans"), "no", "must be bool"),
        (("oblivious_trees",), {}, "must be list"),
        (("oblivious_trees",), [], "no trees"),
        (("oblivious_trees", 0), 7, "tree 0 must be an object"),
        (("oblivious_trees", 0, "leaf_values"), [1.0] * 23, "23 leaf values"),
        (("oblivious_trees", 0, "leaf_values"), [1.0] * 16, "tree 1 has 3 values"),
        (("oblivious_trees", 0, "leaf_values"), [], "0 leaf values"),
        (("oblivious_trees", 0, "leaf_values", 3), float("nan"), "must be finite"),
        (("oblivious_trees", 0, "leaf_values", 3), 10**400, "list of numbers"),
        (("oblivious_trees", 0, "leaf_values", 3), "1", "list of numbers"),
        (("oblivious_trees", 0, "leaf_weights"), [1, 2], "2 leaf weights for 8"),
        (("oblivious_trees", 0, "leaf_weights", 0), -1, "not negative"),
        (("oblivious_trees", 0, "splits", 1, "border"), None, "'border' of split 1"),
        (("oblivious_trees", 0, "splits", 1, "border"), 1e39, "finite float32"),
        (("oblivious_trees", 0, "splits", 1, "split_type"), "New", "type New"),
        (("oblivious_trees", 0, "splits", 1, "float_feature_index"), 9, "not listed"),
        (("scale_and_bias",), [1], "two entries"),
        (("scale_and_bias",), [1, [0, 0]], "3 entries"),
        (("scale_and_bias",), [1, ["a", 0, 0]], "list of numbers"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_damaged_document_is_refused_with_its_place(path, value, message):
    document = stored_document("multiclass-v1.2")
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    if message is None:  # names are given, so their number is not looked at
        read_catboost_document(document)
        return
    with pytest.raises(UnsupportedModelError, match=message):
        read_catboost_document(document)


def places(part, path=()):
    """Yield the path of every value in a document."""
    pairs = part.items() if isinstance(part, dict) else enumerate(part)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


@pytest.mark.parametrize("name", ["multiclass-v1.2", "lossguide-v1.2"])
def test_no_damage_ends_in_any_other_error(name):
    rng = np.random.default_rng(0)
    original = stored_document(name)
    original["model_info"]["params"] = {
        "loss_function": original["model_info"]["params"]["loss_function"]
    }
    everywhere = list(places(original))
    wrong = [None, True, -1, 10**400, 2**70, 1e308, np.nan, np.inf, "x", [], {}, [[]]]
    n_refused = 0
    for number in rng.choice(len(everywhere), 400):
        path = everywhere[number]
        document = copy.deepcopy(original)
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        choice = rng.integers(len(wrong) + 1)
        if choice == len(wrong):
            del holder[path[-1]]
        else:
            holder[path[-1]] = wrong[choice]
        try:
            read_catboost_document(document)
        except UnsupportedModelError:
            n_refused += 1
    assert n_refused > 200


@pytest.mark.parametrize("document", [None, [], "text", 7, {}])
def test_what_is_no_document_is_refused(document):
    with pytest.raises(UnsupportedModelError, match="damaged"):
        read_catboost_document(document)


def test_documents_of_old_versions_have_no_labels_and_a_plain_bias():
    document = stored_document("multiclass-v1.2")
    named = read_catboost_document(document)
    del document["model_info"]["class_params"]
    document["scale_and_bias"] = [1, 0]
    numbered = read_catboost_document(document)
    assert numbered.classes_.tolist() == [0, 1, 2]
    X = hard_rows(named)
    assert np.array_equal(named.decision_function(X), numbered.decision_function(X))


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("multiclass-v1.2", ()),
        ("multiclass-v1.2", ("features_info",)),
        ("multiclass-v1.2", ("features_info", "float_features", 0)),
        ("multiclass-v1.2", ("model_info", "class_params")),
        ("multiclass-v1.2", ("oblivious_trees", 1)),
        ("multiclass-v1.2", ("oblivious_trees", 1, "splits", 0)),
        ("lossguide-v1.2", ("trees", 0)),
        ("lossguide-v1.2", ("trees", 0, "left")),
        ("lossguide-v1.2", ("trees", 0, "split")),
    ],
)
def test_what_a_future_version_may_add_is_refused(name, way):
    document = json.loads((STORED / f"{name}.json").read_text())
    holder = document
    for key in way:
        holder = holder[key]
    holder["tree_scale"] = 0.5
    with pytest.raises(UnsupportedModelError, match=r"does not know .'tree_scale'"):
        read_catboost_document(document)
