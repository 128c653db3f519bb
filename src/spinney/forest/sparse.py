"""Sparse rows, made dense a block at a time.

A matrix of a million rows and ten thousand columns of zeros and ones takes a few
hundred megabytes; dense it would take forty gigabytes. So it stays as it is, and only
the block of rows that is evaluated next is dense.

An entry that is not stored is zero to scikit-learn, LightGBM and CatBoost, and missing
to XGBoost; a zero that is stored is zero to all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest.blocks import BlockedRows


def is_sparse(X: Any) -> bool:
    """Whether `X` is a matrix or an array of SciPy's sparse kinds."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


class SparseRows(BlockedRows):
    """Sparse rows that are dense only a block at a time.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array
        The rows; never changed.
    absent : float
        What an entry means that is not stored: 0 or NaN.
    """

    def __init__(self, matrix: Any, absent: float) -> None:
        self._matrix = matrix
        self._absent = absent
        self.shape: tuple[int, int] = matrix.shape
        self.dtype: np.dtype = matrix.dtype

    def _some(self, index: Any) -> SparseRows:
        return SparseRows(self._matrix[index], self._absent)

    def dense(self) -> NDArray[np.floating]:
        """Return all rows as an array."""
        if self._absent == 0:
            return np.ascontiguousarray(self._matrix.toarray())
        rows = np.full(self.shape, self._absent, dtype=self.dtype)
        matrix = self._matrix
        which = np.repeat(np.arange(len(self)), np.diff(matrix.indptr))
        rows[which, matrix.indices] = matrix.data
        return rows


def as_sparse_rows(
    X: Any,
    n_features: int,
    dtype: np.dtype,
    absent: float,
    missing_value: float | None = None,
) -> SparseRows:
    """Return a sparse matrix as rows of the type that a forest compares in.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_rows, n_features)
        Numbers. Entries that are stored several times are added up.
    n_features : int
        Number of columns that the forest was trained on.
    dtype : dtype
        As for `spinney.forest.rows.as_rows`.
    absent : float
        What an entry means that is not stored.
    missing_value : float, optional
        A number that becomes NaN where it is stored.

    Raises
    ------
    TypeError
        If `X` holds something other than real numbers.
    ValueError
        If `X` has another shape.
    """
    if X.dtype.kind not in "fiub":
        msg = f"X must hold real numbers, got a sparse matrix of dtype {X.dtype}."
        raise TypeError(msg)
    if X.ndim != 2 or X.shape[1] != n_features:
        msg = (
            f"X has {X.shape[-1]} features, but the forest was trained on "
            f"{n_features}. Pass the same columns, in the same order."
        )
        raise ValueError(msg)
    wanted: type[np.floating] = np.float64
    if dtype == np.float32 or X.dtype in (np.float32, np.float16):
        wanted = np.float32
    matrix = X.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        matrix = matrix.astype(wanted)
    if missing_value is not None:
        matrix = matrix.copy()
        matrix.data[matrix.data == wanted(missing_value)] = np.nan
    return SparseRows(matrix, absent)
