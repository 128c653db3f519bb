"""Columns of a record batch as the model takes them: numbers, or a data frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.cli.category_columns import CategoryColumns, category_values
from spinney.errors import FormatError


def frame_of(
    batch: Any,
    names: list[str],
    called: tuple[str, ...] | None,
    categories: CategoryColumns,
) -> Any:
    """Return columns of a record batch as a data frame; an empty text is missing.

    Parameters
    ----------
    batch : RecordBatch of pyarrow
        The columns.
    names : list of str
        Which of them, in the order of the model.
    called : tuple of str or None
        What the model calls them: it may have an underscore for a blank.
    categories : mapping
        Those that hold categories, see `category_columns`.
    """
    try:
        from pandas import DataFrame
    except ImportError as error:
        msg = (
            "Reading rows for a model with category columns or preprocessing steps "
            "needs pandas, which is not installed: python -m pip install pandas"
        )
        raise ImportError(msg) from error
    columns: dict[str, Any] = {}
    wanted = names if called is None or len(called) != len(names) else called
    for k, (name, known_as) in enumerate(zip(names, wanted, strict=True)):
        column = batch.column(name)
        if k in categories:
            columns[known_as] = category_values(column, categories[k])
        else:
            columns[known_as] = _values(column, name)
    return DataFrame(columns)


def _values(column: Any, name: str) -> Any:
    """Return a column as what it holds: texts, categories or numbers."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = column.to_numpy(zero_copy_only=False)
        return np.where(values == "", None, values)
    if pa.types.is_dictionary(kind):
        return column.to_pandas()
    if pa.types.is_integer(kind) and not column.null_count:
        return column.to_numpy()  # may be categories
    return numbers_of(column, name)


def numbers_of(column: Any, name: str) -> NDArray[np.floating]:
    """Return a column as floats; missing values as NaN.

    Parameters
    ----------
    column : Array of pyarrow
        Numbers of any type.
    name : str
        What it is called, for the message.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not (
        pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        msg = (
            f"Column {name!r} must hold numbers, got {kind}. Encode it as the model "
            "was trained, or leave it out."
        )
        raise FormatError(msg)
    wanted = pa.float32() if pa.types.is_float32(kind) else pa.float64()
    # Not `safe`, which refuses integers that a float64 has to round.
    return column.cast(wanted, safe=False).to_numpy(zero_copy_only=False)
