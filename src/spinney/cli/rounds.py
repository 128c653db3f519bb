"""Time several engines in turn, so that what disturbs one disturbs them all."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

# A sample lasts at least this long; shorter calls are repeated within it.
SAMPLE_SECONDS = 0.005
MOST_CALLS = 2_000
# Each one gets so many samples in any case, and no more than so many.
FEWEST_SAMPLES = 3
MOST_SAMPLES = 200


class Runner:
    """Something to be timed.

    Parameters
    ----------
    ask : callable
        What is called.
    inputs : sequence
        What it is called with, in turn.
    """

    def __init__(self, ask: Callable[[Any], Any], inputs: Sequence[Any]) -> None:
        self._ask = ask
        self._inputs = itertools.cycle(inputs)
        self.samples: list[float] = []
        self.spent = 0.0
        self._seconds(1)  # a first call may load or lay out something
        once = max(min(self._seconds(1) for _ in range(5)), 1e-9)
        self._n_calls = min(math.ceil(SAMPLE_SECONDS / once), MOST_CALLS)

    def sample(self) -> None:
        """Add the mean time of some calls in a row."""
        # The one before has taken over the caches; short calls would pay for that.
        begin = time.perf_counter()
        self._seconds(self._n_calls // 10)
        seconds = self._seconds(self._n_calls)
        self.spent += time.perf_counter() - begin
        self.samples.append(seconds / self._n_calls)

    def _seconds(self, n_calls: int) -> float:
        ask = self._ask
        inputs = [next(self._inputs) for _ in range(n_calls)]
        begin = time.perf_counter()
        for given in inputs:
            ask(given)
        return time.perf_counter() - begin

    @property
    def median(self) -> float:
        """Seconds of a call."""
        return statistics.median(self.samples)


def run_in_turn(
    runners: Sequence[Runner],
    seconds: float,
    on_round: Callable[[float], None] = lambda share: None,
) -> None:
    """Sample all runners round after round, in a new order each time.

    Parameters
    ----------
    runners : sequence of Runner
        Their samples are filled.
    seconds : float
        Time for all of them together. Each has an equal share; one that has used up
        its own sits out the other rounds.
    on_round : callable
        Is told after each round how much of the time has gone.
    """
    shuffle = random.Random(0).shuffle
    share = seconds / max(len(runners), 1)
    while True:
        active = [
            one
            for one in runners
            if len(one.samples) < FEWEST_SAMPLES
            or (len(one.samples) < MOST_SAMPLES and one.spent < share)
        ]
        if not active:
            return
        shuffle(active)
        for one in active:
            one.sample()
        on_round(min(sum(one.spent for one in runners) / max(seconds, 1e-9), 1.0))
