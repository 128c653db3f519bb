"""Decode UBJSON, the binary form of JSON in which XGBoost writes ``.ubj`` files.

Files can be damaged or forged: every length is compared with the bytes that are left
before anything is allocated, and containers may not be nested without end.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import numpy as np

from spinney.errors import UnsupportedModelError

# XGBoost's documents are nested about seven deep.
MAX_NESTING = 64

NUMBERS: dict[bytes, np.dtype[Any]] = {
    b"i": np.dtype(">i1"),
    b"U": np.dtype(">u1"),
    b"I": np.dtype(">i2"),
    b"l": np.dtype(">i4"),
    b"L": np.dtype(">i8"),
    b"d": np.dtype(">f4"),
    b"D": np.dtype(">f8"),
}
# The same types, for a single number.
FORMATS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q"}
FORMATS |= {b"d": ">f", b"D": ">d"}
LENGTHS = (b"i", b"U", b"I", b"l", b"L")
CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def decode_ubjson(content: bytes) -> Any:
    """Return the value that a UBJSON document holds.

    Parameters
    ----------
    content : bytes
        One value of UBJSON, draft 12, as XGBoost writes it.

    Returns
    -------
    value : dict, list, ndarray, str, int, float, bool or None
        Arrays of one numeric type become NumPy arrays of that type, in the byte order
        of the machine; all other arrays become lists.

    Raises
    ------
    UnsupportedModelError
        If the content is cut off, damaged, or no UBJSON. The message says at which
        byte.
    """
    decoder = _Decoder(content)
    value = decoder.value(decoder.marker(), 0)
    if decoder.position != len(content):
        decoder.refuse(f"{decoder.left:,} bytes follow after its end")
    return value


class _Decoder:
    """A position in the content, and how to read on from there."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.content) - self.position

    def refuse(self, what: str) -> NoReturn:
        msg = (
            f"The UBJSON document is damaged: {what}, at byte {self.position:,} of "
            f"{len(self.content):,}. Save the model again."
        )
        raise UnsupportedModelError(msg)

    def take(self, n_bytes: int) -> bytes:
        """Return the next bytes, if there are that many."""
        if not 0 <= n_bytes <= self.left:
            self.refuse(
                f"{n_bytes:,} more bytes are expected, and {self.left:,} are left"
            )
        start = self.position
        self.position += n_bytes
        return self.content[start : self.position]

    def marker(self) -> bytes:
        """Return the next marker that is not a no-op."""
        marker = self.take(1)
        while marker == b"N":
            marker = self.take(1)
        return marker

    def number(self, marker: bytes) -> Any:
        kind = FORMATS[marker]
        return struct.unpack(kind, self.take(struct.calcsize(kind)))[0]

    def length(self) -> int:
        marker = self.take(1)
        if marker not in LENGTHS:
            self.refuse(f"a length cannot begin with {marker!r}")
        return int(self.number(marker))

    def text(self) -> str:
        raw = self.take(self.length())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.refuse("a text is not UTF-8")

    def value(self, marker: bytes, nesting: int) -> Any:
        """Return the value that begins with `marker`, which has just been read."""
        if marker in FORMATS:
            return self.number(marker)
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"S":
            return self.text()
        if marker not in (b"[", b"{"):
            self.refuse(f"no value begins with {marker!r}")
        if nesting >= MAX_NESTING:
            self.refuse(f"values are nested more than {MAX_NESTING} deep")
        if marker == b"[":
            return self.array(nesting + 1)
        return self.object(nesting + 1)

    def object(self, nesting: int) -> dict[str, Any]:
        """Return an object whose opening brace has just been read."""
        members: dict[str, Any] = {}
        while True:
            marker = self.marker()
            if marker == b"}":
                return members
            self.position -= 1  # names of members have no marker, only a length
            name = self.text()
            if name in members:
                self.refuse(f"the member {name[:40]!r} comes twice")
            members[name] = self.value(self.marker(), nesting)

    def array(self, nesting: int) -> Any:
        """Return an array whose opening bracket has just been read."""
        marker = self.marker()
        if marker == b"$":
            kind = NUMBERS.get(self.take(1))
            if kind is None or self.take(1) != b"#":
                self.refuse("an array of one type needs a numeric type and a length")
            # A forged length stops at `take`, before any memory is taken.
            raw = self.take(self.length() * kind.itemsize)
            return np.frombuffer(raw, dtype=kind).astype(kind.newbyteorder("="))
        if marker == b"#":
            count = self.length()
            if not 0 <= count <= self.left:  # each value takes a byte at least
                self.refuse(f"an array of {count:,} values does not fit")
            return [self.value(self.marker(), nesting) for _ in range(count)]
        values = []
        while marker != b"]":
            values.append(self.value(marker, nesting))
            marker = self.marker()
        return values
