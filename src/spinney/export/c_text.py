"""Arrays, numbers and names as the text of C source."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Templates are written with this prefix; names of the file have the user's instead.
PREFIX = re.compile(r'(#include "[^"\n]*")|\bP_')
UNSIGNED = ((8, "uint8_t"), (16, "uint16_t"), (32, "uint32_t"), (64, "uint64_t"))
BYTES = {
    "uint8_t": 1,
    "int8_t": 1,
    "uint16_t": 2,
    "int16_t": 2,
    "uint32_t": 4,
    "int32_t": 4,
    "uint64_t": 8,
    "int64_t": 8,
    "float": 4,
    "double": 8,
}
PER_LINE = 16


def fill(template: str, **parts: Any) -> str:
    """Return a template with its ``$names`` replaced.

    Parameters
    ----------
    template : str
        C source.
    **parts : object
        What to put for each name; anything but text is written as `str` does it.
    """
    return Template(template).substitute({k: str(v) for k, v in parts.items()})


def unsigned_type(largest: int) -> str:
    """Return the smallest unsigned type that holds a number."""
    return next(name for bits, name in UNSIGNED if int(largest) < 1 << bits)


def signed_type(least: int, largest: int) -> str:
    """Return the smallest signed type that holds a range of numbers."""
    return next(
        name[1:]
        for bits, name in UNSIGNED
        if -(1 << (bits - 1)) <= least and largest < 1 << (bits - 1)
    )


def float_type(values: NDArray[np.float64]) -> str:
    """Return ``"float"`` if no number loses anything by it, else ``"double"``."""
    with np.errstate(over="ignore", under="ignore"):
        same = values.astype(np.float32).astype(np.float64) == values
    return "float" if bool(same.all()) else "double"


def number(value: float, ctype: str) -> str:
    """Return a number as a literal that stands for exactly this number.

    Infinities become the largest finite numbers: no sum of a forest is beyond them.
    """
    if ctype in ("float", "double"):
        kind = np.float32 if ctype == "float" else np.float64
        most = float(np.finfo(kind).max)
        text = repr(float(min(max(float(value), -most), most)))
        if "." not in text and "e" not in text:
            text += ".0"
        return text + ("f" if ctype == "float" else "")
    integer = int(value)
    if ctype.startswith("u"):
        return f"{integer}{'u' if integer < 1 << 32 else 'ull'}"
    if integer == -(1 << 63):
        return "(-9223372036854775807ll - 1)"
    if integer == -(1 << 31):
        return "(-2147483647 - 1)"
    return f"{integer}{'' if abs(integer) < 1 << 31 else 'll'}"


@dataclass
class Tables:
    """Constant arrays of a file, and how many bytes they take.

    Parameters
    ----------
    flash : str, default=""
        What marks an array that is read byte by byte, for processors that keep
        constants apart.
    """

    flash: str = ""
    texts: list[str] = field(default_factory=list, init=False)
    sizes: dict[str, int] = field(default_factory=dict, init=False)

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(self.sizes.values())

    def add(
        self,
        name: str,
        values: Any,
        ctype: str,
        comment: str = "",
        public: bool = False,
    ) -> None:
        """Add an array.

        Parameters
        ----------
        name : str
            Name of the array, with the prefix of templates.
        values : array-like
            Numbers; at least one is written, since C knows no empty arrays.
        ctype : str
            Type of an element.
        comment : str, default=""
            What the array is, for people to read.
        public : bool, default=False
            Whether the header declares it.
        """
        given = np.asarray(values).ravel()
        if ctype in ("float", "double"):
            items = [number(v, ctype) for v in given.tolist()]
        elif ctype == "uint64_t":
            items = [f"{v}ull" for v in given.tolist()]
        elif ctype == "uint32_t":
            items = [f"{v}u" for v in given.tolist()]
        else:
            items = [number(v, ctype) for v in given.tolist()]
        items = items or ["0"]
        lines = (
            ", ".join(items[start : start + PER_LINE])
            for start in range(0, len(items), PER_LINE)
        )
        note = f"/* {comment} */\n" if comment else ""
        mark = self.flash if ctype == "uint8_t" and not public else ""
        kind = "const" if public else "static const"
        body = ",\n    ".join(lines)
        self.texts.append(
            f"{note}{kind} {ctype} {name}[{len(items)}]{mark} = {{\n    {body}\n}};\n"
        )
        self.sizes[name] = len(items) * BYTES[ctype]

    def add_text(self, text: str, name: str, n_bytes: int) -> None:
        """Add an array that is already written out.

        Parameters
        ----------
        text : str
            Its definition.
        name : str
            What it is called in the list of sizes.
        n_bytes : int
            How large it is.
        """
        self.texts.append(text)
        self.sizes[name] = n_bytes

    def source(self) -> str:
        """Return the definitions."""
        return "\n".join(self.texts)


def packed_bytes(values: NDArray[Any], n_bytes: int) -> NDArray[np.uint8]:
    """Return unsigned numbers as bytes, the lowest first.

    Parameters
    ----------
    values : ndarray of non-negative integers
        Numbers below ``2 ** (8 * n_bytes)``.
    n_bytes : int
        Bytes of each.
    """
    given = np.asarray(values, dtype=np.uint64).ravel()
    shifts = np.arange(n_bytes, dtype=np.uint64) * np.uint64(8)
    return ((given[:, None] >> shifts) & np.uint64(255)).astype(np.uint8).ravel()


def bits_for(largest: int) -> int:
    """Return the number of bits that a number from 0 to `largest` takes."""
    return int(largest).bit_length()


def quoted(text: str) -> str:
    """Return a text as a C string literal, whatever characters it has."""
    out = []
    for byte in text.encode("utf-8"):
        plain = 32 <= byte < 127 and byte not in b'"\\?'
        # Three octal digits never run into the next character.
        out.append(chr(byte) if plain else f"\\{byte:03o}")
    # What looks like a name of the templates is none.
    return '"' + "".join(out).replace("P_", "\\120_") + '"'


def in_comment(text: str) -> str:
    """Return a text that cannot end the comment it stands in."""
    plain = text.replace("*/", "* /").replace("/*", "/ *")
    return "".join(c if c.isprintable() and ord(c) < 127 else "?" for c in plain)


def with_prefix(source: str, name: str) -> str:
    """Return C source with the names of templates in the user's name space."""
    return PREFIX.sub(lambda found: found[1] or f"{name}_", source)
