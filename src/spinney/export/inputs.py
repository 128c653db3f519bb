"""Rows as the generated code takes them: integer keys that compare as the numbers do.

Every comparison of a node is one of unsigned integers. A float becomes a key that keeps
the order of the floats (and makes one zero of the two), an integer becomes itself less
the smallest of its type. So nothing is lost, no processor needs floating point for it,
and no compiler option, such as fast arithmetic or denormals as zero, changes it.

What a node does with NaN, and with zero where zero is missing, is decided when a row is
loaded: a column that is compared in several such ways has a *slot* for each, and a
missing value is the smallest key in a slot whose nodes send it left, the largest in one
whose nodes send it right. Categories are slots too, with the code of the category.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.errors import InvalidArgumentError, UnsupportedModelError
from spinney.export.c_text import unsigned_type
from spinney.forest import Forest
from spinney.runtime.kernel_arrays import read_only
from spinney.runtime.thresholds import thresholds_for

FLOATS = {"float32": ("float", 32), "float64": ("double", 64)}
INTEGERS = {"int8": ("int8_t", 8), "int16": ("int16_t", 16), "int32": ("int32_t", 32)}
INPUTS = (*FLOATS, *INTEGERS)

MISSING_LEFT, ZERO_IS_MISSING, CATEGORICAL = 1, 2, 4
# Keys of a category slot: a missing value that goes left, a number in no set, and the
# categories from here on.
FIRST_CATEGORY = 2
MAX_CATEGORY = 2**24


@dataclass(frozen=True, eq=False)
class Slots:
    """What each node of a forest compares, in terms of keys.

    Parameters
    ----------
    input_type : str
        Type of the numbers of a row, one of `INPUTS`.
    n_features : int
        Length of a row.
    column : ndarray of shape (n_slots,), dtype=int64
        The column that each slot is loaded from.
    flags : ndarray of shape (n_slots,), dtype=uint8
        What is special about each slot.
    slot : ndarray of shape (n_nodes,), dtype=int64
        The slot that each node compares; `n_slots` at a leaf.
    key : ndarray of shape (n_nodes,), dtype=uint64
        The largest key that goes left, or the number of the category set.
    left, right : ndarray of shape (n_nodes,), dtype=int32
        The children, which change sides at a node where no integer goes left.
    key_bits : int
        Bits of a key.
    category_rule : str
        Of the forest.
    missing : float or None
        A number, or an integer, that stands for a missing value.
    """

    input_type: str
    n_features: int
    column: NDArray[np.int64]
    flags: NDArray[np.uint8]
    slot: NDArray[np.int64]
    key: NDArray[np.uint64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    key_bits: int
    category_rule: str
    missing: float | None

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return len(self.column)

    @property
    def row_type(self) -> str:
        """Type of the numbers of a row, in C."""
        return (FLOATS | INTEGERS)[self.input_type][0]

    @property
    def key_type(self) -> str:
        """Type of a key, in C."""
        return unsigned_type((1 << self.key_bits) - 1)

    @property
    def has_categories(self) -> bool:
        """Whether any node looks up a category."""
        return bool((self.flags & CATEGORICAL).any())

    @property
    def is_plain(self) -> bool:
        """Whether a key depends on nothing but the number, and none is missing."""
        is_special = self.flags.any() or self.missing is not None
        return self.input_type in INTEGERS and not is_special

    @property
    def n_category_slots(self) -> int:
        """How many slots hold categories; they come first."""
        return int(np.count_nonzero(self.flags & CATEGORICAL))


def make_slots(forest: Forest, input_type: str | None, scale: ArrayLike) -> Slots:
    """Return what the nodes of a forest compare, for rows of one type.

    Parameters
    ----------
    forest : Forest
        The forest.
    input_type : str or None
        One of `INPUTS`; None for the type that the forest compares in.
    scale : float or array-like of shape (n_features,)
        For integer inputs: what one unit stands for.
    """
    chosen = checked_input(forest, input_type)
    is_integer = chosen in INTEGERS
    scales = _checked_scale(forest, is_integer, scale)
    flags = np.zeros(forest.n_nodes, dtype=np.uint8)
    if forest.zero_is_missing is not None:
        flags[forest.zero_is_missing] |= ZERO_IS_MISSING
    if forest.category_set is not None:
        flags[forest.category_set >= 0] |= CATEGORICAL
    missing = forest.missing_value
    if is_integer and missing is not None:
        missing = _missing_integer(forest, scales, chosen)
    may_miss = np.full(forest.n_nodes, not is_integer or missing is not None)
    may_miss |= flags > 0
    flags[may_miss & forest.missing_left] |= MISSING_LEFT
    inner = np.flatnonzero(forest.feature >= 0)
    flags[forest.feature < 0] = 0
    # Categories first, so that one comparison tells what a slot holds.
    is_number = (flags[inner] & CATEGORICAL) == 0
    kinds = np.stack([is_number, forest.feature[inner], flags[inner]], axis=1)
    kinds = kinds.astype(np.int64)
    distinct, which = np.unique(kinds, axis=0, return_inverse=True)
    which = which.ravel()
    column, slot_flags = distinct[:, 1], distinct[:, 2].astype(np.uint8)
    bits = (FLOATS | INTEGERS)[chosen][1]
    if is_integer and (slot_flags.any() or missing is not None):
        bits = 64 if bits == 32 else 32  # so that no integer has the extreme keys
    slot = np.full(forest.n_nodes, len(column), dtype=np.int64)
    slot[inner] = which
    key = np.zeros(forest.n_nodes, dtype=np.uint64)
    left, right = forest.left.copy(), forest.right.copy()
    is_set = (flags & CATEGORICAL) > 0
    if is_set.any():
        _refuse_categories(forest, is_integer, scales, column, slot_flags)
        key[is_set] = forest.category_set[is_set].astype(np.uint64)  # type: ignore[index]
    numeric = inner[~is_set[inner]]
    if is_integer:
        last = _last_integers(forest, numeric, scales, chosen)
        # Where keys have room, a key below all integers says the same.
        nobody = (last < np.iinfo(chosen).min) & (bits == INTEGERS[chosen][1])
        swapped = numeric[nobody]
        left[swapped], right[swapped] = right[swapped], left[swapped].copy()
        last[nobody] = np.iinfo(chosen).max
        # Adding half of the range of 64 bits wraps around, as it should.
        key[numeric] = last.astype(np.uint64) + np.uint64(1 << (bits - 1))
        if bits < 64:
            key &= np.uint64((1 << bits) - 1)
    else:
        key[numeric] = float_keys(forest.threshold[numeric], chosen)
    return Slots(
        chosen,
        forest.n_features,
        column,
        slot_flags,
        slot,
        key,
        read_only(left),
        read_only(right),
        bits,
        forest.category_rule,
        missing,
    )


def float_keys(numbers: NDArray[np.float64], input_type: str) -> NDArray[np.uint64]:
    """Return keys that part numbers of a type as the given thresholds do.

    Parameters
    ----------
    numbers : ndarray, dtype=float64
        Thresholds, none of them NaN.
    input_type : {"float32", "float64"}
        Type of the numbers that are compared with them.
    """
    kind = np.float32 if input_type == "float32" else np.float64
    unsigned = np.uint32 if input_type == "float32" else np.uint64
    bits = np.ascontiguousarray(thresholds_for(numbers, kind), dtype=kind)
    pattern = bits.view(unsigned).astype(np.uint64)
    sign = np.uint64(1 << (FLOATS[input_type][1] - 1))
    size = pattern & (sign - np.uint64(1))
    return np.where(pattern & sign > 0, sign - size, sign + size)


def checked_input(forest: Forest, input_type: Any) -> str:
    """Return the type of rows, or raise.

    Parameters
    ----------
    forest : Forest
        The forest.
    input_type : str or None
        What was passed.
    """
    if input_type is None:
        return forest.input_dtype
    if input_type not in INPUTS:
        msg = (
            f"input_type must be None or one of {', '.join(INPUTS)}, got "
            f"{input_type!r}. None is the type that the model compares in."
        )
        raise InvalidArgumentError(msg)
    if input_type == "float64" and forest.input_dtype == "float32":
        msg = (
            "input_type must not be 'float64': this model rounds rows to float32 "
            "before it compares them. Pass None, and float32 rows to the code."
        )
        raise InvalidArgumentError(msg)
    return str(input_type)


def _checked_scale(
    forest: Forest, is_integer: bool, scale: ArrayLike
) -> NDArray[np.float64]:
    try:
        scales = np.asarray(scale, dtype=np.float64)
    except (TypeError, ValueError):
        scales = np.full(2, np.nan)
    fits = scales.shape in ((), (1,), (forest.n_features,))
    if not fits or not (np.isfinite(scales) & (scales > 0)).all():
        msg = (
            "input_scale must be a number above 0, or one for each of the "
            f"{forest.n_features} features, got {scale!r}. It is what one unit of an "
            "integer stands for: 0.01 if a sensor delivers hundredths."
        )
        raise InvalidArgumentError(msg)
    if not is_integer and (scales != 1.0).any():
        msg = (
            "input_scale is for integer rows, and the code takes floats. Pass "
            "input_type='int16', say, or leave input_scale out."
        )
        raise InvalidArgumentError(msg)
    return np.broadcast_to(scales, (forest.n_features,))


def _refuse_categories(
    forest: Forest,
    is_integer: bool,
    scales: NDArray[np.float64],
    column: NDArray[np.int64],
    flags: NDArray[np.uint8],
) -> None:
    """Raise if categories cannot be told from the integers of a row."""
    assert forest.category_offsets is not None
    words = np.diff(forest.category_offsets).max(initial=0)
    if int(words) * 32 > MAX_CATEGORY:
        msg = (
            f"A category is above {MAX_CATEGORY:,}, the largest that generated code "
            "supports. Number the categories from 0 on."
        )
        raise UnsupportedModelError(msg)
    if is_integer and (scales[column[(flags & CATEGORICAL) > 0]] != 1.0).any():
        msg = (
            "input_scale must be 1 for columns of categories: their values are codes, "
            "not amounts."
        )
        raise InvalidArgumentError(msg)


def _missing_integer(
    forest: Forest, scales: NDArray[np.float64], input_type: str
) -> int | None:
    """Return the integer of a row that stands for a missing value; None if none does.

    Raises if there are several, or another one in each column.
    """
    assert forest.missing_value is not None
    limits = np.iinfo(input_type)
    found = set()
    used = np.unique(forest.feature[forest.feature >= 0])
    for scale in np.unique(scales[used]).tolist():
        near = np.clip(np.rint(forest.missing_value / scale), limits.min, limits.max)
        tried = np.clip(near + np.arange(-9, 10), limits.min, limits.max)
        with np.errstate(over="ignore"):
            stands_for = (tried * scale).astype(forest.input_dtype)
        is_missing = stands_for.astype(np.float64) == forest.missing_value
        found.add(tuple(np.unique(tried[is_missing]).astype(np.int64).tolist()))
    if found <= {()}:
        return None
    if len(found) > 1 or len(*found) > 1:
        msg = (
            f"{forest.source or 'The forest'} treats {forest.missing_value!r} as a "
            f"missing value, which must be the same {input_type} in all columns. Pass "
            "the same input_scale for all of them, or float rows."
        )
        raise InvalidArgumentError(msg)
    return int(found.pop()[0])


def _last_integers(
    forest: Forest,
    nodes: NDArray[np.intp],
    scales: NDArray[np.float64],
    input_type: str,
) -> NDArray[np.int64]:
    """Return the largest integer that goes left at each node; one less if none does.

    By bisection over the integers, with the number that each stands for rounded as the
    forest rounds it: nothing has to be known about the scale.
    """
    limits = np.iinfo(input_type)
    threshold, scale = forest.threshold[nodes], scales[forest.feature[nodes]]
    low = np.full(len(nodes), int(limits.min) - 1, dtype=np.int64)
    high = np.full(len(nodes), int(limits.max), dtype=np.int64)
    while (low < high).any():
        middle = (low + high + 1) // 2
        with np.errstate(over="ignore"):
            stands_for = (middle * scale).astype(forest.input_dtype)
        goes_left = stands_for.astype(np.float64) <= threshold
        low, high = (
            np.where(goes_left, middle, low),
            np.where(goes_left, high, middle - 1),
        )
    return low
