"""A digest of all that the machine code of kernels depends on, except the processor.

Numba looks at the one file that a kernel is in. Here the *content* of all kernel
sources counts, and that of the modules of spinney that they import, and all versions.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import platform
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from spinney._version import __version__
from spinney.runtime.compiler import config, llvmlite, numba

PACKAGE = Path(__file__).parents[1]

# At the beginning of a line. A pattern would take ten times as long.
_DECORATOR = b"\nfrom spinney.runtime.kernel_cache import"
# Imports inside a function bring nothing into a kernel.
_IMPORT = re.compile(
    r"^(?:from|import) (spinney[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE
)


@cache
def source_digest() -> str:
    """Return a digest of all sources and versions that shape the machine code."""
    digest = hashlib.sha256()
    versions = (
        __version__,
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        platform.python_version(),
        # Tells free-threaded and debug builds apart, but not two builds of the same
        # version: machine code may come in a wheel, or from another image.
        importlib.machinery.EXTENSION_SUFFIXES,
        platform.machine(),
        # Machine code that calls Intel's vector functions needs them again.
        bool(config.USING_SVML),  # type: ignore[attr-defined]
    )
    digest.update(repr(versions).encode())
    sources = kernel_sources()
    if not sources:  # installed without its sources: what has changed cannot be told
        msg = f"there are no sources of kernels in {PACKAGE}"
        raise FileNotFoundError(msg)
    for name, source in sorted(sources.items()):
        digest.update(repr((name, len(source))).encode())
        digest.update(source)
    return digest.hexdigest()[:32]


def kernel_sources() -> dict[str, bytes]:
    """Return the sources of all modules with kernels, and of what they import.

    Constants of a module that a kernel imports are part of its machine code.
    """
    texts = {path: path.read_bytes() for path in PACKAGE.rglob("*.py")}
    wanted = {path for path, source in texts.items() if _DECORATOR in source}
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
