"""Answers written to a file as they come, whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.persistence.atomic_write import write_atomically

Columns = dict[str, NDArray[Any]]

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
            # Texts as such: an array of objects is a pickle.
            if column.dtype.kind == "O":
                column = column.astype(str)
            kept.setdefault(name, []).append(column)
    archive = io.BytesIO()
    whole: Any = {name: np.concatenate(columns) for name, columns in kept.items()}
    np.savez_compressed(archive, **whole)
    yield archive.getvalue()


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
