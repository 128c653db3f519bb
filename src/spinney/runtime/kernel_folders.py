"""Where compiled kernels are kept: folders to read from, and one to write to.

``SPINNEY_CACHE_DIR`` or ``NUMBA_CACHE_DIR``, if set, is the only place. Otherwise
kernels are read from beside the package and from the user's cache, and written to the
first of the two that can be written to. A folder that can only be read is read.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import spinney.runtime.kernel_sources as kernel_sources
from spinney.runtime.compile_lock import SUFFIX as LOCK
from spinney.runtime.kernel_sources import source_digest

# Folders of other versions that stay, the last used ones: to go back and forth between
# two versions does not compile everything each time.
KEPT_VERSIONS = 4
# Files that a process was still writing when it ended, and its locks, are removed after
# an hour.
_PARTIAL = ".partial"
# What a folder of kernels holds.
_SUFFIXES = (".nbc", ".kept", LOCK, _PARTIAL)
_ABANDONED_SECONDS = 3600.0


def chosen_folder() -> Path | None:
    """Return the folder that the environment names for compiled kernels, if any."""
    for name in ("SPINNEY_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if os.environ.get(name):
            return Path(os.environ[name])
    return None


def _parents() -> list[Path]:
    """Return the folders that kernels of all versions may be below, best first."""
    chosen = chosen_folder()
    if chosen is not None:
        return [chosen]
    # Looked up when needed: tests put another package in its place.
    parents = [kernel_sources.PACKAGE / "__pycache__" / "kernels"]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):  # not where the user's home is unknown
        parents.append(Path(home) / "spinney" / "kernels")
    return parents


@cache
def folders_to_read() -> list[Path]:
    """Return the folders that may hold machine code of these sources, best first.

    There are none if the sources cannot be read, as in a package of bytecode alone:
    nobody would notice that machine code is of others.
    """
    try:
        digest = source_digest()
    except OSError:
        return []
    return [parent / digest for parent in _parents()]


@cache
def folder_to_write() -> Path | None:
    """Return the folder that new machine code goes to, None if there is none.

    What other versions and ended processes have left behind is removed there.
    """
    for folder in folders_to_read():
        if can_write(folder):
            _clean(folder)
            return folder
    return None


def can_write(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made first."""
    probe = folder / f"{secrets.token_hex(8)}{_PARTIAL}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def write_whole(path: Path, content: bytes) -> None:
    """Write a file of which no process ever sees a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{_PARTIAL}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def _clean(folder: Path) -> None:
    """Remove older versions beside `folder`, and half-written files in it."""
    with suppress(OSError):
        os.utime(folder)
        others = [other for other in folder.parent.iterdir() if other != folder]
        others = [other for other in others if _holds_kernels(other)]
        others.sort(key=lambda other: other.stat().st_mtime)
        for other in others[: max(0, len(others) - KEPT_VERSIONS)]:
            shutil.rmtree(other, ignore_errors=True)
        for left in (*folder.glob(f"*{_PARTIAL}"), *folder.glob(f"*{LOCK}")):
            if left.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                left.unlink(missing_ok=True)


def _holds_kernels(folder: Path) -> bool:
    """Whether a folder is one of kernels: others, too, are named by such digests.

    MLflow names its runs so, and the folder that the environment names may be anything.
    """
    if re.fullmatch("[0-9a-f]{32}", folder.name) is None:
        return False
    try:
        names = os.listdir(folder)
    except OSError:  # not a folder, or not ours to read
        return False
    return bool(names) and all(name.endswith(_SUFFIXES) for name in names)
