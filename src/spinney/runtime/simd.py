"""SIMD operations on words of 64 rows, one bit for each row.

As LLVM code where kernels are compiled (`vector_code`), else in plain Python
(`plain_vectors`).
"""

from __future__ import annotations

from typing import Any

import spinney.runtime.plain_vectors as plain_vectors
from spinney.runtime.compiler import compiles

# Named here for whoever uses these operations.
from spinney.runtime.plain_vectors import EIGHT, STRIDE, WORD

__all__ = [
    "EIGHT",
    "STRIDE",
    "WORD",
    "add_four_pairs",
    "codes_of_6_planes",
    "codes_of_8_planes",
    "codes_of_10_planes",
    "codes_of_16_planes",
    "copy_vector",
    "count_ones",
    "exceeding",
    "exceeding_or_missing",
    "finish_rows",
    "keep_rows",
    "mark_rows",
    "prefetch",
    "split_rows",
    "turn_eight",
    "unite_planes",
]

_operations: Any = plain_vectors
if compiles:
    import spinney.runtime.vector_code as vector_code

    _operations = vector_code

# (values, start, threshold) -> word: bit k says whether values[start + k] exceeds the
# threshold. For NaN it is 0 with the one, 1 with the other.
exceeding = _operations.comparison(missing_exceeds=False)
exceeding_or_missing = _operations.comparison(missing_exceeds=True)

# The rest takes arrays and where in them `STRIDE` words begin. In all ways to split,
# rows of a set with a bit in the outcome change their bit in the plane.
#
# (sets, slot, planes, plane, outcomes, outcome): that is all, the set is left alone.
mark_rows = _operations.mark

# (sets, slot, planes, plane, plane_below, outcomes, outcome, outcome_left,
# outcome_right): so do, in the plane below, those of them with a bit in the outcome to
# the right, and the others with one in the outcome to the left. The set is left alone.
finish_rows = _operations.finish

# (sets, slot, planes, plane, outcomes, outcome, without): with a word of ones the set
# becomes the others, with a word of zeros these rows.
keep_rows = _operations.keep

# (sets, old, new, planes, plane, outcomes, outcome): these rows leave the old set and
# become the new one.
split_rows = _operations.split

# (planes, word, apart, chosen, outcomes, outcome, flips): the outcome becomes the union
# of the planes that have a bit in `chosen`, flipped where `flips` has a bit. The planes
# lie `apart` words apart.
unite_planes = _operations.unite

# (word) -> number of its bits that are set.
count_ones = _operations.count_ones

# (words, source, target): the words from `source` are copied to `target`.
copy_vector = _operations.copy

# (words, start): the words are going to be needed and had better be fetched.
prefetch = _operations.fetch

# (sums, start, entries, first, second, third, fourth): two numbers from each of four
# starts are added to those from `start`, one after the other.
add_four_pairs = _operations.add_four_pairs

# (planes, word, apart, codes, start, first): for the 64 rows of one word of each plane,
# `first` plus the code that their bits make up is written from `start` on. The planes
# lie `apart` words apart.
codes_of_6_planes = _operations.turning(6)
codes_of_8_planes = _operations.turning(8)
codes_of_10_planes = _operations.turning(10)
codes_of_16_planes = _operations.turning(16)

# (rows, begins, column, values, targets, first, shift): the eight columns from `column`
# on of eight rows, which begin at `begins` in `rows`, are written to `values`: each as
# eight numbers, `shift` behind the next of the `targets` from `first` on.
turn_eight = _operations.turn_eight
