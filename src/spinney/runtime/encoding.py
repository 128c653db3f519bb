"""Rows with category values, made into the rows of numbers that trees compare.

Values become texts, texts become hashes, once for each different value of a column; the
rest is a kernel (`encoding_kernels`), or NumPy where kernels are not to serve (see
`choice`). A large batch is kept as numbers and hashes and
encoded a block at a time, since hundreds of statistics per row are not unusual.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidArgumentError
from spinney.forest.blocks import DENSE_BYTES, BlockedRows
from spinney.forest.category_texts import (
    category_text,
    distinct_texts,
    texts_of_column,
    texts_of_integers,
)
from spinney.forest.encoder import ABOVE, MULTIPLIER, VALUE, Encoder
from spinney.forest.frames import frame_of
from spinney.forest.locks import ForkSafeLock
from spinney.forest.rows import check_shape, numbers_from_objects
from spinney.forest.sparse import is_sparse
from spinney.runtime.choice import Kernels, either
from spinney.runtime.city_hash import category_hash, category_hashes
from spinney.runtime.encoding_kernels import Tables, encode_rows, fill_slots
from spinney.runtime.kernel_arrays import own_copy, read_only
from spinney.runtime.row_predictors import one_row, values_by_name

if TYPE_CHECKING:
    from spinney.forest import Forest

# Hashes of texts that are kept for single rows.
MOST_KNOWN = 2**16

KERNELS = Kernels("category values", "float32")
# About how long NumPy takes to look up one key, and to get going for each projection.
SECONDS_PER_KEY = 1e-7
SECONDS_PER_PROJECTION = 3e-5


class RowEncoder:
    """Encodes the rows of one forest.

    Parameters
    ----------
    forest : Forest
        With an encoder.
    dtype : dtype
        Of the rows that are returned: float32, or float64 for kernels that take no
        other.
    """

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        assert forest.encoder is not None
        self._forest = forest
        self._dtype = dtype
        self._n_features = forest.n_features
        self.width = forest.width
        self._categories: list[int] = forest.encoder.category_columns.tolist()
        columns = np.arange(forest.n_features)
        self._numbers = np.setdiff1d(columns, forest.encoder.category_columns)
        self._encoder = forest.encoder
        self._tables: Tables | None = None
        self._known: dict[str, int] = {}
        self._plain: Forest | None = None
        self._lock = ForkSafeLock()

    @property
    def plain(self) -> Forest:
        """The same trees as a forest that takes encoded rows."""
        with self._lock:
            if self._plain is None:
                self._plain = self._forest.replace(
                    encoder=None, n_features=self.width, feature_names=None
                )
            return self._plain

    # ------------------------------------------------------------------ batches

    def rows(self, X: Any) -> NDArray[np.floating] | HashedRows:
        """Return rows as the kernels take them, a large batch still to be encoded.

        Parameters
        ----------
        X : data frame, or array-like of texts, integers and numbers
            Rows. An array of floats has no categories and is refused.
        """
        numbers, hashes = self._hashed(X)
        hashed = HashedRows(numbers, hashes, self)
        if len(numbers) * self.width * 4 <= DENSE_BYTES:
            return read_only(hashed.dense())
        return hashed

    def encoded(
        self, numbers: NDArray[np.float32], hashes: NDArray[np.uint64]
    ) -> NDArray[np.floating]:
        """Return rows of numbers, given their own and the hashes of their categories.

        Parameters
        ----------
        numbers : ndarray of shape (n_rows, n_features), dtype=float32
            What stands in category columns does not matter.
        hashes : ndarray of shape (n_rows, n_category_columns), dtype=uint64
            From `category_hashes`.
        """
        wide = np.empty((len(numbers), self.width), dtype=np.float32)

        def compiled() -> None:
            if self._tables is None:
                self._tables = tables_of(self._encoder)
            encode_rows(read_only(numbers), read_only(hashes), self._tables, wide)

        def plain() -> None:
            encode_plainly(numbers, hashes, self._encoder, wide)

        per_projection = SECONDS_PER_PROJECTION + SECONDS_PER_KEY * len(numbers)
        seconds = per_projection * self._encoder.n_projections
        either(KERNELS, seconds, compiled, plain)
        return wide.astype(self._dtype, copy=False)

    def _hashed(self, X: Any) -> tuple[NDArray[np.float32], NDArray[np.uint64]]:
        """Return the numbers and the hashes of rows, or say what is wrong with them."""
        if is_sparse(X):
            msg = (
                "X is a sparse matrix, and the model has columns of category values. "
                "Pass a data frame, or an array of Python objects."
            )
            raise InvalidArgumentError(msg)
        frame = frame_of(X)
        if frame is not None:
            check_shape((frame.n_rows, len(frame.names)), self._n_features)
            numbers = np.zeros((frame.n_rows, self._n_features), dtype=np.float32)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                for column in range(self._n_features):
                    if column not in self._categories:
                        name = frame.names[column]
                        numbers[:, column] = frame.numbers(column, name)
            texts = [texts_of_column(frame, column) for column in self._categories]
            return numbers, self._hashes(texts, frame.n_rows)
        rows = X if isinstance(X, np.ndarray) else _objects(X)
        check_shape(rows.shape, self._n_features)
        if rows.dtype.kind in "iub":
            texts = [texts_of_integers(rows[:, column]) for column in self._categories]
            return rows.astype(np.float32), self._hashes(texts, len(rows))
        if rows.dtype.kind not in "OUS":
            raise _without_categories(rows.dtype)
        texts = [
            distinct_texts(rows[:, column].tolist(), column)
            for column in self._categories
        ]
        return self._numbers_of(rows), self._hashes(texts, len(rows))

    def _numbers_of(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return the numbers among Python objects, zeros in category columns."""
        numbers = np.zeros(rows.shape, dtype=np.float32)
        own = rows[:, self._numbers]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if set(map(type, own.ravel().tolist())) <= {float, bool}:
                numbers[:, self._numbers] = own.astype(np.float64)
                return numbers
            # The usual way, which has words for what is wrong, and where.
            others = np.array(rows, dtype=object)
            others[:, self._categories] = 0
            return numbers_from_objects(others).astype(np.float32)

    def _hashes(
        self, texts: list[tuple[list[bytes], NDArray[np.intp]]], n_rows: int
    ) -> NDArray[np.uint64]:
        hashes = np.empty((n_rows, len(texts)), dtype=np.uint64)
        for k, (distinct, index) in enumerate(texts):
            hashes[:, k] = category_hashes(distinct)[index]
        return hashes

    # -------------------------------------------------------------- single rows

    def row(self, row: Any) -> NDArray[np.floating]:
        """Return one row encoded.

        Parameters
        ----------
        row : sequence, array, dict or data frame
            One row: texts or integers in category columns, numbers in all others.
        """
        if isinstance(row, Mapping):
            names = self._forest.feature_names
            row = values_by_name(row, names, self._n_features)
        if isinstance(row, (list, tuple)):
            values = list(row)
        elif isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "Oiub":
            values = row.tolist()
        else:
            return self._checked(row)
        if len(values) != self._n_features:
            return self._checked(row)
        known, hashes = self._known, []
        for column in self._categories:
            value = values[column]
            found = known.get(value) if type(value) is str else None
            hashes.append(self._hash(value, column) if found is None else found)
            values[column] = 0.0
        try:
            numbers = np.array(array("f", values))
        except TypeError:
            return self._checked(row)  # None among numbers, say
        return self.encoded(
            numbers.reshape(1, -1), np.array([hashes], dtype=np.uint64)
        )[0]

    def _hash(self, value: Any, column: int) -> int:
        """Return the hash of a value, and keep it if it is a text."""
        found = category_hash(category_text(value, column))
        if type(value) is str:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[value] = found
        return found

    def _checked(self, row: Any) -> NDArray[np.floating]:
        """Return one row encoded the usual way, which has words for what is wrong."""
        table = one_row(row, self._forest)
        return self.encoded(*self._hashed(table))[0]


