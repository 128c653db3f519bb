"""Tables in files: CSV, Parquet, Arrow and NPZ, read in parts."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from spinney.cli.category_columns import CategoryColumns, refuse_flags
from spinney.cli.column_names import (
    column_names,
    listed,
    refuse_unknown,
    refuse_without_target,
)
from spinney.cli.columns import frame_of, numbers_of
from spinney.cli.csv_files import (
    batches_of_csv,
    guessed_types,
    types_of_kept,
    types_to_read,
)
from spinney.cli.npz import StoredArray, array_names
from spinney.errors import FormatError, InvalidArgumentError

# A part has at most so many rows, and so many numbers: 64 MB of them.
ROWS_PER_PART = 65_536
NUMBERS_PER_PART = 8_388_608
# Bytes of a column of a Parquet file that are read at once.
COLUMN_BLOCK = 1_048_576
KINDS = "CSV (.csv, .csv.gz), Parquet (.parquet), Arrow (.arrow, .feather) or .npz"
WITH_COLUMNS = (".csv", ".csv.gz", ".parquet", ".arrow", ".feather")


@dataclass(frozen=True)
class Part:
    """Some rows of a table.

    Parameters
    ----------
    rows : ndarray or data frame of shape (n_rows, n_features)
        Numbers; missing ones are NaN. A data frame of pandas where requested.
    labels : ndarray of shape (n_rows,) or None
        The target column, if there is one.
    share : float
        How much of the file has been read once these rows are.
    kept : dict
        Columns that are passed through, by name: arrays of NumPy or of Arrow.
    """

    rows: Any
    labels: NDArray[Any] | None
    share: float
    kept: dict[str, Any] = field(default_factory=dict)


def check_table(path: str | os.PathLike[str]) -> None:
    """Raise if a file cannot be a table, before it is read.

    Parameters
    ----------
    path : path
        The file; its name tells the kind.
    """
    file = Path(path)
    if file.is_dir():
        msg = f"{str(path)!r} is a directory. Pass the path of a file in it."
        raise IsADirectoryError(msg)
    if not file.exists():
        msg = f"There is no file {str(path)!r}. Check the path."
        raise FileNotFoundError(msg)
    if not file.name.lower().endswith((*WITH_COLUMNS, ".npz")):
        msg = f"{str(path)!r} is not a supported kind of table. Pass {KINDS}."
        raise FormatError(msg)
    if file.stat().st_size == 0:
        msg = f"{str(path)!r} is empty. A table with rows was expected."
        raise FormatError(msg)


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
    keep : tuple of str, default=()
        Columns (in NPZ files arrays) to pass through, in the types that they have.
        They are features only if the model takes its columns by name.
    keep_texts : bool, default=False
        Whether what is kept of a CSV file stays the text that stands there, rather
        than a number or a date where it looks like one.
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
        *,
        keep: tuple[str, ...] = (),
        keep_texts: bool = False,
    ) -> None:
        check_table(path)
        self.path = Path(path)
        self.as_frame = as_frame and not self.path.name.lower().endswith(".npz")
        self.target = target
        self._feature_names = feature_names
        self._n_features = n_features
        self._needs_target = needs_target
        self._categories = categories
        self._keep = keep
        self._keep_texts = keep_texts
        self._features_read: list[str] = []

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

    def check(self) -> None:
        """Raise if it lacks columns that the model takes; only their names are read.

        A file that cannot be read is left to `parts`, which says why.
        """
        if self.path.name.lower().endswith(".npz"):
            return
        try:
            names = column_names(self.path)
        except Exception:
            return
        self._columns(names)

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
            with ZipFile(self.path) as archive, ExitStack() as opened:
                yield from self._parts_of_archive(archive, opened)
        except FormatError as error:
            msg = f"{str(self.path)!r} cannot be read: {error}"
            raise FormatError(msg) from error
        except (ValueError, EOFError, BadZipFile, zlib.error) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            msg = f"{str(self.path)!r} is not an NPZ file of numbers: {error}"
            raise FormatError(msg) from error

    def _parts_of_archive(self, archive: ZipFile, opened: ExitStack) -> Iterator[Part]:
        def stored_array(name: str) -> StoredArray:
            array = StoredArray(archive, name)
            opened.callback(array.close)
            return array

        arrays = {name: stored_array(name) for name in array_names(archive)}
        wide = [name for name, array in arrays.items() if len(array.shape) == 2]
        name = "X" if "X" in wide else wide[0] if len(wide) == 1 else None
        if name is None:
            msg = (
                "it must hold an array X of shape (rows, features), and it holds "
                f"{listed(sorted(arrays))}."
            )
            raise FormatError(msg)
        stored = arrays[name]
        if stored.dtype.kind not in "fiub":
            msg = f"array {name!r} must hold numbers, got {stored.dtype}."
            raise FormatError(msg)
        labels = arrays.get(self.target or "y")
        if self.target is not None and labels is None and self._needs_target:
            msg = f"it has no array {self.target!r}; it has {listed(sorted(arrays))}."
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
        kept_blocks = {
            name: array.blocks(size)
            for name, array in self._kept_arrays(stored_array, arrays, n_rows).items()
        }
        done = 0
        for rows in stored.blocks(size):
            done += len(rows)
            answers = None if label_blocks is None else next(label_blocks)
            kept = {name: next(blocks) for name, blocks in kept_blocks.items()}
            yield Part(rows, answers, done / n_rows, kept)

    def _kept_arrays(
        self,
        stored_array: Callable[[str], StoredArray],
        arrays: dict[str, StoredArray],
        n_rows: int,
    ) -> dict[str, StoredArray]:
        """Return the arrays to pass through, each opened anew: it may be y, too."""
        refuse_unknown(self.path, sorted(arrays), self._keep, "array")
        for name in self._keep:
            if arrays[name].shape != (n_rows,):
                msg = (
                    f"array {name!r}, which --keep names, must have one value for each "
                    f"of the {n_rows:,} rows, got the shape {arrays[name].shape}."
                )
                raise FormatError(msg)
        return {name: stored_array(name) for name in self._keep}

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
        names, guessed = guessed_types(self.path)
        columns = self._columns(names)
        features = self._features_read
        refuse_flags(guessed, features, self._categories)
        passed = [name for name in self._keep if name not in (*features, self.target)]
        categories = [features[k] for k in self._categories]
        types = types_to_read(guessed, self.target, categories)
        types |= types_of_kept(self.path, guessed, passed, texts=self._keep_texts)
        yield from batches_of_csv(self.path, columns, types)

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
        """Return the columns to read: the model's in its order, the target, kept ones.

        Remembers which of them are features.
        """
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"{str(self.path)!r} has several columns called {twice[0]!r}."
            raise FormatError(msg)
        has_target = self.target in names
        if self.target is not None and self._needs_target:
            refuse_without_target(self.path, names, self.target)
        refuse_unknown(self.path, names, self._keep, "column")
        wanted = self._features([name for name in names if name != self.target])
        self._features_read = wanted
        others = [self.target] if has_target else []
        return list(dict.fromkeys([*wanted, *others, *self._keep]))  # type: ignore[list-item]

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
                    f"{listed(missing)}. It has {listed(names)}."
                )
                raise InvalidArgumentError(msg)
        # Without names to go by, what is a key is no feature.
        names = [name for name in names if name not in self._keep]
        self._check_width(len(names))
        return names

    def _part(self, batch: Any, share: float) -> Part:
        """Return a record batch as rows and labels."""
        labels = None
        names = self._features_read
        if self.target in batch.schema.names:
            labels = batch.column(self.target).to_numpy(zero_copy_only=False)
        kept = {name: batch.column(name) for name in self._keep}
        if self.as_frame:
            rows = frame_of(batch, names, self._feature_names, self._categories)
        else:
            rows = np.column_stack(
                [numbers_of(batch.column(name), name) for name in names]
            )
        return Part(rows, labels, share, kept)

    def _check_width(self, n_columns: int) -> None:
        if n_columns != self._n_features:
            hint = ""
            if self.target is None and n_columns == self._n_features + 1:
                hint = " If one of them holds labels, name it with --target."
            if self._keep and not self.path.name.lower().endswith(".npz"):
                hint += (
                    " Columns to keep are not counted: a model without column names "
                    "takes them by position."
                )
            msg = (
                f"{str(self.path)!r} has {n_columns} columns, but the model was "
                f"trained on {self._n_features}.{hint}"
            )
            raise InvalidArgumentError(msg)
