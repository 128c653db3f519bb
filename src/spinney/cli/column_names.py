"""Names of the columns of a table, read before the model: mistakes are told at once."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

from spinney.cli.npz import array_names
from spinney.errors import FormatError, InvalidArgumentError


def check_columns(
    path: str | os.PathLike[str] | None,
    *,
    target: str | None = None,
    keep: Sequence[str] = (),
) -> None:
    """Raise if a table lacks a column that an option names.

    Parameters
    ----------
    path : path or None
        The file; None is no file. A file that cannot be read is left to `Table`,
        which says why.
    target : str or None, default=None
        Column with the labels, if it has to be there.
    keep : sequence of str, default=()
        Columns to pass through.
    """
    if path is None or (target is None and not keep):
        return
    file = Path(path)
    is_npz = file.name.lower().endswith(".npz")
    try:
        names = column_names(file)
    except Exception:  # whatever is wrong with the file, reading it will tell
        return
    if target is not None and not is_npz:
        refuse_without_target(file, names, target)
    refuse_unknown(file, names, keep, "array" if is_npz else "column")


def refuse_without_target(path: Path, names: list[str], target: str) -> None:
    """Raise if there is no column with the labels.

    Parameters
    ----------
    path : path
        The file.
    names : list of str
        Its columns.
    target : str
        Column with the labels.
    """
    if target not in names:
        msg = f"{str(path)!r} has no column {target!r}; it has {listed(names)}."
        raise FormatError(msg)


def refuse_unknown(
    path: Path, names: list[str], keep: Sequence[str], what: str
) -> None:
    """Raise if a column to be kept is not there.

    Parameters
    ----------
    path : path
        The file.
    names : list of str
        What it has.
    keep : sequence of str
        What is to be passed through.
    what : {"column", "array"}
        What they are.
    """
    unknown = [name for name in keep if name not in names]
    if unknown:
        msg = (
            f"{str(path)!r} has no {what} {listed(unknown)} to keep; it has "
            f"{listed(names)}."
        )
        raise InvalidArgumentError(msg)


def listed(names: Sequence[str]) -> str:
    """Return names as a string of bounded length.

    Parameters
    ----------
    names : sequence of str
        The names.
    """
    shown = ", ".join(map(repr, names[:8])) or "nothing"
    return shown if len(names) <= 8 else f"{shown}, ... ({len(names)} in all)"


def column_names(path: Path) -> list[str]:
    """Return the names of the columns; of a CSV file without PyArrow.

    Parameters
    ----------
    path : path
        The file; its name tells the kind.
    """
    name = path.name.lower()
    if name.endswith(".npz"):
        with ZipFile(path) as archive:
            return array_names(archive)
    if name.endswith((".csv", ".csv.gz")):
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
            return next(csv.reader(lines))
    if name.endswith(".parquet"):
        from pyarrow.parquet import read_schema

        return list(read_schema(path).names)
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        try:
            return list(pa.ipc.open_file(source).schema.names)
        except pa.ArrowInvalid:  # not a file with an index at its end: a stream
            source.seek(0)
            return list(pa.ipc.open_stream(source).schema.names)
