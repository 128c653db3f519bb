"""The C compiler of this machine, and what it makes loaded into this process."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from spinney.errors import SpinneyError

COMPILERS = ("cc", "gcc", "clang", "tcc")
FLAGS = ("-std=c99", "-O2", "-shared", "-fPIC")
SHOWN = 500  # characters of what a compiler complains about

Loaded = tuple[ctypes.CDLL, Callable[[Any], int] | None]


class CompilerError(SpinneyError, RuntimeError):
    """There is no C compiler, or it did not compile what it was given."""


def find_compiler() -> list[str]:
    """Return the command of a C compiler, or raise.

    Returns
    -------
    command : list of str
        What CC says, or the first of the usual names that is there.
    """
    named = os.environ.get("CC", "").split()
    if named:
        if shutil.which(named[0]) is None:
            msg = f"CC names the C compiler {named[0]!r}, which was not found."
            raise CompilerError(msg)
        return named
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    msg = (
        f"spinney.compile needs a C compiler, and none of {', '.join(COMPILERS)} was "
        "found. Install one (gcc on Debian and Ubuntu: apt-get install gcc), or name "
        "one in the environment variable CC. Without one, use predictor() for single "
        "rows."
    )
    raise CompilerError(msg)


def build(name: str, files: dict[str, str], needs_math: bool) -> Loaded:
    """Compile files into a shared library and load it, as an extension if possible.

    The headers of Python are not everywhere; without them, ctypes calls the library.

    Parameters
    ----------
    name : str
        Name of the library.
    files : dict of str
        Text by name; ``extension.c`` is for Python's headers.
    needs_math : bool
        Whether the C library's exponential is needed.

    Returns
    -------
    library : ctypes.CDLL
        The library.
    answer_row : callable or None
        The function of the extension; None if the library is none.
    """
    command = find_compiler()
    try:
        # The loaded library stays in memory when its file is gone.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            for file, text in files.items():
                Path(folder, file).write_text(text, encoding="ascii")
            return _compiled(command, name, list(files), needs_math, Path(folder))
    except OSError as error:
        reason = error.strerror or str(error)
        msg = (
            "spinney.compile needs a folder for temporary files, and could not write "
            f"to {tempfile.tempdir or 'any'}: {reason}. Name another one in the "
            "environment variable TMPDIR, before Python starts."
        )
        raise CompilerError(msg) from error


def _compiled(
    command: list[str], name: str, files: list[str], needs_math: bool, folder: Path
) -> Loaded:
    """Compile the files of a folder and load what comes out."""
    include = sysconfig.get_paths()["include"]
    has_headers = Path(include, "Python.h").is_file() and os.name == "posix"
    ending = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    plain = [file for file in files if file.endswith(".c") and file != "extension.c"]
    attempts = [plain]
    if "extension.c" in files and has_headers:
        attempts.insert(0, [*plain, "extension.c"])
    shown, msg = " ".join(command), ""
    for sources in attempts:
        # Two libraries of one path would be taken for one.
        library = folder / f"{name}{len(sources)}{ending}"
        done = subprocess.run(
            [
                *(*command, *FLAGS, f"-I{include}", "-o", str(library)),
                *(*sources, *(["-lm"] if needs_math else [])),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            msg = (
                f"{shown} did not compile the model, exit code {done.returncode}: "
                f"{done.stderr.strip()[:SHOWN]}"
            )
            continue
        try:
            answer = None
            if "extension.c" in sources:
                answer = _load_extension(name, library)
            return ctypes.CDLL(str(library)), answer
        except (ImportError, OSError) as error:
            msg = (
                f"The library that {shown} compiled does not load here: {error}. "
                "Either the compiler targets another processor, or nothing may be "
                f"executed in {str(folder.parent)!r}: name another compiler in the "
                "environment variable CC, or another folder in TMPDIR, before Python "
                "starts."
            )
    raise CompilerError(msg)


def _load_extension(name: str, library: Path) -> Callable[[Any], int]:
    """Return the function of a library that takes an array."""
    loader = ExtensionFileLoader(name, str(library))
    spec = spec_from_file_location(name, str(library), loader=loader)
    assert spec is not None
    answer: Callable[[Any], int] = module_from_spec(spec).answer_row
    return answer
