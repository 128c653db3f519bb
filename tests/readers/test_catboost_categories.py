"""CatBoost with cat_features: raw scores bit for bit, however categories are passed."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datasets
import spinney
from spinney import InvalidArgumentError, UnsupportedModelError, read_model
from spinney.forest.encoder import ABOVE, EQUAL, VALUE
from spinney.readers.catboost import read_catboost_document

catboost = pytest.importorskip("catboost")

CATEGORIES = [1, 2, 3, 5]
# Texts of all lengths that the hash tells apart, and beyond ASCII.
WORDS = ["a", "b", "", "ü", "漢字", "five5", "a" * 16, "b" * 17, "c" * 33, "d" * 64]
WORDS += ["e" * 65, "f" * 200, "0", "-1"]
COUNTS = ["Borders", "Buckets", "BinarizedTargetMeanValue", "Counter"]


def rows_of(n_rows, seed=0, unseen=False):
    """Return rows of two columns of numbers among four of categories."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n_rows, 6), dtype=object)
    rows[:, 0] = rng.normal(size=n_rows)
    rows[:, 1] = rng.choice([*WORDS, "new", "n" * 70] if unseen else WORDS, n_rows)
    rows[:, 2] = rng.integers(-3, 8 if unseen else 4, n_rows)
    rows[:, 3] = rng.choice(["x", "y", "z"], n_rows)
    numbers = rng.normal(size=n_rows)
    rows[:, 4] = np.where(rng.random(n_rows) < 0.2, np.nan, numbers)
    rows[:, 5] = rng.choice([True, False], n_rows)
    return rows


def score_of(rows):
    rng = np.random.default_rng(1)
    return (
        (rows[:, 0].astype(float) > 0)
        + (rows[:, 1] == "a") * 1.0
        + (rows[:, 2].astype(int) > 0)
        + 2.0 * (rows[:, 3] == "x") * rows[:, 5].astype(bool)
        + rng.normal(size=len(rows)) * 0.3
    )


def target_of(rows, n_classes):
    score = score_of(rows)
    return score if n_classes == 0 else np.digitize(score, [1.5, 2.5][: n_classes - 1])


def train(n_classes=2, n_rows=250, **changes):
    """Return a small model; 0 classes are a regression."""
    rows = rows_of(n_rows)
    kind = catboost.CatBoostClassifier if n_classes else catboost.CatBoostRegressor
    parameters = {
        "iterations": 12,
        "depth": 4,
        "cat_features": CATEGORIES,
        "max_ctr_complexity": 3,
        "random_seed": 0,
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
    }
    model = kind(**parameters | changes)
    return model.fit(rows, target_of(rows, n_classes))


def raw_of(model, rows):
    raw = catboost.CatBoost.predict(model, rows, prediction_type="RawFormulaVal")
    return np.asarray(raw).reshape(len(rows), -1)


def agree(model):
    """Check the forest of a model on seen and unseen categories; return it."""
    forest = read_model(model)
    rows = np.concatenate([rows_of(60), rows_of(200, seed=2, unseen=True)])
    wanted = raw_of(model, rows)
    raw = forest.decision_function(rows).reshape(len(rows), -1)
    assert np.array_equal(raw, wanted)
    if forest.classes_ is not None:
        assert np.array_equal(forest.predict(rows), np.ravel(model.predict(rows)))
    predict = forest.predictor()
    answers = forest.predict(rows)
    for row, answer in zip(rows[-20:].tolist(), answers[-20:], strict=True):
        assert predict(row) == answer
    return forest


def exported(model, path):
    model.save_model(str(path), format="json")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model():
    return train(one_hot_max_size=3, depth=5, iterations=20, model_size_reg=0)


@pytest.fixture(scope="module")
def document(model, tmp_path_factory):
    return exported(model, tmp_path_factory.mktemp("catboost") / "model.json")


# ---------------------------------------------------------------- kinds of models


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("kind", COUNTS)
def test_every_kind_of_statistic_answers_bit_for_bit(kind, n_classes):
    one = f"{kind}:TargetBorderCount=3" if not n_classes and kind[-1] == "s" else kind
    forest = agree(train(n_classes, simple_ctr=[one], combinations_ctr=[one]))
    assert forest.encoder.n_added > 0


