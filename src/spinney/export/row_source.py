"""The functions that make keys of the numbers of a row."""

from __future__ import annotations

import numpy as np

from spinney.export.c_text import Tables, fill, unsigned_type
from spinney.export.inputs import (
    CATEGORICAL,
    FIRST_CATEGORY,
    FLOATS,
    MAX_CATEGORY,
    MISSING_LEFT,
    ZERO_IS_MISSING,
    Slots,
)
from spinney.forest import ZERO_BAND

KEY_OF_FLOAT = """
/* The key of a number keeps the order of the numbers; a missing one is an extreme. */
static $key P_key($row x, unsigned flags) {
    union { $row number; $key bits; } both;
    $key size;
    both.number = x;
    size = both.bits & $magnitude;
    if (size > $infinity$zero$known) {
        return $missing;
    }
$category    return both.bits & $sign ? $sign - size : $sign + size;
}
"""

KEY_OF_INTEGER = """
/* The key of an integer keeps the order of the integers. */
static $key P_key($row x, unsigned flags) {
$zero$category    return ($key)(($key)x ^ $sign);
}
"""

# Codes by the rule of the library; `whole` is the number without its fraction.
CATEGORY = """    if (flags & $categorical) {
        int32_t whole;
        if (!($range)) {
            return 1;
        }
        whole = (int32_t)x;
        return $exact;
    }
"""

LOAD = """
static void P_load(const $row *row, $key *keys) {
    size_t s;
    for (s = 0; s < $n; s++) {
        keys[s] = P_key(row[$column], $flags);
    }
$end}
"""

LOAD_NOTHING = """
static void P_load(const $row *row, $key *keys) {
    (void)row;
    keys[0] = 0;
}
"""


def key_source(slots: Slots) -> str:
    """Return the function that makes a key of a number.

    Parameters
    ----------
    slots : Slots
        The slots.
    """
    flags = slots.flags
    sign = f"(({slots.key_type})1 << {slots.key_bits - 1})"
    has_zero = bool((flags & ZERO_IS_MISSING).any())
    left = f"(flags & {MISSING_LEFT}u)"
    # Missing in a slot of categories is no extreme, but the one or the other below
    # the first category.
    largest = f"({slots.key_type})~({slots.key_type})0"
    if slots.has_categories:
        largest = f"((flags & {CATEGORICAL}u) ? ({slots.key_type})1 : {largest})"
    missing = f"{left} ? ({slots.key_type})0 : {largest}"
    if slots.input_type in FLOATS:
        kind = np.float32 if slots.input_type == "float32" else np.float64
        unsigned = np.uint32 if kind is np.float32 else np.uint64
        ending = "u" if kind is np.float32 else "ull"

        def pattern(value: float) -> str:
            return f"0x{int(np.array([value], dtype=kind).view(unsigned)[0]):x}{ending}"

        zero = f" || ((flags & {ZERO_IS_MISSING}u) && size <= {pattern(ZERO_BAND)})"
        known = ""
        if slots.missing is not None:
            # Both zeros are one number.
            bits = "both.bits" if slots.missing else "size"
            known = f" || {bits} == {pattern(slots.missing)}"
        return fill(
            KEY_OF_FLOAT,
            key=slots.key_type,
            row=slots.row_type,
            sign=f"0x{1 << (slots.key_bits - 1):x}{ending}",
            magnitude=f"0x{(1 << (slots.key_bits - 1)) - 1:x}{ending}",
            infinity=pattern(np.inf),
            zero=zero if has_zero else "",
            known=known,
            missing=missing,
            category=_category_source(slots),
        )
    zero = (
        f"    if ((flags & {ZERO_IS_MISSING}u) && x == 0) {{\n"
        f"        return {missing};\n    }}\n"
    )
    unused = "" if flags.any() else "    (void)flags;\n"
    known = ""
    if slots.missing is not None:
        known = (
            f"    if (x == {int(slots.missing)}) {{\n"
            f"        return {missing};\n    }}\n"
        )
    return fill(
        KEY_OF_INTEGER,
        key=slots.key_type,
        row=slots.row_type,
        sign=sign,
        zero=(zero if has_zero else unused) + known,
        category=_category_source(slots),
    )


def _category_source(slots: Slots) -> str:
    """Return the lines that make the key of a category."""
    if not slots.has_categories:
        return ""
    key, rule = slots.key_type, slots.category_rule
    is_float = slots.input_type in FLOATS
    suffix = "f" if slots.input_type == "float32" else ""
    inside = "x >= 0"
    if slots.input_type == "int32":
        inside += f" && x < {MAX_CATEGORY}"
    elif is_float:
        # Truncation only differs from rounding down between -1 and 0.
        inside = f"x > -1.0{suffix}" if rule == "truncate" else f"x >= 0.0{suffix}"
        inside += f" && x < {MAX_CATEGORY}.0{suffix}"
    code = f"({key})whole + {FIRST_CATEGORY}"
    if is_float and rule == "exact":
        code = f"({slots.row_type})whole == x ? {code} : 1"
    return fill(CATEGORY, categorical=CATEGORICAL, range=inside, exact=code)


def load_source(slots: Slots, tables: Tables, *, end: bool) -> str:
    """Return the function that loads a row, and add the tables that it needs.

    Parameters
    ----------
    slots : Slots
        The slots.
    tables : Tables
        Added to.
    end : bool
        Whether the key of leaves, 0, comes after the others.
    """
    if slots.n_slots == 0:  # a forest of leaves looks at nothing
        ending = "    keys[0] = 0;\n" if end else "    (void)keys;\n"
        return fill(LOAD_NOTHING, row=slots.row_type, key=slots.key_type, end=ending)
    column, flags = slot_tables(slots, tables)
    return fill(
        LOAD,
        row=slots.row_type,
        key=slots.key_type,
        n=slots.n_slots,
        column=column,
        flags=flags,
        end=f"    keys[{slots.n_slots}] = 0;\n" if end else "",
    )


def slot_tables(slots: Slots, tables: Tables) -> tuple[str, str]:
    """Return how to write column and flags of slot ``s``, adding tables if need be.

    Parameters
    ----------
    slots : Slots
        The slots.
    tables : Tables
        Added to.
    """
    column, flags = "s", "0u"
    if not np.array_equal(slots.column, np.arange(slots.n_slots)):
        if "P_slot_column" not in tables.sizes:
            kind = unsigned_type(int(slots.column.max(initial=0)))
            tables.add("P_slot_column", slots.column, kind, "column of each slot")
        column = "P_slot_column[s]"
        if unsigned_type(int(slots.column.max(initial=0))) == "uint8_t":
            column = "P_READ(&P_slot_column[s])"
    if slots.flags.any():
        flags = f"{int(slots.flags[0])}u"
        if (slots.flags != slots.flags[0]).any():
            if "P_slot_flags" not in tables.sizes:
                tables.add("P_slot_flags", slots.flags, "uint8_t", "missing values")
            flags = "P_READ(&P_slot_flags[s])"
    return column, flags
