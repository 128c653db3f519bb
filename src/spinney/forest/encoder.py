"""Category values as the numbers that trees compare: statistics instead of codes.

CatBoost replaces the value of a category column, or the values of several together
with tests of numbers, by statistics of the training rows that had them. These are
looked up: a *projection* makes a key of 64 bits from some columns of a row, and a
table has a line of numbers for each key, and one more for all keys that it does not
know. A test for a single value (one-hot) is a line of zeros and ones. The lines of all
projections, one after another, follow the columns of the row itself; trees compare
those.

The key of a projection, as CatBoost makes it: start from zero; for each part multiply
its number by `MULTIPLIER`, add that to the key and multiply by `MULTIPLIER` again, in
64 bits. The number of a part is the hash of a category (32 bits, with its sign), or 1
if a test holds and 0 if not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InvalidForestError
from spinney.forest.arrays import as_frozen

MULTIPLIER = 0x4906BA494954CB65

# What a part of a projection contributes.
VALUE, ABOVE, EQUAL = 0, 1, 2

# Columns that an encoder may add: a forged number must not fill the memory.
MAX_ADDED = 2**20

ENCODER_ARRAYS = {
    "category_columns": np.int32,
    "part_offsets": np.int64,
    "part_kind": np.uint8,
    "part_column": np.int32,
    "part_border": np.float32,
    "part_missing_above": np.bool_,
    "part_hash": np.int32,
    "key_offsets": np.int64,
    "keys": np.uint64,
    "widths": np.int64,
    "lines": np.float32,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Encoder:
    """Turns rows with category values into rows of numbers; read-only arrays.

    Parameters
    ----------
    category_columns : array of shape (n_category_columns,), int32
        Columns of a row that hold categories, rising.
    part_offsets : array of shape (n_projections + 1,), int64
        Where the parts of each projection begin.
    part_kind : array of shape (n_parts,), uint8
        `VALUE`: the hash of a category; `ABOVE`: whether a number is above a border;
        `EQUAL`: whether a category has a certain hash.
    part_column : array of shape (n_parts,), int32
        The column of the row: one of categories, or of numbers for `ABOVE`.
    part_border : array of shape (n_parts,), float32
        The border of `ABOVE`.
    part_missing_above : array of shape (n_parts,), bool
        Whether NaN counts as above the border.
    part_hash : array of shape (n_parts,), int32
        The hash of `EQUAL`.
    key_offsets : array of shape (n_projections + 1,), int64
        Where the keys of each projection begin.
    keys : array of shape (n_keys,), uint64
        The known keys, rising within each projection.
    widths : array of shape (n_projections,), int64
        Number of columns that each projection adds.
    lines : array, float32
        For each projection a line of that width for each of its keys and then one for
        all others.
    """

    category_columns: NDArray[np.int32]
    part_offsets: NDArray[np.int64]
    part_kind: NDArray[np.uint8]
    part_column: NDArray[np.int32]
    part_border: NDArray[np.float32]
    part_missing_above: NDArray[np.bool_]
    part_hash: NDArray[np.int32]
    key_offsets: NDArray[np.int64]
    keys: NDArray[np.uint64]
    widths: NDArray[np.int64]
    lines: NDArray[np.float32]

    def __post_init__(self) -> None:
        for name, dtype in ENCODER_ARRAYS.items():
            array = as_frozen(getattr(self, name), dtype, f"encoder.{name}")
            object.__setattr__(self, name, array)
            if array.ndim != 1:
                _refuse(f"{name} must have one dimension, got {array.ndim}")
        self._check_shapes()
        self._check_parts()
        self._check_keys()

    # A pickle carries the arrays, and what comes out of one is checked.
    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def n_added(self) -> int:
        """Number of columns that follow those of the row itself."""
        return int(self.widths.sum())

    @property
    def n_projections(self) -> int:
        """Number of keys that are made for each row."""
        return len(self.widths)

    def check_columns(self, n_features: int) -> None:
        """Raise `InvalidForestError` unless rows of so many columns can be encoded.

        Parameters
        ----------
        n_features : int
            Number of columns of a row.
        """
        for name in ("category_columns", "part_column"):
            columns = getattr(self, name)
            if len(columns) and not 0 <= columns.min() <= columns.max() < n_features:
                _refuse(f"{name} must be from 0 to {n_features - 1}")

    def _check_shapes(self) -> None:
        if not len(self.category_columns):
            _refuse("category_columns must name at least one column")
        if (self.category_columns[1:] <= self.category_columns[:-1]).any():
            _refuse("category_columns must rise")
        n_parts = len(self.part_kind)
        for name in ("column", "border", "missing_above", "hash"):
            if len(getattr(self, f"part_{name}")) != n_parts:
                _refuse(f"part_{name} must have {n_parts} entries, as part_kind has")
        for name, last in (("part_offsets", n_parts), ("key_offsets", len(self.keys))):
            offsets = getattr(self, name)
            if len(offsets) != len(self.widths) + 1:
                _refuse(f"{name} must have one entry more than there are projections")
            rises = (offsets[1:] >= offsets[:-1]).all()
            if offsets[0] != 0 or offsets[-1] != last or not rises:
                _refuse(f"{name} must rise from 0 to {last}")

    def _check_parts(self) -> None:
        if (self.part_kind > EQUAL).any():
            _refuse(f"part_kind must be {VALUE}, {ABOVE} or {EQUAL}")
        is_category = np.isin(self.part_column, self.category_columns)
        if (is_category == (self.part_kind == ABOVE)).any():
            _refuse("part_column must be a category column unless a number is compared")
        if not np.isfinite(self.part_border).all():
            _refuse("part_border must be finite")

    def _check_keys(self) -> None:
        if len(self.widths) and not 1 <= self.widths.min() <= self.widths.max():
            _refuse("widths must be at least 1")
        # Compared one by one first: a sum of forged numbers could wrap around.
        if (self.widths > MAX_ADDED).any() or self.n_added > MAX_ADDED:
            _refuse(f"widths must add up to at most {MAX_ADDED:,}")
        size = int(((np.diff(self.key_offsets) + 1) * self.widths).sum())
        if len(self.lines) != size:
            _refuse(f"lines must have {size} entries, got {len(self.lines)}")
        falls = np.flatnonzero(self.keys[1:] <= self.keys[:-1]) + 1
        if not np.isin(falls, self.key_offsets).all():
            _refuse("keys must rise within a projection")


def _refuse(what: str) -> NoReturn:
    msg = f"the encoder of category values is damaged: {what}."
    raise InvalidForestError(msg)
