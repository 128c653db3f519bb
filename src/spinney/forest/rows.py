"""Rows as they come from a caller, made into the arrays that kernels take."""

from __future__ import annotations

import reprlib
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest.frames import frame_of


def as_rows(
    X: Any, n_features: int, dtype: np.dtype, rounded: str = "none"
) -> NDArray[np.floating]:
    """Return `X` as a two-dimensional array of the type a forest compares in.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Numbers: floats, integers or booleans; NaN and infinities are welcome. Missing
        values of a data frame become NaN.
    n_features : int
        Number of columns that the forest was trained on.
    dtype : dtype
        ``float32``: rows are rounded to float32, as the library of the forest does
        it. ``float64``: float64 rows keep their full precision, and float32 rows stay
        as they are, because the comparison comes out the same.
    rounded : {"none", "integers", "non_floats"}, default="none"
        Which arrays become float32 all the same, see `Forest`; data frames do not.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_features), dtype float32 or float64
        C-contiguous and aligned. `X` itself where it already is that, so never
        written to.

    Raises
    ------
    TypeError
        If `X` holds something other than real numbers, or hides some of them.
    ValueError
        If `X` has another shape.
    """
    if (
        type(X) is np.ndarray
        and X.dtype in (np.float32, dtype)
        and X.dtype.isnative
        and X.ndim == 2
        and X.shape[1] == n_features
        and X.flags.c_contiguous
        and X.flags.aligned
    ):
        return X  # the common case, which a call for a single row feels
    frame = frame_of(X)
    if frame is not None:
        rows = frame.array()
    else:
        rows = _array_of(X)
        if _is_rounded(rows.dtype, rounded):
            dtype = np.dtype(np.float32)
    if rows.dtype.kind == "O":
        rows = numbers_from_objects(rows)
    if rows.dtype.kind not in "fiub":
        msg = (
            f"X must hold real numbers, got an array of dtype {rows.dtype}. "
            "Encode strings, dates and complex values as numbers, as in training."
        )
        raise TypeError(msg)
    check_shape(rows.shape, n_features)
    wanted: type[np.floating] = np.float64
    if dtype == np.float32 or rows.dtype in (np.float32, np.float16):
        wanted = np.float32
    # A float64 beyond the range of float32 becomes an infinity, which compares the
    # same way with every finite float32 threshold. A signalling NaN stays a NaN.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.require(rows, dtype=wanted, requirements=["C", "A"])


def _is_rounded(dtype: np.dtype, rounded: str) -> bool:
    """Whether an array of this type becomes float32, see `Forest`."""
    if rounded == "none":
        return False
    if dtype.kind == "O":
        return rounded == "non_floats"
    # LightGBM takes float32 and float64 as they are, in the byte order of the machine.
    return dtype.kind in "fiub" and dtype not in (np.float32, np.float64)


def check_shape(shape: tuple[int, ...], n_features: int) -> None:
    """Raise unless an array of this shape is a table of so many columns.

    Parameters
    ----------
    shape : tuple of int
        Of what a caller has passed.
    n_features : int
        Number of columns that the forest was trained on.

    Raises
    ------
    ValueError
        If it is not.
    """
    if len(shape) != 2:
        msg = f"X must have two dimensions (rows, features), got {len(shape)}."
        if len(shape) == 1 and shape != (0,):
            msg += " Write X.reshape(1, -1) for a single row."
        elif len(shape) == 1:
            msg += f" No rows at all are np.empty((0, {n_features}))."
        else:
            msg += " Each row is one case, each column one feature."
        raise ValueError(msg)
    if shape[1] != n_features:
        msg = (
            f"X has {shape[1]} features, but the forest was trained on "
            f"{n_features}. Pass the same columns, in the same order."
        )
        raise ValueError(msg)


def is_plain_array(X: Any) -> bool:
    """Whether `X` is an array of numbers."""
    return type(X) is np.ndarray and X.dtype.kind in "fiub"


def _array_of(X: Any) -> NDArray[Any]:
    """Return anything but a data frame as NumPy reads it, or raise if that is wrong."""
    if hasattr(X, "tocsr"):
        msg = (
            "X is a sparse matrix, and dense rows are needed here. "
            "Pass X.toarray(), a block of rows at a time if it is large."
        )
        raise TypeError(msg)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        msg = (
            "X is a masked array, and NumPy would read the values behind the mask. "
            "Pass X.filled(np.nan) if masked means missing."
        )
        raise TypeError(msg)
    try:
        return np.asarray(X)
    except ValueError as error:
        msg = f"X must be a table with rows of equal length: {error}"
        raise ValueError(msg) from error


def numbers_from_objects(objects: NDArray[Any]) -> NDArray[np.float64]:
    """Return an array of Python objects as float64, or say why that is impossible."""
    for kind in {type(value) for value in objects.ravel()}:
        if _is_missing(kind) or (
            issubclass(kind, (Real, Decimal, np.bool_))
            and not issubclass(kind, np.timedelta64)  # a NumPy integer, of all things
        ):
            continue
        first = next(
            index for index in np.ndindex(objects.shape) if type(objects[index]) is kind
        )
        where = f" in row {first[0]}, column {first[1]}" if len(first) == 2 else ""
        msg = (
            f"X must hold real numbers, got {reprlib.repr(objects[first])} "
            f"({kind.__name__}){where}. Encode strings, dates and the like as numbers, "
            "as in training."
        )
        raise TypeError(msg)
    missing = np.array([_is_missing(type(value)) for value in objects.ravel()], bool)
    known = np.where(missing.reshape(objects.shape), np.nan, objects)
    try:
        return known.astype(np.float64)
    except OverflowError as error:
        msg = f"X holds an integer beyond the range of float64: {error}."
        raise ValueError(msg) from error


def _is_missing(kind: type) -> bool:
    """Whether `kind` is the type of None or of pandas.NA."""
    return kind is type(None) or kind.__name__ == "NAType"
