"""Closed-loop load: every thread sends its next row when the last one is predicted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Short calls do not look at the clock each time.
CALLS_PER_LOOK = 16

QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


@dataclass
class Latencies:
    """What was measured of one engine with one number of threads, round after round.

    Parameters
    ----------
    nanoseconds : list of ndarray
        Of each call.
    rows : list of ndarray
        Which row each call was for.
    seconds : float
        By the clock, over all rounds.
    """

    nanoseconds: list[NDArray[np.int64]] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def all(self) -> NDArray[np.int64]:
        """Nanoseconds of all calls."""
        return np.concatenate(self.nanoseconds)

    def to_dict(self) -> dict[str, Any]:
        """Return quantiles in microseconds, and rows per second."""
        calls = self.all
        found = np.quantile(calls, list(QUANTILES.values())) / 1000.0
        return {
            "calls": len(calls),
            "rows_per_second": len(calls) / self.seconds,
            **{
                name: round(float(value), 3)
                for name, value in zip(QUANTILES, found, strict=True)
            },
        }


def run_round(
    predicts: Sequence[Callable[[Any], Any]],
    rows: Sequence[Any],
    seconds: float,
    into: Latencies,
) -> None:
    """Let threads call for some time, and add what they measured.

    Parameters
    ----------
    predicts : sequence of callables
        What each thread calls; as many as there are threads.
    rows : sequence
        What it is called with. Threads begin at different rows and take all in turn.
    seconds : float
        How long.
    into : Latencies
        Added to.
    """
    n_threads = len(predicts)
    begun = threading.Barrier(n_threads + 1)
    found: list[tuple[list[int], int]] = [([], 0)] * n_threads
    errors: list[BaseException] = []

    def caller(k: int) -> None:
        predict = predicts[k]
        first = k * len(rows) // n_threads
        taken: list[int] = []
        keep, clock, n_rows = taken.append, perf_counter_ns, len(rows)
        try:
            for row in rows[first : first + 3]:
                predict(row)  # nobody's first call is measured
            begun.wait()
            at, end = first, clock() + int(1e9 * seconds)
            while clock() < end:
                for _ in range(CALLS_PER_LOOK):
                    row = rows[at]
                    begin = clock()
                    predict(row)
                    keep(clock() - begin)
                    at = at + 1 if at + 1 < n_rows else 0
        except BaseException as error:
            errors.append(error)
            begun.abort()
        found[k] = taken, first

    threads = [threading.Thread(target=caller, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    with suppress(threading.BrokenBarrierError):
        begun.wait()
    started = perf_counter_ns()
    for thread in threads:
        thread.join()
    if errors:
        raise next(
            (e for e in errors if not isinstance(e, threading.BrokenBarrierError)),
            errors[0],
        )
    into.seconds += (perf_counter_ns() - started) / 1e9
    for taken, first in found:
        into.nanoseconds.append(np.array(taken, dtype=np.int64))
        into.rows.append((first + np.arange(len(taken))) % len(rows))


def by_trees(
    latencies: Latencies, n_evaluated: NDArray[np.integer], n_trees: int
) -> list[dict[str, Any]]:
    """Return latencies apart for rows that need few trees, more, and all.

    Parameters
    ----------
    latencies : Latencies
        What was measured.
    n_evaluated : ndarray of shape (n_rows,), dtype=int
        Number of trees that each row needs.
    n_trees : int
        Number of trees of the ensemble.
    """
    calls = latencies.all
    needed = np.asarray(n_evaluated)[np.concatenate(latencies.rows)]
    limits = sorted({max(1, n_trees * k // 8) for k in (1, 2, 4)} | {n_trees - 1})
    parts, low = [], 0
    for high in [*limits, n_trees]:
        chosen = calls[(needed > low) & (needed <= high)]
        if len(chosen):
            found = np.quantile(chosen, list(QUANTILES.values())) / 1000.0
            parts.append(
                {
                    "trees": [low + 1, high],
                    "share": len(chosen) / len(calls),
                    **{
                        name: round(float(value), 3)
                        for name, value in zip(QUANTILES, found, strict=True)
                    },
                }
            )
        low = high
    slowest = calls >= np.quantile(calls, QUANTILES["p99.9"])
    share = float(np.mean(needed[slowest] == n_trees))
    return [*parts, {"all_trees_among_slowest": share}]
