"""Time engines in turn, each on batches of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spinney.acceleration.timing import Timer, run_in_turn

__all__ = ["EngineTimer", "run_in_turn"]

# Threads of the engine that ran before may still be waiting for work in a busy loop;
# after this pause they sleep.
PAUSE_SECONDS = 0.003


class EngineTimer(Timer):
    """An engine ready for one batch size and one number of threads.

    Parameters
    ----------
    predict : callable
        The function that is timed.
    batches : sequence
        What it is given, in turn.
    n_rows : int
        Number of rows of a batch.
    """

    def __init__(
        self, predict: Callable[[Any], Any], batches: Sequence[Any], n_rows: int
    ) -> None:
        super().__init__(predict, batches, pause=PAUSE_SECONDS)
        self.n_rows = n_rows

    def to_dict(self) -> dict[str, Any]:
        """Return microseconds per call (not per row) and how they were found."""
        median, tail = np.quantile(self.samples, (0.5, 0.95))
        return {
            "rows": self.n_rows,
            "median_us": 1e6 * float(median),
            "min_us": 1e6 * self.shortest,
            "p95_us": 1e6 * float(tail),
            "samples": len(self.samples),
            "calls_per_sample": self.n_calls,
        }
