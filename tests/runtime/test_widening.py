"""Category splits: single rows by wider rows, batches by bits; both as a plain walk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from spinney import Forest
from spinney.runtime import widening
from spinney.runtime.bitslice_kernels import compare_categories, find_codes_of
from spinney.runtime.choice import config
from spinney.runtime.conditions import (
    CATEGORICAL,
    MISSING_LEFT,
    NO_BIT,
    members_as_bits,
)
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.leaf_masks import MAX_ROWS
from spinney.runtime.simd import STRIDE, count_ones, unite_planes
from spinney.runtime.widening import widened
from strategies import forests, random_forest

RULES = ("truncate", "floor", "exact")


def hard_values(n_codes, dtype, seed, n_rows):
    """Return categories and what is none: fractions, negatives, NaN, infinities."""
    rng = np.random.default_rng(seed)
    special = [np.nan, np.inf, -np.inf, -0.5, -1.0, -0.0, 1e300, 2.0**31, n_codes]
    values = np.concatenate([rng.integers(0, n_codes + 3, n_rows), special])
    values = np.where(rng.random(len(values)) < 0.2, values + 0.5, values)
    with np.errstate(over="ignore"):
        return rng.choice(values, n_rows).astype(dtype)


def goes_right(x, members, rule, missing_left):
    """The obvious twin of a test: one number, a Python set."""
    if np.isnan(x):
        return not missing_left
    if np.isinf(x) or (rule == "exact" and x != np.floor(x)):
        return True
    category = np.trunc(x) if rule == "truncate" else np.floor(x)
    return category not in members


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_codes", [1, 5, 32, 61, 62, 63, 64, 65, 200])
def test_bits_of_categories_are_those_of_the_obvious_twin(n_codes, rule, dtype):
    rng = np.random.default_rng(n_codes)
    values = hard_values(n_codes, dtype, n_codes, 128)
    code = np.empty(128, dtype=np.int64)
    planes = np.full(64 * STRIDE, 7, dtype=np.uint64)
    present = find_codes_of(values, 0, 128, RULES.index(rule), code, planes)
    has_rows = planes.reshape(64, STRIDE).any(axis=1)
    assert int(present) == sum(1 << k for k in np.flatnonzero(has_rows).tolist())
    assert not planes.reshape(64, STRIDE)[:, 2:].any()
    for missing_left in (False, True):
        members = set(np.flatnonzero(rng.random(n_codes) < 0.5).tolist())
        members.add(n_codes - 1)
        words = np.zeros(n_codes // 32 + 2, dtype=np.uint32)  # one before the set
        for member in members:
            words[1 + member // 32] |= np.uint32(1 << member % 32)
        expected = [goes_right(x, members, rule, missing_left) for x in values]
        expected = sum(1 << r for r, right in enumerate(expected) if right)

        outcomes = np.zeros(3, dtype=np.uint64)
        compare_categories(code, missing_left, words, 1, len(words), 2, outcomes, 1)
        assert int(outcomes[1]) | int(outcomes[2]) << 64 == expected
        assert outcomes[0] == 0

        kind = np.array([CATEGORICAL | MISSING_LEFT * missing_left], dtype=np.uint8)
        one_set = np.array([1, len(words)]), words, np.array([0])
        left = int(members_as_bits(*one_set, kind)[0])
        if n_codes > NO_BIT:
            assert left == 1 << NO_BIT
            continue
        for chosen, flips in ((~left, 0), (left, ~np.uint64(0))):
            chosen = np.uint64(chosen & int(present))
            assert count_ones_of(chosen) == int(chosen).bit_count()
            outcomes = np.zeros(1 + STRIDE, dtype=np.uint64)
            unite(planes, chosen, outcomes, np.uint64(flips))
            assert int(outcomes[1]) | int(outcomes[2]) << 64 == expected
            assert outcomes[0] == 0


@kernel
def unite(planes, chosen, outcomes, flips):
    zero, one = np.uint64(0), np.uint64(1)
    unite_planes(planes, zero, np.uint64(STRIDE), chosen, outcomes, one, flips)


@kernel
def count_ones_of(word):
    return count_ones(word)


def with_categories(seed, rule):
    return random_forest(seed, task="mean", categories=rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(4))
def test_single_rows_small_and_large_batches_agree(seed, rule):
    forest = with_categories(seed, rule)
    wide = widened(forest)
    assert wide is not None
    columns = [
        hard_values(40, np.float32, seed + k, 200) for k in range(forest.n_features)
    ]
    X = np.column_stack(columns)
    expected = reference.raw(forest, X)
    for rows in (X, X.astype(np.float64)):
        np.testing.assert_array_equal(forest.decision_function(rows), expected)
        for start in (0, 40, 190):
            few = slice(start, start + 7)
            np.testing.assert_array_equal(
                forest.decision_function(rows[few]), expected[few]
            )
    labels, ask = forest.predict(X), forest.predictor()
    probabilities, ask_proba = forest.predict_proba(X), forest.predictor(kind="proba")
    for row, label, wanted in zip(X[:50], labels, probabilities, strict=False):
        assert ask(row) == label
        np.testing.assert_array_equal(ask_proba(row), wanted)


@settings(max_examples=30)
@given(forest=forests(), seed=st.integers(0, 2**32 - 1))
def test_a_wider_forest_has_the_leaves_of_the_other(forest, seed):
    wide = widened(forest)
    tests = forest.category_set is not None and (forest.category_set >= 0).any()
    zero = forest.zero_is_missing is not None and forest.zero_is_missing.any()
    if zero or not tests:
        assert wide is None
        return
    columns = [
        hard_values(70, np.float64, seed % 1000 + k, 9)
        for k in range(forest.n_features)
    ]
    rows = forest.engine.rows(np.column_stack(columns))
    plain = wide.engine.forest
    assert plain.category_set is None
    np.testing.assert_array_equal(
        plain.leaves(wide.rows(rows)), reference.leaves(forest, rows)
    )


def test_equal_sets_are_one_test():
    stump = {
        "tree_offsets": [0, 3, 6],
        "feature": [0, -1, -1, 0, -1, -1],
        "threshold": np.zeros(6),
        "left": [1, -1, -1, 4, -1, -1],
        "right": [2, -1, -1, 5, -1, -1],
        "value": np.arange(6.0),
        "n_features": 1,
        "aggregation": "sum",
        "category_set": [0, -1, -1, 1, -1, -1],
        "category_offsets": [0, 1, 3],
        "category_words": [6, 6, 0],  # the same set, once with a word more
    }
    wide = widened(Forest(**stump))
    assert wide.engine.forest.n_features == 1
    other = widened(Forest(**stump | {"missing_left": [1, 0, 0, 0, 0, 0]}))
    assert other.engine.forest.n_features == 2  # NaN tells them apart


def test_tables_that_would_be_too_large_are_not_made(monkeypatch):
    forest = with_categories(0, "truncate")
    expected = forest.replace().predict(np.ones((3, forest.n_features)))
    monkeypatch.setattr(widening, "MAX_TABLE_BYTES", 8)
    assert widened(forest) is None
    few = forest.replace()  # with an engine of its own
    np.testing.assert_array_equal(
        few.predict(np.ones((3, forest.n_features))), expected
    )


@pytest.mark.parametrize("rule", RULES)
def test_a_few_rows_with_categories_go_by_masks_where_trees_are_small(rule):
    forest = random_forest(7, task="mean", categories=rule, n_trees=30)
    engine = forest.engine
    assert engine._least_masked <= engine.widened.engine._least_masked <= MAX_ROWS
    columns = [hard_values(40, np.float32, k, 64) for k in range(forest.n_features)]
    rows = engine.rows(np.column_stack(columns))
    expected = reference.raw(forest, rows)
    for n_rows in (1, 2, 7, 8, 9, 16, 17, 33, 64):
        found = engine._masked_raw(rows[:n_rows], 1)
        assert found.tobytes() == expected[:n_rows].tobytes()
        found = forest.decision_function(rows[:n_rows])
        assert found.tobytes() == expected[:n_rows].tobytes()


@given(forest=forests(max_depth=5), n_rows=st.integers(1, 40))
@settings(max_examples=60)
def test_masks_of_any_forest_with_categories_give_the_bits_of_the_reference(
    forest, n_rows
):
    engine = forest.engine
    if engine.widened is None or engine._least_masked > MAX_ROWS:
        return
    rows = engine.rows(
        np.column_stack(
            [
                hard_values(12, forest.input_dtype, k, n_rows)
                for k in range(forest.n_features)
            ]
        )
    )
    expected = reference.raw(forest, rows)
    assert engine._masked_raw(rows, 1).tobytes() == expected.tobytes()


def test_without_categories_no_kernel_for_them_is_compiled(monkeypatch):
    def compiled(*_):
        pytest.fail("a kernel for categories was called")

    monkeypatch.setattr("spinney.runtime.engine.score_masked_categories", compiled)
    monkeypatch.setattr("spinney.runtime.widening.widen_row", compiled)
    monkeypatch.setattr("spinney.runtime.widening.widen_rows", compiled)
    monkeypatch.setattr(config, "engine", "compiled")
    forest = random_forest(7, task="mean", n_trees=30)
    rows = np.zeros((8, forest.n_features), dtype=np.float32)
    assert forest.engine._least_masked <= len(rows)
    for n_rows in (1, len(rows)):
        forest.predict(rows[:n_rows])
    forest.predictor()(rows[0])
