"""CSV files: which type each column has, and the rows, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spinney.cli.category_columns import MISSING

# Bytes of a file that are read at once. Types are guessed from the first of these.
CSV_BLOCK = 4_194_304


def guessed_types(path: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the names of all columns, and their types as the first rows look.

    Parameters
    ----------
    path : path
        The file, perhaps compressed by gzip.
    """
    with _opened(path, {})[0] as reader:
        schema = reader.schema
    return schema.names, {column.name: column.type for column in schema}


def types_to_read(
    guessed: dict[str, Any], target: str | None, categories: list[str]
) -> dict[str, Any]:
    """Return the types of features where those of the first rows are too narrow.

    Further down an integer may have a fraction, and what was always missing may be
    there.

    Parameters
    ----------
    guessed : dict
        Types by name.
    target : str or None
        The column with the labels, which stays as it is.
    categories : list of str
        Columns of categories, which are texts.
    """
    import pyarrow as pa

    wide = {
        name: pa.float64()
        for name, kind in guessed.items()
        if name != target and (pa.types.is_integer(kind) or pa.types.is_null(kind))
    }
    return wide | dict.fromkeys(categories, pa.string())


def types_of_kept(
    path: Path, guessed: dict[str, Any], names: list[str], *, texts: bool
) -> dict[str, Any]:
    """Return the types of columns that are only passed through.

    Parameters
    ----------
    path : path
        The file.
    guessed : dict
        Types by name.
    names : list of str
        The columns.
    texts : bool
        Whether all of them are taken as the texts that stand there.
    """
    import pyarrow as pa
    from pyarrow import compute

    types = dict.fromkeys(names, pa.string())
    if not names or texts:
        return types
    with _opened(path, {"include_columns": names, "column_types": types})[0] as reader:
        first = reader.read_next_batch()
    for name in names:
        # A number that begins with a zero is a name: 007 is not 7.
        padded = compute.match_substring_regex(first.column(name), r"^[+-]?0[0-9]")
        if not pa.types.is_null(guessed[name]) and not compute.any(padded).as_py():
            types[name] = guessed[name]
    return types


def batches_of_csv(
    path: Path, columns: list[str], types: dict[str, Any]
) -> Iterator[tuple[Any, float]]:
    """Yield record batches, and how much of the file has been read with each.

    Parameters
    ----------
    path : path
        The file.
    columns : list of str
        Columns to read.
    types : dict
        Types by name, where they are not to be guessed.
    """
    size = path.stat().st_size
    options = {"include_columns": columns, "column_types": types}
    reader, file = _opened(path, options)
    with reader:
        for batch in reader:
            yield batch, min(file.tell() / size, 1.0)


def _opened(path: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return a reader, and the file that it reads."""
    import pyarrow as pa
    from pyarrow import csv

    source = file = pa.OSFile(str(path))
    if path.name.lower().endswith(".gz"):
        source = pa.CompressedInputStream(file, "gzip")
    convert = csv.ConvertOptions(
        null_values=list(MISSING), strings_can_be_null=False, **options
    )
    read = csv.ReadOptions(block_size=CSV_BLOCK)
    return csv.open_csv(source, read, convert_options=convert), file
