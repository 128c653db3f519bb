"""The bytes of a spinney file: safetensors with a checksum, read without trust.

What a file must look like is written down in ``docs/format.md``. The header is made
and read here rather than by the safetensors library, because the same object has to
give the same bytes (the library writes the metadata in random order) and because a
forged header has to be refused before anything is made of it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney._version import __version__
from spinney.errors import FormatError

Settings = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Bytes = NDArray[np.uint8]

FORMAT = 1
OLDEST_FORMAT = 1

# Parsed JSON takes up to thirty times the memory of its text: the limit keeps a
# forged header small. Whatever grows with the model is stored as an array.
MAX_HEADER = 2**20
MAX_NESTING = 16
MAX_DIMENSIONS = 8

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "F16": np.dtype("<f2"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
CODES = {dtype: code for code, dtype in DTYPES.items()}

METADATA = ("checksum", "kind", "settings", "spinney_format", "spinney_version")
_BEFORE_CHECKSUM = b'{"__metadata__":{"checksum":"'
_CHECKSUM_AT = 8 + len(_BEFORE_CHECKSUM)
_NO_CHECKSUM = "0" * 64

# A string, also one that never ends, so that no text makes the search start over.
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


class Contents(NamedTuple):
    """What a file holds: the kind of object, its settings and its arrays."""

    kind: str
    settings: Settings
    arrays: Arrays


# ------------------------------------------------------------------ writing


def encode(contents: Contents) -> list[bytes | memoryview]:
    """Return the bytes of a file, in pieces; the same for the same contents.

    Parameters
    ----------
    contents : Contents
        Settings that JSON can hold, and arrays of the types in `DTYPES`.
    """
    arrays = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in contents.arrays.items()
    }
    metadata = {
        "checksum": _NO_CHECKSUM,
        "kind": contents.kind,
        "settings": json.dumps(
            contents.settings,
            allow_nan=False,
            ensure_ascii=False,
            separators=(",", ":"),
            sort_keys=True,
        ),
        "spinney_format": str(FORMAT),
        "spinney_version": __version__,
    }
    tensors = {
        name: (CODES[array.dtype], array.shape) for name, array in arrays.items()
    }
    body = [arrays[name].reshape(-1).view(np.uint8).data for name in _in_order(tensors)]
    header = _header(metadata, tensors)
    if len(header) - 8 > MAX_HEADER:
        msg = (
            f"The settings take {len(header) - 8:,} bytes in the file, and the limit "
            f"is {MAX_HEADER:,}. Shorten the longest string among them."
        )
        raise ValueError(msg)
    metadata["checksum"] = _checksum(header, body)
    return [_header(metadata, tensors), *body]


def _in_order(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> list[str]:
    """Return the names as their bytes follow one another: the widest types first.

    The data begins at a multiple of 8 bytes, so in this order every number lies at a
    multiple of its own size, and arrays can be used where they are.
    """
    return sorted(tensors, key=lambda name: (-DTYPES[tensors[name][0]].itemsize, name))


def _n_bytes(code: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * DTYPES[code].itemsize  # Python integers: no overflow


def _header(
    metadata: dict[str, str], tensors: dict[str, tuple[str, tuple[int, ...]]]
) -> bytes:
    """Return the beginning of a file: length of the header, header, padding."""
    entries: dict[str, Any] = {
        "__metadata__": {name: metadata[name] for name in METADATA}
    }
    end = 0
    for name in _in_order(tensors):
        code, shape = tensors[name]
        start, end = end, end + _n_bytes(code, shape)
        entries[name] = {
            "dtype": code,
            "shape": list(shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(entries, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _checksum(header: bytes, body: list[memoryview]) -> str:
    """Return the SHA-256 of a file in which zeros stand in place of the checksum."""
    start = bytearray(header)
    start[_CHECKSUM_AT : _CHECKSUM_AT + 64] = _NO_CHECKSUM.encode("ascii")
    digest = hashlib.sha256(start)
    for piece in body:
        digest.update(piece)
    return digest.hexdigest()


# ------------------------------------------------------------------ reading


def decode(data: Bytes, name: str) -> Contents:
    """Return what is in a file, as read-only views of `data`.

    Parameters
    ----------
    data : ndarray of uint8
        All bytes of the file, read-only.
    name : str
        What to call the file in error messages.
    """
    header = _header_of(data, name)
    rest = data[len(header) :]
    try:
        entries = parse_json(header[8:].decode("utf-8"))
    except (UnicodeDecodeError, FormatError) as error:
        msg = f"{name} is not a spinney file, or damaged: its header is wrong: {error}."
        raise FormatError(msg) from error
    metadata = entries.pop("__metadata__", None)
    if not isinstance(metadata, dict) or "spinney_format" not in metadata:
        msg = f"{name} is a safetensors file, but spinney.save did not write it."
        raise FormatError(msg)
    _check_format(metadata["spinney_format"], name)
    if sorted(metadata) != sorted(METADATA):
        msg = (
            f"{name} must have the metadata {METADATA}, got {_short(sorted(metadata))}."
        )
        raise FormatError(msg)
    if not all(isinstance(entry, str) for entry in metadata.values()):
        msg = f"{name} is not valid: its metadata must be strings."
        raise FormatError(msg)
    if metadata["checksum"] != _checksum(header, [rest.data]):
        msg = (
            f"{name} is damaged or cut off: its checksum does not fit its content.\n"
            "Hint: copy the file again from an intact copy, or save it again."
        )
        raise FormatError(msg)
    tensors = {
        tensor: _checked_tensor(tensor, entry, len(data), name)
        for tensor, entry in entries.items()
    }
    # One comparison for all that a header could say in another way than we write it:
    # offsets with gaps or overlaps, another order, other padding, a number as 1e3.
    if _header(metadata, tensors) != header:
        msg = f"{name} is not valid: its header is not as spinney.save writes it."
        raise FormatError(msg)
    n_bytes = sum(_n_bytes(*tensor) for tensor in tensors.values())
    if n_bytes != len(rest):
        msg = (
            f"{name} is not valid: the arrays take {n_bytes:,} bytes, and "
            f"{len(rest):,} follow the header."
        )
        raise FormatError(msg)
    try:
        settings = parse_json(metadata["settings"])
    except FormatError as error:
        msg = f"{name} is not valid: its settings are wrong: {error}."
        raise FormatError(msg) from error
    if not isinstance(settings, dict):
        msg = f"{name} is not valid: its settings must be a JSON object."
        raise FormatError(msg)
    return Contents(metadata["kind"], settings, _views(tensors, rest, name))


def _header_of(data: Bytes, name: str) -> bytes:
    """Return the beginning, header included, of a file that may be anything."""
    if len(data) < 9 or data[8] != ord("{"):
        msg = f"{name} was not written by spinney.save, or is cut off."
        first = data[:2].tobytes()
        if first[:1] == b"\x80" or first in (b"PK", b"\x78\x9c", b"\x1f\x8b"):
            msg += (
                " It may be a pickle or joblib file, which can run code when it is "
                "loaded.\nHint: load it yourself, if you trust it, and pass the model "
                "to spinney.read_model."
            )
        raise FormatError(msg)
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > MAX_HEADER:
        msg = (
            f"{name} is not a spinney file, or damaged: a header has at most "
            f"{MAX_HEADER:,} bytes, this one claims {length:,}."
        )
        raise FormatError(msg)
    if length > len(data) - 8:
        msg = (
            f"{name} is not a spinney file, or cut off: its header needs {length:,} "
            f"bytes, and only {len(data) - 8:,} are left."
        )
        raise FormatError(msg)
    return data[: 8 + length].tobytes()


def _check_format(number: Any, name: str) -> None:
    if not isinstance(number, str) or not re.fullmatch("[1-9][0-9]{0,8}", number):
        msg = f"{name} is not valid: its format must be a number, got {_short(number)}."
        raise FormatError(msg)
    if not OLDEST_FORMAT <= int(number) <= FORMAT:
        known = (
            f"format {FORMAT}"
            if OLDEST_FORMAT == FORMAT
            else f"formats {OLDEST_FORMAT} to {FORMAT}"
        )
        msg = (
            f"{name} has format {number}, this spinney ({__version__}) reads {known}.\n"
            "Hint: upgrade spinney."
        )
        raise FormatError(msg)


def _checked_tensor(
    tensor: str, entry: Any, file_size: int, name: str
) -> tuple[str, tuple[int, ...]]:
    """Return dtype code and shape of a tensor from its entry in the header."""
    code = entry.get("dtype") if isinstance(entry, dict) else None
    shape = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(code, str) or code not in DTYPES:
        msg = (
            f"{name} is not valid: array {_short(tensor)} must have one of the types "
            f"{', '.join(DTYPES)}, got {_short(code)}."
        )
        raise FormatError(msg)
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_DIMENSIONS
        or not all(type(n) is int and 0 <= n <= file_size for n in shape)
    ):
        msg = (
            f"{name} is not valid: array {_short(tensor)} has the impossible shape "
            f"{_short(shape)}."
        )
        raise FormatError(msg)
    return code, tuple(shape)


def _views(
    tensors: dict[str, tuple[str, tuple[int, ...]]], rest: Bytes, name: str
) -> Arrays:
    """Return the arrays where they lie in the file."""
    arrays = {}
    end = 0
    for tensor in _in_order(tensors):
        code, shape = tensors[tensor]
        start, end = end, end + _n_bytes(code, shape)
        # A bool that is neither 0 nor 1 means different things to different loops.
        if code == "BOOL" and end > start and rest[start:end].max() > 1:
            msg = f"{name} is not valid: array {_short(tensor)} must hold 0 and 1 only."
            raise FormatError(msg)
        arrays[tensor] = rest[start:end].view(DTYPES[code]).reshape(shape)
    return arrays


# ------------------------------------------------------------------ JSON


def parse_json(text: str) -> Any:
    """Parse JSON that may be forged; what JSON leaves open is refused.

    Raises
    ------
    FormatError
        For invalid JSON, names that occur twice, NaN and infinite numbers, integers
        beyond 64 bits, and brackets nested so deeply that parsing could exhaust the
        stack.
    """
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_NESTING:
            msg = f"nested more than {MAX_NESTING} levels deep"
            raise FormatError(msg)
    try:
        return json.loads(
            text,
            object_pairs_hook=_without_repetition,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        msg = f"not JSON, {error}"
        raise FormatError(msg) from error


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        msg = "a name occurs twice"
        raise FormatError(msg)
    return names


def _refuse_constant(constant: str) -> None:
    msg = f"{constant} is not a JSON number"
    raise FormatError(msg)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        msg = f"{_short(digits)} is beyond the range of a float"
        raise FormatError(msg)
    return number


def _integer(digits: str) -> int:
    if len(digits) > 20:  # the time to read more grows with their square
        msg = f"{_short(digits)} is beyond 64 bits"
        raise FormatError(msg)
    return int(digits)


def _short(value: Any) -> str:
    """Return `value` as it is shown in a message, cut to a readable length."""
    return reprlib.repr(value)
