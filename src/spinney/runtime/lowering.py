"""Kernels that call kernels, optimised once instead of over and over.

Numba makes finished machine code of every function that a kernel calls, wrappers for
Python included, and then inlines and optimises the same function again in the kernel
itself, and again in whatever calls that. Here only the kernel that Python calls is
optimised: all below it, Numba's own functions too, is lowered to LLVM's language once
and linked in. That takes about half the time, and the outcome is as fast.

Most of the time is Numba's, which finds the types of every expression afresh: for each
addition of two integers it tries dozens of declarations. What was found once is kept in
mind while kernels are compiled. What Numba makes on the way is in use until the kernel
is done, and the garbage collector would go through it again and again: it waits.

This reaches into Numba. Where a part of it is not as expected, kernels are compiled in
Numba's public way, which takes longer and is otherwise the same.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import spinney.runtime.compile_lock as compile_lock
from spinney.runtime.compiler import numba

_Library: Any = object
_Compiler: Any = object
_environment_of: Any = None
_CompilerError: Any = ()
_Function: Any = object
try:
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler
    from numba.core.environment import lookup_environment
    from numba.core.errors import NumbaError
    from numba.core.types.functions import BaseFunction
except Exception:  # no Numba, or one that differs
    is_known = False
else:
    is_known = True
    _Library, _Compiler = JITCodeLibrary, Compiler
    _environment_of, _CompilerError = lookup_environment, NumbaError
    _Function = BaseFunction

# Before 0.62, Numba sets the passes up once for all functions of a module: going over
# declarations takes no time there.
_PASSES_OF_MODULE = is_known and numba.version_info.short < (0, 62)

_ENVIRONMENT = "_ZN08NumbaEnv"


class LinkedLibrary(_Library):
    """Code that is only linked into other code: never optimised or run by itself."""

    def _optimize_functions(self, module: Any) -> None:
        """Simplify what is defined in a module; Numba goes over declarations, too."""
        if _PASSES_OF_MODULE:
            super()._optimize_functions(module)
            return
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return that there is no machine code."""
        return 0

    @property
    def codegen(self) -> Any:
        """What tells a function its environment: here there is none to be told."""
        return SimpleNamespace(set_env=lambda name, environment: None)


class KernelCompiler(_Compiler):
    """Compiles a kernel that Python calls, and lowers what it calls."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Return the compiled kernel."""
        state = self.state
        arguments = (state.typingctx, state.targetctx, None, state.args)
        more = (state.return_type, state.flags, state.locals)
        try:
            _check_numba()
            codegen = state.targetctx.codegen()
            state.library = codegen.create_library(func.__qualname__)
            state.library.enable_object_caching()
            with _no_collecting(), _linking_only(codegen), _remembering_types():
                compiled = super().compile_extra(func)
            _set_environments(codegen, compiled.library)
        except (_CompilerError, KeyboardInterrupt):
            compile_lock.release()
            raise
        except Exception:  # of a Numba that differs
            try:
                return _Compiler(*arguments, *more).compile_extra(func)
            except BaseException:
                compile_lock.release()
                raise
        return compiled


def _check_numba() -> None:
    """Raise an error if Numba has no such parts as are relied on here."""
    for name in (
        "_optimize_final_module",
        "_finalize_final_module",
        "_finalize_dynamic_globals",
    ):
        getattr(_Library, name)


@contextmanager
def _linking_only(codegen: Any) -> Iterator[None]:
    """Let all code that is made be such that it is only linked. Numba holds a lock."""
    usual = codegen._library_class
    codegen._library_class = LinkedLibrary
    try:
        yield
    finally:
        codegen._library_class = usual


# What calls of Numba's own functions return, by function and types of the arguments.
# The function is kept with it: what is known by its address must not go away.
_call_types: dict[Any, tuple[Any, Any]] = {}


@contextmanager
def _remembering_types() -> Iterator[None]:
    """Let types of calls be looked up that were found before. Numba holds a lock.

    All kernels are compiled with the same flags, so equal types mean the same. A call
    that fails is tried anew each time: its error is about the place where it is.
    """
    usual = _Function.get_call_type

    def get_call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = id(self), id(context), tuple(args), tuple(kws.items())
        found = _call_types.get(key)
        if found is None:
            found = _call_types[key] = (self, usual(self, context, args, kws))
        return found[1]

    _Function.get_call_type = get_call_type
    try:
        yield
    finally:
        _Function.get_call_type = usual


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Let the garbage collector wait, if it is on. Numba holds a lock."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _set_environments(codegen: Any, library: Any) -> None:
    """Tell functions that were linked into a library their environments."""
    for variable in library._final_module.global_variables:
        if variable.name.startswith(_ENVIRONMENT):
            environment = _environment_of(variable.name)
            if environment is not None:
                codegen.set_env(variable.name, environment)


def compiled_once(function: Callable[..., Any], keeps_lock: bool) -> Any:
    """Return a function that Numba compiles, and lowers only where kernels call it.

    Parameters
    ----------
    function : callable
        What Numba can compile.
    keeps_lock : bool
        Whether it runs with Python's global lock when Python calls it.

    Returns
    -------
    dispatcher : callable
        For Python, and for other kernels.
    """
    jit: Any = numba.njit
    if not is_known:
        return jit(nogil=not keeps_lock)(function)
    dispatcher = jit(nogil=not keeps_lock, pipeline_class=KernelCompiler)(function)
    if not hasattr(dispatcher, "overloads"):  # with NUMBA_DISABLE_JIT
        return dispatcher
    inner = jit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    # What Numba asks a function for when a kernel calls it.
    dispatcher.get_call_template = inner.get_call_template
    dispatcher.get_overload = inner.get_overload
    return dispatcher