class HashedRows(BlockedRows):
    """Rows whose category values are hashes, encoded only a block at a time.

    Parameters
    ----------
    numbers, hashes : ndarray
        As for `RowEncoder.encoded`.
    encoder : RowEncoder
        What encodes them.
    """

    def __init__(
        self,
        numbers: NDArray[np.float32],
        hashes: NDArray[np.uint64],
        encoder: RowEncoder,
    ) -> None:
        self._numbers = numbers
        self._hashes = hashes
        self._encoder = encoder
        self.shape = (len(numbers), encoder.width)
        self.dtype = np.dtype(np.float32)

    def _some(self, index: Any) -> HashedRows:
        return HashedRows(self._numbers[index], self._hashes[index], self._encoder)

    def dense(self) -> NDArray[np.floating]:
        """Return all rows as an array."""
        return self._encoder.encoded(self._numbers, self._hashes)


def encode_plainly(
    numbers: NDArray[np.float32],
    hashes: NDArray[np.uint64],
    encoder: Encoder,
    wide: NDArray[np.float32],
) -> None:
    """Write encoded rows without a compiler; see `encode_rows`.

    Parameters
    ----------
    numbers, hashes
        As for `encode_rows`.
    encoder : Encoder
        What is looked up.
    wide : ndarray of shape (n_rows, width), dtype=float32
        The encoded rows, written to.
    """
    factor = np.uint64(MULTIPLIER)
    slot = np.searchsorted(encoder.category_columns, encoder.part_column).tolist()
    wide[:, : numbers.shape[1]] = numbers
    to, at = numbers.shape[1], 0
    for p, width in enumerate(encoder.widths.tolist()):
        key = np.zeros(len(numbers), dtype=np.uint64)
        for q in range(*encoder.part_offsets[p : p + 2].tolist()):
            if encoder.part_kind[q] == VALUE:
                part = hashes[:, slot[q]]
            elif encoder.part_kind[q] == ABOVE:
                x = numbers[:, encoder.part_column[q]]
                above = x > encoder.part_border[q]
                if encoder.part_missing_above[q]:
                    above |= np.isnan(x)
                part = above.astype(np.uint64)
            else:
                wanted = encoder.part_hash[q : q + 1].astype(np.int64).view(np.uint64)
                part = (hashes[:, slot[q]] == wanted).astype(np.uint64)
            key = (key + part * factor) * factor
        begin, end = encoder.key_offsets[p : p + 2].tolist()
        keys = encoder.keys[begin:end]
        line = np.searchsorted(keys, key)
        if len(keys):
            line[keys[np.minimum(line, len(keys) - 1)] != key] = len(keys)
        size = (len(keys) + 1) * width
        wide[:, to : to + width] = encoder.lines[at : at + size].reshape(-1, width)[
            line
        ]
        to, at = to + width, at + size


