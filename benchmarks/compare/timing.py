"""Time several engines in turn, so that what disturbs one disturbs them all."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# A sample lasts at least this long; shorter calls are repeated within it.
SAMPLE_SECONDS = 0.005
MAX_CALLS_PER_SAMPLE = 2_000

# Threads of the engine that was asked before may still be waiting for work in a busy
# loop; after this pause they sleep.
PAUSE_SECONDS = 0.003

# Calls longer than this do not notice whether another one came before.
LONG_CALL_SECONDS = 0.05


@dataclass
class Contestant:
    """An engine ready for one batch size and one number of threads.

    Parameters
    ----------
    ask : callable
        The function that is timed.
    batches : sequence
        What it is asked, in turn; several, so that caches do not see the same rows
        again and again.
    n_rows : int
        Number of rows of a batch.
    """

    ask: Callable[[Any], Any]
    batches: Sequence[Any]
    n_rows: int
    n_calls: int = 1
    call_seconds: float = 0.0
    spent: float = 0.0
    samples: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._turn = itertools.cycle(self.batches)

    def calibrate(self) -> None:
        """Call once to warm up, and find out how many calls make a sample."""
        self.ask(next(self._turn))
        self.call_seconds = self._timed(1)
        if self.call_seconds < SAMPLE_SECONDS:
            self.call_seconds = self._timed(3) / 3
        wanted = math.ceil(SAMPLE_SECONDS / max(self.call_seconds, 1e-9))
        self.n_calls = min(max(wanted, 1), MAX_CALLS_PER_SAMPLE)

    def sample(self) -> None:
        """Add one sample: the mean of `n_calls` calls in a row."""
        started = time.perf_counter()
        time.sleep(PAUSE_SECONDS)
        if self.call_seconds < LONG_CALL_SECONDS:
            self.ask(next(self._turn))
        self.samples.append(self._timed(self.n_calls) / self.n_calls)
        self.spent += time.perf_counter() - started

    def _timed(self, n_calls: int) -> float:
        ask = self.ask
        batches = [next(self._turn) for _ in range(n_calls)]
        started = time.perf_counter()
        for batch in batches:
            ask(batch)
        return time.perf_counter() - started

    def to_dict(self) -> dict[str, Any]:
        """Return microseconds per call (not per row) and how they were found."""
        ordered = sorted(self.samples)
        return {
            "rows": self.n_rows,
            "median_us": 1e6 * _quantile(ordered, 0.5),
            "min_us": 1e6 * ordered[0],
            "p95_us": 1e6 * _quantile(ordered, 0.95),
            "samples": len(ordered),
            "calls_per_sample": self.n_calls,
        }


def run_in_turn(
    contestants: dict[str, Contestant],
    seconds: float,
    *,
    min_samples: int = 3,
    max_samples: int = 100,
    seed: int = 0,
) -> None:
    """Sample all contestants round after round, in a new order each time.

    Parameters
    ----------
    contestants : dict of str to Contestant
        Calibrated; their samples are filled.
    seconds : float
        Time for all of them together. Each has an equal share; one that has used up
        its share and has `min_samples` samples sits out the other rounds.
    min_samples, max_samples : int
        Number of samples that each one gets in any case, and at most.
    seed : int
        Seed of the order.
    """
    if not contestants:
        return
    order = list(contestants.values())
    share = seconds / len(order)
    shuffle = random.Random(seed).shuffle
    while True:
        active = [
            one
            for one in order
            if len(one.samples) < min_samples
            or (len(one.samples) < max_samples and one.spent < share)
        ]
        if not active:
            return
        shuffle(active)
        for one in active:
            one.sample()


def _quantile(ordered: list[float], share: float) -> float:
    """Return a quantile of sorted numbers, between two of them where necessary."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
