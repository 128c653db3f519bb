"""The arrays of a forest: their types, and the one way to make them read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidForestError

ARRAYS_PER_NODE = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "value": np.float64,
    "missing_left": np.bool_,
    "zero_is_missing": np.bool_,
    "category_set": np.int32,
    "n_node_samples": np.float64,
}
ARRAYS = ARRAYS_PER_NODE | {
    "tree_offsets": np.int64,
    "tree_output": np.int32,
    "category_offsets": np.int64,
    "category_words": np.uint32,
}


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` itself, read-only from now on; nothing else may refer to it."""
    array.flags.writeable = False
    return array


def as_frozen(given: ArrayLike, dtype: Any, name: str) -> NDArray[Any]:
    """Return a contiguous array that neither the caller nor anybody else can change.

    Parameters
    ----------
    given : array-like
        Numbers or flags. Copied unless it is read-only down to the memory it is a view
        of, as the arrays of another forest and those of a mapped file are.
    dtype : dtype
        Type of the array.
    name : str
        What an error calls the array.

    Returns
    -------
    array : ndarray
        Read-only.

    Raises
    ------
    InvalidForestError
        If `dtype` is an integer type and some number does not fit into it.
    """
    array = np.asarray(given)
    wanted = np.dtype(dtype)
    if array.dtype != wanted:
        with np.errstate(invalid="ignore"):  # NaN is no integer, and noticed below
            converted = array.astype(wanted)
        # Integers and flags must survive the change of type; floats may gain digits.
        if wanted.kind in "iu" and not np.array_equal(converted, array):
            msg = f"{name} holds numbers that do not fit into {wanted.name}."
            raise InvalidForestError(msg)
        array = converted
    elif _may_change(array):
        array = array.copy()
    return frozen(np.ascontiguousarray(array))


def _may_change(array: NDArray[Any] | None) -> bool:
    """Whether anything can still write to this array, or to one it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False
