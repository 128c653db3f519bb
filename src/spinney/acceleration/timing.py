"""Time several things in turn, so that what disturbs one disturbs them all.

What is timed are compiled kernels, if they can be had: they are what
is used in the long run.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from spinney.forest.frames import frame_of, rows_at
from spinney.runtime.choice import kernels_at_once

# A sample lasts at least this long; shorter calls are repeated within it.
SAMPLE_SECONDS = 0.005
MOST_CALLS = 2_000
# Calls longer than this do not notice that another one had the caches before.
LONG_CALL_SECONDS = 0.05

# How `microseconds_per_row` measures: rows of a batch, single rows, samples.
BATCH = 10_000
SINGLE_ROWS = 200
ROUNDS = 5


class Timer:
    """Something to be timed, again and again.

    Parameters
    ----------
    call : callable
        What is timed.
    inputs : sequence
        What it is called with, in turn; several, so that caches do not see the same
        one over and over.
    n_calls : int, default=None
        Calls that make a sample; None takes as many as last `SAMPLE_SECONDS`.
    pause : float, default=0.0
        Seconds to wait before a sample. Threads of what ran before may still be
        waiting for work in a busy loop; after some milliseconds they sleep.
    """

    def __init__(
        self,
        call: Callable[[Any], Any],
        inputs: Sequence[Any],
        *,
        n_calls: int | None = None,
        pause: float = 0.0,
    ) -> None:
        self._call = call
        self._inputs = itertools.cycle(inputs)
        self._pause = pause
        self.samples: list[float] = []
        self.spent = 0.0
        # The first call may load, compile or lay out something.
        self._seconds(1)
        self._once = self._seconds(1) if n_calls is None else math.inf
        if self._once < SAMPLE_SECONDS:
            self._once = max(min(self._seconds(1) for _ in range(4)), 1e-9)
        self.n_calls = n_calls or min(
            math.ceil(SAMPLE_SECONDS / self._once), MOST_CALLS
        )

    def sample(self) -> None:
        """Add the mean time of some calls in a row."""
        begin = time.perf_counter()
        if self._pause:
            time.sleep(self._pause)
        # What ran before has taken over the caches; short calls would pay for that.
        self._seconds(self.n_calls // 10 or int(self._once < LONG_CALL_SECONDS))
        self.samples.append(self._seconds(self.n_calls) / self.n_calls)
        self.spent += time.perf_counter() - begin

    def _seconds(self, n_calls: int) -> float:
        call = self._call
        inputs = list(itertools.islice(self._inputs, n_calls))
        with kernels_at_once():
            begin = time.perf_counter()
            for given in inputs:
                call(given)
            return time.perf_counter() - begin

    @property
    def median(self) -> float:
        """Seconds of a call, in the middle of all samples."""
        return statistics.median(self.samples)

    @property
    def shortest(self) -> float:
        """Seconds of a call when nothing else disturbed it."""
        return min(self.samples)


def run_in_turn(
    timers: Sequence[Timer],
    seconds: float,
    *,
    min_samples: int = 3,
    max_samples: int = 100,
    on_round: Callable[[float], None] = lambda share: None,
) -> None:
    """Sample all timers round after round, in a new order each time.

    Parameters
    ----------
    timers : sequence of Timer
        Their samples are filled.
    seconds : float
        Time for all of them together. Each has an equal share; one that has used up
        its own sits out the other rounds.
    min_samples, max_samples : int
        Number of samples that each one gets in any case, and at most.
    on_round : callable
        Is told after each round how much of the time has gone.
    """
    shuffle = random.Random(0).shuffle
    share = seconds / max(len(timers), 1)
    while True:
        active = [
            one
            for one in timers
            if len(one.samples) < min_samples
            or (len(one.samples) < max_samples and one.spent < share)
        ]
        if not active:
            return
        shuffle(active)
        for one in active:
            one.sample()
        on_round(min(sum(one.spent for one in timers) / max(seconds, 1e-9), 1.0))


def microseconds_per_row(
    classifiers: Sequence[Any], X: Any
) -> list[tuple[float, float]]:
    """Return the shortest times per row of classifiers of the same model.

    Parameters
    ----------
    classifiers : sequence of fitted classifiers
        Measured in turn.
    X : array-like of shape (n_rows, n_features)
        Rows, at least one.

    Returns
    -------
    times : list of (float, float)
        For each classifier: per row of a large batch, and for a single row.
    """
    n_rows = _num_samples(X)
    # Repeated if there are fewer: a batch of a few thousand is mostly overhead.
    batch = rows_at(X, np.resize(np.arange(min(n_rows, BATCH)), BATCH))
    batches = [Timer(one.predict, [batch], n_calls=1) for one in classifiers]
    rows = rows_for_predictor(classifiers[0], X, SINGLE_ROWS)
    if rows is not None:
        singles = [
            Timer(one.predictor(), list(rows), n_calls=len(rows)) for one in classifiers
        ]
    else:
        # Steps before the model cost the most then; they are part of the prediction.
        few = [rows_at(X, [k]) for k in range(min(n_rows, SINGLE_ROWS // 10))]
        singles = [Timer(one.predict, few, n_calls=len(few)) for one in classifiers]
    run_in_turn(batches + singles, 0.0, min_samples=ROUNDS)
    return [
        (1e6 * many.shortest / BATCH, 1e6 * alone.shortest)
        for many, alone in zip(batches, singles, strict=True)
    ]


def rows_for_predictor(
    classifier: Any, X: Any, n_rows: int
) -> NDArray[np.floating] | list[list[Any]] | None:
    """Return the first rows as ``predictor()`` takes them.

    Parameters
    ----------
    classifier : fitted classifier of spinney
        Whose rows they are.
    X : array-like of shape (n_rows, n_features)
        Rows as users have them.
    n_rows : int
        Number of rows to return, if there are so many.

    Returns
    -------
    rows : ndarray of shape (n_rows, n_features), list or None
        Converted; lists of values, if the model encodes category values; None if steps
        before the model have to be taken first, which ``predictor()`` leaves out.
    """
    if classifier.has_preprocessing:
        return None
    few = rows_at(X, np.arange(min(n_rows, _num_samples(X))))
    if classifier.forest_.encoder is not None:
        frame = frame_of(few)
        if frame is not None:
            return frame.values()
        values: list[list[Any]] = np.array(few, dtype=object).tolist()
        return values
    rows: NDArray[np.floating] = classifier.forest_.engine.rows(few)
    return rows
