"""Kernels that turn category values into the numbers that trees compare.

What is looked up, and how a key is made, is described in `spinney.forest.encoder`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.forest.encoder import ABOVE, MULTIPLIER, VALUE
from spinney.runtime.kernel_cache import kernel

u = np.uint64
FACTOR = u(MULTIPLIER)


class Tables(NamedTuple):
    """An encoder as the kernels take it."""

    part_offsets: NDArray[np.int64]
    part_kind: NDArray[np.uint8]
    part_column: NDArray[np.int64]  # of the numbers, or of the hashes
    part_border: NDArray[np.float32]
    part_missing_above: NDArray[np.bool_]
    part_hash: NDArray[np.uint64]  # extended by its sign
    keys: NDArray[np.uint64]
    key_offsets: NDArray[np.int64]
    slots: NDArray[np.int32]  # index into `keys`; -1: empty
    slot_offsets: NDArray[np.int64]  # a power of two of slots per projection
    widths: NDArray[np.int64]
    line_offsets: NDArray[np.int64]
    lines: NDArray[np.float32]


@kernel
def _slot_of(key):  # type: ignore[no-untyped-def]
    """Return where the search for a key begins, before it is cut to size."""
    return key ^ (key >> u(32))


@kernel
def fill_slots(keys, key_offsets, slot_offsets, slots):  # type: ignore[no-untyped-def]
    """Write the open-addressing tables of all projections.

    Parameters
    ----------
    keys, key_offsets, slot_offsets
        As in `Tables`.
    slots : ndarray, dtype=int32
        All -1; overwritten.
    """
    for p in range(len(key_offsets) - 1):
        begin = slot_offsets[p]
        mask = u(slot_offsets[p + 1] - begin - 1)
        for k in range(key_offsets[p], key_offsets[p + 1]):
            slot = _slot_of(keys[k]) & mask
            while slots[u(begin) + slot] >= 0:
                slot = (slot + u(1)) & mask
            slots[u(begin) + slot] = k


@kernel
def encode_rows(numbers, hashes, tables, wide):  # type: ignore[no-untyped-def]
    """Write rows with what is looked up for them behind their own columns.

    Parameters
    ----------
    numbers : ndarray of shape (n_rows, n_features), dtype=float32
        Rows; the numbers in category columns are not used.
    hashes : ndarray of shape (n_rows, n_category_columns), dtype=uint64
        Hashes of the categories, extended by their sign.
    tables : Tables
        What is looked up.
    wide : ndarray of shape (n_rows, n_features + n_added), dtype=float32
        Overwritten.
    """
    n_features = numbers.shape[1]
    for i in range(numbers.shape[0]):
        for j in range(n_features):
            wide[i, j] = numbers[i, j]
        to = n_features
        for p in range(len(tables.widths)):
            key = u(0)
            for q in range(tables.part_offsets[p], tables.part_offsets[p + 1]):
                kind, column = tables.part_kind[q], tables.part_column[q]
                if kind == VALUE:
                    part = hashes[i, column]
                elif kind == ABOVE:
                    x = numbers[i, column]
                    above = x > tables.part_border[q]
                    part = u(above or (x != x and tables.part_missing_above[q]))
                else:
                    part = u(hashes[i, column] == tables.part_hash[q])
                key = FACTOR * (key + FACTOR * part)
            begin = tables.slot_offsets[p]
            mask = u(tables.slot_offsets[p + 1] - begin - 1)
            line = tables.key_offsets[p + 1]  # the one of unknown keys
            slot = _slot_of(key) & mask
            found = tables.slots[u(begin) + slot]
            while found >= 0:
                if tables.keys[found] == key:
                    line = np.int64(found)
                    break
                slot = (slot + u(1)) & mask
                found = tables.slots[u(begin) + slot]
            width = tables.widths[p]
            at = tables.line_offsets[p] + (line - tables.key_offsets[p]) * width
            for v in range(width):
                wide[i, to + v] = tables.lines[at + v]
            to += width
