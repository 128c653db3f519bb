"""The compiler: the one place that imports Numba, and a fallback without it.

Numba may be missing, and it refuses Pythons that are newer than it. Then kernels run as
plain Python: correct, but slow. Engines have a faster counterpart in NumPy (`plain`);
the code that fits classifiers has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Why nothing can be compiled here; None if something can.
problem: str | None = None

try:
    import llvmlite
    import llvmlite.binding as llvm
    import numba
    from llvmlite import ir
    from numba import config, types
    from numba.core.caching import FunctionCache
    from numba.core.cgutils import (
        alloca_once_value,
        for_range_slice,
        get_or_insert_function,
    )
    from numba.core.compiler import CompileResult
    from numba.core.runtime.nrt import rtsys
    from numba.core.serialize import dumps
    from numba.extending import intrinsic, overload
except Exception as error:  # whatever a library says that is not made for this Python
    problem = f"{type(error).__name__}: {error}"
    llvmlite = llvm = numba = ir = config = types = None  # type: ignore[assignment]
    get_or_insert_function = CompileResult = dumps = rtsys = None  # type: ignore
    alloca_once_value = for_range_slice = None  # type: ignore
    FunctionCache = object  # type: ignore

    def intrinsic(function: Callable[..., Any]) -> Any:  # type: ignore[no-redef]
        """Return the function unchanged; it is never called."""
        return function

    overload = None  # type: ignore[assignment]


def as_plain_python(function: Callable[..., Any]) -> Any:
    """Return a kernel that runs as plain Python, and is as silent as a compiled one.

    Parameters
    ----------
    function : callable
        The kernel. Numbers in it may wrap around, which NumPy would warn of.
    """
    return np.errstate(over="ignore", invalid="ignore")(function)


# Whether kernels are compiled, and do not run as plain Python.
compiles: bool = problem is None and not config.DISABLE_JIT  # type: ignore[attr-defined]

__all__ = [
    "CompileResult",
    "FunctionCache",
    "alloca_once_value",
    "as_plain_python",
    "compiles",
    "config",
    "dumps",
    "for_range_slice",
    "get_or_insert_function",
    "intrinsic",
    "ir",
    "llvm",
    "llvmlite",
    "numba",
    "overload",
    "problem",
    "rtsys",
    "types",
]
