"""Values of data frames of any library become the codes of the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

import spinney
from spinney import Forest, InvalidArgumentError, InvalidForestError
from spinney.forest.categories import code_table, with_codes
from spinney.runtime.row_predictors import one_row

TEXTS = ("b", "a", "", "ü", "longer than the others")


def forest_with(categories, rule="truncate", unseen="missing", **changes):
    """Return a forest of one leaf over these columns; its trees do not matter."""
    return Forest(
        tree_offsets=[0, 1],
        feature=[-1],
        threshold=[0.0],
        left=[-1],
        right=[-1],
        value=[[0.5, 0.5]],
        n_features=len(categories),
        aggregation="mean",
        classes=["no", "yes"],
        category_rule=rule,
        categories=categories,
        unseen_category=unseen,
        feature_names=[f"c{k}" for k in range(len(categories))],
        **changes,
    )


def codes_by_hand(values, categories, rule):
    """The obvious twin: one value after another."""
    codes = []
    for value in values:
        if value is None or value != value or value not in categories:
            codes.append(np.nan)
        elif rule == "exact" and not isinstance(value, str):
            codes.append(float(value))
        else:
            codes.append(float(categories.index(value)))
    return codes


def frames_of(columns):
    """Yield the same columns as frames of all libraries, texts in all their types."""
    plain = pd.DataFrame({f"c{k}": values for k, values in enumerate(columns)})
    texts = [
        name
        for name in plain
        if any(isinstance(value, str) for value in plain[name].astype(object))
    ]
    yield "pandas objects", plain.astype(dict.fromkeys(texts, object))
    yield "pandas category", plain.astype(dict.fromkeys(texts, "category"))
    shuffled = plain.astype(dict.fromkeys(texts, object))
    for name in texts:
        known = sorted({v for v in shuffled[name] if isinstance(v, str)}, reverse=True)
        shuffled[name] = pd.Categorical(shuffled[name], ["never there", *known])
    yield "pandas, another order", shuffled
    pa = pytest.importorskip("pyarrow")
    objects = {
        name: [None if v is None or v != v else v for v in plain[name].astype(object)]
        for name in plain
    }
    table = pa.table(objects)
    yield "arrow texts", table
    coded = [
        table.column(name).dictionary_encode() if name in texts else table.column(name)
        for name in table.column_names
    ]
    coded = pa.table(coded, names=table.column_names)
    yield "arrow dictionaries", coded
    yield "arrow in parts", pa.concat_tables([table.slice(0, 2), table.slice(2)])
    try:
        import polars as pl
    except ImportError:
        return
    frame = pl.DataFrame(objects, strict=False)
    yield "polars texts", frame
    coded = frame.with_columns(pl.col(texts).cast(pl.Categorical))
    yield "polars categories", coded
    yield "polars categories as arrow", coded.to_arrow()  # numbered without a sign
    levels = {n: sorted({v for v in objects[n] if v is not None}) for n in texts}
    yield (
        "polars enum",
        frame.with_columns(*[pl.col(n).cast(pl.Enum(levels[n])) for n in texts]),
    )


@settings(max_examples=30)
@given(
    texts=st.lists(st.sampled_from([*TEXTS, "unseen", None]), min_size=1, max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_texts_of_any_frame_have_the_codes_of_the_model(texts, seed):
    numbers = np.random.default_rng(seed).choice([0.5, -1.0, np.nan], len(texts))
    forest = forest_with([None, TEXTS])
    expected = np.column_stack([numbers, codes_by_hand(texts, TEXTS, "truncate")])
    for kind, frame in frames_of([numbers, texts]):
        rows = with_codes(frame, forest)
        np.testing.assert_array_equal(rows, expected, err_msg=kind)
    objects = np.empty((len(texts), 2), dtype=object)
    objects[:, 0], objects[:, 1] = numbers, texts
    rows = forest.engine.rows(objects)
    np.testing.assert_array_equal(rows, expected.astype(np.float32))


@pytest.mark.parametrize("rule", ["truncate", "floor", "exact"])
@pytest.mark.parametrize("categories", [(5, 3, 70), (1, 2, 0), (3.0, 1.0, 7.0)])
def test_numbers_as_categories(rule, categories):
    forest = forest_with([categories], rule)
    values = [categories[1], categories[2], None, 12, categories[0]]
    frame = pd.DataFrame({"c0": pd.Categorical(values, [12, *categories[::-1]])})
    expected = codes_by_hand(values, categories, rule)
    np.testing.assert_array_equal(with_codes(frame, forest)[:, 0], expected)


def test_missing_values_of_every_kind_are_missing():
    forest = forest_with([TEXTS, None])
    frame = pd.DataFrame({"c0": ["a", None, np.nan, pd.NA], "c1": [1, None, pd.NA, 2]})
    rows = with_codes(frame.astype({"c0": object}), forest)
    np.testing.assert_array_equal(
        rows, [[1, 1], [np.nan] * 2, [np.nan] * 2, [np.nan, 2]]
    )
    nullable = pd.DataFrame({"c0": ["a", None], "c1": pd.array([3, None], "Int64")})
    np.testing.assert_array_equal(with_codes(nullable, forest), [[1, 3], [np.nan] * 2])


def test_unseen_values_are_an_error_where_the_library_has_no_answer():
    forest = forest_with([TEXTS], unseen="error")
    frame = pd.DataFrame({"c0": pd.Categorical(["a", "b"], ["a", "b", "never there"])})
    np.testing.assert_array_equal(with_codes(frame, forest)[:, 0], [1, 0])
    strange = pd.DataFrame({"c0": ["a", "new"]})
    for rows in (strange, strange.astype("category"), strange.to_numpy(dtype=object)):
        with pytest.raises(InvalidArgumentError, match=r"'new'.*not trained on"):
            with_codes(rows, forest)


@pytest.mark.parametrize(
    ("column", "categories", "words"),
    [
        ([1.0, 2.0], TEXTS, "category, enum or string type"),
        ([1.0, 2.0], (5, 3), "of a category type"),
        (["a", "b"], None, "must hold numbers"),
        (pd.Categorical([1, 2]), None, "must hold numbers"),
        (pd.to_datetime(["2020", "2021"]), None, "must hold numbers"),
    ],
)
def test_columns_of_another_type_than_in_training_are_refused(
    column, categories, words
):
    forest = forest_with([categories, TEXTS])
    frame = pd.DataFrame({"c0": column, "c1": ["a", "b"]})
    with pytest.raises(InvalidArgumentError, match=rf"Column 'c0'.*{words}"):
        with_codes(frame, forest)


def test_categories_of_numbers_are_refused_where_the_library_takes_strings_only():
    forest = forest_with([None, TEXTS], "exact")
    frame = pd.DataFrame({"c0": [0.5], "c1": pd.Categorical([7])})
    with pytest.raises(InvalidArgumentError, match=r"'c1'.*strings.*got 7"):
        with_codes(frame, forest)
    # LightGBM takes them for values that it was not trained on.
    assert np.isnan(with_codes(frame, forest_with([None, TEXTS]))[0, 1])


@pytest.mark.parametrize("categories", [(5, -3, 9), (1.5, -2.0, 0.0), (True, False)])
@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_libraries_without_categories_of_numbers_have_them_as_numbers(
    categories, library
):
    pl = pytest.importorskip("polars")
    forest = forest_with([None, categories])
    values = [*categories[::-1], None, categories[0]]
    frame = pl.DataFrame({"c0": [0.5] * len(values), "c1": values})
    if library == "pyarrow":
        pytest.importorskip("pyarrow")
        frame = frame.to_arrow()
    codes = codes_by_hand(values, categories, "truncate")
    np.testing.assert_array_equal(with_codes(frame, forest)[:, 1], codes)
    unknown = pl.DataFrame({"c0": [0.5], "c1": [type(categories[0])(7)]})
    if type(categories[0]) is not bool:
        assert np.isnan(with_codes(unknown, forest)[0, 1])
        strict = forest.replace(unseen_category="error")
        with pytest.raises(InvalidArgumentError, match="category 7"):
            with_codes(unknown, strict)
    other = 2 if type(categories[0]) is float else 2.5
    with pytest.raises(InvalidArgumentError, match="of a category type"):
        with_codes(pl.DataFrame({"c0": [0.5], "c1": [other]}), forest)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_drop_ins_take_texts_in_arrays_of_objects():
    frame = pd.DataFrame({"a": np.arange(60) % 7.0, "b": list("xyz") * 20})
    frame["b"] = frame["b"].astype("category")
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=["b"])
    model.fit(frame, (frame["b"] == "y") ^ (frame["a"] > 3))
    fast, objects = spinney.accelerate(model), frame.to_numpy(dtype=object)
    for rows in (objects, objects.tolist()):
        assert (fast.predict(rows) == model.predict(frame)).all()


def test_numbers_in_arrays_are_codes():
    forest = forest_with([None, TEXTS])
    rows = np.array([[0.5, 2.0], [np.nan, -1.0]])
    np.testing.assert_array_equal(forest.engine.rows(rows), rows)
    np.testing.assert_array_equal(forest.engine.rows(rows.tolist()), rows)
    np.testing.assert_array_equal(forest.engine.rows([[0.5, "a"]]), [[0.5, 1]])


@pytest.mark.parametrize(
    "categories", [(5, 3, 9), (1.5, -2.0, 0.0), (False, True), (2, 1, 0), (0, 1, 2)]
)
@pytest.mark.parametrize("rule", ["truncate", "exact"])
def test_predictors_look_up_categories_that_are_numbers(categories, rule):
    forest = forest_with([None, categories], rule)
    frame = pd.DataFrame({"c0": 0.5, "c1": pd.Categorical(categories)})
    for k, value in enumerate(categories):
        expected = with_codes(frame, forest)[k].tolist()
        row = {"c0": 0.5, "c1": value}
        for one in (row, list(row.values()), (0.5, np.array(categories)[k])):
            assert one_row(one, forest).tolist() == [expected]
        # An array holds codes.
        assert one_row(np.array([0.5, 1.0]), forest).tolist() == [[0.5, 1.0]]
    for missing in (None, np.nan):
        found = forest.engine.rows(one_row([0.5, missing], forest))
        assert np.isnan(found[0, 1])
    if rule == "truncate" and categories not in [(0, 1, 2), (False, True)]:
        assert np.isnan(one_row([0.5, 7], forest)[0, 1])
        strict = forest.replace(unseen_category="error")
        with pytest.raises(InvalidArgumentError, match="category 7"):
            one_row([0.5, 7], strict)


def test_no_rows_have_no_codes():
    forest = forest_with([None, TEXTS])
    for kind, frame in frames_of([[1.0, 2.0], ["a", "b"]]):
        empty = frame[:0] if hasattr(frame, "columns") else frame.slice(0, 0)
        assert with_codes(empty, forest).shape == (0, 2), kind


def test_columns_in_another_order_are_put_in_order():
    forest = forest_with([None, TEXTS])
    frame = pd.DataFrame({"c1": ["a"], "c0": [0.5]})
    np.testing.assert_array_equal(forest.engine.rows(frame), [[0.5, 1.0]])


@pytest.mark.parametrize(
    ("categories", "words"),
    [
        ([["a", "b"]], "must have 2 entries"),
        ([None, ["a", 1]], "all strings"),
        ([None, [1, True]], "all strings"),
        ([None, ["a", "a"]], "different"),
        ([None, [0.0, np.nan]], "all strings"),
        ([None, [None]], "all strings"),
    ],
)
def test_categories_that_make_no_sense_are_refused(categories, words):
    with pytest.raises(InvalidForestError, match=words):
        forest_with([None, TEXTS]).replace(categories=categories)


def test_the_table_of_codes_is_the_obvious_one():
    for rule in ("truncate", "exact"):
        for categories in (TEXTS, (3, 1, 2)):
            values = [*categories, "x", 17, 1.0]
            found = code_table(values, categories, forest_with([categories], rule))
            expected = codes_by_hand(values, categories, rule)
            np.testing.assert_array_equal(found, expected)
