"""Predictions written to a file as they come, whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.persistence.atomic_write import write_atomically

# Arrays of NumPy, and of Arrow where columns of a table are passed through.
Columns = dict[str, Any]

ENDINGS = (".parquet", ".csv", ".arrow", ".feather", ".npz")


def write_answers(path: Path, parts: Iterable[Columns]) -> None:
    """Write columns to a file, part by part.

    Each part is written before the next one is computed, so neither all parts nor
    the file need fit into memory; except for NPZ, in which an array cannot grow. The
    file appears under its name when it is whole.

    Parameters
    ----------
    path : path
        The file; how its name ends tells the kind, one of `ENDINGS`.
    parts : iterable of dict
        Columns by name, the same in all parts; at least one part.
    """
    name = path.name.lower()
    is_npz = name.endswith(".npz")
    chunks = _npz_chunks(parts) if is_npz else _table_chunks(name, parts)
    write_atomically(str(path), chunks)


def _table_chunks(name: str, parts: Iterable[Columns]) -> Iterator[bytes]:
    """Yield the bytes of a Parquet, CSV or Arrow file as far as they are known."""
    import pyarrow as pa

    sink = _Sink()
    writer = None
    for columns in parts:
        if not name.endswith(".parquet"):
            columns = {key: _decoded(column) for key, column in columns.items()}
        batch = pa.RecordBatch.from_pydict(columns)
        if writer is None:
            writer = _writer_for(name)(sink, batch.schema)
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()


def _writer_for(name: str) -> Callable[[Any, Any], Any]:
    """Return what makes a writer of a file and a schema, for a file of this name."""
    import pyarrow as pa

    if name.endswith(".parquet"):
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter
    if name.endswith(".csv"):
        from pyarrow.csv import CSVWriter

        return CSVWriter
    return pa.ipc.new_file


def _npz_chunks(parts: Iterable[Columns]) -> Iterator[bytes]:
    """Yield the bytes of an NPZ file, once all parts are there."""
    kept: dict[str, list[NDArray[Any]]] = {}
    for columns in parts:
        for name, column in columns.items():
            kept.setdefault(name, []).append(_storable(column, name))
    archive = io.BytesIO()
    whole: Any = {name: np.concatenate(columns) for name, columns in kept.items()}
    np.savez_compressed(archive, **whole)
    yield archive.getvalue()


def _decoded(column: Any) -> Any:
    """Return a column with its values instead of a dictionary and indices to it.

    In an Arrow file there is one dictionary for all rows, and parts of other files
    have one each.
    """
    decode = getattr(column, "dictionary_decode", None)
    return column if decode is None else decode()


def _storable(column: Any, name: str) -> NDArray[Any]:
    """Return a column as an array that no pickle is needed for, or raise."""
    if isinstance(column, np.ndarray):
        # Texts as such: an array of objects is a pickle.
        return column.astype(str) if column.dtype.kind == "O" else column
    import pyarrow as pa

    column = _decoded(column)
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        texts: NDArray[Any] = column.fill_null("").to_numpy(zero_copy_only=False)
        return texts.astype(str)
    has_gaps = (
        types.is_floating(kind) or types.is_date(kind) or types.is_timestamp(kind)
    )
    whole = types.is_integer(kind) or types.is_boolean(kind)
    if has_gaps or (whole and not column.null_count):
        array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return array
    what = f"missing values in a column of {kind}" if whole else f"a column of {kind}"
    msg = f"An NPZ file cannot hold {what}, which {name!r} is. Write a Parquet file."
    raise InvalidArgumentError(msg)


class _Sink(io.RawIOBase):
    """A file for a writer, whose content is taken out again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, chunk: Any) -> int:
        self._chunks.append(bytes(chunk))
        return len(self._chunks[-1])

    def taken(self) -> bytes:
        """Return what has been written since the last call."""
        content = b"".join(self._chunks)
        self._chunks.clear()
        return content
