"""Hashes of texts as CatBoost makes them: the low half of CityHash64, version 1.0.0.

CityHash is by Geoff Pike and Jyrki Alakuijala (MIT licence, see LICENSE-CityHash at the
top of the project); later versions give other numbers. All sums and products are those
of 64 bits, what is beyond is lost.

The same formulas serve a single text, in Python's integers, and many texts of the same
length at once, in arrays: these differ only in how words are taken out of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

K0 = 0xC3A5C85C97CB3127
K1 = 0xB492B66FBE98F273
K2 = 0x9AE16A3B2F90404F
K3 = 0xC949D7C7509E6557
K_PAIR = 0x9DDFEA08EB382D69
MASK = 2**64 - 1

# From this many texts of one length on, arrays are quicker than one text at a time.
MIN_AT_ONCE = 12

# A number of 64 bits, or an array of such; and what returns the little-endian number of
# so many bytes, from a position on.
Number = Any
Word = Callable[[int, int], Number]


def _rotated(word: Number, shift: int) -> Number:
    """Return a word rotated to the right."""
    return (word >> shift) | (word << (64 - shift) & MASK)


def _mixed(word: Number) -> Number:
    return word ^ (word >> 47)


def _of_pair(low: Number, high: Number) -> Number:
    """Return the hash of two words."""
    a = _mixed((low ^ high) * K_PAIR & MASK)
    return _mixed((high ^ a) * K_PAIR & MASK) * K_PAIR & MASK


def _of_16(word: Word, n: int) -> Number:
    """Return the hash of at most 16 bytes."""
    if n > 8:
        first, last = word(0, 8), word(n - 8, 8)
        return _of_pair(first, _rotated(last + n & MASK, n)) ^ last
    if n >= 4:
        first, last = word(0, 4), word(n - 4, 4)
        return _of_pair((first << 3) + n, last)
    y = word(0, 1) + (word(n >> 1, 1) << 8)
    z = (word(n - 1, 1) << 2) + n
    return _mixed(y * K2 & MASK ^ z * K3 & MASK) * K2 & MASK


def _of_32(word: Word, n: int) -> Number:
    """Return the hash of 17 to 32 bytes."""
    a = word(0, 8) * K1 & MASK
    b = word(8, 8)
    c = word(n - 8, 8) * K2 & MASK
    d = word(n - 16, 8) * K0 & MASK
    return _of_pair(
        _rotated(a - b & MASK, 43) + _rotated(c, 30) + d & MASK,
        a + _rotated(b ^ K3, 20) - c + n & MASK,
    )


def _half_of_64(a: Number, word: Word, at: int, last: Number) -> tuple[Number, Number]:
    """Return two sums over 32 bytes, the last eight of which are given."""
    b = _rotated(a + last & MASK, 52)
    c = _rotated(a, 37)
    a = a + word(at + 8, 8) & MASK
    c = c + _rotated(a, 7) & MASK
    a = a + word(at + 16, 8) & MASK
    return a + last & MASK, b + _rotated(a, 31) + c & MASK


def _of_64(word: Word, n: int) -> Number:
    """Return the hash of 33 to 64 bytes."""
    a = word(0, 8) + (word(n - 16, 8) + n) * K0 & MASK
    v0, v1 = _half_of_64(a, word, 0, word(24, 8))
    a = word(16, 8) + word(n - 32, 8) & MASK
    w0, w1 = _half_of_64(a, word, n - 32, word(n - 8, 8))
    r = _mixed((v0 + w1) * K2 + (w0 + v1) * K0 & MASK)
    return _mixed(r * K0 + v1 & MASK) * K2 & MASK


def _of_32_and_seeds(
    word: Word, at: int, a: Number, b: Number
) -> tuple[Number, Number]:
    """Return two words for 32 bytes and two seeds."""
    last = word(at + 24, 8)
    a = a + word(at, 8) & MASK
    b = _rotated(b + a + last & MASK, 21)
    c = a
    a = a + word(at + 8, 8) + word(at + 16, 8) & MASK
    return a + last & MASK, b + _rotated(a, 44) + c & MASK


def _of_more(word: Word, n: int) -> Number:
    """Return the hash of more than 64 bytes."""
    x = word(0, 8)
    y = word(n - 16, 8) ^ K1
    z = word(n - 56, 8) ^ K0
    v0, v1 = _of_32_and_seeds(word, n - 64, n, y)
    w0, w1 = _of_32_and_seeds(word, n - 32, n * K1 & MASK, K0)
    z = z + _mixed(v1) * K1 & MASK
    x = _rotated(z + x & MASK, 39) * K1 & MASK
    y = _rotated(y, 33) * K1 & MASK
    # The last block has been read: it may be less than whole.
    for at in range(0, (n - 1) // 64 * 64, 64):
        x = _rotated(x + y + v0 + word(at + 16, 8) & MASK, 37) * K1 & MASK
        y = _rotated(y + v1 + word(at + 48, 8) & MASK, 42) * K1 & MASK
        x ^= w1
        y ^= v0
        z = _rotated(z ^ w0, 33)
        v0, v1 = _of_32_and_seeds(word, at, v1 * K1 & MASK, x + w0 & MASK)
        w0, w1 = _of_32_and_seeds(word, at + 32, z + w1 & MASK, y)
        z, x = x, z
    return _of_pair(
        _of_pair(v0, w0) + _mixed(y) * K1 + z & MASK,
        _of_pair(v1, w1) + x & MASK,
    )


def _hash(word: Word, n: int) -> Number:
    """Return the hash of `n` bytes, of 32 bits and extended by its sign to 64."""
    if n == 0:
        whole: Number = K2
    elif n <= 16:
        whole = _of_16(word, n)
    elif n <= 32:
        whole = _of_32(word, n)
    elif n <= 64:
        whole = _of_64(word, n)
    else:
        whole = _of_more(word, n)
    low = whole & 0xFFFFFFFF
    return low | (low >> 31) * 0xFFFFFFFF00000000


def category_hash(text: bytes) -> int:
    """Return the hash of one category value.

    Parameters
    ----------
    text : bytes
        The value as UTF-8.

    Returns
    -------
    hash : int
        32 bits, extended by their sign to 64.
    """
    made: int = _hash(
        lambda at, n: int.from_bytes(text[at : at + n], "little"), len(text)
    )
    return made


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
    by_length: dict[int, list[int]] = {}
    for index, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(index)
    for n, which in by_length.items():
        if n == 0 or len(which) < MIN_AT_ONCE:
            hashes[which] = [category_hash(texts[index]) for index in which]
        else:
            hashes[which] = _at_once([texts[index] for index in which], n)
    return hashes


def _at_once(texts: list[bytes], n: int) -> NDArray[np.uint64]:
    """Return the hashes of texts of the same length."""
    data = np.frombuffer(b"".join(texts), dtype=np.uint8).reshape(len(texts), n)

    def word(at: int, n_bytes: int) -> NDArray[np.uint64]:
        padded = np.zeros((len(texts), 8), dtype=np.uint8)
        padded[:, :n_bytes] = data[:, at : at + n_bytes]
        return padded.view("<u8")[:, 0].astype(np.uint64)

    made: NDArray[np.uint64] = _hash(word, n)
    return made