def test_combinations_of_categories_numbers_and_tests_answer_bit_for_bit(model):
    forest = agree(model)
    encoder = forest.encoder
    assert set(encoder.part_kind.tolist()) == {VALUE, ABOVE, EQUAL}
    assert np.diff(encoder.part_offsets).max() > 2


@pytest.mark.parametrize("engine", ["plain", "compiled"])
def test_both_engines_answer_bit_for_bit(model, engine, monkeypatch):
    monkeypatch.setattr(spinney.config, "engine", engine)
    agree(model)


def test_one_hot_splits_alone_answer_bit_for_bit():
    forest = agree(train(one_hot_max_size=20))
    assert forest.encoder.n_projections <= len(CATEGORIES)
    assert set(np.unique(forest.encoder.lines)) == {0, 1}


@pytest.mark.parametrize("policy", ["Depthwise", "Lossguide"])
@pytest.mark.parametrize("size", [1, 20])
def test_trees_grown_node_by_node_answer_bit_for_bit(policy, size):
    agree(train(grow_policy=policy, one_hot_max_size=size))


@pytest.mark.parametrize(
    "changes",
    [
        {"nan_mode": "Max", "max_ctr_complexity": 4},
        {"loss_function": "MultiClassOneVsAll", "n_classes": 3},
        {"simple_ctr": ["Borders:Prior=0.3:CtrBorderCount=40", "Counter:Prior=2"]},
        {"n_classes": 0, "simple_ctr": ["Borders:TargetBorderCount=3"]},
        {"counter_calc_method": "Full"},
        {"ignored_features": [0, 1]},
        {"boosting_type": "Ordered"},
        {"ctr_leaf_count_limit": 3},
        {"per_feature_ctr": ["1:Buckets:Prior=1", "3:Borders:Prior=0:Prior=0.5"]},
        {"loss_function": "CrossEntropy"},
        {"n_classes": 0, "loss_function": "Poisson"},
        {"store_all_simple_ctr": True},
    ],
    ids=str,
)
def test_other_settings_answer_bit_for_bit(changes):
    agree(train(**changes))


def test_the_base_class_answers_bit_for_bit():
    parameters = train(iterations=1).get_params() | {"iterations": 8}
    parameters.pop("cat_features")
    rows = rows_of(200)
    pool = catboost.Pool(rows, target_of(rows, 2), cat_features=CATEGORIES)
    model = catboost.CatBoost(parameters | {"loss_function": "Logloss"}).fit(pool)
    forest = read_model(model)
    assert np.array_equal(forest.predict_model(rows), raw_of(model, rows)[:, 0])


