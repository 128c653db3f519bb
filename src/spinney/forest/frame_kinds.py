"""What is needed of a data frame, for each of the libraries whose frames are taken.

Columns go by their number, so a name may occur twice where names do not matter: rows of
a forest that knows none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from numbers import Real
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest.column_names import names_of_model


class Frame(ABC):
    """What is needed of a data frame, whichever library it comes from.

    Parameters
    ----------
    native : data frame of pandas, Polars or PyArrow
        The frame itself; never changed.
    as_floats : bool, default=False
        Whether these are some rows of a frame of integers, of which others are missing:
        the whole frame would be an array of floats, and so is this.
    """

    def __init__(self, native: Any, as_floats: bool = False) -> None:
        self.native = native
        self.names = [str(name) for name in self._native_names()]
        self.n_rows = len(native)
        self._as_floats = as_floats

    # ---------------------------------------------------- as each library has it

    @abstractmethod
    def _native_names(self) -> Sequence[Any]:
        """Return the names of the columns."""

    @abstractmethod
    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        """Return the different values of a column and which of them each row has.

        None if the column is neither of categories nor of texts; -1 where the value is
        missing. A column of which nothing is known, since all of it is missing, has no
        values.
        """

    @abstractmethod
    def _numbered(self) -> Any:
        """Return the frame with numbers for names."""

    @abstractmethod
    def _taken(self, index: Any) -> Any:
        """Return the rows of a slice or an array of numbers."""

    @abstractmethod
    def _columns(self, numbers: list[int]) -> Any:
        """Return some of the columns."""

    @property
    def is_one_block(self) -> bool:
        """Whether the rows lie in memory one after another, as in an array."""
        return False

    def array(self) -> NDArray[Any]:
        """Return all columns as one array, of the type that holds all of them.

        A view of the frame, if that is one block of memory.
        """
        array = np.asarray(self.native)
        return array.astype(np.float64) if self._as_floats else array

    def objects(self, column: int) -> list[Any] | None:
        """Return a column of Python objects, None if it is of another kind."""
        return None

    # -------------------------------------------------------- as narwhals has it

    @cached_property
    def _frame(self) -> Any:
        import narwhals as nw

        twice = len(set(self.names)) < len(self.names)
        native = self._numbered() if twice else self.native
        return nw.from_native(native, eager_only=True)

    def _series(self, column: int) -> Any:
        return self._frame.get_column(self._frame.columns[column])

    def kind(self, column: int) -> str:
        """Return the type of a column, for people."""
        return str(self._series(column).dtype)

    def integers(
        self, column: int
    ) -> tuple[NDArray[np.integer], NDArray[np.bool_]] | None:
        """Return a column of integers or flags, and which of them are missing.

        None if the column holds something else.
        """
        import narwhals as nw

        series = self._series(column)
        if series.dtype == nw.Boolean:
            series = series.cast(nw.Int8)
        if not series.dtype.is_integer():
            return None
        return series.fill_null(0).to_numpy(), series.is_null().to_numpy()

    def levels_of_numbers(
        self, column: int, kind: type
    ) -> tuple[list[Any], NDArray[np.intp]] | None:
        """Return what `levels` does for a column of numbers, to be looked up as values.

        None if the column does not hold the numbers of a type of Python, or if the
        library has category columns of numbers, which this one then should be.
        """
        import narwhals as nw

        series = self._series(column)
        if not {
            int: series.dtype.is_integer(),
            float: series.dtype.is_float(),
            bool: series.dtype == nw.Boolean,
        }.get(kind, False):
            return None
        values, index = np.unique(
            series.drop_nulls().to_numpy(), return_inverse=True, equal_nan=True
        )
        present = ~series.is_null().to_numpy()
        everywhere = np.full(len(present), -1, dtype=np.intp)
        everywhere[present] = index
        return values.tolist(), everywhere

    def _numbers(self, column: int) -> Any:
        """Return a column as an array-like of numbers."""
        import narwhals as nw

        series = self._series(column)
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            msg = f"got {series.dtype}"
            raise TypeError(msg)
        return series.to_numpy()

    def numbers(self, column: int, name: str, hint: str = "") -> NDArray[np.float64]:
        """Return a column of numbers, missing ones as NaN, or raise.

        Parameters
        ----------
        column : int
            Which column.
        name : str
            What an error calls it.
        hint : str, default=""
            The end of the error where it holds categories.
        """
        values, index = self.levels(column)
        if values is not None and not values:
            return np.full(len(index), np.nan)
        if values is not None:
            msg = (
                f"Column {name!r} must hold numbers, got {self.kind(column)}: the "
                f"model has no categories for it. Pass what it was trained on.{hint}"
            )
            raise InvalidArgumentError(msg)
        try:
            return np.asarray(self._numbers(column), dtype=np.float64)
        except (TypeError, ValueError) as error:
            msg = f"Column {name!r} must hold numbers: {error}."
            raise InvalidArgumentError(msg) from error

    def values(self) -> list[list[Any]]:
        """Return the rows as lists of Python's own values."""
        return [list(row) for row in self._frame.rows()]

    # -------------------------------------------------------- some rows, some columns

    def rows(self, index: Any) -> Self:
        """Return some of the rows: those of a slice, a mask or an array of numbers."""
        if isinstance(index, np.ndarray) and index.dtype == bool:
            index = np.flatnonzero(index)
        return type(self)(self._taken(index), self._are_floats_together)

    @cached_property
    def _are_floats_together(self) -> bool:
        """Whether all columns are of integers, and values are missing."""
        return self._as_floats or (
            all(kind.is_integer() for kind in self._frame.schema.values())
            and any(self._series(k).null_count() for k in range(len(self.names)))
        )

    def in_order_of(self, names: Sequence[str] | None) -> Self:
        """Return the frame with its columns in the order of a model.

        Parameters
        ----------
        names : sequence of str or None
            Of the model. If the columns are called otherwise they stay as they are:
            many models have generated names.

        Raises
        ------
        InvalidArgumentError
            If two columns have the same name, and other names than those of the model.
        """
        if names is None or len(names) != len(self.names) or self.names == list(names):
            return self
        self.check_names_differ()
        number = {name: k for k, name in enumerate(self.names)}
        known = names_of_model(self.names, names)
        order = [number[known[name]] for name in names if name in known]
        if len(set(order)) < len(names):
            return self
        return type(self)(self._columns(order))

    def check_names_of(self, names: Sequence[str] | None) -> None:
        """Raise if only some columns are called as a model has it.

        By position, a column would be taken for another one.

        Parameters
        ----------
        names : sequence of str or None
            Of the model.

        Raises
        ------
        InvalidArgumentError
            If columns of the model are missing, and others of it are there.
        """
        if names is None or len(names) != len(self.names) or self.names == list(names):
            return
        # LightGBM has underscores for blanks in its models.
        unseen = [
            name
            for name in self.names
            if name not in names and name.replace(" ", "_") not in names
        ]
        if not unseen or len(unseen) == len(self.names):
            return
        given = {*self.names, *(name.replace(" ", "_") for name in self.names)}
        missing = [name for name in names if name not in given]
        msg = (
            "The columns of X are not those that the model was trained on. Unseen in "
            f"training: {_some(unseen)}. Now missing: {_some(missing)}. Rename or "
            "select columns, or pass an array in the order of the model."
        )
        raise InvalidArgumentError(msg)

    def check_names_differ(self) -> None:
        """Raise `InvalidArgumentError` if two columns have the same name."""
        if len(set(self.names)) == len(self.names):
            return
        counts = Counter(self.names)
        twice = [f"{name!r} {n} times" for name, n in counts.items() if n > 1]
        more = "" if len(twice) <= 5 else f" and {len(twice) - 5:,} more"
        msg = (
            "Columns of X must have different names, got "
            f"{', '.join(twice[:5])}{more}: it is not clear which of them is meant. "
            "Rename or drop columns, or pass an array in the order of the model."
        )
        raise InvalidArgumentError(msg)


