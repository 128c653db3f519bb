"""One row at a time: labels and probabilities, however the row comes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import spinney
from strategies import forests, random_rows


@given(forest=forests())
def test_probabilities_of_one_row_are_those_of_many(forest):
    if forest.classes_ is None:
        with pytest.raises(TypeError, match="regressor"):
            forest.predictor(kind="proba")
        return
    rows = random_rows(forest, 8, seed=0)
    expected = forest.predict_proba(rows)
    ask = forest.predictor(kind="proba")
    for row, wanted in zip(rows, expected, strict=True):
        found = ask(row)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(ask(row[::-1][::-1]), wanted)
        np.testing.assert_array_equal(ask(row.tolist()), wanted)


def test_extreme_scores_have_the_probabilities_of_predict_proba():
    values = [-1e308, -710.0, -709.5, -745.2, -36.9, -0.0, 1e-300, 37.0, 800.0, 1e308]
    for value in values:
        forest = spinney.Forest(
            tree_offsets=[0, 1],
            feature=[-1],
            threshold=[0.0],
            left=[-1],
            right=[-1],
            value=[[value]],
            n_features=1,
            aggregation="sum",
            classes=[0, 1],
            link="logistic",
        )
        row = np.zeros(1, dtype=np.float32)
        expected = forest.predict_proba(row.reshape(1, 1))[0]
        found = forest.predictor(kind="proba")(row)
        np.testing.assert_array_equal(found, expected)


def test_other_kinds_are_refused():
    forest = stump()
    with pytest.raises(ValueError, match="kind must be 'label' or 'proba', got 'raw'"):
        forest.predictor(kind="raw")


def stump(**changes):
    """Return a tree that asks whether the second column is "b"."""
    return spinney.Forest(
        **{
            "tree_offsets": [0, 3],
            "feature": [1, -1, -1],
            "threshold": [0.0, 0.0, 0.0],
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]],
            "n_features": 2,
            "aggregation": "mean",
            "classes": ["no", "yes"],
            "category_set": [0, -1, -1],
            "category_offsets": [0, 1],
            "category_words": [0b10],
            "categories": [None, ["a", "b"]],
            "feature_names": ["number", "text"],
        }
        | changes
    )


def test_a_row_comes_as_array_list_dict_or_frame():
    forest = stump()
    for kind, right, wrong in (
        ("label", "yes", "no"),
        ("proba", [0.25, 0.75], [1.0, 0.0]),
    ):
        ask = forest.predictor(kind=kind)
        frame = pd.DataFrame({"number": [0.5, 0.5], "text": ["b", "a"]})
        for row in (
            np.array([0.5, 1.0], dtype=np.float32),
            np.array([0.5, 1.0]),
            [0.5, "b"],
            (None, "b"),
            {"number": 0.5, "text": "b"},
            {"text": "b", "number": None, "more": "ignored"},
            frame[:1],
            frame[:1].astype({"text": "category"}),
        ):
            np.testing.assert_array_equal(ask(row), right)
        for row in ([0.5, "a"], [0.5, "unseen"], [0.5, None], frame[1:]):
            np.testing.assert_array_equal(ask(row), wrong)
        with pytest.raises(ValueError, match="missing are 'text'"):
            ask({"number": 0.5})
        with pytest.raises(ValueError, match="takes one row, got 2"):
            ask(frame)
        with pytest.raises(ValueError, match=r"got shape \(3,\)"):
            ask([1.0, 2.0, 3.0])


def test_a_dict_needs_names():
    ask = stump(feature_names=None).predictor()
    with pytest.raises(ValueError, match="needs the names of the columns"):
        ask({"number": 0.5, "text": "b"})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, object])
def test_a_row_of_a_data_frame_is_taken_by_its_names(dtype):
    forest = stump(categories=None, feature_names=["a", "b"])
    ask = forest.predictor(), forest.predictor(kind="proba")
    for values in ([0.0, 1.0], [1.0, 0.0]):
        row = pd.Series(values, index=["a", "b"], dtype=dtype)
        expected = forest.predict([values])[0], forest.predict_proba([values])[0]
        for _ in range(2):  # with and without kernels at hand
            for each in (row, row[::-1], row.rename({"a": "x", "b": "y"})):
                assert ask[0](each) == expected[0]
                np.testing.assert_array_equal(ask[1](each), expected[1])
