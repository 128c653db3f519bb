"""Columns of categories in tables: what a file has, as the values that a model knows.

A CSV file has nothing but texts, so ``7`` there may be the number or the text; what the
model was trained on decides. The other kinds of files have types, and whole numbers are
categories where the model has such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spinney.errors import InvalidArgumentError
from spinney.forest import Forest
from spinney.forest.categories import Categories

# What spreadsheets and data frames write for a missing value.
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "?")
FLAGS = {"true": True, "false": False}

# For each such column its categories, None if the model keeps no list of them.
CategoryColumns = Mapping[int, Categories | None]


def category_columns(forest: Forest) -> CategoryColumns:
    """Return the columns whose values are categories to a forest.

    Parameters
    ----------
    forest : Forest
        The forest.
    """
    if forest.encoder is not None:
        return dict.fromkeys(forest.encoder.category_columns.tolist())
    return {
        column: categories
        for column, categories in enumerate(forest.categories or ())
        if categories is not None
    }


def category_values(column: Any, categories: Categories | None) -> Any:
    """Return a column of a table as one that a forest looks up.

    Parameters
    ----------
    column : Array of pyarrow
        Texts, whole numbers, flags, floats or coded values.
    categories : tuple or None
        Those of the model; None if any text may be one.

    Returns
    -------
    values : ndarray or Series of pandas
        With the type of the categories where these are known. What is neither among
        them nor missing stays, to be judged as the library of the model does.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.to_pandas()
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if categories is None:
        if not is_text:
            return column.to_pandas(integer_object_nulls=True)
        texts = column.to_numpy(zero_copy_only=False)
        return np.where(texts == "", None, texts)
    values = column.to_pylist()
    if is_text:
        values = _typed(values, categories)
    elif categories and isinstance(categories[0], str):
        return column.to_pandas()  # numbers where texts were: said elsewhere
    return _coded(values)


def refuse_flags(
    types: Mapping[str, Any], names: Sequence[str], columns: CategoryColumns
) -> None:
    """Raise if a CSV file has true and false where a model keeps no list of categories.

    Parameters
    ----------
    types : mapping
        The types that the texts of the file look like, by column.
    names : sequence of str
        The columns of the model in the file.
    columns : mapping
        As `category_columns` returns them.

    Raises
    ------
    InvalidArgumentError
        If so: CatBoost takes a flag for the text 1 or 0.
    """
    for k, categories in columns.items():
        if categories is None and str(types[names[k]]) == "bool":
            msg = (
                f"Column {names[k]!r} has flags (true, false) in a CSV file, and the "
                "model may have been trained on them as flags or as strings, which "
                "are different categories. Write 1 and 0 for flags, or pass a Parquet "
                "file."
            )
            raise InvalidArgumentError(msg)


def _typed(texts: Sequence[str | None], categories: Categories) -> list[Any]:
    """Return texts as values of the type that the categories have."""
    known = {text: text for text in categories if isinstance(text, str)}
    kinds = {type(category) for category in categories}
    are_texts = kinds <= {str}
    value: dict[str | None, Any] = {None: None}
    for text in set(texts) - {None}:
        assert text is not None
        if text in known:
            value[text] = text
        elif text.strip() in MISSING:
            value[text] = None
        else:
            value[text] = text if are_texts else _number(text)
    return [value[text] for text in texts]


def _number(text: str) -> Any:
    """Return a number or a flag, which equals 0 or 1; a text that is neither stays."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return FLAGS.get(text.strip().lower(), text)


def _coded(values: Sequence[Any]) -> Any:
    """Return values, None for missing ones, as a category column of pandas."""
    from pandas import Categorical, Index

    number: dict[Any, int] = {}
    codes = [
        -1 if value is None or value != value else number.setdefault(value, len(number))
        for value in values
    ]
    return Categorical.from_codes(codes, Index(list(number), dtype=object))
