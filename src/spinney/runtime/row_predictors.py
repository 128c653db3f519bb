"""Callables that predict one row at a time, with as little as possible around a kernel.

A call from Python takes as long as the trees of a small forest, so nothing is checked
but the type and the length of a row. What the quick way does not take (texts among the
values, a dict, a data frame of one row) is predicted the usual way, and so are all rows
until there are kernels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest.categories import with_codes, with_codes_of_numbers
from spinney.forest.column_names import names_of_model
from spinney.forest.frames import frame_of
from spinney.forest.links import logistic_pair
from spinney.forest.rows import numbers_from_objects
from spinney.runtime.choice import LOAD_SECONDS, Kernels, either, plain_serves

if TYPE_CHECKING:
    from spinney.forest import Forest

# For each type of rows that a kernel takes, what it is called with beside the row.
Arguments = dict[np.dtype, tuple[Any, ...]]
# And what a row is put through before the kernel, if anything.
Prepared = tuple[Arguments, Callable[..., Any] | None]


class _OneRow(ABC):
    """What goes to a kernel once that is to serve, and to the plain engine until then.

    Parameters
    ----------
    kernels : Kernels
        What has to be compiled first.
    prepare : callable
        Returns the arguments of the kernel, and what rows are put through before.
    """

    def __init__(self, kernels: Kernels, prepare: Callable[[], Prepared]) -> None:
        self._kernels = kernels
        self._prepare = prepare
        # A serving process should lay out its trees before the first row comes.
        self._prepared = None if plain_serves(kernels, LOAD_SECONDS) else prepare()
        self._is_ready = False
        self._arguments: Arguments = {}
        self._widen: Callable[..., Any] | None = None

    def _first(self, row: Any, quickly: Callable[[Any], Any]) -> Any:
        """Predict by the plain engine, or by the kernel from now on."""

        def compiled() -> Any:
            # The arguments last: with them, other threads take the quick way.
            arguments, self._widen = self._prepared or self._prepare()
            self._arguments, self._is_ready = arguments, True
            try:
                return quickly(row)
            except Exception:  # of the compiler, maybe: the plain engine goes on
                self._arguments, self._is_ready = {}, False
                raise

        # One row is little work, but many are to come.
        return either(self._kernels, LOAD_SECONDS, compiled, lambda: self._checked(row))

    @abstractmethod
    def _checked(self, row: Any) -> Any:
        """Return what is predicted for one row of any kind."""


class RowPredictor(_OneRow):
    """Predicts one row at a time.

    Parameters
    ----------
    forest : Forest
        The forest.
    kernel : callable
        Takes a row and arguments, and returns a class index, or -1 if it cannot tell.
    kernels : Kernels
        What has to be compiled first.
    prepare : callable
        Returns the arguments of the kernel, and what rows are put through before.
    answer : callable
        Predicts a table of one row, for all rows that the kernel does not take.
    """

    def __init__(
        self,
        forest: Forest,
        kernel: Callable[..., int],
        kernels: Kernels,
        prepare: Callable[[], Prepared],
        answer: Callable[[Any], Any],
    ) -> None:
        super().__init__(kernels, prepare)
        self._forest = forest
        self._shape = (forest.n_features,)
        self._labels = [] if forest.classes is None else list(forest.classes)
        self._kernel = kernel
        self._answer = answer

    def __call__(self, row: Any) -> Any:
        """Return the label (or the number) for one row.

        Parameters
        ----------
        row : ndarray of shape (n_features,), sequence, dict or data frame
            One row: best an array of float32, or float64 where the original library
            compares float64. Categories may be texts in all others; a dict has the
            values by the names of the columns.
        """
        try:
            arguments = self._arguments[row.dtype]
            is_whole = row.flags.carray  # not strided or read-only: `kernel_arrays`
        except (AttributeError, KeyError, TypeError):
            if self._is_ready:
                return self._checked(row)
            return self._first(row, self)
        if row.shape != self._shape:
            return self._checked(row)
        if not is_whole:
            row = row.copy()
        wide = row if self._widen is None else self._widen(row)
        winner = self._kernel(wide, *arguments)
        if winner >= 0:
            return self._labels[winner]
        return self._checked(row)

    def _checked(self, row: Any) -> Any:
        return self._answer(one_row(row, self._forest))


class EncodingPredictor:
    """Predicts one row at a time for a forest that takes encoded rows.

    Parameters
    ----------
    encode : callable
        Makes a row of numbers of a row with category values.
    predict : callable
        Predicts a row of numbers.
    """

    def __init__(
        self,
        encode: Callable[[Any], NDArray[np.floating]],
        predict: Callable[[NDArray[np.floating]], Any],
    ) -> None:
        self._encode = encode
        self._predict = predict

    def __call__(self, row: Any) -> Any:
        """Return the prediction for one row.

        Parameters
        ----------
        row : sequence, array of Python objects or integers, dict or data frame
            One row: texts or integers in category columns, numbers in all others. A
            dict has the values by the names of the columns.
        """
        return self._predict(self._encode(row))


class _ScorePredictor(_OneRow):
    """Adds up the trees for one row at a time; see the subclasses.

    Parameters
    ----------
    forest : Forest
        The forest.
    sum_dtype : dtype
        Type in which the trees are added up.
    kernel : callable
        Takes rows, arguments, and the scores to be written.
    kernels, prepare
        As for `RowPredictor`.
    """

    def __init__(
        self,
        forest: Forest,
        sum_dtype: np.dtype,
        kernel: Callable[..., None],
        kernels: Kernels,
        prepare: Callable[[], Prepared],
    ) -> None:
        super().__init__(kernels, prepare)
        self._forest = forest
        self._shape = (forest.n_features,)
        self._total = (1, forest.n_outputs)
        self._sum_dtype = sum_dtype
        self._kernel = kernel

    def _raw(self, row: Any) -> NDArray[np.floating]:
        """Return the raw scores of one row, of shape (1, n_outputs)."""
        try:
            arguments = self._arguments[row.dtype]
            is_whole = row.flags.carray  # not strided or read-only: `kernel_arrays`
        except (AttributeError, KeyError, TypeError):
            if self._is_ready:
                return self._checked(row)
            return self._first(row, self._raw)
        if row.shape != self._shape:
            return self._checked(row)
        if not is_whole:
            row = row.copy()
        if self._widen is not None:
            row = self._widen(row)
        total = np.empty(self._total, dtype=self._sum_dtype)
        self._kernel(row.reshape(1, -1), *arguments, total)
        return total

    def _checked(self, row: Any) -> NDArray[np.floating]:
        engine = self._forest.engine
        return engine.raw(engine.rows(one_row(row, self._forest)))


class ProbabilityPredictor(_ScorePredictor):
    """Returns the probabilities of one row at a time; for classifiers."""

    def __init__(
        self,
        forest: Forest,
        sum_dtype: np.dtype,
        kernel: Callable[..., None],
        kernels: Kernels,
        prepare: Callable[[], Prepared],
    ) -> None:
        super().__init__(forest, sum_dtype, kernel, kernels, prepare)
        plain = forest.curve is None
        self._is_raw = (
            plain
            and forest.link == "identity"
            and forest.n_probabilities == forest.n_outputs
        )
        self._is_logistic = (
            plain
            and forest.link == "logistic"
            and forest.n_outputs == 1
            and sum_dtype == np.float64
        )
        self._scale = float(forest.link_scale)

    def __call__(self, row: Any) -> NDArray[np.floating]:
        """Return the probability of each class for one row.

        Parameters
        ----------
        row : ndarray of shape (n_features,), sequence, dict or data frame
            As for `RowPredictor`.
        """
        total = self._raw(row)
        if self._is_raw:
            return total[0]
        if self._is_logistic:
            return np.array(logistic_pair(float(total[0, 0]), self._scale))
        return self._forest.probabilities(total)[0]


class NumberPredictor(_ScorePredictor):
    """Returns what a regressor or ranker predicts for one row at a time."""

    def __call__(self, row: Any) -> Any:
        """Return the number, or the numbers of several targets, for one row.

        Parameters
        ----------
        row : ndarray of shape (n_features,), sequence, dict or data frame
            As for `RowPredictor`.
        """
        return self._forest.predictions(self._raw(row))[0]


class EarlyProbabilityPredictor(_OneRow):
    """Returns the probabilities of one row at a time, with early exit.

    Parameters
    ----------
    forest : Forest
        A classifier.
    n_sums : int
        How many sums an exit rule sees.
    kernel : callable
        Takes a row, arguments, and the sums to be written; returns a class index and
        the number of trees.
    kernels, prepare
        As for `RowPredictor`.
    lookup : callable
        Returns the probabilities of a row that exited early: takes the class index, the
        number of trees, the sums and the row.
    at_the_end : callable
        Returns those of a row that stayed to the end: takes the row and its class
        index, -1 if it is too close to call.
    answer : callable
        Returns the probabilities of a table of one row, for all rows that the kernel
        does not take.
    """

    def __init__(
        self,
        forest: Forest,
        n_sums: int,
        kernel: Callable[..., tuple[int, int]],
        kernels: Kernels,
        prepare: Callable[[], Prepared],
        lookup: Callable[[int, int, NDArray[np.float64], Any], NDArray[np.floating]],
        at_the_end: Callable[[Any, int], NDArray[np.floating]],
        answer: Callable[[Any], NDArray[np.floating]],
    ) -> None:
        super().__init__(kernels, prepare)
        self._forest = forest
        self._n_trees = forest.n_trees
        self._shape = (forest.n_features,)
        self._sums = (1, n_sums)
        self._kernel = kernel
        self._lookup = lookup
        self._at_the_end = at_the_end
        self._answer = answer

    def __call__(self, row: Any) -> Any:
        """Return the probability of each class for one row.

        Parameters
        ----------
        row : ndarray of shape (n_features,), sequence, dict or data frame
            As for `RowPredictor`.
        """
        try:
            arguments = self._arguments[row.dtype]
            is_whole = row.flags.carray  # not strided or read-only: `kernel_arrays`
        except (AttributeError, KeyError, TypeError):
            if self._is_ready:
                return self._checked(row)
            return self._first(row, self)
        if row.shape != self._shape:
            return self._checked(row)
        if not is_whole:
            row = row.copy()
        wide = row if self._widen is None else self._widen(row)
        sums = np.empty(self._sums)
        winner, n_evaluated = self._kernel(wide, *arguments, sums)
        if n_evaluated == self._n_trees:
            return self._at_the_end(row, winner)
        return self._lookup(winner, n_evaluated, sums[0], row)

    def _checked(self, row: Any) -> Any:
        return self._answer(one_row(row, self._forest))


def one_row(row: Any, forest: Forest) -> Any:
    """Return a row as a table of one row, or say what is wrong with it.

    Parameters
    ----------
    row : sequence, array, dict, series or data frame
        The row.
    forest : Forest
        What it is for.

    Raises
    ------
    ValueError
        If it is no single row of this length.
    """
    by_name = isinstance(row, Mapping)
    row = _by_name(row, forest.feature_names, forest.n_features)
    looked_up = forest.categories is not None and isinstance(row, (list, tuple))
    if looked_up:
        row = with_codes_of_numbers(row, forest)
    table = _as_table(row, forest.n_features)
    as_in_frame = (by_name or looked_up) and forest.rounded_rows != "none"
    if not as_in_frame or not isinstance(table, np.ndarray):
        return table
    # LightGBM rounds such arrays, but no data frame, and a row like this is one.
    if forest.categories is not None:
        table = with_codes(table, forest)
    return (
        numbers_from_objects(table) if table.dtype.kind == "O" else table.astype(float)
    )


def row_as_table(row: Any, n_columns: int, names: Sequence[str] | None) -> Any:
    """Return a row as what the steps of a pipeline take: a frame, if it has names.

    Parameters
    ----------
    row : sequence, array, dict, series or data frame
        The row.
    n_columns : int
        Number of columns.
    names : sequence of str or None
        Names of the columns, if the pipeline was fitted on a data frame.

    Raises
    ------
    ValueError
        If it is no single row of this length.
    """
    row = _by_name(row, names, n_columns)
    table = _as_table(row, n_columns)
    if names is None or not isinstance(table, np.ndarray):
        return table
    from pandas import DataFrame, Series  # the pipeline was fitted on a data frame

    # Column by column, so that each has a type of its own; a missing value alone does
    # not tell whether the column is one of numbers.
    columns = {}
    for name, value in zip(names, table[0], strict=True):
        missing = value is None or value != value
        columns[name] = Series([value], dtype=object) if missing else [value]
    return DataFrame(columns)


def values_by_name(
    row: Mapping[str, Any], names: Sequence[str] | None, n_columns: int
) -> list[Any]:
    """Return the values of a dict in the order of the columns.

    Parameters
    ----------
    row : dict
        The row.
    names : sequence of str or None
        Names of the columns.
    n_columns : int
        Number of columns.

    Raises
    ------
    ValueError
        If there are no names, or a column has no value.
    """
    if names is None:
        msg = (
            "A row as a dict needs the names of the columns, which this model does "
            f"not know. Pass an array of {n_columns} numbers."
        )
        raise ValueError(msg)
    if all(name in row for name in names):
        return [row[name] for name in names]
    known = names_of_model(row, names)
    missing = [name for name in names if name not in known]
    if missing:
        msg = (
            "A row as a dict must have a value for every column; missing are "
            f"{', '.join(map(repr, missing[:5]))}. Pass None for an unknown value."
        )
        raise ValueError(msg)
    return [row[known[name]] for name in names]


def _by_name(row: Any, names: Sequence[str] | None, n_columns: int) -> Any:
    """Return a dict, or a row of a data frame of pandas, as values in our order."""
    if isinstance(row, Mapping):
        return values_by_name(row, names, n_columns)
    # As for data frames, names that are not those of the model say nothing.
    if names is not None and hasattr(row, "to_dict") and hasattr(row, "tolist"):
        by_label = dict(zip(map(str, row.index), row.tolist(), strict=True))
        if len(row) == len(by_label) == len(names):
            known = names_of_model(by_label, names)
            if all(name in known for name in names):
                return values_by_name(by_label, names, n_columns)
    return row


def _as_table(row: Any, n_columns: int) -> Any:
    """Return a table of one row, as it is or as an array."""
    frame = frame_of(row)
    if frame is not None:
        if frame.n_rows != 1:
            msg = (
                f"predictor takes one row, got {frame.n_rows}. Use predict for several."
            )
            raise ValueError(msg)
        return frame.native
    if not isinstance(row, np.ndarray):
        # An array of texts and numbers would make texts of the numbers.
        objects = np.array(row, dtype=object)
        mixed = any(isinstance(value, str) or value is None for value in objects.flat)
        row = objects if mixed else np.asarray(row)
    if row.shape != (n_columns,):
        msg = (
            f"predictor takes one row of {n_columns} numbers, got shape {row.shape}. "
            "Use predict for several rows."
        )
        raise ValueError(msg)
    return row.reshape(1, -1)
