"""UBJSON documents: all types, and what is cut off, forged or nested without end."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney import UnsupportedModelError
from spinney.readers.ubjson import MAX_NESTING, decode_ubjson

NUMPY_MARKERS = {"i1": b"i", "u1": b"U", "i2": b"I", "i4": b"l", "i8": b"L"}
NUMPY_MARKERS |= {"f4": b"d", "f8": b"D"}


def length(n):
    return b"L" + struct.pack(">q", n)


def encode(value):
    """The obvious encoder, with the markers that XGBoost uses."""
    if value is None:
        return b"Z"
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"L" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + length(len(value.encode())) + value.encode()
    if isinstance(value, np.ndarray):
        marker = NUMPY_MARKERS[value.dtype.str[1:]]
        data = value.astype(value.dtype.newbyteorder(">")).tobytes()
        return b"[$" + marker + b"#" + length(len(value)) + data
    if isinstance(value, list):
        return b"[#" + length(len(value)) + b"".join(map(encode, value))
    members = (
        length(len(name.encode())) + name.encode() + encode(member)
        for name, member in value.items()
    )
    return b"{" + b"".join(members) + b"}"


DOCUMENT = {
    "learner": {"name": "grünes Holz", "trees": [{"id": 0}, {"id": 1, "empty": []}]},
    "numbers": [1, -2, 3.5, None, True, False],
    "weights": np.array([1.5, -0.0, np.inf], dtype=np.float32),
    "nodes": np.array([2**31 - 1, -1, 0], dtype=np.int32),
}
NESTED_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(NESTED_VALUES)
def test_returns_what_was_encoded(value):
    assert decode_ubjson(encode(value)) == value


@pytest.mark.parametrize("kind", NUMPY_MARKERS)
@pytest.mark.parametrize("size", [0, 1, 5])
def test_arrays_of_one_type_keep_type_and_values(kind, size):
    dtype = np.dtype(kind)
    bits = np.random.default_rng(0).integers(0, 100, size * dtype.itemsize)
    array = bits.astype(np.uint8).view(dtype)
    decoded = decode_ubjson(encode(array))
    assert decoded.dtype == dtype
    assert decoded.dtype.isnative
    np.testing.assert_array_equal(decoded, array)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"i\x80", -128),
        (b"U\xff", 255),
        (b"I\x80\x00", -(2**15)),
        (b"l\x7f\xff\xff\xff", 2**31 - 1),
        (b"d\x3f\x80\x00\x00", 1.0),
        (b"[i\x01NU\x02]", [1, 2]),
        (b"NN[]", []),
        (b"{NU\x01aZ}", {"a": None}),
    ],
)
def test_small_numbers_open_arrays_and_no_ops(content, value):
    assert decode_ubjson(content) == value


def test_every_truncation_is_refused():
    content = encode(DOCUMENT)
    for end in range(len(content)):
        with pytest.raises(UnsupportedModelError, match="damaged"):
            decode_ubjson(content[:end])


def test_every_changed_byte_is_read_or_refused():
    content = encode(DOCUMENT)
    for place in range(len(content)):
        for new in (0, 0x24, 0x5B, 0x7B, 0x7F, 0xFF):
            forged = content[:place] + bytes([new]) + content[place + 1 :]
            try:
                decode_ubjson(forged)
            except UnsupportedModelError as error:
                assert "damaged" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "content",
    [
        b"[$d#" + length(2**60),  # eight exabytes
        b"[$U#" + length(-1),
        b"[#" + length(2**62) + b"Z",
        b"[#" + length(-5) + b"Z",
        b"S" + length(2**40) + b"abc",
        b"{" + length(2**63 - 1) + b"name",
        b"[$Z#" + length(2**40),  # values without bytes
        b"[$[#" + length(2**40),
        b"[$dU\x01",
        b"[#d\x00\x00\x00\x00",
        b"SU\x02\xff\xfe",
        b"H",
        b"]",
        b"{i\x01aZ}trailing",
    ],
    ids=repr,
)
def test_forged_lengths_and_markers_are_refused_at_once(content):
    with pytest.raises(UnsupportedModelError, match=r"damaged: .* at byte"):
        decode_ubjson(content)


@pytest.mark.parametrize("opening", [b"[", b"{U\x01a", b"[#U\x01"])
def test_nesting_has_an_end(opening):
    with pytest.raises(UnsupportedModelError, match="nested"):
        decode_ubjson(opening * 100_000 + b"Z" * 10)
    assert decode_ubjson(b"[" * MAX_NESTING + b"]" * MAX_NESTING)[0] is not None
