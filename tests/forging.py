"""Files taken apart, changed, and signed anew as a forger would."""

from __future__ import annotations

import hashlib
import json

import numpy as np

ZEROS = b"0" * 64
ITEM_SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2}
ITEM_SIZES |= {"I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
# Where a number goes wrong: signs, limits of the types, off by one.
ODD_INTEGERS = [0, 1, -1, -2, 2, 3, 5, 127, 2**31 - 1, -(2**31), 2**32 - 1, 2**62]
ODD_INTEGERS += [2**63 - 1, -(2**63)]
ODD_FLOATS = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.8e308, -1.0]
ODD_SETTINGS = [None, True, 0, 1, -1, 2, 7, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308]
ODD_SETTINGS += ["", "x", "sum", "mean", "vote", "exp", "softmax", "float32", [], [1]]
ODD_SETTINGS += [{}, {"a": 1}, "\ud800", "x" * 10_000]


def split(blob):
    """Return header (parsed) and body of a file."""
    length = int.from_bytes(blob[:8], "little")
    return json.loads(blob[8 : 8 + length]), blob[8 + length :]


def sign(blob):
    """Return the file with the checksum of what it holds."""
    at = blob.find(b'"checksum":"') + len(b'"checksum":"')
    digest = hashlib.sha256(blob[:at] + ZEROS + blob[at + 64 :]).hexdigest()
    return blob[:at] + digest.encode() + blob[at + 64 :]


def join(header, body):
    """Return a signed file of a header, parsed or as text, and a body."""
    if not isinstance(header, str):
        header = json.dumps(header, separators=(",", ":"))
    text = header.encode()
    text += b" " * (-len(text) % 8)
    return sign(len(text).to_bytes(8, "little") + text + body)


def with_arrays(blob, change):
    """Return the file with its arrays changed by ``change(arrays)``, signed."""
    header, body = split(blob)
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            code = entry["dtype"]
            kind = "?" if code == "BOOL" else f"<{code[0].lower()}{ITEM_SIZES[code]}"
            array = np.frombuffer(body[start:end], dtype=kind)
            arrays[name] = (code, array.reshape(entry["shape"]).copy())
    change(arrays)
    return from_arrays(header["__metadata__"], arrays)


def from_arrays(metadata, arrays):
    header, body = {"__metadata__": metadata}, b""
    for name in sorted(arrays, key=lambda name: (-ITEM_SIZES[arrays[name][0]], name)):
        code, array = arrays[name]
        start, body = len(body), body + array.tobytes()
        header[name] = {"dtype": code, "shape": list(array.shape)}
        header[name]["data_offsets"] = [start, len(body)]
    return join(header, body)


def with_settings(blob, change):
    """Return the file with its settings changed by ``change(settings)``, signed."""
    header, body = split(blob)
    settings = json.loads(header["__metadata__"]["settings"])
    text = change(settings)
    if not isinstance(text, str):
        text = json.dumps(settings)
    header["__metadata__"]["settings"] = text
    return join(header, body)


def put_odd_number(name, rng):
    """Return a change that puts an odd number somewhere into the array `name`."""

    def change(arrays):
        _, array = arrays[name]
        if array.size == 0:
            return
        place = int(rng.integers(array.size))
        if array.dtype.kind == "f":
            array.flat[place] = rng.choice(ODD_FLOATS)
        else:
            # Cut to the bytes of the type; a flag may become a 2.
            number = int(ODD_INTEGERS[rng.integers(len(ODD_INTEGERS))])
            cut = number.to_bytes(9, "little", signed=True)
            raw = array.reshape(-1).view(np.uint8)
            size = array.itemsize
            raw[place * size : (place + 1) * size] = list(cut[:size])

    return change
