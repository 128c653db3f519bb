"""Class labels in C: numbers or strings."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

from spinney.errors import UnsupportedModelError
from spinney.export.c_text import BYTES, Tables, number, quoted, signed_type


def add_labels(tables: Tables, classes: NDArray[Any]) -> str:
    """Add the class labels, and return their declaration for the header.

    Parameters
    ----------
    tables : Tables
        Added to.
    classes : ndarray of shape (n_classes,)
        The labels.
    """
    items = classes.tolist()
    kind, size, values = _written(items)
    declaration = f"const {kind} P_LABELS[{len(items)}]"
    body = ",\n    ".join(values)
    text = f"{declaration} = {{\n    {body}\n}};\n"
    tables.add_text(text, "P_LABELS", len(items) * size)
    return f"extern {declaration};"


def _written(items: list[Any]) -> tuple[str, int, list[str]]:
    """Return the type of labels in C, the bytes of each, and their literals."""
    if all(isinstance(item, int) for item in items):  # a bool is one, too
        low, high = int(min(items)), int(max(items))
        if not -(2**63) <= low <= high < 2**63:
            msg = (
                f"A class label needs more than 64 bits: {high}. Encode the labels "
                "before training."
            )
            raise UnsupportedModelError(msg)
        # What processors of all sizes call int.
        if low >= -(2**15) and high < 2**15:
            return "int", 4, [number(item, "int") for item in items]
        kind = signed_type(low, high)
        return kind, BYTES[kind], [number(item, kind) for item in items]
    if all(isinstance(item, float) for item in items):
        if not all(map(math.isfinite, items)):
            msg = (
                f"Class labels must be finite numbers to be written to C, got {items}. "
                "Encode them before training."
            )
            raise UnsupportedModelError(msg)
        return "double", 8, [number(item, "double") for item in items]
    if all(isinstance(item, str) for item in items):
        for item in items:
            if "\0" in item or not _is_unicode(item):
                msg = (
                    f"The class label {item!r} has a character that a string in C "
                    "cannot contain. Encode the labels before training."
                )
                raise UnsupportedModelError(msg)
        longest = max(len(item.encode()) + 1 for item in items)
        return "char *const", 4 + longest, [quoted(item) for item in items]
    msg = (
        "Class labels must be numbers or strings to be written to C, got "
        f"{type(items[0]).__name__}. Encode them before training."
    )
    raise UnsupportedModelError(msg)


def _is_unicode(text: str) -> bool:
    """Whether a text has no half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
