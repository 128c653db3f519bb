"""Features on demand: the same answers, and nothing bought twice or for nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from spinney.errors import InvalidArgumentError
from spinney.pruning.costs import purchases_for
from spinney.pruning.lazy import predict_lazily
from strategies import forests, forests_and_rows, random_forest, random_rows


class Shop:
    """Sells the values of `X`, and writes down what was bought."""

    def __init__(self, X):
        self.X = X
        self.sold = np.zeros(X.shape, dtype=int)
        self.calls = []

    def __call__(self, feature, rows):
        assert type(feature) is int
        assert rows.dtype == np.int64
        assert len(rows) > 0
        assert (np.diff(rows) > 0).all()
        self.sold[rows, feature] += 1
        self.calls.append((feature, rows))
        return self.X[rows, feature]


def slow_needs(forest, X):
    """Which features lie on the paths of each row, node by node."""
    rows = reference.rounded_rows(forest, X)
    needs = np.zeros(X.shape, dtype=bool)
    for r, row in enumerate(rows):
        for node in forest.tree_offsets[:-1]:
            while forest.feature[node] >= 0:
                feature = forest.feature[node]
                needs[r, feature] = True
                left = reference.goes_left(forest, node, float(row[feature]))
                node = forest.left[node] if left else forest.right[node]
    return needs


@given(forests_and_rows())
def test_answers_are_those_of_the_forest_and_only_what_is_needed_is_bought(case):
    forest, X = case
    shop = Shop(X)
    found = predict_lazily(forest, shop, len(X))
    needs = slow_needs(forest, X)
    np.testing.assert_array_equal(shop.sold, needs)  # once each, and nothing else
    np.testing.assert_array_equal(found.bought, needs)
    np.testing.assert_array_equal(found.labels, forest.predict(X))
    if forest.classes is None:
        assert found.probabilities is None
    else:
        np.testing.assert_array_equal(found.probabilities, forest.predict_proba(X))
    np.testing.assert_array_equal(found.cost, needs.sum(axis=1))
    assert found.n_calls == len(shop.calls)


@given(forests_and_rows(max_rows=30), st.integers(0, 2**32 - 1))
def test_next_is_the_feature_that_most_rows_wait_for(case, seed):
    forest, X = case
    costs = np.random.default_rng(seed).integers(0, 9, size=forest.n_features)
    purchases = purchases_for(forest.n_features, None, costs, None)
    shop = Shop(X)
    found = predict_lazily(forest, shop, len(X), purchases=purchases)
    known = np.zeros(X.shape, dtype=bool)
    rows = reference.rounded_rows(forest, X)
    for feature, buyers in shop.calls:
        waits = np.zeros(X.shape, dtype=bool)
        for r in range(len(X)):
            for node in forest.tree_offsets[:-1]:
                while forest.feature[node] >= 0 and known[r, forest.feature[node]]:
                    x = float(rows[r, forest.feature[node]])
                    left = reference.goes_left(forest, node, x)
                    node = forest.left[node] if left else forest.right[node]
                if forest.feature[node] >= 0:
                    waits[r, forest.feature[node]] = True
        assert feature == waits.sum(axis=0).argmax()
        assert buyers.tolist() == np.flatnonzero(waits[:, feature]).tolist()
        known[buyers, feature] = True
    np.testing.assert_array_equal(found.cost, known @ costs)


def test_one_feature_is_bought_for_all_rows_in_one_call():
    forest = random_forest(0, n_trees=9, n_features=1, depth=20)
    X = random_rows(forest, 500)
    found = predict_lazily(forest, Shop(X), 500)
    assert found.n_calls == 1
    assert found.bought.all()


def test_calls_are_few_and_rows_many():
    forest = random_forest(1, n_trees=20, n_features=8, depth=30)
    X = random_rows(forest, 1000)
    found = predict_lazily(forest, Shop(X), 1000)
    assert found.bought.sum() / found.n_calls > 100


@pytest.mark.parametrize("categories", ["truncate", "floor", "exact"])
def test_categories_and_zeros_that_mean_missing_are_followed(categories):
    forest = random_forest(
        2, n_trees=12, depth=30, categories=categories, zero_is_missing=True
    )
    assert (forest.category_set >= 0).any()
    assert forest.zero_is_missing.any()
    X = random_rows(forest, 300)
    found = predict_lazily(forest, Shop(X), 300)
    np.testing.assert_array_equal(found.labels, forest.predict(X))
    np.testing.assert_array_equal(found.bought, slow_needs(forest, X))


def test_missing_values_go_where_the_forest_sends_them():
    forest = random_forest(3, n_trees=7, depth=12)
    X = np.full((5, forest.n_features), np.nan)
    found = predict_lazily(forest, Shop(X), 5)
    np.testing.assert_array_equal(found.labels, forest.predict(X))
    np.testing.assert_array_equal(found.bought, slow_needs(forest, X))


@given(forests())
def test_no_rows_buy_nothing(forest):
    X = np.empty((0, forest.n_features))
    found = predict_lazily(forest, Shop(X), 0)
    assert len(found.labels) == len(found.cost) == found.n_calls == 0
    assert found.bought.shape == X.shape


def test_single_row_buys_along_its_own_paths():
    forest = random_forest(4, n_trees=3, n_features=50, shape="chain", depth=10)
    X = random_rows(forest, 1)
    found = predict_lazily(forest, Shop(X), 1)
    assert found.n_calls == found.bought.sum() == found.cost[0]
    np.testing.assert_array_equal(found.labels, forest.predict(X))


def test_leaves_alone_buy_nothing():
    forest = random_forest(5, shape="leaf")
    found = predict_lazily(forest, Shop(np.zeros((4, forest.n_features))), 4)
    assert found.n_calls == 0
    np.testing.assert_array_equal(
        found.labels, forest.predict(np.zeros((4, forest.n_features)))
    )


def test_features_bought_together_are_paid_for_once():
    bought = np.array(
        [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool
    )
    names = ["iron", "ferritin", "age", "scan"]
    purchases = purchases_for(
        4, names, {"blood": 5.0, "scan": 20.0}, {"blood": ["iron", "ferritin"]}
    )
    assert purchases.cost_of(bought).tolist() == [5.0, 6.0, 20.0, 0.0]


@pytest.mark.parametrize(
    "as_answer",
    [list, tuple, pd.Series, lambda values: values.astype(object), np.float32],
)
def test_values_may_come_in_many_kinds(as_answer):
    forest = random_forest(6, n_trees=3, depth=5)
    X = random_rows(forest, 20, dtype=np.float32).astype(np.float64)
    shop = Shop(X)
    found = predict_lazily(forest, lambda *wanted: as_answer(shop(*wanted)), 20)
    np.testing.assert_array_equal(found.labels, forest.predict(X))


def test_none_and_pandas_na_are_missing_values():
    forest = random_forest(7, n_trees=3, depth=5)
    X = np.full((2, forest.n_features), np.nan)
    found = predict_lazily(forest, lambda feature, rows: [None, pd.NA][: len(rows)], 2)
    np.testing.assert_array_equal(found.labels, forest.predict(X))


def test_rows_may_be_written_to_by_the_caller():
    forest = random_forest(8, n_trees=5, depth=8)
    X = random_rows(forest, 30)

    def fetch(feature, rows):
        values = X[rows, feature]
        rows[:] = 0
        return values

    found = predict_lazily(forest, fetch, 30)
    np.testing.assert_array_equal(found.labels, forest.predict(X))


STUMPS = random_forest(9, n_trees=2, n_features=1, shape="stump")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ([1.0, 2.0], r"fetch\(0, rows\) must return 3 numbers, .* shape \(2,\)"),
        ([[1.0], [2.0], [3.0]], r"must return 3 numbers, .* shape \(3, 1\)"),
        (1.0, r"must return 3 numbers, .* shape \(\)"),
        (None, r"must return 3 numbers, .* shape \(\)"),
        (["a", "b", "c"], "cannot be converted to numbers"),
        ([1.0, "b", None], "cannot be converted to numbers"),
        ([1.0, [2.0], 3.0], "cannot be converted to numbers"),
        ([1j, 2j, 3j], "cannot be converted to numbers"),
    ],
)
def test_wrong_answers_of_fetch_are_described(answer, complaint):
    with pytest.raises(InvalidArgumentError, match=complaint):
        predict_lazily(STUMPS, lambda feature, rows: answer, 3)


def test_missing_values_are_refused_if_told_so():
    with pytest.raises(InvalidArgumentError, match="got nan for row 1"):
        predict_lazily(
            STUMPS, lambda feature, rows: [0.0, np.nan, 1.0], 3, finite_only=True
        )


def test_errors_of_fetch_come_through_with_a_note():
    forest = random_forest(1, n_trees=20, n_features=8, depth=30)
    shop = Shop(random_rows(forest, 10))

    def fetch(feature, rows):
        if len(shop.calls) == 2:
            msg = "no answer"
            raise ConnectionError(msg)
        return shop(feature, rows)

    with pytest.raises(ConnectionError, match="no answer") as caught:
        predict_lazily(forest, fetch, 10)
    assert caught.value.args == ("no answer",)
    (note,) = caught.value.__notes__
    assert f"after {shop.sold.sum()} values had been bought" in note


@pytest.mark.parametrize("n_rows", [-1, 2.0, True, "3", None])
def test_wrong_number_of_rows_is_refused(n_rows):
    with pytest.raises(InvalidArgumentError, match="n_rows must be an integer"):
        predict_lazily(STUMPS, lambda feature, rows: rows, n_rows)


def test_fetch_must_be_callable():
    with pytest.raises(InvalidArgumentError, match="fetch must be callable, got list"):
        predict_lazily(STUMPS, [1.0, 2.0], 2)
