"""Columns of categories: from the values in a table to the codes that trees compare.

A model numbers the categories of a column in an order of its own. A data frame numbers
them too, in an order that may be another one, so its codes mean nothing here: values
are looked up among those of the model. In arrays, numbers are codes already.

What becomes of a value that the model was not trained on differs by library, and a
forest says which it is: to LightGBM and to scikit-learn it is missing, XGBoost calls it
an error. A missing value is NaN to all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError, InvalidForestError
from spinney.forest.frame_kinds import Frame
from spinney.forest.frames import frame_of

if TYPE_CHECKING:
    from spinney.forest import Forest

Categories = tuple[Any, ...]

# Codes are counted in float32.
MAX_CATEGORIES = 2**24


def as_categories(
    given: Sequence[Sequence[Any] | None], n_features: int
) -> tuple[Categories | None, ...]:
    """Return the categories of each column as plain values, or raise.

    Parameters
    ----------
    given : sequence
        For each column None, or its categories in the order of their codes: all strings
        or all numbers.
    n_features : int
        Number of columns.

    Raises
    ------
    InvalidForestError
        If there is not one entry for each column, or a column has a category twice, or
        categories of several types.
    """
    if len(given) != n_features:
        msg = f"categories must have {n_features} entries, got {len(given)}."
        raise InvalidForestError(msg)
    made: list[Categories | None] = []
    for column, values in enumerate(given):
        if values is None:
            made.append(None)
            continue
        plain = tuple(
            value.item() if isinstance(value, np.generic) else value for value in values
        )
        kinds = {type(value) for value in plain}
        right = kinds <= {str} or kinds <= {bool} or kinds <= {int} or kinds <= {float}
        if not right or any(value != value for value in plain):
            msg = (
                f"categories of column {column} must be all strings, all integers, all "
                f"floats or all booleans, got {sorted(k.__name__ for k in kinds)}."
            )
            raise InvalidForestError(msg)
        if len(plain) > MAX_CATEGORIES or len(set(plain)) < len(plain):
            msg = (
                f"categories of column {column} must be different from one another, "
                f"and at most {MAX_CATEGORIES:,}."
            )
            raise InvalidForestError(msg)
        made.append(plain)
    return tuple(made)


def with_codes(X: Any, forest: Forest) -> Any:
    """Return rows with codes in place of categories.

    Parameters
    ----------
    X : data frame of pandas, Polars or Arrow, or array-like
        Rows. In a data frame the columns that have categories must be of a category,
        enum or text type. Of arrays, only texts among Python objects are replaced.
    forest : Forest
        With `categories`.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_features), dtype=float64, or `X`
        `X` itself if there is nothing to replace in it.

    Raises
    ------
    InvalidArgumentError
        If a column has another type than the model was trained with, or a value is
        unknown to a model that does not accept such.
    """
    assert forest.categories is not None
    frame = frame_of(X)
    if frame is None:
        return _with_codes_of_objects(X, forest)
    names = frame.names
    if len(names) != forest.n_features:
        return X  # the check of the shape raises the error
    rows = np.empty((frame.n_rows, forest.n_features))
    for column, categories in enumerate(forest.categories):
        name = names[column]
        if categories is None:
            rows[:, column] = frame.numbers(column, name, _undeclared(forest))
        else:
            rows[:, column] = _codes_of_column(frame, column, name, categories, forest)
    return rows


def _undeclared(forest: Forest) -> str:
    """Return what may be wrong where a category column has no categories."""
    if not (forest.source or "").startswith("LightGBM"):
        return ""
    return (
        " LightGBM does not keep which columns its categories belong to if it is told "
        "of some of the category columns only: train with categorical_feature='auto', "
        "or name all of them; or pass rows as an array of codes."
    )


def code_table(
    values: Sequence[Any], categories: Categories, forest: Forest
) -> NDArray[np.float64]:
    """Return the code of each value, NaN for those that the model does not know.

    Parameters
    ----------
    values : sequence
        Values, none of them missing.
    categories : tuple
        Of one column.
    forest : Forest
        Its `category_rule` tells whether numbers are their own codes.
    """
    if forest.category_rule == "exact" and not _are_texts(categories):
        known = set(categories)
        return np.array([float(v) if v in known else np.nan for v in values], float)
    code = {category: float(number) for number, category in enumerate(categories)}
    return np.array([code.get(value, np.nan) for value in values], float)


def are_own_codes(categories: Categories, rule: str) -> bool:
    """Whether the categories are numbers that stand for themselves in a tree."""
    if _are_texts(categories):
        return False
    return rule == "exact" or categories == tuple(range(len(categories)))


def _are_texts(categories: Categories) -> bool:
    return bool(categories) and isinstance(categories[0], str)


def _codes_of_column(
    frame: Frame, column: int, name: str, categories: Categories, forest: Forest
) -> NDArray[np.float64]:
    values, index = frame.levels(column)
    if values is None:
        if are_own_codes(categories, forest.category_rule):
            return frame.numbers(column, name)
        found = frame.levels_of_numbers(column, type(categories[0]))
        if found is not None:
            values, index = found
    if values is None:
        msg = (
            f"Column {name!r} must be of a category"
            + (", enum or string" if _are_texts(categories) else "")
            + f" type, as in training, got {frame.kind(column)}. Pass "
            "the values themselves in such a column; or, if these are codes of "
            "forest.categories_ already, all rows as an array."
        )
        raise InvalidArgumentError(msg)
    if forest.category_rule == "exact" and _are_texts(categories):
        numbers = [value for value in values if not isinstance(value, str)]
        if numbers and len(numbers) == len(values):
            msg = (
                f"Column {name!r} must have strings as categories, as in training, got "
                f"{numbers[0]!r}. Convert the column with astype(str)."
            )
            raise InvalidArgumentError(msg)
    table = code_table(values, categories, forest)
    if forest.category_rule == "truncate" and _differ_in_type(values, categories):
        table[:] = np.nan
    if forest.unseen_category == "error":
        seen = np.unique(index[index >= 0])
        strange = seen[np.isnan(table[seen])]
        if len(strange):
            raise _unseen(values[int(strange[0])], name, forest)
    # Missing values have index -1, which is the last entry.
    return np.append(table, np.nan)[index]


def _differ_in_type(values: list[Any], categories: Categories) -> bool:
    """Whether booleans meet numbers, which LightGBM and XGBoost tell apart.

    pandas looks none of them up then, except where the two lists are equal as a whole.
    """
    booleans = [
        bool(known) and all(isinstance(value, bool) for value in known)
        for known in (values, categories)
    ]
    return booleans[0] != booleans[1] and values != list(categories)


def _unseen(value: Any, name: Any, forest: Forest) -> InvalidArgumentError:
    msg = (
        f"Column {name!r} has the category {value!r}, which the model was not trained "
        f"on, and {forest.source or 'the model'} does not accept such values. Leave "
        "these rows out, or pass a missing value there."
    )
    return InvalidArgumentError(msg)


def with_codes_of_numbers(row: Sequence[Any], forest: Forest) -> list[Any]:
    """Return the values of one row with codes in place of categories that are numbers.

    Texts are left for `with_codes`, which knows them from codes by their type. Numbers
    it takes for codes, as they are in an array.

    Parameters
    ----------
    row : sequence
        The values of one row, not an array.
    forest : Forest
        With `categories`.

    Raises
    ------
    InvalidArgumentError
        If a value is unknown to a model that cannot predict such.
    """
    assert forest.categories is not None
    values = list(row)
    if len(values) != forest.n_features:
        return values  # the check of the length raises the error
    for column, categories in enumerate(forest.categories):
        value = values[column]
        if (
            not categories
            or _are_texts(categories)
            or are_own_codes(categories, forest.category_rule)
            or not isinstance(value, (Real, np.bool_))
            or value != value
        ):
            continue
        code = code_table([value], categories, forest)[0]
        if np.isnan(code) and forest.unseen_category == "error":
            raise _unseen(value, column, forest)
        values[column] = float(code)
    return values


def _with_codes_of_objects(X: Any, forest: Forest) -> Any:
    """Return an array of Python objects with codes in place of texts."""
    try:
        rows = np.array(X, dtype=object)
    except ValueError:
        return X  # rows of different lengths: said elsewhere
    if rows.ndim != 2 or rows.shape[1] != forest.n_features:
        return X
    assert forest.categories is not None
    for column, categories in enumerate(forest.categories):
        texts = [isinstance(value, str) for value in rows[:, column]]
        if categories is None or not any(texts):
            continue
        values = rows[texts, column].tolist()
        codes = code_table(values, categories, forest)
        unknown = np.isnan(codes)
        if forest.unseen_category == "error" and unknown.any():
            raise _unseen(values[int(unknown.argmax())], column, forest)
        rows[texts, column] = codes
    return rows
