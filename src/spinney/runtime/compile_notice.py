"""Notices about compilation: that it is running, and that its result is not kept.

A process that compiles for more than two seconds says so once on standard error, if a
person is likely to read it. If compiled kernels cannot be kept, every later
process compiles them again: one warning says so, and how to avoid it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from spinney.errors import SpinneyWarning
from spinney.runtime.kernel_folders import folder_to_write, folders_to_read

PATIENCE_SECONDS = 2.0

_NO_FOLDER = (
    "no folder for compiled kernels is writable",
    "Set SPINNEY_CACHE_DIR to a folder that can be written to, or compile ahead with "
    "spinney.warm_up() while the folder beside the package can be.",
)
_NO_SOURCES = (
    "the source files of spinney, for which they are named, cannot be read",
    "Install spinney with its .py files, and not inside an archive.",
)


class _Notice:
    """How long this process has compiled, and what has been said about it."""

    def __init__(self) -> None:
        self.depth = 0  # kernels that are being compiled, one within another
        self.started = 0.0
        self.seconds = 0.0
        self.timer: threading.Timer | None = None
        self.has_told_slow = False
        self.has_told_lost = False


_notice = _Notice()


def begin(name: str) -> None:
    """Note that a kernel is being compiled. Numba compiles one at a time."""
    _notice.depth += 1
    if _notice.depth > 1:
        return
    _notice.started = time.monotonic()
    if _notice.has_told_slow or not _is_interactive():
        return
    patience = max(0.0, PATIENCE_SECONDS - _notice.seconds)
    _notice.timer = threading.Timer(patience, _tell_slow, [name])
    _notice.timer.daemon = True
    _notice.timer.start()


def end() -> None:
    """Note that the kernel of the last `begin` is compiled."""
    _notice.depth = max(0, _notice.depth - 1)
    if _notice.depth:
        return
    _notice.seconds += time.monotonic() - _notice.started
    if _notice.timer is not None:
        _notice.timer.cancel()
        _notice.timer = None


@contextmanager
def not_mentioned() -> Iterator[None]:
    """Say nothing of slow compilation meanwhile: the caller has said so already."""
    before = _notice.has_told_slow
    _notice.has_told_slow = True
    try:
        yield
    finally:
        _notice.has_told_slow = before


def not_kept(reason: str | None = None) -> None:
    """Warn, once, that what was compiled is lost when the process ends.

    Parameters
    ----------
    reason : str or None, default=None
        Why it could not be kept. None means that there is no folder for it.
    """
    if _notice.has_told_lost:
        return
    _notice.has_told_lost = True
    without_folder, how_to_avoid = _why_and_how_to_avoid()
    msg = (
        f"Compiled kernels cannot be kept ({reason or without_folder}): every process "
        f"compiles them again. {how_to_avoid}"
    )
    # Not an error, even for those who make errors of warnings: the kernel is compiled,
    # and an exception amid Numba's compilation would be taken for a fault in it.
    with suppress(SpinneyWarning):
        warnings.warn(msg, SpinneyWarning, stacklevel=2)


def anything_is_lost() -> bool:
    """Whether something that this process has compiled could not be kept."""
    return _notice.has_told_lost


def _why_and_how_to_avoid() -> tuple[str, str]:
    """Return why there is no folder for compiled kernels, and what to do."""
    return _NO_FOLDER if folders_to_read() else _NO_SOURCES


def _is_interactive() -> bool:
    """Whether a person is likely to read standard error."""
    try:
        return hasattr(sys, "ps1") or sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _tell_slow(name: str) -> None:
    """Say that kernels are being compiled, how long it takes, and where they stay."""
    _notice.has_told_slow = True
    folder = folder_to_write()
    if folder is None:
        kept = "It cannot be kept for the next time. " + _why_and_how_to_avoid()[1]
    else:
        kept = f"It is kept in {folder}, so the next process starts at once."
    text = (
        f"spinney: compiling {name} for this processor; the first use of each kind of "
        "model takes about 3 to 15 seconds."
    )
    # Whole words on the lines of a terminal; a path is not broken, to be copied.
    width = shutil.get_terminal_size().columns
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{textwrap.fill(text, width)}\n{kept}\n")
        sys.stderr.flush()
