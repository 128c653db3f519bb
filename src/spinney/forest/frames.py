"""Data frames of pandas, Polars and Arrow, as far as rows are made of them.

None of these libraries is imported to find out what an object is: the name of its
module tells. Columns are asked for by number, since names may occur twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError


class Frame(ABC):
    """What is needed of a data frame, whichever library it comes from."""

    names: list[str]
    n_rows: int

    @abstractmethod
    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        """Return the different values of a column and which of them each row has.

        None if the column is neither of categories nor of texts; -1 where the value is
        missing. A column of which nothing is known, since all of it is missing, has no
        values.
        """

    @abstractmethod
    def kind(self, column: int) -> str:
        """Return the type of a column, for people."""

    @abstractmethod
    def integers(
        self, column: int
    ) -> tuple[NDArray[np.integer], NDArray[np.bool_]] | None:
        """Return a column of integers or flags, and which of them are missing.

        None if the column holds something else.
        """

    def objects(self, column: int) -> list[Any] | None:
        """Return a column of Python objects, None if it is of another kind."""
        return None

    @abstractmethod
    def _numbers(self, column: int) -> Any:
        """Return a column as an array-like of numbers."""

    def numbers(self, column: int, name: str) -> NDArray[np.float64]:
        """Return a column of numbers, missing ones as NaN, or raise."""
        values, index = self.levels(column)
        if values is not None and not values:
            return np.full(len(index), np.nan)
        if values is not None:
            msg = (
                f"Column {name!r} must hold numbers, got {self.kind(column)}: the "
                "model has no categories for it. Pass what it was trained on."
            )
            raise InvalidArgumentError(msg)
        try:
            return np.asarray(self._numbers(column), dtype=np.float64)
        except (TypeError, ValueError) as error:
            msg = f"Column {name!r} must hold numbers: {error}."
            raise InvalidArgumentError(msg) from error


class _PandasFrame(Frame):
    def __init__(self, X: Any) -> None:
        self._X = X
        self.names = [str(name) for name in X.columns]
        self.n_rows = len(X)

    def kind(self, column: int) -> str:
        return str(self._X.dtypes.iloc[column])

    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        series = self._X.iloc[:, column]
        kind = str(series.dtype)
        if kind == "category":
            return (
                _plain_values(series.cat.categories),
                series.cat.codes.to_numpy().astype(np.intp),
            )
        texts = kind.startswith(("str", "large_string"))
        if kind == "object":
            texts = any(isinstance(value, str) for value in series)
            if all(is_missing(value) for value in series):
                return [], np.full(self.n_rows, -1, dtype=np.intp)
        if not texts:
            return None, np.empty(0, dtype=np.intp)
        index, values = series.factorize()
        return _plain_values(values), np.asarray(index, dtype=np.intp)

    def integers(
        self, column: int
    ) -> tuple[NDArray[np.integer], NDArray[np.bool_]] | None:
        series = self._X.iloc[:, column]
        kind = getattr(series.dtype, "kind", "O")
        if kind not in "iub":
            return None
        missing = series.isna().to_numpy()
        # Categories have the kind of what they stand for; see `levels`.
        dtype = {"i": np.int64, "u": np.uint64, "b": np.bool_}[kind]
        return series.fillna(0).to_numpy(dtype=dtype), missing

    def objects(self, column: int) -> list[Any] | None:
        series = self._X.iloc[:, column]
        return series.tolist() if str(series.dtype) == "object" else None

    def _numbers(self, column: int) -> Any:
        series = self._X.iloc[:, column]
        if series.dtype.kind in "OM":  # None among numbers; dates are refused
            return [np.nan if is_missing(value) else value for value in series]
        return series.to_numpy(dtype=np.float64, na_value=np.nan)


class _PolarsFrame(Frame):
    def __init__(self, X: Any) -> None:
        self._X = X
        self.names = list(X.columns)
        self.n_rows = X.height

    def kind(self, column: int) -> str:
        return str(self._X.dtypes[column])

    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        import polars as pl

        series = self._X.to_series(column)
        if series.dtype == pl.Null:
            return [], np.full(self.n_rows, -1, dtype=np.intp)
        if series.dtype.base_type() not in (pl.Categorical, pl.Enum, pl.String):
            return None, np.empty(0, dtype=np.intp)
        texts = series.cast(pl.String)
        values = texts.drop_nulls().unique(maintain_order=True)
        index = texts.cast(pl.Enum(values)).to_physical().cast(pl.Int64).fill_null(-1)
        return values.to_list(), index.to_numpy().astype(np.intp)

    def integers(
        self, column: int
    ) -> tuple[NDArray[np.integer], NDArray[np.bool_]] | None:
        import polars as pl

        series = self._X.to_series(column)
        if series.dtype == pl.Boolean:
            series = series.cast(pl.Int8)
        if not series.dtype.is_integer():
            return None
        return series.fill_null(0).to_numpy(), series.is_null().to_numpy()

    def _numbers(self, column: int) -> Any:
        import polars as pl

        series = self._X.to_series(column)
        if not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
            msg = f"got {series.dtype}"
            raise TypeError(msg)
        return series.cast(pl.Float64).to_numpy()


class _ArrowFrame(Frame):
    def __init__(self, X: Any) -> None:
        self._X = X
        self.names = list(X.column_names)
        self.n_rows = X.num_rows

    def kind(self, column: int) -> str:
        return str(self._X.schema.field(column).type)

    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        kind = self._X.schema.field(column).type
        is_coded = hasattr(kind, "value_type") and hasattr(kind, "index_type")
        if str(kind) == "null":
            return [], np.full(self.n_rows, -1, dtype=np.intp)
        if not is_coded and str(kind) not in ("string", "large_string", "string_view"):
            return None, np.empty(0, dtype=np.intp)
        # Each part of a table numbers the values for itself.
        number: dict[Any, int] = {}
        parts = [np.empty(0, dtype=np.intp)]
        for chunk in self._X.column(column).chunks:
            coded = chunk if is_coded else chunk.dictionary_encode()
            values = coded.dictionary.to_pylist()
            table = [number.setdefault(value, len(number)) for value in values]
            index = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            parts.append(np.array([*table, -1], dtype=np.intp)[index])
        return list(number), np.concatenate(parts)

    def integers(
        self, column: int
    ) -> tuple[NDArray[np.integer], NDArray[np.bool_]] | None:
        values = self._X.column(column)
        kind = str(values.type)
        if kind == "bool":
            values = values.cast("int8")
        elif not kind.startswith(("int", "uint")):
            return None
        return values.fill_null(0).to_numpy(), values.is_null().to_numpy()

    def _numbers(self, column: int) -> Any:
        return self._X.column(column).cast("double", safe=False).to_numpy()


def frame_of(X: Any) -> Frame | None:
    """Return a data frame by the name of its library, which is not imported for it."""
    library = type(X).__module__.partition(".")[0]
    if library == "pandas" and hasattr(X, "iloc"):
        return _PandasFrame(X)
    if library == "polars" and hasattr(X, "height"):
        return _PolarsFrame(X)
    if library == "pyarrow" and hasattr(X, "column_names"):
        return _ArrowFrame(X)
    return None


def rows_of_values(X: Any) -> list[list[Any]]:
    """Return a data frame or an array as lists of Python's own values, row by row."""
    if frame_of(X) is None:
        rows: list[list[Any]] = np.array(X, dtype=object).tolist()
        return rows
    if hasattr(X, "iloc"):
        return [list(row) for row in X.itertuples(index=False, name=None)]
    if hasattr(X, "height"):
        return [list(row) for row in X.iter_rows()]
    columns = [column.to_pylist() for column in X.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _plain_values(values: Any) -> list[Any]:
    """Return the values of an index of pandas as Python's own."""
    return [
        value.item() if isinstance(value, np.generic) else value for value in values
    ]


def is_missing(value: Any) -> bool:
    """Whether this is None, NaN or pandas' own missing value."""
    return (
        value is None
        or type(value).__name__ == "NAType"
        or (isinstance(value, Real) and value != value)
    )