def tables_of(encoder: Encoder) -> Tables:
    """Return an encoder as the kernels take it.

    Parameters
    ----------
    encoder : Encoder
        Checked when it was made.
    """
    n_keys = np.diff(encoder.key_offsets)
    # At most half full, and never quite: a search ends at an empty slot.
    bits = np.ceil(np.log2(2 * n_keys + 1)).astype(np.int64)
    slot_offsets = np.cumsum(np.concatenate([[0], 1 << bits]), dtype=np.int64)
    slots = np.full(slot_offsets[-1], -1, dtype=np.int32)
    keys, key_offsets = own_copy(encoder.keys), own_copy(encoder.key_offsets)
    fill_slots(keys, key_offsets, slot_offsets, slots)
    position = np.searchsorted(encoder.category_columns, encoder.part_column)
    is_number = encoder.part_kind == ABOVE
    sizes = (n_keys + 1) * encoder.widths
    return Tables(
        part_offsets=own_copy(encoder.part_offsets),
        part_kind=own_copy(encoder.part_kind),
        part_column=np.where(is_number, encoder.part_column, position),
        part_border=own_copy(encoder.part_border),
        part_missing_above=own_copy(encoder.part_missing_above),
        part_hash=encoder.part_hash.astype(np.int64).view(np.uint64),
        keys=keys,
        key_offsets=key_offsets,
        slots=slots,
        slot_offsets=slot_offsets,
        widths=own_copy(encoder.widths),
        line_offsets=np.cumsum(sizes) - sizes,
        lines=own_copy(encoder.lines),
    )


def _objects(X: Any) -> NDArray[Any]:
    """Return nested sequences as an array of Python objects, or say what is wrong."""
    try:
        return np.array(X, dtype=object)
    except ValueError as error:
        msg = f"X must be a table with rows of equal length: {error}"
        raise ValueError(msg) from error


def _without_categories(dtype: np.dtype) -> InvalidArgumentError:
    msg = (
        f"X is an array of {dtype}, but the model has columns of category values, "
        "which must be strings or integers. Pass a data frame, or an array of Python "
        "objects; CatBoost refuses an array of floats, too."
    )
    return InvalidArgumentError(msg)
