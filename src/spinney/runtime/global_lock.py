"""Python's global lock in kernels for single rows: given back only for long work.

A kernel for a batch gives the lock back, so that threads run in parallel. For a single
row, a few microseconds, that does more harm than good: whoever gives the lock back has
to wait for it afterwards, until the thread that took it meanwhile waits for something
itself, or for five milliseconds. NumPy, too, keeps the lock for small arrays.

Kernels that keep it are declared with ``@kernel(keeps_lock=True)``. For many trees they
give it back themselves: `give_back` before the work, `take_again` after it, and nothing
in between may raise an error.
"""

from __future__ import annotations

from typing import Any

from spinney.runtime.compiler import (
    alloca_once_value,
    compiles,
    get_or_insert_function,
    intrinsic,
    ir,
    types,
)

# Trees that rows are taken through with the lock kept: 20 to 100 microseconds.
MOST_TREES = 2000

# Numba does not expose their types.
_local: Any = alloca_once_value
_function: Any = get_or_insert_function


@intrinsic
def _give_back(_context: Any, is_long: Any) -> Any:
    signature = types.voidptr(types.boolean)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = context.get_value_type(types.voidptr)
        state = _local(builder, ir.Constant(pointer, None))
        with builder.if_then(args[0], likely=False):
            kind = ir.FunctionType(pointer, [])
            save = _function(builder.module, kind, "PyEval_SaveThread")
            builder.store(builder.call(save, []), state)
        return builder.load(state)

    return signature, generate


@intrinsic
def _take_again(_context: Any, state: Any) -> Any:
    signature = types.void(types.voidptr)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = context.get_value_type(types.voidptr)
        given_back = builder.icmp_unsigned("!=", args[0], ir.Constant(pointer, None))
        with builder.if_then(given_back, likely=False):
            kind = ir.FunctionType(ir.VoidType(), [pointer])
            restore = _function(builder.module, kind, "PyEval_RestoreThread")
            builder.call(restore, [args[0]])
        return context.get_dummy_value()

    return signature, generate


# (is_long) -> state: give the lock back if the work is long.
give_back: Any = _give_back if compiles else lambda is_long: None
# (state): take it again, if it was given back.
take_again: Any = _take_again if compiles else lambda state: None
