"""Tables in files: CSV, Parquet, Arrow and NPZ, read in parts."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from spinney.cli.category_columns import (
    MISSING,
    CategoryColumns,
    category_values,
    refuse_flags,
)
from spinney.cli.npz import StoredArray, array_names
from spinney.errors import FormatError, InvalidArgumentError

# A part has at most so many rows, and so many numbers: 64 MB of them.
ROWS_PER_PART = 65_536
NUMBERS_PER_PART = 8_388_608
# Bytes of a CSV file, or of a column of a Parquet file, that are read at once.
CSV_BLOCK = 4_194_304
COLUMN_BLOCK = 1_048_576
KINDS = "CSV (.csv, .csv.gz), Parquet (.parquet), Arrow (.arrow, .feather) or .npz"
WITH_COLUMNS = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class Part:
    """Some rows of a table.

    Parameters
    ----------
    rows : ndarray or data frame of shape (n_rows, n_features)
        Numbers; missing ones are NaN. A data frame of pandas where it was asked for.
    labels : ndarray of shape (n_rows,) or None
        The target column, if there is one.
    share : float
        How much of the file has been read once these rows are.
    """

    rows: Any
    labels: NDArray[Any] | None
    share: float


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
        taken by name; if it has none, all columns beside the target are taken as they
        come. NPZ files have no names.
    n_features : int
        Number of columns that the model takes.
    needs_target : bool
        Whether it is an error if there is no column `target`.
    as_frame : bool, default=False
        Whether rows are data frames, whose columns may hold texts. NPZ files hold
        numbers all the same.
    categories : mapping, default={}
        The columns of the model that hold categories, see `category_columns`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str | None,
        feature_names: tuple[str, ...] | None,
        n_features: int,
        needs_target: bool = True,
        as_frame: bool = False,
        categories: CategoryColumns = MappingProxyType({}),
    ) -> None:
        self.path = Path(path)
        self.as_frame = as_frame and not self.path.name.lower().endswith(".npz")
        self.target = target
        self._feature_names = feature_names
        self._n_features = n_features
        self._needs_target = needs_target
        self._categories = categories
        if self.path.is_dir():
            msg = f"{str(path)!r} is a directory. Pass the path of a file in it."
            raise IsADirectoryError(msg)
        if not self.path.exists():
            msg = f"There is no file {str(path)!r}. Check the path."
            raise FileNotFoundError(msg)
        if not self.path.name.lower().endswith((*WITH_COLUMNS, ".npz")):
            msg = f"{str(path)!r} is no kind of table known here. Pass {KINDS}."
            raise FormatError(msg)
        if self.path.stat().st_size == 0:
            msg = f"{str(path)!r} is empty. A table with rows was expected."
            raise FormatError(msg)

    def parts(self) -> Iterator[Part]:
        """Yield the rows, some at a time; at least one.

        Raises
        ------
        FormatError
            If the file is no table of numbers, or has other columns than the model.
        """
        is_npz = self.path.name.lower().endswith(".npz")
        n_rows = 0
        for part in self._parts_of_npz() if is_npz else self._parts_of_columns():
            n_rows += len(part.rows)
            if len(part.rows):
                yield part
        if n_rows == 0:
            msg = f"{str(self.path)!r} has no rows."
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
        rows = [part.rows for part in parts]
        if isinstance(rows[0], np.ndarray):
            joined = np.concatenate(rows)
        else:
            from pandas import concat

            joined = concat(rows, ignore_index=True)
        return Part(
            joined,
            np.concatenate(labels) if len(labels) == len(parts) else None,
            1.0,
        )

    @property
    def _rows_per_part(self) -> int:
        return max(1, min(ROWS_PER_PART, NUMBERS_PER_PART // self._n_features))

    # ---------------------------------------------------------------- NPZ

    def _parts_of_npz(self) -> Iterator[Part]:
        try:
            with ZipFile(self.path) as archive:
                yield from self._parts_of_archive(archive)
        except FormatError as error:
            msg = f"{str(self.path)!r} cannot be read: {error}"
            raise FormatError(msg) from error
        except (ValueError, EOFError, BadZipFile, zlib.error) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            msg = f"{str(self.path)!r} is no NPZ file of numbers: {error}"
            raise FormatError(msg) from error

    def _parts_of_archive(self, archive: ZipFile) -> Iterator[Part]:
        arrays = {name: StoredArray(archive, name) for name in array_names(archive)}
        wide = [name for name, array in arrays.items() if len(array.shape) == 2]
        name = "X" if "X" in wide else wide[0] if len(wide) == 1 else None
        if name is None:
            msg = (
                "it must hold an array X of shape (rows, features), and it holds "
                f"{_listed(sorted(arrays))}."
            )
            raise FormatError(msg)
        stored = arrays[name]
        if stored.dtype.kind not in "fiub":
            msg = f"array {name!r} must hold numbers, got {stored.dtype}."
            raise FormatError(msg)
        labels = arrays.get(self.target or "y")
        if self.target is not None and labels is None and self._needs_target:
            msg = f"it has no array {self.target!r}; it has {_listed(sorted(arrays))}."
            raise FormatError(msg)
        n_rows = stored.shape[0]
        if labels is not None and labels.shape != (n_rows,):
            msg = (
                f"array {labels.name!r} must have one label for each of the {n_rows:,} "
                f"rows, got the shape {labels.shape}."
            )
            raise FormatError(msg)
        self._check_width(stored.shape[1])
        size = self._rows_per_part
        label_blocks = None if labels is None else labels.blocks(size)
        done = 0
        for rows in stored.blocks(size):
            done += len(rows)
            answers = None if label_blocks is None else next(label_blocks)
            yield Part(rows, answers, done / n_rows)

    # ---------------------------------------------------------------- columns

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

        size = self._rows_per_part
        try:
            for batch, share in self._batches():
                for start in range(0, batch.num_rows, size):
                    yield self._part(batch.slice(start, size), share)
        # What Arrow cannot decode comes as an OSError that names no file.
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, PermissionError):
                raise
            msg = f"{str(self.path)!r} cannot be read as its name says: {error}"
            raise FormatError(msg) from error

    def _batches(self) -> Iterator[tuple[Any, float]]:
        """Yield record batches of any kind of file, and how far they reach."""
        name = self.path.name.lower()
        if name.endswith(".parquet"):
            yield from self._batches_of_parquet()
        elif name.endswith((".csv", ".csv.gz")):
            yield from self._batches_of_csv()
        else:
            yield from self._batches_of_arrow()

    def _batches_of_parquet(self) -> Iterator[tuple[Any, float]]:
        from pyarrow import parquet

        # Not `pre_buffer`, which fetches all columns of all row groups beforehand.
        with parquet.ParquetFile(
            self.path, pre_buffer=False, buffer_size=COLUMN_BLOCK
        ) as file:
            columns = self._columns(file.schema_arrow.names)
            n_rows = file.metadata.num_rows
            done = 0
            for batch in file.iter_batches(self._rows_per_part, columns=columns):
                done += batch.num_rows
                yield batch, done / n_rows

    def _batches_of_csv(self) -> Iterator[tuple[Any, float]]:
        import pyarrow as pa
        from pyarrow import csv

        size = self.path.stat().st_size
        read = csv.ReadOptions(block_size=CSV_BLOCK)
        options: dict[str, Any] = {
            "null_values": list(MISSING),
            "strings_can_be_null": False,
        }
        with self._csv_source()[0] as source:
            convert = csv.ConvertOptions(**options)
            schema = csv.open_csv(source, read, convert_options=convert).schema
        # Types are guessed from the first rows. Further down an integer may have a
        # fraction, and what was always missing may be there.
        names = self._columns(schema.names)
        refuse_flags(schema, names, self._categories)
        options["include_columns"] = names
        types = {
            field.name: pa.float64()
            for field in schema
            if field.name != self.target
            and (pa.types.is_integer(field.type) or pa.types.is_null(field.type))
        }
        texts = dict.fromkeys([names[k] for k in self._categories], pa.string())
        options["column_types"] = types | texts
        source, file = self._csv_source()
        with source:
            convert = csv.ConvertOptions(**options)
            for batch in csv.open_csv(source, read, convert_options=convert):
                yield batch, min(file.tell() / size, 1.0)

    def _csv_source(self) -> tuple[Any, Any]:
        """Return the text to be parsed, and the file that it comes from."""
        import pyarrow as pa

        file = pa.OSFile(str(self.path))
        if self.path.name.lower().endswith(".gz"):
            return pa.CompressedInputStream(file, "gzip"), file
        return file, file

    def _batches_of_arrow(self) -> Iterator[tuple[Any, float]]:
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as source:
            try:
                reader = pa.ipc.open_file(source)
            except pa.ArrowInvalid:  # not a file with an index at its end: a stream
                source.seek(0)
                stream = pa.ipc.open_stream(source)
                columns = self._columns(stream.schema.names)
                for batch in stream:
                    yield batch.select(columns), source.tell() / source.size()
                return
            columns = self._columns(reader.schema.names)
            n_batches = reader.num_record_batches
            for number in range(n_batches):
                batch = reader.get_batch(number)
                yield batch.select(columns), (number + 1) / n_batches

    def _columns(self, names: list[str]) -> list[str]:
        """Return the columns to read: those of the model in its order, the target."""
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"{str(self.path)!r} has several columns called {twice[0]!r}."
            raise FormatError(msg)
        has_target = self.target in names
        if self.target is not None and not has_target and self._needs_target:
            msg = (
                f"{str(self.path)!r} has no column {self.target!r}; it has "
                f"{_listed(names)}."
            )
            raise FormatError(msg)
        wanted = self._features([name for name in names if name != self.target])
        return [*wanted, self.target] if has_target else wanted  # type: ignore[list-item]

    def _features(self, names: list[str]) -> list[str]:
        """Return the columns of the model, by name if there are such names."""
        if self._feature_names is not None:
            # LightGBM writes a blank in a name as an underscore.
            known = {name.replace(" ", "_"): name for name in names}
            known |= {name: name for name in names}
            found = [known.get(name) for name in self._feature_names]
            missing = [
                name
                for name, column in zip(self._feature_names, found, strict=True)
                if column is None
            ]
            if not missing:
                return found  # type: ignore[return-value]
            if len(missing) < len(found):
                msg = (
                    f"{str(self.path)!r} lacks columns that the model was trained on: "
                    f"{_listed(missing)}. It has {_listed(names)}."
                )
                raise InvalidArgumentError(msg)
        self._check_width(len(names))
        return names

    def _part(self, batch: Any, share: float) -> Part:
        """Return a record batch as rows and labels."""
        labels = None
        names = list(batch.schema.names)
        if self.target in names:
            names.remove(self.target)
            labels = batch.column(self.target).to_numpy(zero_copy_only=False)
        if self.as_frame:
            return Part(self._frame(batch, names), labels, share)
        columns = [_numbers(batch.column(name), name) for name in names]
        return Part(np.column_stack(columns), labels, share)

    def _frame(self, batch: Any, names: list[str]) -> Any:
        """Return columns of a batch as a data frame; an empty text is missing."""
        try:
            from pandas import DataFrame
        except ImportError as error:
            msg = "A model with category columns or steps before it needs pandas here."
            raise ImportError(msg) from error
        columns: dict[str, Any] = {}
        # The names of the model, which may have an underscore for a blank.
        called = self._feature_names
        wanted = names if called is None or len(called) != len(names) else called
        for k, (name, known_as) in enumerate(zip(names, wanted, strict=True)):
            column = batch.column(name)
            if k in self._categories:
                columns[known_as] = category_values(column, self._categories[k])
            else:
                columns[known_as] = _values(column, name)
        return DataFrame(columns)

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
    return _numbers(column, name)


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
    # Not `safe`, which refuses integers that a float64 has to round.
    return column.cast(wanted, safe=False).to_numpy(zero_copy_only=False)


def _listed(names: list[str]) -> str:
    """Return names as a text of bounded length."""
    shown = ", ".join(map(repr, names[:8])) or "nothing"
    return shown if len(names) <= 8 else f"{shown}, ... ({len(names)} in all)"
