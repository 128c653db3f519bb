"""Hashes of texts as CatBoost makes them: the low half of CityHash64, version 1.0.0.

CityHash is by Geoff Pike and Jyrki Alakuijala; later versions give other numbers. All
sums and products are those of 64 bits, what is beyond is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

u = np.uint64

K0 = u(0xC3A5C85C97CB3127)
K1 = u(0xB492B66FBE98F273)
K2 = u(0x9AE16A3B2F90404F)
K3 = u(0xC949D7C7509E6557)
K_PAIR = u(0x9DDFEA08EB382D69)


@kernel
def _word(data, at, n_bytes):  # type: ignore[no-untyped-def]
    """Return a little-endian number of so many bytes."""
    word = u(0)
    for k in range(n_bytes):
        word |= u(data[at + k]) << u(8 * k)
    return word


@kernel
def _rotated(word, shift):  # type: ignore[no-untyped-def]
    """Return a word rotated to the right."""
    return (word >> u(shift)) | (word << u(64 - shift))


@kernel
def _mixed(word):  # type: ignore[no-untyped-def]
    return word ^ (word >> u(47))


@kernel
def _of_pair(low, high):  # type: ignore[no-untyped-def]
    """Return the hash of two words."""
    a = _mixed((low ^ high) * K_PAIR)
    return _mixed((high ^ a) * K_PAIR) * K_PAIR


@kernel
def _of_16(data, at, n):  # type: ignore[no-untyped-def]
    """Return the hash of at most 16 bytes."""
    if n > 8:
        first, last = _word(data, at, 8), _word(data, at + n - 8, 8)
        return _of_pair(first, _rotated(last + u(n), n)) ^ last
    if n >= 4:
        first, last = _word(data, at, 4), _word(data, at + n - 4, 4)
        return _of_pair(u(n) + (first << u(3)), last)
    if n > 0:
        y = u(data[at]) + (u(data[at + (n >> 1)]) << u(8))
        z = u(n) + (u(data[at + n - 1]) << u(2))
        return _mixed(y * K2 ^ z * K3) * K2
    return K2


@kernel
def _of_32(data, at, n):  # type: ignore[no-untyped-def]
    """Return the hash of 17 to 32 bytes."""
    a = _word(data, at, 8) * K1
    b = _word(data, at + 8, 8)
    c = _word(data, at + n - 8, 8) * K2
    d = _word(data, at + n - 16, 8) * K0
    return _of_pair(
        _rotated(a - b, 43) + _rotated(c, 30) + d,
        a + _rotated(b ^ K3, 20) - c + u(n),
    )


@kernel
def _half_of_64(a, data, at, last):  # type: ignore[no-untyped-def]
    """Return two sums over 32 bytes, the last eight of which are given."""
    b = _rotated(a + last, 52)
    c = _rotated(a, 37)
    a += _word(data, at + 8, 8)
    c += _rotated(a, 7)
    a += _word(data, at + 16, 8)
    return a + last, b + _rotated(a, 31) + c


@kernel
def _of_64(data, at, n):  # type: ignore[no-untyped-def]
    """Return the hash of 33 to 64 bytes."""
    end = at + n
    a = _word(data, at, 8) + (u(n) + _word(data, end - 16, 8)) * K0
    v0, v1 = _half_of_64(a, data, at, _word(data, at + 24, 8))
    a = _word(data, at + 16, 8) + _word(data, end - 32, 8)
    w0, w1 = _half_of_64(a, data, end - 32, _word(data, end - 8, 8))
    r = _mixed((v0 + w1) * K2 + (w0 + v1) * K0)
    return _mixed(r * K0 + v1) * K2


@kernel
def _of_32_and_seeds(data, at, a, b):  # type: ignore[no-untyped-def]
    """Return two words for 32 bytes and two seeds."""
    last = _word(data, at + 24, 8)
    a += _word(data, at, 8)
    b = _rotated(b + a + last, 21)
    c = a
    a += _word(data, at + 8, 8)
    a += _word(data, at + 16, 8)
    b += _rotated(a, 44)
    return a + last, b + c


@kernel
def _of_more(data, at, n):  # type: ignore[no-untyped-def]
    """Return the hash of more than 64 bytes."""
    end = at + n
    x = _word(data, at, 8)
    y = _word(data, end - 16, 8) ^ K1
    z = _word(data, end - 56, 8) ^ K0
    v0, v1 = _of_32_and_seeds(data, end - 64, u(n), y)
    w0, w1 = _of_32_and_seeds(data, end - 32, u(n) * K1, K0)
    z += _mixed(v1) * K1
    x = _rotated(z + x, 39) * K1
    y = _rotated(y, 33) * K1
    # The last block has been read: it may be less than whole.
    for _ in range((n - 1) // 64):
        x = _rotated(x + y + v0 + _word(data, at + 16, 8), 37) * K1
        y = _rotated(y + v1 + _word(data, at + 48, 8), 42) * K1
        x ^= w1
        y ^= v0
        z = _rotated(z ^ w0, 33)
        v0, v1 = _of_32_and_seeds(data, at, v1 * K1, x + w0)
        w0, w1 = _of_32_and_seeds(data, at + 32, z + w1, y)
        z, x = x, z
        at += 64
    return _of_pair(
        _of_pair(v0, w0) + _mixed(y) * K1 + z,
        _of_pair(v1, w1) + x,
    )


@kernel
def hash_texts(data, ends, hashes):  # type: ignore[no-untyped-def]
    """Write the hash of each text, of 32 bits and extended by its sign to 64.

    Parameters
    ----------
    data : ndarray, dtype=uint8
        The bytes of all texts, one after another.
    ends : ndarray of shape (n_texts,), dtype=int64
        Where each text ends.
    hashes : ndarray of shape (n_texts,), dtype=uint64
        Overwritten.
    """
    at = 0
    for i in range(len(ends)):
        n = ends[i] - at
        if n <= 16:
            h = _of_16(data, at, n)
        elif n <= 32:
            h = _of_32(data, at, n)
        elif n <= 64:
            h = _of_64(data, at, n)
        else:
            h = _of_more(data, at, n)
        h &= u(0xFFFFFFFF)
        if h >> u(31):
            h |= u(0xFFFFFFFF00000000)
        hashes[i] = h
        at = ends[i]


def category_hashes(texts: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return the hashes of category values.

    Parameters
    ----------
    texts : sequence of bytes
        The values as UTF-8.

    Returns
    -------
    hashes : ndarray of shape (n_texts,), dtype=uint64
        32 bits, extended by their sign to 64.
    """
    hashes = np.empty(len(texts), dtype=np.uint64)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    data = np.frombuffer(b"".join(texts), dtype=np.uint8).copy()
    hash_texts(data, ends, hashes)
    return hashes
