"""Category values as the texts that CatBoost takes them for.

CatBoost knows texts only: integers and flags are written out (a flag as 0 or 1), texts
are their UTF-8 bytes. It refuses floats, NaN and None, since ``1`` and ``1.0`` would be
two categories; so does spinney.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest.frame_kinds import Frame


def category_text(value: Any, column: Any) -> bytes:
    """Return the text of a category value as UTF-8.

    Parameters
    ----------
    value : str, bytes, int or bool
        The value, NumPy's own types included.
    column : str or int
        What an error calls the column.

    Raises
    ------
    InvalidArgumentError
        If it is of another type, and for integers beyond 64 bits.
    """
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            msg = f"Column {column!r} has a string that is not valid Unicode: {error}."
            raise InvalidArgumentError(msg) from error
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, (bool, np.bool_)):
        return b"1" if value else b"0"
    is_number = isinstance(value, (int, np.integer))
    if is_number and not isinstance(value, np.timedelta64):
        number = int(value)
        if -(2**63) <= number < (2**64 if isinstance(value, np.integer) else 2**63):
            return str(number).encode("ascii")
    msg = (
        f"Column {column!r} holds categories, which must be strings or integers (of "
        f"64 bits), got {reprlib.repr(value)} ({type(value).__name__}). CatBoost does "
        "not accept floats and missing values there either: convert them to strings, "
        "as in training."
    )
    raise InvalidArgumentError(msg)


def distinct_texts(
    values: Sequence[Any], column: Any
) -> tuple[list[bytes], NDArray[np.intp]]:
    """Return the different texts of some values, and which of them each value has.

    Parameters
    ----------
    values : sequence
        Python objects.
    column : str or int
        What an error calls the column.
    """
    number: dict[Any, int] = {}
    keys: Any = values
    if set(map(type, values)) != {str}:
        # To Python 1, 1.0 and True are the same key.
        keys = list(zip(map(type, values), values, strict=True))
    try:
        index = [number.setdefault(key, len(number)) for key in keys]
    except (TypeError, ValueError):  # a list, say, cannot be a key
        for value in values:
            category_text(value, column)
        raise
    found = list(number) if keys is values else [value for _, value in number]
    return [category_text(value, column) for value in found], np.array(index, np.intp)


def texts_of_integers(
    values: NDArray[Any],
) -> tuple[list[bytes], NDArray[np.intp]]:
    """Return the different texts of integers or flags, and which one each has."""
    distinct, index = np.unique(
        values.astype(np.int8) if values.dtype == bool else values, return_inverse=True
    )
    return [str(value).encode("ascii") for value in distinct.tolist()], index


def texts_of_column(frame: Frame, column: int) -> tuple[list[bytes], NDArray[np.intp]]:
    """Return the different texts of a column of a data frame, and which each row has.

    Parameters
    ----------
    frame : Frame
        The data frame.
    column : int
        Which column.

    Raises
    ------
    InvalidArgumentError
        If a value is missing, or of a type that is no category.
    """
    name = frame.names[column]
    objects = frame.objects(column)
    if objects is not None:
        return distinct_texts(objects, name)
    values, index = frame.levels(column)
    if values is not None:
        if (index < 0).any():
            category_text(None, name)
        # Categories that no row has may be anything.
        seen, index = np.unique(index, return_inverse=True)
        return [category_text(values[k], name) for k in seen.tolist()], index
    found = frame.integers(column)
    if found is None:
        msg = (
            f"Column {name!r} holds categories, which must be of a category, string or "
            f"integer type, got {frame.kind(column)}. Pass what the model was trained "
            "on; CatBoost does not accept other types either."
        )
        raise InvalidArgumentError(msg)
    numbers, missing = found
    if missing.any():
        category_text(None, name)
    return texts_of_integers(numbers)