def _some(names: list[str]) -> str:
    """Return names to be shown, at most five of them."""
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5:,} more"


class PandasFrame(Frame):
    def _native_names(self) -> Sequence[Any]:
        return self.native.columns

    def _numbered(self) -> Any:
        return self.native.set_axis(range(len(self.names)), axis=1)

    def _taken(self, index: Any) -> Any:
        return self.native.iloc[index]

    def _columns(self, numbers: list[int]) -> Any:
        return self.native.iloc[:, numbers]

    @cached_property
    def _every(self) -> list[Any]:
        """All columns: one by one they take several times as long to get."""
        return [series for _, series in self.native.items()]

    @cached_property
    def _kinds(self) -> set[Any]:
        return set(self.native.dtypes)

    @property
    def is_one_block(self) -> bool:
        kind = next(iter(self._kinds), None)
        if len(self._kinds) != 1 or not isinstance(kind, np.dtype) or kind.kind != "f":
            return False
        step: int = self.native.iloc[:, 0].to_numpy().strides[0]
        return step == len(self.names) * kind.itemsize

    def array(self) -> NDArray[Any]:
        kinds = self._kinds
        if any(str(kind) == "category" for kind in kinds):
            self._refuse_categories()
        # pandas makes Python objects of flags beside numbers, and of its own types.
        objects = len(kinds) > 1 and np.dtype(bool) in kinds
        objects = objects or any(not isinstance(kind, np.dtype) for kind in kinds)
        if objects and all(kind.kind in "fiub" for kind in kinds):
            return self.native.to_numpy(dtype=np.float64, na_value=np.nan)
        return self.native.to_numpy()

    def _refuse_categories(self) -> NoReturn:
        # A category is a label to some models and a code to others.
        coded = [str(kind) == "category" for kind in self.native.dtypes]
        msg = (
            f"X must hold real numbers, but column {self.names[coded.index(True)]!r} "
            "is of dtype category, and the model does not store its categories. "
            "Pass the numbers that it was trained on: the category values for "
            "scikit-learn, their codes for LightGBM and XGBoost (before 3.1)."
        )
        raise TypeError(msg)

    # Missing values of integers are floats to `array` wherever they are.
    @property
    def _are_floats_together(self) -> bool:
        return False

    def kind(self, column: int) -> str:
        return str(self.native.dtypes.iloc[column])

    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        series = self._every[column]
        if _is_of_numbers(series):
            return None, np.empty(0, dtype=np.intp)
        kind = str(series.dtype)
        if kind == "category":
            coded = series.array  # the accessor takes as long as all the rest
            return _plain_values(coded.categories), coded.codes.astype(np.intp)
        texts = kind.startswith(("str", "large_string"))
        if kind == "object":
            texts = any(isinstance(value, str) for value in series)
            if all(is_missing(value) for value in series):
                return [], np.full(self.n_rows, -1, dtype=np.intp)
        if not texts:
            return None, np.empty(0, dtype=np.intp)
        index, values = series.factorize()
        return _plain_values(values), np.asarray(index, dtype=np.intp)

    def levels_of_numbers(
        self, column: int, kind: type
    ) -> tuple[list[Any], NDArray[np.intp]] | None:
        return None

    def objects(self, column: int) -> list[Any] | None:
        series = self._every[column]
        return series.tolist() if str(series.dtype) == "object" else None

    def _numbers(self, column: int) -> Any:
        series = self._every[column]
        if _is_of_numbers(series):
            return series.to_numpy()
        if series.dtype.kind in "OM":  # None among numbers; dates are refused
            return [np.nan if is_missing(value) else value for value in series]
        return series.to_numpy(dtype=np.float64, na_value=np.nan)


