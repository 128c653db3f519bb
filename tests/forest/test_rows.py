"""What callers pass as rows: what is taken, what is refused, and how it is said."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

import datasets
from spinney import read_model
from spinney.forest.rows import as_rows

BOTH = pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")])
F32, F64 = np.dtype("float32"), np.dtype("float64")
TABLE = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def random_rows(n_rows=20, n_features=3):
    return np.random.default_rng(0).normal(size=(n_rows, n_features))


# ----------------------------------------------------------------- what is taken


@BOTH
@pytest.mark.parametrize(
    "given",
    [
        TABLE,
        tuple(map(tuple, TABLE)),
        np.array(TABLE),
        np.array(TABLE, dtype=np.float32),
        np.array(TABLE, dtype=np.float16),
        np.array(TABLE, dtype=np.longdouble),
        np.array(TABLE, dtype=np.int64),
        np.array(TABLE, dtype=np.uint8),
        np.array(TABLE, dtype=">f8"),
        np.array(TABLE, dtype=">i2"),
        np.array(TABLE, dtype=object),
        np.asfortranarray(TABLE),
        np.array(TABLE)[::-1][::-1],
        np.array([TABLE, TABLE])[1],
        np.ma.masked_array(TABLE, mask=False),
    ],
    ids=lambda given: f"{type(given).__name__}-{getattr(given, 'dtype', '')}",
)
def test_the_same_numbers_come_out_of_every_container(given, dtype):
    rows = as_rows(given, 3, dtype)
    assert type(rows) is np.ndarray
    assert rows.dtype in (F32, F64)
    assert rows.dtype.isnative
    assert rows.flags.c_contiguous
    assert rows.flags.aligned
    assert rows.tolist() == TABLE


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.bool_, ">f8"])
def test_memory_mapped_rows_are_read_where_they_lie(tmp_path, kind, order):
    path = tmp_path / "rows"
    values = np.array([[1, 0, 1], [0, 0, 1]], dtype=kind, order=order)
    values.tofile(path) if order == "C" else values.T.tofile(path)
    mapped = np.memmap(path, kind, "r", shape=(2, 3), order=order)
    rows = as_rows(mapped, 3, F64)
    assert type(rows) is np.ndarray
    assert rows.tolist() == values.tolist()
    as_they_are = order == "C" and kind in (np.float32, np.float64)
    assert np.shares_memory(rows, mapped) == as_they_are


def test_rows_for_a_float32_forest_are_rounded_to_float32():
    X = random_rows()
    rows = as_rows(X, 3, F32)
    assert rows.dtype == F32
    assert np.array_equal(rows, X.astype(np.float32))


def test_rows_for_a_float64_forest_keep_every_digit():
    X = random_rows()
    rows = as_rows(X, 3, F64)
    assert rows.dtype == F64
    assert np.array_equal(rows, X)


@pytest.mark.parametrize("narrow", [np.float16, np.float32])
def test_narrow_floats_are_not_widened_because_they_compare_the_same(narrow):
    X = random_rows().astype(narrow)
    rows = as_rows(X, 3, F64)
    assert rows.dtype == F32
    assert np.array_equal(rows, X)


@pytest.mark.parametrize("integer", [np.int32, np.int64, np.uint64])
def test_integers_beyond_float32_are_rounded_once_to_the_nearest(integer):
    # 2**24 + 1 lies between two float32 numbers, as many as there are above it.
    X = np.array([[2**24 - 1, 2**24, 2**24 + 1, 2**24 + 3]], dtype=integer)
    rows = as_rows(X, 4, F32)
    assert rows.tolist() == [[2**24 - 1, 2**24, 2**24, 2**24 + 4]]
    assert as_rows(X, 4, F64).tolist() == X.tolist()


def test_an_integer_is_not_rounded_twice():
    # By way of float64 this would come to lie on a tie and fall to the other side.
    number = 2**60 + 2**36 + 1
    rows = as_rows(np.array([[number]]), 1, F32)
    assert rows[0, 0] == np.float32(2**60 + 2**37)


@BOTH
def test_booleans_are_zero_and_one(dtype):
    assert as_rows([[True, False]], 2, dtype).tolist() == [[1.0, 0.0]]


@BOTH
def test_missing_values_and_infinities_are_welcome(dtype):
    X = np.array([[np.nan, np.inf, -np.inf, -0.0]])
    rows = as_rows(X, 4, dtype)
    assert np.array_equal(rows, X, equal_nan=True)
    assert np.signbit(rows[0, 3])


def test_numbers_beyond_float32_become_infinite_without_a_warning():
    rows = as_rows([[1e39, -1e300, 1e-60]], 3, F32)
    assert rows.tolist() == [[np.inf, -np.inf, 0.0]]


def test_a_signalling_nan_is_a_nan_and_no_warning():
    X = np.array([[0x7FF0000000000001]], dtype=np.uint64).view(np.float64)
    assert np.isnan(as_rows(X, 1, F32)[0, 0])


@BOTH
def test_zero_rows_are_rows(dtype):
    rows = as_rows(np.empty((0, 3)), 3, dtype)
    assert rows.shape == (0, 3)
    assert as_rows(np.empty((0, 3), dtype=object), 3, dtype).shape == (0, 3)


@BOTH
def test_objects_that_are_numbers_are_taken(dtype):
    given = [[1, 2.5, True, None], [Decimal("0.5"), Fraction(1, 4), np.int8(3), -1]]
    rows = as_rows(np.array(given, dtype=object), 4, dtype)
    expected = [[1, 2.5, 1, np.nan], [0.5, 0.25, 3, -1]]
    assert np.array_equal(rows, expected, equal_nan=True)


def test_an_unaligned_buffer_is_copied_into_place():
    buffer = np.zeros(4 * 6 + 1, dtype=np.uint8)
    X = buffer[1:].view(np.float32).reshape(2, 3)
    assert not X.flags.aligned
    assert as_rows(X, 3, F32).flags.aligned


# ----------------------------------------------------------------- data frames


def test_a_data_frame_of_mixed_and_nullable_columns_is_taken():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "int": [1, 2, 3],
            "float": [0.5, np.nan, 1.5],
            "bool": [True, False, True],
            "Int64": pandas.array([1, None, 3], dtype="Int64"),
            "Float64": pandas.array([None, 2.5, 3.5], dtype="Float64"),
            "boolean": pandas.array([True, None, False], dtype="boolean"),
        }
    )
    nan = np.nan
    expected = [
        [1, 0.5, 1, 1, nan, 1],
        [2, nan, 0, nan, 2.5, nan],
        [3, 1.5, 1, 3, 3.5, 0],
    ]
    for dtype in (F32, F64):
        rows = as_rows(frame, 6, dtype)
        assert np.array_equal(rows, expected, equal_nan=True)
    plain = frame[["int", "float"]]
    assert np.array_equal(as_rows(plain, 2, F64), plain.to_numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", ["object", "string"])
def test_texts_in_a_data_frame_are_refused_with_their_place(dtype):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [30.0, 31.0], "city": ["7", "Rome"]})
    frame["city"] = frame["city"].astype(dtype)
    with pytest.raises(TypeError, match=r"got '7' \(str\) in row 0, column 1.*Encode"):
        as_rows(frame, 2, F64)


def test_dates_in_a_data_frame_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"day": pandas.to_datetime(["2024-01-01"]), "x": [1.0]})
    with pytest.raises(TypeError, match=r"real numbers, got Timestamp.*column 0"):
        as_rows(frame, 2, F64)
    with pytest.raises(TypeError, match="dtype datetime64"):
        as_rows(frame[["day"]], 1, F64)


def test_categories_of_a_data_frame_are_refused_as_they_could_mean_two_things():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0], "kind": pandas.Categorical([30, 40])})
    with pytest.raises(TypeError, match=r"column 'kind' is of dtype category.*codes"):
        as_rows(frame, 2, F64)


# ----------------------------------------------------------------- what is refused


@BOTH
@pytest.mark.parametrize("n_columns", [0, 2, 4])
def test_another_number_of_features_is_refused(n_columns, dtype):
    message = (
        rf"X has {n_columns} features, but the forest was trained on 3\. "
        "Pass the same columns, in the same order"
    )
    with pytest.raises(ValueError, match=message):
        as_rows(np.zeros((5, n_columns)), 3, dtype)


@pytest.mark.parametrize(
    ("given", "n_dimensions", "remedy"),
    [
        (np.zeros(3), 1, r"Write X\.reshape\(1, -1\) for a single row"),
        ([1.0, 2.0, 3.0], 1, r"Write X\.reshape\(1, -1\) for a single row"),
        ([], 1, r"No rows at all are np\.empty\(\(0, 3\)\)"),
        (np.zeros((2, 3, 1)), 3, "Each row is one case"),
        (np.float64(1.0), 0, "Each row is one case"),
        (7, 0, "Each row is one case"),
    ],
    ids=["1-D", "list", "empty list", "3-D", "0-D", "number"],
)
def test_other_dimensions_are_refused_with_a_remedy(given, n_dimensions, remedy):
    message = rf"two dimensions \(rows, features\), got {n_dimensions}\. {remedy}"
    with pytest.raises(ValueError, match=message):
        as_rows(given, 3, F64)


def test_rows_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="rows of equal length"):
        as_rows([[1.0, 2.0], [3.0]], 2, F64)


@pytest.mark.parametrize(
    "given",
    [
        np.array([["1", "2"]]),
        [["a", "b"]],
        np.array([[b"1", b"2"]]),
        np.array([[1 + 2j, 0j]]),
        np.array([["2024-01-01", "2024-01-02"]], dtype="datetime64[D]"),
        np.array([[1, 2]], dtype="timedelta64[s]"),
        np.zeros((1, 2), dtype=[("a", float)]),
    ],
    ids=lambda given: str(np.asarray(given).dtype),
)
def test_arrays_of_anything_but_numbers_are_refused(given):
    message = "must hold real numbers, got an array of dtype.*Encode strings, dates"
    with pytest.raises(TypeError, match=message):
        as_rows(given, 2, F64)


@pytest.mark.parametrize(
    "value",
    [
        "1.5",
        b"1",
        1 + 2j,
        np.complex128(1),
        datetime.date(2024, 1, 1),
        np.datetime64("2024-01-01"),
        np.timedelta64(5, "s"),
        [1.0],
        {},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_that_are_no_numbers_are_refused_with_their_place(value):
    X = np.zeros((3, 2), dtype=object)
    X[1, 0] = value
    with pytest.raises(TypeError, match=r"real numbers, got .* in row 1, column 0\."):
        as_rows(X, 2, F64)


@pytest.mark.parametrize("value", [{"a": 1}, "a text", (n for n in range(3)), object])
def test_things_that_are_no_table_are_refused(value):
    with pytest.raises(TypeError, match="must hold real numbers"):
        as_rows(value, 3, F64)


def test_none_is_refused():
    with pytest.raises(ValueError, match="two dimensions"):
        as_rows(None, 3, F64)


def test_integers_that_no_float_can_hold_are_refused():
    with pytest.raises(ValueError, match="beyond the range of float64"):
        as_rows([[10**400]], 1, F64)


@pytest.mark.parametrize(
    "kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array]
)
def test_sparse_matrices_are_refused_with_a_remedy(kind):
    with pytest.raises(TypeError, match=r"sparse matrix.*X\.toarray\(\)"):
        as_rows(kind(np.eye(3)), 3, F64)


def test_masked_values_are_refused_rather_than_unmasked():
    X = np.ma.masked_array(TABLE, mask=[[0, 0, 1], [0, 0, 0]])
    with pytest.raises(TypeError, match=r"masked array.*filled\(np\.nan\)"):
        as_rows(X, 3, F64)


# ----------------------------------------------------------------- nothing is changed


@BOTH
@pytest.mark.parametrize("given", [np.float32, np.float64, np.int64, object])
def test_the_array_of_the_caller_is_left_alone_even_if_it_is_read_only(given, dtype):
    X = (10 * random_rows()).astype(given)
    before = X.copy()
    X.flags.writeable = False
    rows = as_rows(X, 3, dtype)
    assert np.array_equal(X, before)
    assert not X.flags.writeable
    assert np.shares_memory(rows, X) == (rows.dtype == X.dtype)


@pytest.mark.parametrize("given", [F32, F64])
def test_rows_that_are_already_right_are_not_copied(given):
    X = random_rows().astype(given)
    assert as_rows(X, 3, given) is X


def test_columns_of_the_model_in_another_order_are_put_in_order():
    pd = pytest.importorskip("pandas")
    X, y = datasets.bundled("iris")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = RandomForestClassifier(n_estimators=3, random_state=0).fit(frame, y)
    forest = read_model(model)
    np.testing.assert_array_equal(forest.predict(frame), model.predict(frame))
    shuffled = frame[["b", "a", "d", "c"]]
    np.testing.assert_array_equal(forest.predict(shuffled), model.predict(frame))
    # Names that are not the model's say nothing about the order.
    renamed = frame.set_axis(["w", "x", "y", "z"], axis=1)
    np.testing.assert_array_equal(forest.predict(renamed), model.predict(frame))