def test_a_ranker_answers_bit_for_bit():
    rows = rows_of(200)
    model = catboost.CatBoostRanker(
        iterations=8, cat_features=CATEGORIES, verbose=False, allow_writing_files=False
    )
    model.fit(rows, target_of(rows, 3), group_id=np.arange(200) // 10)
    forest = read_model(model)
    assert np.array_equal(forest.predict(rows), raw_of(model, rows)[:, 0])


@pytest.mark.parametrize("renamed", ["FeatureFreq", "FloatTargetMeanValue"])
def test_statistics_that_only_a_gpu_trains_answer_bit_for_bit(renamed, tmp_path):
    kind = {"FeatureFreq": "Counter"}.get(renamed, "BinarizedTargetMeanValue")
    trained = train(0, simple_ctr=[kind], combinations_ctr=[kind])
    path = tmp_path / "model.json"
    text = json.dumps(exported(trained, path)).replace(kind, renamed)
    path.write_text(text, encoding="utf-8")
    agree(catboost.CatBoostRegressor().load_model(str(path), format="json"))


@pytest.mark.parametrize(
    "policy", ["IntersectingCountersAverage", "LeaveMostDiversifiedTable"]
)
def test_a_sum_of_models_answers_bit_for_bit(policy):
    parts = [train(0), train(0, random_seed=1, n_rows=120, one_hot_max_size=1)]
    whole = catboost.sum_models(parts, weights=[1, 0.5], ctr_merge_policy=policy)
    rows = rows_of(200, seed=2, unseen=True)
    assert np.array_equal(
        read_model(whole).decision_function(rows), raw_of(whole, rows)[:, 0]
    )


def test_a_category_column_that_no_tree_uses_takes_texts():
    rows = rows_of(100)
    rows[:, 1] = "same"
    parameters = {"iterations": 3, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(cat_features=[1], **parameters)
    model.fit(rows[:, :2], target_of(rows, 2))
    forest = read_model(model)
    assert forest.encoder.n_added == 0
    other = rows_of(50, seed=3)[:, :2]
    assert np.array_equal(forest.decision_function(other), raw_of(model, other)[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "nomao", "diabetes130"])
def test_real_data_answers_bit_for_bit(name):
    X, y = datasets.real(name, n_rows=30_000)
    # The files hold numbers; what has few different ones counts as a category.
    coded = [
        k
        for k in range(X.shape[1])
        if len(np.unique(X[:, k])) <= 120 and (X[:, k] == np.round(X[:, k])).all()
    ]
    assert coded
    frame = pd.DataFrame(X).rename(columns=str)
    frame = frame.astype({str(k): int for k in coded})
    model = catboost.CatBoostClassifier(
        iterations=200,
        cat_features=coded,
        random_seed=0,
        thread_count=2,
        verbose=False,
        allow_writing_files=False,
    )
    half = len(frame) // 2
    model.fit(frame[:half], y[:half])
    forest = read_model(model)
    assert np.array_equal(
        forest.decision_function(frame, n_jobs=2), raw_of(model, frame)[:, 0]
    )
    few = frame[half : half + 200]
    predict = forest.predictor()
    answers = [predict(row) for row in few.itertuples(index=False, name=None)]
    assert answers == np.ravel(model.predict(few)).tolist()


# ---------------------------------------------------------------- kinds of rows


def test_all_kinds_of_rows_mean_the_same(model):
    rows = rows_of(80, seed=4, unseen=True)
    forest = read_model(model)
    wanted = raw_of(model, rows)[:, 0]
    frame = pd.DataFrame({f"c{k}": rows[:, k].tolist() for k in range(6)})
    assert frame["c2"].dtype == np.int64
    assert frame["c5"].dtype == np.bool_
    as_category = frame.astype({f"c{k}": "category" for k in CATEGORIES})
    reordered = as_category.copy()
    reordered["c1"] = reordered["c1"].cat.set_categories(
        ["not there", *reversed(reordered["c1"].cat.categories)]
    )
    tables = {
        "objects": rows,
        "lists": rows.tolist(),
        "pandas": frame,
        "pandas objects": frame.astype(object),
        "pandas categories": as_category,
        "pandas categories in another order": reordered,
        "pandas nullable": frame.astype(
            {"c1": "string", "c2": "Int64", "c3": "string", "c5": "boolean"}
        ),
    }
    try:
        import polars as pl

        texts = pl.from_pandas(frame)
        tables["polars"] = texts
        enum = pl.Enum(sorted(set(rows[:, 1])))
        casts = {"c1": enum, "c3": pl.Categorical, "c2": pl.Int16}
        tables["polars categories"] = texts.cast(casts)
    except ImportError:
        pass
    try:
        import pyarrow as pa

        tables["arrow"] = pa.Table.from_pandas(frame)
        tables["arrow categories"] = pa.Table.from_pandas(as_category)
    except ImportError:
        pass
    for name, table in tables.items():
        assert np.array_equal(forest.decision_function(table), wanted), name
    predict = forest.predictor("proba")
    wanted = forest.predict_proba(rows)
    for k, row in enumerate(rows[:20].tolist()):
        for one in (row, tuple(row), rows[k], frame[k : k + 1]):
            assert np.array_equal(predict(one), wanted[k])


def test_a_dict_has_the_names_of_the_columns():
    frame = pd.DataFrame(rows_of(150), columns=list("abcdef"))
    numbers = frame.astype({"a": float, "e": float, "c": int, "f": bool})
    model = catboost.CatBoostClassifier(
        iterations=5,
        cat_features=["b", "c", "d", "f"],
        verbose=False,
        allow_writing_files=False,
    ).fit(numbers, target_of(frame.to_numpy(), 2))
    forest = read_model(model)
    assert forest.feature_names == tuple("abcdef")
    predict = forest.predictor()
    for row, label in zip(
        numbers.to_dict("records"), model.predict(numbers), strict=True
    ):
        assert predict(row) == label
    with pytest.raises(ValueError, match="'c'"):
        predict({"a": 1.0, "b": "a"})
    np.testing.assert_array_equal(
        forest.predict(numbers[list("fedcba")]), model.predict(numbers)
    )


VALUES = st.one_of(
    st.text(),
    st.text(alphabet="aé漢", min_size=30),
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.binary(),
    st.sampled_from([np.int8(-3), np.uint64(2**63 + 1), np.bool_(True), np.str_("a")]),
    st.sampled_from(
        [None, np.nan, 1.0, np.float32(0.5), 2**63, 1j, pd.NA, (1,), "\ud800"]
    ),
)


@given(value=VALUES, number=st.floats(width=32))
def test_any_value_means_what_it_means_to_the_library_or_is_refused(
    model, value, number
):
    row = rows_of(1)[0]
    row[1], row[0] = value, number
    forest = read_model(model) if not hasattr(model, "forest") else model.forest
    model.forest = forest  # read once
    if isinstance(value, (tuple, str)) and value in ("\ud800", (1,)):
        wanted = None
    else:
        try:
            wanted = raw_of(model, row.reshape(1, -1))[0, 0]
        except (catboost.CatBoostError, TypeError, OverflowError, UnicodeError):
            wanted = None
    predict = forest.predictor("proba")
    if wanted is None:
        with pytest.raises(InvalidArgumentError, match="Column 1"):
            forest.decision_function(row.reshape(1, -1))
        with pytest.raises(InvalidArgumentError, match="Column 1"):
            predict(list(row))
        return
    assert forest.decision_function(row.reshape(1, -1))[0] == wanted
    assert np.array_equal(predict(list(row)), forest.predict_proba(row[None])[0])


def test_missing_categories_and_floats_are_refused_in_every_kind_of_table(model):
    forest = read_model(model)
    rows = rows_of(10)
    frame = pd.DataFrame({f"c{k}": rows[:, k].tolist() for k in range(6)})
    for column in (
        pd.Series([None] * 10, dtype=object),
        pd.Series(["a"] * 9 + [None], dtype="string"),
        pd.Series(["a"] * 9 + [None], dtype="category"),
        pd.Series([1] * 9 + [None], dtype="Int64"),
        pd.Series([1.0] * 10),
        pd.Series([1.0] * 10, dtype="category"),
        pd.Series(pd.to_datetime(["2020-01-01"] * 10)),
    ):
        with pytest.raises(InvalidArgumentError, match="Column 'c1'"):
            forest.predict(frame.assign(c1=column))
    with pytest.raises(InvalidArgumentError, match="array of float64"):
        forest.predict(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="one row of 6"):
        forest.predictor()(rows[0, :3])
    with pytest.raises(TypeError, match="row 0, column 0"):
        forest.predict([["text", "a", 1, "x", 0.0, True]])
    with pytest.raises(TypeError, match="row 0, column 0"):
        forest.predictor()(["text", "a", 1, "x", 0.0, True])


def test_sparse_rows_are_refused(model):
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InvalidArgumentError, match="sparse"):
        read_model(model).predict(sparse.csr_array(np.zeros((2, 6))))


def test_whole_numbers_may_come_as_an_array():
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 5, size=(200, 4))
    model = catboost.CatBoostClassifier(
        iterations=8, cat_features=[1, 2], verbose=False, allow_writing_files=False
    ).fit(X, (X[:, 1] + X[:, 2] > X[:, 0]).astype(int))
    forest = read_model(model)
    other = rng.integers(-4, 8, size=(100, 4))
    wanted = raw_of(model, other)[:, 0]
    for dtype in (np.int64, np.int8):
        assert np.array_equal(forest.decision_function(other.astype(dtype)), wanted)
    predict = forest.predictor()
    assert [predict(row) for row in other] == model.predict(other).tolist()


