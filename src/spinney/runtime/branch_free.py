"""A number or zero, whichever a condition says, without a branch on any processor.

LLVM turns ``number * condition`` into a choice and, for all processors but some of AMD,
a choice in a loop that searches into a branch. Where a value stands among thresholds is
a coin toss, so every other branch is mispredicted: batches of bitsliced trees took two
to four times as long there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spinney.runtime.compiler import compiles, intrinsic, ir, llvm, types

# Since this version LLVM leaves choices alone that are marked as unpredictable.
_FIRST_LLVM_WITH_MARKS = 17


def choose(builder: Any, condition: Any, number: Any, has_marks: bool) -> Any:
    """Return `number` where a condition holds, else 0, as instructions.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
        Where instructions go.
    condition, number : llvmlite.ir.Value
        A bit, and an integer.
    has_marks : bool
        Whether to mark a choice as unpredictable. Otherwise there is none, but a mask
        that LLVM cannot see through: a tenth to a sixth slower.
    """
    word = number.type
    if has_marks:
        chosen = builder.select(condition, number, ir.Constant(word, 0))
        chosen.set_metadata("unpredictable", builder.module.add_metadata([]))
        return chosen
    mask = builder.sext(condition, word)
    # No instruction at all: its output is its input, in the same register.
    unseen = builder.asm(ir.FunctionType(word, [word]), "", "=r,0", [mask], False)
    return builder.and_(unseen, number)


def _choosing(has_marks: bool) -> Any:
    """Return an intrinsic ``(condition, number) -> number``."""

    def typer(_context: Any, condition: Any, number: Any) -> Any:
        signature = types.uint32(types.boolean, types.uint32)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            condition, number = args
            return choose(builder, condition, number, has_marks)

        return signature, generate

    return intrinsic(typer)


def _plain_choosing(has_marks: bool) -> Any:
    return lambda condition, number: number if condition else np.uint32(0)


_choose = _choosing if compiles else _plain_choosing
_has_marks = compiles and llvm.llvm_version_info[0] >= _FIRST_LLVM_WITH_MARKS

# (condition, number) -> number as uint32, or 0.
number_if = _choose(_has_marks)
