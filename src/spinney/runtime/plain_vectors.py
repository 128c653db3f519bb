"""SIMD operations in plain Python, for where nothing is compiled.

What each does, and on which arguments, is said in `simd`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WORD = 64

# Words that are split at a time: as many as two vectors of a current processor hold.
STRIDE = 8

# Rows and columns that change places in one step.
EIGHT = 8


def comparison(missing_exceeds: bool) -> Any:
    """Return a function ``(values, start, threshold) -> word``."""

    def compare(values: Any, start: Any, threshold: Any) -> np.uint64:
        part = values[int(start) : int(start) + WORD]
        exceeds = ~(part <= threshold) if missing_exceeds else part > threshold
        return np.packbits(exceeds, bitorder="little").view(np.uint64)[0]

    return compare


def turn_eight(
    rows: Any,
    begins: Any,
    column: Any,
    values: Any,
    targets: Any,
    first: Any,
    shift: Any,
) -> None:
    """Let eight rows and eight columns change places."""
    for j in range(EIGHT):
        target = int(targets[int(first) + j]) + int(shift)
        for k in range(EIGHT):
            values[target + k] = rows[int(begins[k]) + int(column) + j]


def turning(n_planes: int) -> Any:
    """Return a function ``(planes, word, apart, codes, start, first) -> None``."""

    def turn(
        planes: Any, word: Any, apart: Any, codes: Any, start: Any, first: Any
    ) -> None:
        code = np.full(WORD, first, dtype=np.int64)
        for plane in range(n_planes):
            octets = planes[int(word + apart * np.uint64(plane)) :][:1].view(np.uint8)
            code += np.unpackbits(octets, bitorder="little").astype(np.int64) << plane
        codes[int(start) : int(start) + WORD] = code

    return turn


def _part(array: Any, start: Any) -> Any:
    return array[int(start) : int(start) + STRIDE]


def mark(
    sets: Any, slot: Any, planes: Any, plane: Any, outcomes: Any, outcome: Any
) -> None:
    """Change the plane where a set and an outcome have a bit."""
    _part(planes, plane)[:] ^= _part(sets, slot) & _part(outcomes, outcome)


def finish(
    sets: Any,
    slot: Any,
    planes: Any,
    plane: Any,
    plane_below: Any,
    outcomes: Any,
    outcome: Any,
    outcome_left: Any,
    outcome_right: Any,
) -> None:
    """Change the plane of a node, and the one below it."""
    here = _part(sets, slot)
    moved = here & _part(outcomes, outcome)
    _part(planes, plane)[:] ^= moved
    below = (here ^ moved) & _part(outcomes, outcome_left)
    _part(planes, plane_below)[:] ^= below | moved & _part(outcomes, outcome_right)


def keep(
    sets: Any,
    slot: Any,
    planes: Any,
    plane: Any,
    outcomes: Any,
    outcome: Any,
    without: Any,
) -> None:
    """Change the plane, and keep those of a set that moved or that did not."""
    here = _part(sets, slot)
    moved = here & _part(outcomes, outcome)
    _part(planes, plane)[:] ^= moved
    here[:] = (here & without) ^ moved


def split(
    sets: Any,
    old: Any,
    new: Any,
    planes: Any,
    plane: Any,
    outcomes: Any,
    outcome: Any,
) -> None:
    """Change the plane, and split a set in two."""
    moved = _part(sets, old) & _part(outcomes, outcome)
    _part(planes, plane)[:] ^= moved
    _part(sets, new)[:] = moved
    _part(sets, old)[:] ^= moved


def unite(
    planes: Any,
    word: Any,
    apart: Any,
    chosen: Any,
    outcomes: Any,
    outcome: Any,
    flips: Any,
) -> None:
    """Write the union of the chosen planes."""
    united = np.zeros(STRIDE, dtype=np.uint64)
    for k in range(WORD):
        if int(chosen) >> k & 1:
            united |= _part(planes, int(word) + k * int(apart))
    _part(outcomes, outcome)[:] = united ^ np.uint64(flips)


def count_ones(word: Any) -> np.uint64:
    """Return the number of bits that are set."""
    return np.uint64(int(word).bit_count())


def copy(words: Any, source: Any, target: Any) -> None:
    """Copy one vector of words."""
    _part(words, target)[:] = _part(words, source)


def add_four_pairs(sums: Any, start: Any, entries: Any, *four: Any) -> None:
    """Add two numbers from each of four places."""
    for entry in four:
        sums[int(start) : int(start) + 2] += entries[int(entry) : int(entry) + 2]


def fetch(words: Any, start: Any) -> None:
    """Do nothing: there is no cache to fill."""
