"""Tables in files: CSV, Parquet, Arrow and NPZ, read in parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import FormatError, InvalidArgumentError

ROWS_PER_PART = 65_536
KINDS = "CSV (.csv, .csv.gz), Parquet (.parquet), Arrow (.arrow, .feather) or .npz"
# What spreadsheets and data frames write for a missing number.
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "?")


@dataclass(frozen=True)
class Part:
    """Some rows of a table.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Numbers; missing ones are NaN.
    labels : ndarray of shape (n_rows,) or None
        The target column, if there is one.
    """

    rows: NDArray[np.floating]
    labels: NDArray[Any] | None


class Table:
    """A table in a file, read in parts so that it may be larger than memory.

    Parameters
    ----------
    path : path
        The file; its name tells the kind.
    target : str or None
        Name of the column that holds labels. For NPZ files the array ``y`` is it.
    feature_names : sequence of str or None
        Columns that the model was trained on. If the table has all of them, they are
        taken by name; if not, all columns beside the target are taken as they come.
    n_features : int
        Number of columns that the model takes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | None,
        feature_names: tuple[str, ...] | None,
        n_features: int,
    ) -> None:
        self.path = Path(path)
        self.target = target
        self._feature_names = feature_names
        self._n_features = n_features
        if self.path.is_dir():
            msg = f"{str(path)!r} is a directory. Pass the path of a file in it."
            raise IsADirectoryError(msg)
        if not self.path.exists():
            msg = f"There is no file {str(path)!r}. Check the path."
            raise FileNotFoundError(msg)
        if self.path.stat().st_size == 0:
            msg = f"{str(path)!r} is empty. A table with rows was expected."
            raise FormatError(msg)

    def parts(self) -> Iterator[Part]:
        """Yield the rows, some at a time.

        Raises
        ------
        FormatError
            If the file is no table of numbers, or has other columns than the model.
        """
        name = self.path.name.lower()
        if name.endswith(".npz"):
            yield from self._parts_of_npz()
            return
        if name.endswith((".csv", ".csv.gz", ".parquet", ".arrow", ".feather")):
            yield from self._parts_of_columns()
            return
        msg = f"{str(self.path)!r} is no kind of table known here. Pass {KINDS}."
        raise FormatError(msg)

    def whole(self) -> Part:
        """Return all rows at once.

        Returns
        -------
        part : Part
            The rows, and the labels if there are any.
        """
        parts = list(self.parts())
        labels = [part.labels for part in parts if part.labels is not None]
        return Part(
            np.concatenate([part.rows for part in parts]),
            np.concatenate(labels) if len(labels) == len(parts) else None,
        )

    # ---------------------------------------------------------------- kinds

    def _parts_of_npz(self) -> Iterator[Part]:
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, KeyError) as error:
            msg = f"{str(self.path)!r} is no NPZ file of numbers: {error}"
            raise FormatError(msg) from error
        wide = [name for name, array in arrays.items() if array.ndim == 2]
        name = "X" if "X" in wide else wide[0] if len(wide) == 1 else None
        if name is None:
            msg = (
                f"{str(self.path)!r} must hold an array X of shape (rows, features), "
                f"got {sorted(arrays)}."
            )
            raise FormatError(msg)
        rows = arrays[name]
        labels = arrays.get(self.target or "y")
        if self.target is not None and labels is None:
            msg = (
                f"{str(self.path)!r} has no array {self.target!r}; it has "
                f"{sorted(arrays)}."
            )
            raise FormatError(msg)
        self._check_width(rows.shape[1])
        for start in range(0, max(len(rows), 1), ROWS_PER_PART):
            part = slice(start, start + ROWS_PER_PART)
            yield Part(rows[part], None if labels is None else labels[part])

    def _parts_of_columns(self) -> Iterator[Part]:
        try:
            import pyarrow as pa
        except ImportError as error:
            msg = (
                f"Reading {self.path.name!r} needs pyarrow, which is not installed. "
                'Install the extra "tables": python -m pip install "spinney[tables]"; '
                "NPZ files are read without."
            )
            raise ImportError(msg) from error

        n_rows = 0
        try:
            for batch in self._batches():
                n_rows += batch.num_rows
                yield self._part(batch)
        except pa.ArrowInvalid as error:
            msg = f"{str(self.path)!r} cannot be read as its name says: {error}"
            raise FormatError(msg) from error
        if n_rows == 0:
            msg = f"{str(self.path)!r} has no rows."
            raise FormatError(msg)

    def _batches(self) -> Iterator[Any]:
        """Yield record batches of any kind of file that has columns."""
        import pyarrow as pa

        name = self.path.name.lower()
        if name.endswith(".parquet"):
            from pyarrow import parquet

            yield from parquet.ParquetFile(self.path).iter_batches(ROWS_PER_PART)
        elif name.endswith((".csv", ".csv.gz")):
            from pyarrow import csv

            options = csv.ConvertOptions(
                null_values=list(MISSING), strings_can_be_null=False
            )
            yield from csv.open_csv(self.path, convert_options=options)
        else:
            with pa.memory_map(str(self.path)) as source:
                try:
                    reader = pa.ipc.open_file(source)
                    for number in range(reader.num_record_batches):
                        yield reader.get_batch(number)
                except pa.ArrowInvalid:
                    source.seek(0)
                    yield from pa.ipc.open_stream(source)

    def _part(self, batch: Any) -> Part:
        """Return a record batch as rows and labels."""
        names = list(batch.schema.names)
        if self.target is not None and self.target not in names:
            msg = (
                f"{str(self.path)!r} has no column {self.target!r}; it has "
                f"{_listed(names)}."
            )
            raise FormatError(msg)
        wanted = [name for name in names if name != self.target]
        known = self._feature_names
        if known is not None and set(known) <= set(names):
            wanted = list(known)
        self._check_width(len(wanted))
        columns = [_numbers(batch.column(name), name) for name in wanted]
        labels = None
        if self.target is not None:
            labels = batch.column(self.target).to_numpy(zero_copy_only=False)
        return Part(np.column_stack(columns), labels)

    def _check_width(self, n_columns: int) -> None:
        if n_columns != self._n_features:
            hint = ""
            if self.target is None and n_columns == self._n_features + 1:
                hint = " If one of them holds labels, name it with --target."
            msg = (
                f"{str(self.path)!r} has {n_columns} columns, but the model was "
                f"trained on {self._n_features}.{hint}"
            )
            raise InvalidArgumentError(msg)


def _numbers(column: Any, name: str) -> NDArray[np.floating]:
    """Return a column as floats; missing values as NaN."""
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
    return column.cast(wanted).to_numpy(zero_copy_only=False)


def _listed(names: list[str]) -> str:
    """Return column names as a text of bounded length."""
    shown = ", ".join(map(repr, names[:8]))
    return shown if len(names) <= 8 else f"{shown}, ... ({len(names)} in all)"