class PolarsFrame(Frame):
    def _native_names(self) -> Sequence[Any]:
        return self.native.columns

    def _numbered(self) -> Any:
        return self.native  # which has no name twice

    def _taken(self, index: Any) -> Any:
        return self.native[index]

    def _columns(self, numbers: list[int]) -> Any:
        return self.native[:, numbers]

    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        import polars as pl

        series = self.native.to_series(column)
        if series.dtype == pl.Null:
            return [], np.full(self.n_rows, -1, dtype=np.intp)
        if series.dtype.base_type() not in (pl.Categorical, pl.Enum, pl.String):
            return None, np.empty(0, dtype=np.intp)
        texts = series.cast(pl.String)
        values = texts.drop_nulls().unique(maintain_order=True)
        index = texts.cast(pl.Enum(values)).to_physical().cast(pl.Int64).fill_null(-1)
        return values.to_list(), index.to_numpy().astype(np.intp)


class ArrowFrame(Frame):
    def _native_names(self) -> Sequence[Any]:
        return self.native.column_names

    def _numbered(self) -> Any:
        return self.native.rename_columns([str(k) for k in range(len(self.names))])

    def _taken(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, end, step = index.indices(self.n_rows)
            if step == 1:
                return self.native.slice(start, max(end - start, 0))
            index = np.arange(start, end, step)
        return self.native.take(np.asarray(index, dtype=np.int64) % max(self.n_rows, 1))

    def _columns(self, numbers: list[int]) -> Any:
        return self.native.select(numbers)

    def levels(self, column: int) -> tuple[list[Any] | None, NDArray[np.intp]]:
        kind = self.native.schema.field(column).type
        is_coded = hasattr(kind, "value_type") and hasattr(kind, "index_type")
        if str(kind) == "null":
            return [], np.full(self.n_rows, -1, dtype=np.intp)
        if not is_coded and str(kind) not in ("string", "large_string", "string_view"):
            return None, np.empty(0, dtype=np.intp)
        # Each part of a table numbers the values for itself.
        number: dict[Any, int] = {}
        parts = [np.empty(0, dtype=np.intp)]
        for chunk in self.native.column(column).chunks:
            coded = chunk if is_coded else chunk.dictionary_encode()
            values = coded.dictionary.to_pylist()
            table = [
                -1 if value is None else number.setdefault(value, len(number))
                for value in values
            ]
            # Polars numbers categories without a sign, where -1 does not fit.
            signed = coded.indices.cast("int64").fill_null(-1)
            index = signed.to_numpy(zero_copy_only=False)
            parts.append(np.array([*table, -1], dtype=np.intp)[index])
        return list(number), np.concatenate(parts)


def _plain_values(values: Any) -> list[Any]:
    """Return the values of an index of pandas as Python's own."""
    return [
        value.item() if isinstance(value, np.generic) else value
        for value in values.to_numpy(dtype=object).tolist()
    ]


def _is_of_numbers(series: Any) -> bool:
    """Whether a series of pandas holds numbers or flags as NumPy does."""
    return isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub"


def is_missing(value: Any) -> bool:
    """Whether this is None, NaN or pandas' own missing value."""
    return (
        value is None
        or type(value).__name__ == "NAType"
        or (isinstance(value, Real) and value != value)
    )
