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
import pickle
import platform
import re
import secrets
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
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from spinney._version import __version__

PACKAGE = Path(__file__).parents[1]
# Folders of other versions that stay, the last used ones: to go back and forth between
# two versions does not compile everything each time.
KEPT_VERSIONS = 4

_CHECKSUM_BYTES = hashlib.sha256().digest_size
_DECORATOR = re.compile(r"^from spinney\.runtime\.kernel_cache import", re.MULTILINE)
# Imports inside a function bring nothing into a kernel.
_IMPORT = re.compile(
    r"^(?:from|import) (spinney[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE
)


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
    """The machine code of one kernel on disk, a file for each signature.

    Numba numbers such files and lists them in an index. Two processes that compile at
    once can then both take the same number, and one signature is answered with the
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
        """The folder that the machine code is kept in."""
        return str(cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for a signature, None if there is none to be had."""
        try:
            target_context.refresh()
            key = self._index_key(sig, target_context.codegen())
            content = self._file_of(key).read_bytes()
            checksum, body = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
            if hashlib.sha256(body).digest() != checksum:
                return None
            stored_key, parts = pickle.loads(body)
            if stored_key != key:
                return None
            return CompileResult._rebuild(target_context, *parts)
        except Exception:  # not there, not ours to read, of a Numba that differs
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature, if that is possible."""
        try:
            if data.lifted or data.library.has_dynamic_globals:
                return  # it holds addresses of this process
            key = self._index_key(sig, data.codegen)
            body = dumps((key, data._reduce()))
            _write_whole(self._file_of(key), hashlib.sha256(body).digest() + body)
        except Exception:  # a full disk, a folder that is not ours: compiled in memory
            return

    def flush(self) -> None:
        """Forget the machine code for all signatures."""
        for path in cache_folder().glob(f"{self._name}-*.nbc"):
            path.unlink(missing_ok=True)

    def _file_of(self, key: Any) -> Path:
        which = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return cache_folder() / f"{self._name}-{which}.nbc"


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file of which no process ever sees a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


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
    for module, names in _IMPORT.findall(source):
        folder = PACKAGE.parent.joinpath(*module.split("."))
        # What is imported from a package may be a module of it.
        for path in (folder, *(folder / name for name in re.findall(r"\w+", names))):
            yield path.with_suffix(".py")
            yield path / "__init__.py"


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