def test_no_rows_and_none_among_numbers(model):
    forest = read_model(model)
    assert forest.predict(rows_of(0)).shape == (0,)
    row = rows_of(1)[0].tolist()
    missing = [None, *row[1:]]
    nan = [float("nan"), *row[1:]]
    assert forest.decision_function([missing]) == forest.decision_function([nan])
    assert np.array_equal(
        forest.predictor("proba")(missing), forest.predictor("proba")(nan)
    )


def test_large_batches_are_encoded_a_block_at_a_time(model, monkeypatch):
    from spinney.forest import blocks
    from spinney.runtime import encoding

    rows = rows_of(300, seed=5, unseen=True)
    wanted = raw_of(model, rows)[:, 0]
    monkeypatch.setattr(encoding, "DENSE_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)  # blocks of 64 rows
    forest = read_model(model)
    converted = forest.engine.rows(rows)
    assert isinstance(converted, encoding.HashedRows)
    assert [len(block) for block in converted.blocks()] == [64, 64, 64, 64, 44]
    for n_jobs in (None, 2):
        assert np.array_equal(forest.decision_function(rows, n_jobs), wanted)
    assert np.array_equal(forest.scores(rows).shape, (300, forest.n_trees))
    assert np.array_equal(converted[7], converted.dense()[7], equal_nan=True)


# ---------------------------------------------------------------- around the forest


def test_files_and_pickles_keep_the_tables(model, tmp_path):
    forest = read_model(model)
    rows = rows_of(50, seed=6, unseen=True)
    wanted = forest.decision_function(rows)
    spinney.save(forest, tmp_path / "forest")
    for other in (
        spinney.load(tmp_path / "forest"),
        pickle.loads(pickle.dumps(forest)),
        forest.replace(source="x"),
        forest.take(np.arange(forest.n_trees)),
    ):
        assert np.array_equal(other.decision_function(rows), wanted)


def test_a_json_file_needs_no_catboost_and_a_binary_file_does(
    model, tmp_path, monkeypatch
):
    rows = rows_of(50, seed=6, unseen=True)
    wanted = raw_of(model, rows)[:, 0]
    model.save_model(str(tmp_path / "m.json"), format="json")
    model.save_model(str(tmp_path / "m.cbm"))
    binary = read_model(tmp_path / "m.cbm")
    assert np.array_equal(binary.decision_function(rows), wanted)
    monkeypatch.setitem(sys.modules, "catboost", None)
    text = read_model(tmp_path / "m.json")
    assert np.array_equal(text.decision_function(rows), wanted)
    with pytest.raises(UnsupportedModelError, match="not installed"):
        read_model(tmp_path / "m.cbm")


def test_classifiers_take_frames_objects_and_lists(tmp_path):
    from sklearn.frozen import FrozenEstimator

    rows = rows_of(1500)
    model = train(iterations=40, n_rows=1500)
    frame = pd.DataFrame({f"c{k}": rows[:, k].tolist() for k in range(6)})
    full = np.ravel(model.predict(rows))
    fast = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0.05, random_state=0
    ).fit(frame)
    answers = fast.predict(frame)
    assert fast.n_features_in_ == 6
    assert np.mean(answers != full) < 0.1
    assert np.array_equal(fast.predict_full(frame), full)
    predict = fast.predictor()
    assert [predict(row) for row in rows[:50].tolist()] == answers[:50].tolist()
    spinney.save(fast, tmp_path / "fast")
    loaded = spinney.load(tmp_path / "fast")
    assert np.array_equal(loaded.predict(frame), answers)
    for table in (rows, rows.tolist()):
        unnamed = spinney.CascadeClassifier(
            FrozenEstimator(model), max_disagreement=0.05, random_state=0
        ).fit(table)
        assert np.array_equal(unnamed.predict(table), answers)
        assert unnamed.n_features_in_ == 6
    steps = spinney.AnytimeForestClassifier(FrozenEstimator(model))
    steps.fit(frame[:200], full[:200])
    assert np.array_equal(steps.predict(frame), full)


