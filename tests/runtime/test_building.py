"""Equal leaf values are found quickly, whatever the pattern of their bits."""

from __future__ import annotations

import time

import numba
import numpy as np
import pytest

from spinney.runtime.building import distinct_rows

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)


def numbers(kind, size):
    """Return values whose bits are apt to collide: few low or few high ones differ."""
    rng = np.random.default_rng(0)
    return {
        "float64": rng.normal(size=size),
        "float32": rng.normal(size=size).astype(np.float32).astype(np.float64),
        "integers": np.arange(size, dtype=np.float64),
        "fractions": np.arange(size) / 1024,
        "shares": rng.integers(0, 20, size=(size, 5)) / 20,
        "equal": np.full(size, 0.1),
        "signs of zero": np.where(rng.random(size) < 0.5, 0.0, -0.0),
        "powers of two": 2.0 ** rng.integers(-1000, 1000, size=size),
        "neighbours": np.arange(size, dtype=np.int64).view(np.float64),
    }[kind].reshape(size, -1)


KINDS = [
    "float64",
    "float32",
    "integers",
    "fractions",
    "shares",
    "equal",
    "signs of zero",
    "powers of two",
    "neighbours",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 900])
def test_rows_are_numbered_in_the_order_in_which_they_appear(kind, size):
    bits = numbers(kind, size).view(np.int64)
    number, n_distinct = distinct_rows(bits)
    seen = {}
    expected = [seen.setdefault(row.tobytes(), len(seen)) for row in bits]
    assert number.tolist() == expected
    assert n_distinct == len(seen)


def test_no_rows_at_all_have_no_numbers():
    number, n_distinct = distinct_rows(np.empty((0, 3), dtype=np.int64))
    assert number.shape == (0,)
    assert n_distinct == 0


@pytest.mark.skipif(WITHOUT_JIT, reason="plain Python is slow with any bits")
@pytest.mark.parametrize("kind", KINDS)
def test_no_pattern_of_bits_takes_long(kind):
    # About 0.01 s where rows spread over the table, half a minute where they pile up.
    bits = numbers(kind, 200_000).view(np.int64)
    distinct_rows(bits[:10])
    start = time.perf_counter()
    distinct_rows(bits)
    assert time.perf_counter() - start < 2
