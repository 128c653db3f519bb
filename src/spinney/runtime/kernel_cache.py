"""Compiled kernels on disk, kept under a key made of everything that shapes them.

Numba keys the machine code of a kernel by the file that the kernel is in. A change in
another file, which the kernel calls or takes a constant from, leaves the old machine
code in use, and so does an upgrade that touches only such a file. Here the key is a
digest of the *content* of all kernel sources (and of the modules of spinney that they
import), of the versions of spinney, Numba, llvmlite, NumPy and Python; Numba adds the
processor. So kernels may import one another freely, and stale machine code is never
found.

A cache that cannot be read or written costs time and nothing else: the kernel is then
compiled in memory.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from spinney._version import __version__

PACKAGE = Path(__file__).parents[1]
# Folders of other versions that stay, the last used ones: to go back and forth between
# two versions does not compile everything each time.
KEPT_VERSIONS = 4

_DECORATOR = re.compile(r"^from spinney\.runtime\.kernel_cache import", re.MULTILINE)
# Imports inside a function bring nothing into a kernel.
_IMPORT = re.compile(r"^(?:from|import) (spinney[\w.]*)", re.MULTILINE)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function on first use, and keep the machine code on disk.

    Parameters
    ----------
    function : callable
        What Numba can compile. It runs without Python's global lock.
    """
    dispatcher = numba.njit(nogil=True)(function)
    if hasattr(dispatcher, "_cache"):  # not with NUMBA_DISABLE_JIT
        dispatcher._cache = KernelCache(function)
    return dispatcher


class KernelCache(FunctionCache):
    """The machine code of one kernel on disk.

    Parameters
    ----------
    function : callable
        The kernel as plain Python.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        # Nothing is read before the kernel is called: importing spinney stays quick.
        self._function = function
        self._is_open = False
        self.enable()

    def _open(self) -> None:
        if not self._is_open:
            self._impl_class = _KernelFiles
            super().__init__(self._function)
            self._is_open = True

    @property
    def cache_path(self) -> str:
        """The folder that the machine code is kept in."""
        return str(cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature, None if there is none to be had."""
        try:
            self._open()
            return super().load_overload(sig, target_context)
        except Exception:  # damaged, half-written, or of a Numba that writes otherwise
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature, if that is possible."""
        try:
            self._open()
            super().save_overload(sig, data)
        except Exception:  # a full disk, a folder that is not ours: compiled in memory
            return


class _Locator(_CacheLocator):
    """Tells Numba where a kernel belongs."""

    def __init__(self, py_func: Callable[..., Any]) -> None:
        self._module = py_func.__module__

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return self._module  # all kernels lie in one folder

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func)


class _KernelFiles(CompileResultCacheImpl):
    _locator_classes: list[Any] = [_Locator]  # noqa: RUF012


@cache
def source_digest() -> str:
    """Return a digest of all that the machine code of kernels depends on."""
    digest = hashlib.sha256()
    versions = (
        __version__,
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        sys.version,
        platform.machine(),
    )
    digest.update(repr(versions).encode())
    for name, source in sorted(kernel_sources().items()):
        digest.update(repr((name, len(source))).encode())
        digest.update(source)
    return digest.hexdigest()[:32]


def kernel_sources() -> dict[str, bytes]:
    """Return the sources of all modules with kernels, and of what they import.

    Constants of a module that a kernel imports are part of its machine code.
    """
    texts = {path: path.read_bytes() for path in PACKAGE.rglob("*.py")}
    wanted = {
        path
        for path, source in texts.items()
        if _DECORATOR.search(source.decode("utf-8"))
    }
    waiting = list(wanted)
    while waiting:
        for path in _imported(texts[waiting.pop()].decode("utf-8")):
            if path in texts and path not in wanted:
                wanted.add(path)
                waiting.append(path)
    return {path.relative_to(PACKAGE).as_posix(): texts[path] for path in wanted}


def _imported(source: str) -> Iterator[Path]:
    """Yield the files that the modules named in the imports of a source may be in."""
    for name in _IMPORT.findall(source):
        module = PACKAGE.parent.joinpath(*name.split("."))
        yield module.with_suffix(".py")
        yield module / "__init__.py"


@cache
def cache_folder() -> Path:
    """Return the folder for the machine code of these sources.

    It is in ``SPINNEY_CACHE_DIR`` or ``NUMBA_CACHE_DIR`` if one of them is set, else
    beside the package if that can be written to, else in the user's cache.
    """
    for name in ("SPINNEY_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if os.environ.get(name):
            return _ours(Path(os.environ[name]))
    beside = PACKAGE / "__pycache__" / "kernels"
    if (beside / source_digest()).is_dir() or _can_write(beside):
        return _ours(beside)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return _ours(Path(home) / "spinney" / "kernels")


def _ours(parent: Path) -> Path:
    """Return the folder for these sources below `parent`; remove older ones there."""
    folder = parent / source_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        others = [other for other in parent.iterdir() if other != folder]
        others = [other for other in others if re.fullmatch("[0-9a-f]{32}", other.name)]
        others.sort(key=lambda other: other.stat().st_mtime)
        for other in others[: max(0, len(others) - KEPT_VERSIONS)]:
            shutil.rmtree(other, ignore_errors=True)
    except OSError:  # read-only: what is there is still read
        pass
    return folder


def _can_write(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made first."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
