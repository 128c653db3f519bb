"""Compiled kernels on disk, kept under a key made of everything that shapes them.

Numba keys the machine code of a kernel by the file that the kernel is in. A change in
another file, which the kernel calls or takes a constant from, leaves the old machine
code in use, and so does an upgrade that touches only such a file. Here the key is a
digest of all sources and versions (`kernel_sources`), the signature, and the name and
the features of the processor. So kernels may import one another freely, and stale
machine code is never found; nor is code that this processor cannot run.

A cache that cannot be read or written costs time and nothing else: the kernel is then
compiled in memory.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import spinney.runtime.compile_lock as compile_lock
import spinney.runtime.compile_notice as compile_notice
from spinney.runtime.compiler import (
    CompileResult,
    FunctionCache,
    as_plain_python,
    dumps,
    problem,
    rtsys,
)
from spinney.runtime.kernel_folders import (
    folder_to_write,
    folders_to_read,
    write_whole,
)
from spinney.runtime.lowering import compiled_once
from spinney.runtime.processors import reached_levels

_CHECKSUM_BYTES = hashlib.sha256().digest_size


def kernel(
    function: Callable[..., Any] | None = None, *, keeps_lock: bool = False
) -> Any:
    """Compile a function on first use, and keep the machine code on disk.

    Parameters
    ----------
    function : callable or None, default=None
        What Numba can compile. Without Numba it stays plain Python. None to be used as
        a decorator with arguments.
    keeps_lock : bool, default=False
        Whether it runs with Python's global lock, see `global_lock`.
    """
    if function is None:
        return partial(kernel, keeps_lock=keeps_lock)
    if problem is not None:
        return as_plain_python(function)
    dispatcher = compiled_once(function, keeps_lock)
    if hasattr(dispatcher, "_cache"):  # not with NUMBA_DISABLE_JIT
        dispatcher._cache = KernelCache(function)
    return dispatcher


class KernelCache(FunctionCache):
    """The machine code of one kernel on disk, a file for each signature.

    Numba numbers such files and lists them in an index. Two processes that compile at
    once can then both take the same number, and one signature is looked up with the
    machine code of another. Here a file is named for its signature, tells which one it
    is of, and begins with a checksum: what does not fit is compiled and written again.

    Parameters
    ----------
    function : callable
        The kernel as plain Python.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        # Nothing is read before the kernel is called: importing spinney stays quick.
        self._py_func = function  # Numba's _index_key reads it
        # Names of functions in functions hold <locals>, which no file may be called.
        name = f"{function.__module__}.{function.__qualname__}"
        self._name = re.sub(r"[^\w.]", "", name)
        self.enable()

    @property
    def cache_path(self) -> str:
        """The folder that machine code is written to, or else read from first."""
        folders = (folder_to_write(), *folders_to_read())
        return next((str(folder) for folder in folders if folder is not None), "")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature, None if there is none."""
        loaded = self._loaded(sig, target_context)
        if loaded is None:
            compile_notice.begin(self._py_func.__name__)
            if self._wait_for_turn(sig, target_context):
                loaded = self._loaded(sig, target_context)
            if loaded is not None:
                compile_lock.release()
                compile_notice.end()
        return loaded

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        """Return what is on disk for a signature, if anything."""
        try:
            # All that machine code needs of Numba. What it takes to compile is loaded
            # when something is compiled: a fifth of a second.
            rtsys.initialize(target_context)
            codegen = target_context.codegen()
            for key in self._keys(sig, codegen):
                for folder in folders_to_read():
                    parts = _parts_in(folder / self._file_name(key), key)
                    if parts is not None:
                        return CompileResult._rebuild(target_context, *parts)
        except Exception:  # of a Numba that differs
            pass
        return None

    def _wait_for_turn(self, sig: Any, target_context: Any) -> bool:
        """Wait while another process compiles the same; return whether one might."""
        try:
            folder = folder_to_write()
            if folder is None:
                return False
            key = self._index_key(sig, target_context.codegen())
            path = folder / self._file_name(key)
            compile_lock.wait_for_turn(path, path.exists)
        except Exception:  # of a Numba that differs
            return False
        return True

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature, if that is possible."""
        compile_notice.end()
        try:
            self._save(sig, data)
        finally:
            compile_lock.release()

    def _save(self, sig: Any, data: Any) -> None:
        if data.lifted or data.library.has_dynamic_globals:
            return  # it holds addresses of this process
        try:
            key = self._index_key(sig, data.codegen)
            body = dumps((key, data._reduce()))
            folder = folder_to_write()
            if folder is None:
                compile_notice.not_kept()
                return
            content = hashlib.sha256(body).digest() + body
            write_whole(folder / self._file_name(key), content)
        except OSError as error:  # a full disk
            compile_notice.not_kept(str(error))
        except Exception:  # of a Numba that differs
            return

    def flush(self) -> None:
        """Forget the machine code for all signatures."""
        for folder in folders_to_read():
            for path in folder.glob(f"{self._name}-*.nbc"):
                path.unlink(missing_ok=True)

    def _keys(self, sig: Any, codegen: Any) -> Iterator[Any]:
        """Yield the keys under which machine code may be that runs here, best first."""
        key = self._index_key(sig, codegen)
        yield key
        (triple, _, _) = key[1]
        for level in reached_levels():
            yield (key[0], (triple, level, ""), *key[2:])

    def _file_name(self, key: Any) -> str:
        which = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return f"{self._name}-{which}.nbc"


def _parts_in(path: Path, key: Any) -> Any:
    """Return what a file holds under a key, None if it is damaged or not there."""
    try:
        content = path.read_bytes()
        checksum, body = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        if hashlib.sha256(body).digest() != checksum:
            return None
        stored_key, parts = pickle.loads(body)
    except Exception:  # not there, not ours to read, of a Numba that differs
        return None
    return parts if stored_key == key else None
