"""Locks that a forked process finds open.

A process is copied by a fork as it stands, but only the thread that called it goes on
in the copy. A lock that another thread held stays locked there for ever, and whoever
wants it waits for ever. So every lock that spinney makes is made anew in the copy. What
they guard is put in place in one step, so the copy never sees a part of it. The same
goes for the two locks of the compiler, which a thread holds while it loads a kernel.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from weakref import WeakSet


class ForkSafeLock:
    """A lock for ``with`` blocks that is open in a forked process."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _open_all() -> None:
    for lock in list(_locks):
        lock._lock = threading.Lock()
    # Where Numba and llvmlite have theirs, as far as is known.
    with suppress(KeyError, AttributeError):
        compiler = sys.modules["numba.core.compiler_lock"].global_compiler_lock
        compiler._lock = threading.RLock()
    with suppress(KeyError, AttributeError):
        sys.modules["llvmlite.binding.ffi"].lib._lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing is forked
    os.register_at_fork(after_in_child=_open_all)
