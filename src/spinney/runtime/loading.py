"""Kernels that copy the columns that a forest compares from rows to scratch memory.

The same rules as in `walk_kernels` apply. `row_indices` selects rows of `X`; if it is
empty, all rows of `X` are copied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel
from spinney.runtime.simd import EIGHT, turn_eight

u = np.uint64

# For `row_indices`.
ALL_ROWS = np.empty(0, dtype=np.int64)


@kernel
def _row_at(row_indices, r):
    """Return where in `X` the row `r` is."""
    return u(row_indices[r]) if row_indices.shape[0] > 0 else r


@kernel
def load_slots(X, i, slots, row):
    """Write what the nodes of `RowArguments` compare: a number for each slot.

    A row goes left where its number is at most the threshold, so NaN goes right. Where
    it should go left it becomes minus infinity, which the last slot always is: the one
    that leaves look at.
    """
    n_slots = slots.shape[0]
    if n_slots > 0 and slots[n_slots - 1] == n_slots - 1:
        # All columns from the first on, and NaN goes right: several times quicker.
        for s in range(u(n_slots)):
            row[s] = X[i, s]
    else:
        for s in range(u(n_slots)):
            column = slots[s]
            x = X[i, u(max(column, ~column))]
            row[s] = -np.inf if column < 0 and x != x else x
    row[n_slots] = -np.inf


@kernel
def load_rows(X, row_indices, first, n_rows, columns, rows):
    """Copy the columns in use of some rows; tell whether there is a NaN among them.

    They are written to `rows` one after another, each followed by minus infinity, the
    column that leaves look at. No kernel is called for a single row here: such a call
    takes longer than to copy fifty columns.
    """
    n_columns = u(columns.shape[0])
    stride = n_columns + u(1)
    is_dense = n_columns > 0 and columns[n_columns - u(1)] == columns.shape[0] - 1
    is_listed = row_indices.shape[0] > 0
    n_nan = 0
    for r in range(u(n_rows)):
        i = u(row_indices[u(first) + r]) if is_listed else u(first) + r
        start = r * stride
        # A sum, since the compiler makes no vectors of a search.
        if is_dense:
            # All columns from the first on, which is several times quicker to copy.
            for c in range(n_columns):
                x = X[i, c]
                rows[start + c] = x
                n_nan += x != x
        else:
            for c in range(n_columns):
                x = X[i, u(columns[c])]
                rows[start + c] = x
                n_nan += x != x
        rows[start + n_columns] = -np.inf
    return n_nan > 0


def find_windows(
    columns: NDArray[np.int64], n_features: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Cover the columns in use with windows of eight neighbours each.

    Parameters
    ----------
    columns : ndarray of shape (n_columns,), dtype=int64
        The columns in use, ascending.
    n_features : int
        Length of a row, at least. No window fits into fewer than eight.

    Returns
    -------
    begins : ndarray of shape (n_windows,), dtype=uint64
        The first column of each window.
    members : ndarray of shape (n_windows, 8), dtype=int64
        The numbers of its columns among those in use, `n_columns` for all others.
    """
    begins: list[int] = []
    for column in columns.tolist() if n_features >= EIGHT else []:
        if not begins or column >= begins[-1] + EIGHT:
            begins.append(min(column, n_features - EIGHT))
    # The window of a column that two of them cover is the first one.
    window = np.searchsorted(begins, columns, side="right") - 1
    members = np.full((len(begins), EIGHT), len(columns), dtype=np.int64)
    if begins:
        before = np.array([-EIGHT, *begins])[window] + EIGHT
        window -= columns < before
        members[window, columns - np.array(begins)[window]] = np.arange(len(columns))
    return np.array(begins, dtype=np.uint64), members


@kernel
def load_columns(
    X, row_indices, first, n_rows, columns, begins, members, start, values, targets
):
    """Copy the columns in use of some rows, column after column.

    Eight rows and eight neighbouring columns are turned at a time.

    Parameters
    ----------
    X, row_indices
        All rows, and which are meant.
    first, n_rows : int
        Which of these to copy.
    columns : ndarray of shape (n_columns,), dtype=int64
        The columns in use.
    begins, members
        Of `find_windows`.
    start : ndarray of shape (n_columns + 1,), dtype=int64
        Where in `values` each column goes. There must be room for the next multiple of
        eight rows, also at the last entry, which is for columns not in use.
    values : ndarray, dtype of `X`
        Written to.
    targets : scratch of shape (n_windows * 8,), dtype=uint64
    """
    n_windows = begins.shape[0]
    if n_windows == 0:
        for r in range(u(n_rows)):
            i = _row_at(row_indices, u(first) + r)
            for c in range(columns.shape[0]):
                values[u(start[c]) + r] = X[i, u(columns[c])]
        return
    for k in range(n_windows):
        for j in range(EIGHT):
            targets[EIGHT * k + j] = start[members[k, j]]
    width, rows = u(X.shape[1]), X.reshape(-1)
    row_begins = np.empty(EIGHT, dtype=np.uint64)
    for r in range(u(0), u(n_rows), u(EIGHT)):
        for k in range(u(EIGHT)):
            # Behind the last row it is taken again, for nobody to look at.
            which = u(first) + min(r + k, u(n_rows - 1))
            row_begins[k] = _row_at(row_indices, which) * width
        for k in range(u(n_windows)):
            turn_eight(rows, row_begins, begins[k], values, targets, u(EIGHT) * k, r)
