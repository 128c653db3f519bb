"""Operations on words of 64 rows, one bit for each, in the processor's vectors.

Numba's loops cannot say these, but LLVM can: a comparison of two vectors is a vector of
bits, and that is an integer; a vector is loaded and stored whole, so no test is needed
whether two arrays overlap. Without the compiler the same is done in plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

WORD = 64

# Words that are split at a time: as many as two vectors of a current processor hold.
STRIDE = 8

ZERO = ir.Constant(ir.IntType(32), 0)


def _pointer_to(
    context: Any, builder: Any, array_type: Any, array: Any, start: Any, vector: Any
) -> Any:
    """Return where the element `start` of an array lies, as the place of a vector."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())


# ------------------------------------------------------------------ comparing


def _comparison(missing_exceeds: bool) -> Any:
    """Return an intrinsic ``(values, start, threshold) -> word``."""

    def typer(_context: Any, values: Any, start: Any, threshold: Any) -> Any:
        signature = types.uint64(values, types.uint64, values.dtype)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array_type = signature.args[0]
            number = context.get_value_type(array_type.dtype)
            vector = ir.VectorType(number, WORD)
            where = _pointer_to(context, builder, array_type, args[0], args[1], vector)
            many = builder.load(where, align=array_type.dtype.bitwidth // 8)
            nothing = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(nothing, args[2], ZERO)
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WORD), [0] * WORD)
            same = builder.shuffle_vector(one, one, everywhere)
            # Unordered: true if one of the two is NaN.
            compare = (
                builder.fcmp_unordered if missing_exceeds else builder.fcmp_ordered
            )
            return builder.bitcast(compare(">", many, same), ir.IntType(WORD))

        return signature, generate

    return intrinsic(typer)


def _plain_comparison(missing_exceeds: bool) -> Any:
    def compare(values: Any, start: Any, threshold: Any) -> np.uint64:
        part = values[int(start) : int(start) + WORD]
        exceeds = ~(part <= threshold) if missing_exceeds else part > threshold
        return np.packbits(exceeds, bitorder="little").view(np.uint64)[0]

    return compare


# ------------------------------------------------------------------ splitting


@intrinsic
def _split(
    _context: Any,
    sets: Any,
    old: Any,
    new: Any,
    planes: Any,
    plane: Any,
    answers: Any,
    answer: Any,
) -> Any:
    index = types.uint64
    signature = types.void(sets, index, index, planes, index, answers, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.IntType(WORD), STRIDE)

        def at(array: int, start: int) -> Any:
            kind = signature.args[array]
            return _pointer_to(context, builder, kind, args[array], args[start], vector)

        at_old, at_new, at_plane, at_answer = at(0, 1), at(0, 2), at(3, 4), at(5, 6)
        here = builder.load(at_old, align=8)
        moved = builder.and_(here, builder.load(at_answer, align=8))
        flipped = builder.xor(builder.load(at_plane, align=8), moved)
        builder.store(flipped, at_plane, align=8)
        builder.store(moved, at_new, align=8)
        builder.store(builder.xor(here, moved), at_old, align=8)
        return context.get_dummy_value()

    return signature, generate


def _plain_split(
    sets: Any,
    old: Any,
    new: Any,
    planes: Any,
    plane: Any,
    answers: Any,
    answer: Any,
) -> None:
    def words(array: Any, start: Any) -> Any:
        return array[int(start) : int(start) + STRIDE]

    moved = words(sets, old) & words(answers, answer)
    words(planes, plane)[:] ^= moved
    words(sets, new)[:] = moved
    words(sets, old)[:] ^= moved


_compiled = not config.DISABLE_JIT  # type: ignore[attr-defined]
_compare = _comparison if _compiled else _plain_comparison

# (values, start, threshold) -> word: bit k says whether values[start + k] exceeds the
# threshold. For NaN it is 0 with the one, 1 with the other.
exceeding = _compare(missing_exceeds=False)
exceeding_or_missing = _compare(missing_exceeds=True)

# (sets, old, new, planes, plane, answers, answer): three arrays and where in them
# `STRIDE` words begin. Rows of the old set with a bit in the answer become the new set
# and change their bit in the plane; the others remain the old set.
split_words = _split if _compiled else _plain_split
