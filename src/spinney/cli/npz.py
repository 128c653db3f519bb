"""Arrays in an NPZ file, some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from spinney.errors import FormatError

ENDING = ".npy"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def array_names(archive: ZipFile) -> list[str]:
    """Return what the arrays in an NPZ file are called."""
    names = [name for name in archive.namelist() if name.endswith(ENDING)]
    return sorted(name.removesuffix(ENDING) for name in names)


class StoredArray:
    """One array of an NPZ file: its shape is known, its rows are not read yet.

    Parameters
    ----------
    archive : ZipFile
        The NPZ file.
    name : str
        What the array is called.

    Raises
    ------
    FormatError
        If there is no array of numbers or texts under this name.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, archive: ZipFile, name: str) -> None:
        self.name = name
        self._file: IO[bytes] = archive.open(name + ENDING)
        version = np.lib.format.read_magic(self._file)
        if version not in _HEADERS:
            msg = f"Array {name!r} has the unknown format {version}. Save it again."
            raise FormatError(msg)
        self.shape, self._by_columns, self.dtype = _HEADERS[version](self._file)
        if self.dtype.hasobject:
            msg = (
                f"Array {name!r} holds Python objects, which only a pickle can. Save "
                "numbers, and labels that are strings as such: y.astype(str)."
            )
            raise FormatError(msg)

    def blocks(self, n_rows: int) -> Iterator[NDArray[Any]]:
        """Yield the array from its first row to its last.

        Parameters
        ----------
        n_rows : int
            Rows of a block. An array that is stored column by column is read as a
            whole first.
        """
        starts = range(0, self.shape[0], n_rows)
        if self._by_columns:
            whole = self._read(self.shape[::-1]).T
            for start in starts:
                yield np.ascontiguousarray(whole[start : start + n_rows])
            return
        for start in starts:
            length = min(n_rows, self.shape[0] - start)
            yield self._read((length, *self.shape[1:]))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read(self, shape: tuple[int, ...]) -> NDArray[Any]:
        n_bytes = math.prod(shape) * self.dtype.itemsize
        content = bytearray(self._file.read(n_bytes))
        if len(content) != n_bytes:
            msg = f"Array {self.name!r} is cut off. Save it again."
            raise FormatError(msg)
        return np.frombuffer(content, dtype=self.dtype).reshape(shape)
