"""One process compiles a kernel; others that want the same wait for it.

When a hundred workers start at once, all of them lack the same kernels. The system's
lock on a file beside the machine code lets one of them compile. It is gone when its
process is, however that ends, so there is no lock of a dead process to be found. Where
files cannot be locked (a network drive, a read-only folder), and where the other one
takes too long, every process compiles for itself: that costs time and nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

# Far longer than any kernel takes to compile, even on a busy machine.
WAIT_SECONDS = 120.0
SUFFIX = ".lock"

# Locks that this process holds. Numba compiles one kernel at a time.
_held: list[tuple[int, Path]] = []


def wait_for_turn(path: Path, is_there: Callable[[], bool]) -> None:
    """Return when this process may compile, or need not any more.

    Parameters
    ----------
    path : Path
        File that the machine code is going to be in.
    is_there : callable
        Whether another process has finished it.
    """
    if fcntl is None:
        return
    lock = path.with_name(path.name + SUFFIX)
    if any(held == lock for _, held in _held):
        return  # compiling it has failed before, and is tried again
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:
        return
    end = time.monotonic() + WAIT_SECONDS
    pause = 0.01
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not is_there() and time.monotonic() < end:
                time.sleep(pause)
                pause = min(0.1, 1.5 * pause)
                continue
            os.close(descriptor)
        except OSError:  # nothing can be locked on this file system
            os.close(descriptor)
        else:
            _held.append((descriptor, lock))
        return


def release() -> None:
    """Let others compile what this process has compiled, or has failed to."""
    while _held:
        descriptor, lock = _held.pop()
        # Whoever waits has the file open and looks for machine code before compiling.
        with suppress(OSError):
            lock.unlink()
        os.close(descriptor)


def _forget() -> None:
    """Leave locks to the parent of a process that was forked while it compiled."""
    while _held:
        os.close(_held.pop()[0])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
