"""Rows shared out: among threads, and into slices that an interrupt can come between.

While a kernel runs, Python hears nothing of Ctrl-C. So a thread hands its rows to the
kernel in slices of a fraction of a second. If one thread is interrupted, or fails, the
others stop after their slice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from time import perf_counter

import numpy as np
from joblib import effective_n_jobs

from spinney.errors import InvalidArgumentError

# Fewer rows than this are not worth handing to a second thread.
MIN_ROWS_PER_THREAD = 256

# How long a slice should take. The first one is made by a guess at how long a deep tree
# takes for a row, which most trees stay far below, later ones by how long the last one
# took.
SLICE_SECONDS = 0.1
DEEP_TREE_SECONDS = 20e-9
# Slices are whole blocks of rows, so that a slice is no worse to bitslice.
LEAST_SLICE, BLOCK = 512, 16_384

Evaluate = Callable[[int, int], None]


def threads_for(n_rows: int, n_jobs: int | None) -> int:
    """Return how many threads are worth starting for so many rows."""
    if n_jobs is None or n_jobs == 1:
        return 1
    if n_jobs == 0:
        msg = "n_jobs must be None or 1 for one thread, or -1 for all cores; got 0."
        raise InvalidArgumentError(msg)
    return max(1, min(effective_n_jobs(n_jobs), n_rows // MIN_ROWS_PER_THREAD))


def in_threads(evaluate: Evaluate, n_rows: int, n_threads: int) -> None:
    """Call `evaluate(start, end)` on as many shares of the rows as threads."""
    if n_rows == 0:
        return
    if n_threads == 1:
        evaluate(0, n_rows)
        return
    # Shares of whole words of rows, so that a share is no worse to bitslice.
    bounds = np.linspace(0, n_rows, n_threads + 1).astype(int)
    bounds[1:-1] = bounds[1:-1] // 64 * 64
    shares = [(int(start), int(end)) for start, end in pairwise(bounds)]
    others = [_thread_pool().submit(evaluate, *share) for share in shares[1:]]
    try:
        evaluate(*shares[0])
    finally:
        wait(others)  # they write into memory of this call
    for other in others:
        other.result()


def in_slices(evaluate: Evaluate, n_trees: int) -> Evaluate:
    """Return `evaluate` such that it is called on slices of the rows it is given.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(start, end)`` evaluates these rows, each by itself.
    n_trees : int
        Number of trees that a row takes at the most.
    """
    first = int(SLICE_SECONDS / (DEEP_TREE_SECONDS * max(1, n_trees)))
    first = max(LEAST_SLICE, first // LEAST_SLICE * LEAST_SLICE)
    stopped = threading.Event()  # for all threads of one call

    def sliced(start: int, end: int) -> None:
        size = first
        try:
            while start < end and not stopped.is_set():
                # A few rows more are no reason for another call.
                stop = end if end - start < 1.5 * size else start + size
                began = perf_counter()
                evaluate(start, stop)
                size = _next_size(size, perf_counter() - began)
                start = stop
        except BaseException:
            stopped.set()
            raise

    return sliced


def _next_size(size: int, seconds: float) -> int:
    """Return the size of the next slice, after one of `size` took so long."""
    factor = SLICE_SECONDS / max(seconds, SLICE_SECONDS / 64)
    wanted = int(size * factor)
    unit = BLOCK if wanted >= BLOCK else LEAST_SLICE
    return max(LEAST_SLICE, wanted // unit * unit)


@cache
def _thread_pool() -> ThreadPoolExecutor:
    """Return the threads that all forests share; starting new ones takes too long."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="spinney")


if hasattr(os, "register_at_fork"):  # threads do not follow into a forked process
    os.register_at_fork(after_in_child=_thread_pool.cache_clear)