def test_code_cannot_be_exported(model, tmp_path):
    with pytest.raises(UnsupportedModelError, match="tables cannot be exported"):
        spinney.export_c(read_model(model), tmp_path / "model.c")


# ---------------------------------------------------------------- refusals


def test_two_binarisations_of_the_target_for_one_kind_are_refused():
    model = train(0, simple_ctr=[f"Borders:TargetBorderCount={n}" for n in (1, 3)])
    with pytest.raises(UnsupportedModelError, match="one TargetBorderCount"):
        read_model(model)
    parts = [train(0), train(0, simple_ctr=["Borders:TargetBorderCount=3"])]
    with pytest.raises(UnsupportedModelError, match="one TargetBorderCount"):
        read_model(catboost.sum_models(parts))


def test_a_model_without_tables_is_refused():
    model = train(final_ctr_computation_mode="Skip", one_hot_max_size=1)
    with pytest.raises(UnsupportedModelError, match="no tables"):
        read_model(model)


def first_table(document):
    return next(iter(document["ctr_data"].values()))


def changed_first_split(document, kind, **changes):
    for tree in document["oblivious_trees"]:
        for split in tree["splits"] or []:
            if split["split_type"] == kind:
                split.update(changes)
                return
    raise AssertionError(kind)


DAMAGES = {
    "an unknown kind": lambda d: d["features_info"]["ctrs"][0].update(ctr_type="Mean"),
    "no table": lambda d: d["features_info"]["ctrs"][0].update(identifier="?"),
    "no priors": lambda d: d["features_info"]["ctrs"][0].update(shift=None),
    "an unknown element": lambda d: d["features_info"]["ctrs"][0]["elements"][0].update(
        combination_element="text"
    ),
    "no elements": lambda d: d["features_info"]["ctrs"][0].update(elements=[]),
    "an unlisted feature": lambda d: d["features_info"]["ctrs"][0]["elements"][
        0
    ].update(cat_feature_index=77),
    "a target border beyond": lambda d: [
        ctr.update(target_border_idx=5, ctr_type="Buckets")
        for ctr in d["features_info"]["ctrs"]
    ],
    "a stride of one": lambda d: first_table(d).update(hash_stride=1),
    "a cut table": lambda d: first_table(d)["hash_map"].pop(),
    "a key of letters": lambda d: first_table(d)["hash_map"].__setitem__(0, "x"),
    "a key beyond 64 bits": lambda d: first_table(d)["hash_map"].__setitem__(
        0, str(2**64)
    ),
    "a count in quotes": lambda d: first_table(d)["hash_map"].__setitem__(1, "x"),
    "a split without a border": lambda d: changed_first_split(
        d, "OnlineCtr", split_index=10**6
    ),
    "another border": lambda d: changed_first_split(d, "OnlineCtr", border=0.123),
    "an unlisted value": lambda d: changed_first_split(d, "OneHotFeature", value=7),
    "a large value": lambda d: d["features_info"]["categorical_features"][0].update(
        values=[2**31]
    ),
    "a value twice": lambda d: d["features_info"]["categorical_features"][0].update(
        values=[1, 1]
    ),
    "no parameters": lambda d: d["model_info"].pop("params"),
    "an unknown split": lambda d: changed_first_split(
        d, "OnlineCtr", split_type="EstimatedFeature"
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_document_is_refused(name, document):
    assert read_catboost_document(document).encoder is not None
    damaged = copy.deepcopy(document)
    DAMAGES[name](damaged)
    with pytest.raises(UnsupportedModelError):
        read_catboost_document(damaged)


def test_a_model_of_the_oldest_version_answers_as_it_did():
    stored = (
        Path(__file__).parents[1] / "models" / "catboost" / "categories-v1.2.7.json"
    )
    forest = read_model(stored)
    with np.load(stored.with_suffix(".npz")) as found:
        answers = dict(found)
    rows = np.empty((len(answers["raw"]), 3), dtype=object)
    rows[:, [0, 2]], rows[:, 1] = answers["texts"], answers["numbers"]
    np.testing.assert_array_equal(forest.decision_function(rows), answers["raw"])
    np.testing.assert_allclose(forest.predict_proba(rows), answers["probabilities"])
    # JSON keeps the type of the labels, and CatBoost calls these True and False.
    assert (forest.predict(rows).astype(str) == answers["labels"]).all()
