"""What an encoder must hold to be looked up without any check, and category texts."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import forging
import spinney
from spinney import Forest, InvalidArgumentError, InvalidForestError
from spinney.forest.category_texts import category_text, distinct_texts
from spinney.forest.encoder import ABOVE, ENCODER_ARRAYS, EQUAL, VALUE, Encoder


def parts():
    """Return the arrays of an encoder of two projections."""
    return {
        "category_columns": [0, 2],
        "part_offsets": [0, 1, 4],
        "part_kind": [VALUE, VALUE, ABOVE, EQUAL],
        "part_column": [0, 2, 1, 0],
        "part_border": [0.0, 0.0, 0.5, 0.0],
        "part_missing_above": [False, False, True, False],
        "part_hash": [0, 0, 0, -7],
        "key_offsets": [0, 2, 3],
        "keys": np.array([1, 2**63, 5], dtype=np.uint64),
        "widths": [1, 2],
        "lines": [1.0, 2.0, 0.0, 3.0, 4.0, 0.5, 0.25],
    }


def encoder(**changes):
    return Encoder(**parts() | changes)


def forest(**changes):
    """Return a stump on the last added column."""
    return Forest(
        **{
            "tree_offsets": [0, 3],
            "feature": [5, -1, -1],
            "threshold": [0.3, 0.0, 0.0],
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [0.0, -1.0, 1.0],
            "n_features": 3,
            "aggregation": "sum",
            "encoder": encoder(),
        }
        | changes
    )


def test_added_columns_follow_those_of_the_row():
    made = forest()
    assert made.n_features == 3
    assert made.width == 6
    assert made.encoder.n_added == 3
    assert made.encoder.n_projections == 2
    assert made.predict([["a", 1.0, "b"]]) == [-1.0]
    assert made.predict(pd.DataFrame({"x": [1], "y": [0.0], "z": ["b"]})) == [-1.0]


WRONG = {
    "no category columns": {"category_columns": []},
    "columns that do not rise": {"category_columns": [2, 0]},
    "a column twice": {"category_columns": [0, 0]},
    "two axes": {"keys": np.zeros((3, 1), dtype=np.uint64)},
    "an unknown kind": {"part_kind": [VALUE, 3, ABOVE, EQUAL]},
    "too few borders": {"part_border": [0.0]},
    "a number as a category": {"part_column": [1, 2, 1, 0]},
    "a category as a number": {"part_column": [0, 2, 2, 0]},
    "a border that is none": {"part_border": [0.0, 0.0, np.nan, 0.0]},
    "part offsets that fall": {"part_offsets": [0, 5, 4]},
    "part offsets that end early": {"part_offsets": [0, 1, 3]},
    "part offsets that start late": {"part_offsets": [1, 1, 4]},
    "too few part offsets": {"part_offsets": [0, 4]},
    "key offsets that end late": {"key_offsets": [0, 2, 4]},
    "keys that fall": {"keys": np.array([2, 1, 5], dtype=np.uint64)},
    "a key twice": {"keys": np.array([2, 2, 5], dtype=np.uint64)},
    "no width": {"widths": [0, 2]},
    "a negative width": {"widths": [1, -2]},
    "a huge width": {"widths": [1, 2**62]},
    "too few lines": {"lines": [1.0, 2.0]},
    "a hash beyond 32 bits": {"part_hash": [0, 0, 0, 2**31]},
}


@pytest.mark.parametrize("name", WRONG)
def test_damaged_arrays_are_refused(name):
    with pytest.raises(InvalidForestError):
        encoder(**WRONG[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"feature": [6, -1, -1]},
        {"feature": [0, -1, -1]},  # a category column holds no number
        {"n_features": 2, "feature": [4, -1, -1]},
        {"input_dtype": "float64"},
        {"missing_value": -1.0},
        {"categories": [("a",), None, None]},
    ],
    ids=str,
)
def test_a_forest_that_does_not_fit_its_encoder_is_refused(changes):
    with pytest.raises(InvalidForestError):
        forest(**changes)


def test_arrays_are_read_only_and_survive_a_pickle():
    made = encoder()
    for name, dtype in ENCODER_ARRAYS.items():
        assert not getattr(made, name).flags.writeable
        assert getattr(made, name).dtype == dtype
    other = pickle.loads(pickle.dumps(made))
    assert all(
        np.array_equal(getattr(made, name), getattr(other, name))
        for name in ENCODER_ARRAYS
    )


def test_forged_files_are_refused_or_harmless(tmp_path):
    path = tmp_path / "forest"
    spinney.save(forest(), path)
    blob = path.read_bytes()
    names = [f"encoder_{name}" for name in ENCODER_ARRAYS]
    n_refused = 0
    for name in names:
        for odd in [*forging.ODD_INTEGERS, *forging.ODD_FLOATS]:

            def change(arrays, name=name, odd=odd):
                _, array = arrays[name]
                with np.errstate(all="ignore"):
                    limits = np.array(odd).astype(array.dtype)
                array[-1] = bool(odd == odd and odd) if array.dtype == bool else limits

            path.write_bytes(forging.with_arrays(blob, change))
            try:
                loaded = spinney.load(path)
            except spinney.SpinneyError:
                n_refused += 1
                continue
            loaded.predict([["a", 1.0, "b"], ["a", np.nan, 3]])
    assert n_refused > 50
    for name in names:
        path.write_bytes(
            forging.with_arrays(blob, lambda arrays, n=name: arrays.pop(n))
        )
        with pytest.raises(spinney.SpinneyError):
            spinney.load(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ü", b"\xc3\xbc"),
        ("", b""),
        (np.str_("a"), b"a"),
        (b"\xff", b"\xff"),
        (-7, b"-7"),
        (True, b"1"),
        (np.bool_(False), b"0"),
        (np.uint64(2**64 - 1), b"18446744073709551615"),
        (-(2**63), b"-9223372036854775808"),
    ],
)
def test_category_values_are_texts(value, text):
    assert category_text(value, "x") == text


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.0,
        np.nan,
        np.float32(1),
        pd.NA,
        2**63,
        1j,
        (),
        np.timedelta64(1, "s"),
        [1],
    ],
)
def test_other_values_are_no_categories(value):
    with pytest.raises(InvalidArgumentError, match="Column 'x' holds categories"):
        category_text(value, "x")
    with pytest.raises(InvalidArgumentError, match="Column 'x' holds categories"):
        distinct_texts(["a", value], "x")


def test_equal_keys_of_different_types_are_told_apart():
    texts, index = distinct_texts([1, "1", True, 0, "a", 1], "x")
    assert [texts[k] for k in index] == [b"1", b"1", b"1", b"0", b"a", b"1"]
    with pytest.raises(InvalidArgumentError):
        distinct_texts([1, 1.0], "x")
