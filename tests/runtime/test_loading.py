"""Rows are copied as they are, whichever way round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.runtime.loading import (
    ALL_ROWS,
    find_windows,
    load_columns,
    load_rows,
)

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], dtype=np.float32)


def some_rows(rng, n_rows, n_features, dtype):
    """Random rows with NaN, infinities and a denormal among them."""
    X = rng.normal(size=(n_rows, n_features)).astype(dtype)
    strange = rng.random(X.shape) < 0.2
    X[strange] = rng.choice(SPECIAL, size=np.count_nonzero(strange))
    return X


def some_columns(rng, n_features):
    """Ascending columns, at times all and at times none."""
    return np.flatnonzero(rng.random(n_features) < rng.choice([0.0, 0.2, 0.6, 1.0]))


@given(
    seed=st.integers(0, 2**32 - 1),
    n_features=st.integers(1, 40),
    n_rows=st.integers(1, 40),
    dtype=st.sampled_from([np.float32, np.float64]),
    scattered=st.booleans(),
)
def test_columns_are_those_of_the_rows(seed, n_features, n_rows, dtype, scattered):
    rng = np.random.default_rng(seed)
    X = some_rows(rng, 50, n_features, dtype)
    columns = some_columns(rng, n_features)
    row_indices = rng.permutation(50) if scattered else ALL_ROWS
    meant = X[row_indices] if scattered else X
    first = int(rng.integers(0, 50 - n_rows + 1))
    begins, members = find_windows(columns, n_features)
    room = -(-n_rows // 8) * 8 + 3
    start = room * rng.permutation(len(columns) + 1)
    values = np.full(room * len(start), 7, dtype=dtype)
    targets = np.empty(members.size, dtype=np.uint64)
    load_columns(
        X, row_indices, first, n_rows, columns, begins, members, start, values, targets
    )
    for c, column in enumerate(columns):
        expected = meant[first : first + n_rows, column]
        assert values[start[c] :][:n_rows].tobytes() == expected.tobytes()
        # Three numbers behind the last eight rows are nobody's.
        assert (values[start[c] :][room - 3 : room] == 7).all()


@given(seed=st.integers(0, 2**32 - 1), n_features=st.integers(1, 60))
def test_windows_cover_every_column_in_use_once(seed, n_features):
    columns = some_columns(np.random.default_rng(seed), n_features)
    begins, members = find_windows(columns, n_features)
    if n_features < 8:
        assert len(begins) == 0
        return
    assert (begins + 8 <= n_features).all()
    found = {
        int(member): int(begin) + j
        for begin, window in zip(begins, members, strict=True)
        for j, member in enumerate(window)
        if member < len(columns)
    }
    assert found == dict(enumerate(columns.tolist()))
    assert np.count_nonzero(members < len(columns)) == len(columns)
    assert len(begins) <= len(columns)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_end_with_minus_infinity_and_tell_of_nan(dtype, scattered):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 5)).astype(dtype)
    X[7, 1] = np.nan
    columns = np.array([1, 4])
    row_indices = rng.permutation(20) if scattered else ALL_ROWS
    meant = X[row_indices] if scattered else X
    at = int(np.flatnonzero(np.isnan(meant[:, 1]))[0])
    rows = np.empty(20 * 3, dtype=dtype)
    assert load_rows(X, row_indices, 0, 20, columns, rows)
    expected = np.column_stack([meant[:, columns], np.full(20, -np.inf)])
    assert np.array_equal(rows.reshape(20, 3), expected, equal_nan=True)
    assert not load_rows(X, row_indices, at + 1, 19 - at, columns, rows)
    assert not load_rows(X, row_indices, 0, 20, np.array([0, 4]), rows)
