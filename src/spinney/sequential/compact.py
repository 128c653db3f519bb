"""Stopping strategies in compact form: thresholds, and the states between them.

A state is a step `i` (votes cast) and a count `j` (those that were positive). Stop
probabilities of all states would take 800 MB for 10,001 voters; nearly all of them are
0 or 1 and change twice per step, so two thresholds and a short list say the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CompactStrategy:
    """When to stop, for every state.

    At step ``i`` with ``j`` positive votes, stop if ``j <= lower[i]``, which decides
    "negative", or ``j >= upper[i]``, which decides "positive". Between the two, stop
    with the probability listed for the state, and go on where none is listed.

    Parameters
    ----------
    lower, upper : ndarray of shape (n_voters + 1,), dtype=int64
        ``-1 <= lower[i] <= i / 2 < upper[i] <= i + 1``. At the last step every state
        stops.
    extra_start : ndarray of shape (n_voters + 2,), dtype=int64
        The listed states of step ``i`` are ``extra_start[i]`` to
        ``extra_start[i + 1]``, without the last.
    extra_count : ndarray of shape (n_extra,), dtype=int64
        Positive votes of each listed state.
    extra_stop : ndarray of shape (n_extra,), dtype=float64
        Stop probability of each listed state, above 0 and at most 1.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    extra_start: NDArray[np.int64]
    extra_count: NDArray[np.int64]
    extra_stop: NDArray[np.float64]

    def __post_init__(self) -> None:
        for array in self.arrays:
            array.setflags(write=False)

    @property
    def arrays(self) -> tuple[NDArray, ...]:
        """All arrays, in the order in which the kernels take them."""
        return (
            self.lower,
            self.upper,
            self.extra_start,
            self.extra_count,
            self.extra_stop,
        )

    @property
    def n_voters(self) -> int:
        """Number of voters."""
        return len(self.lower) - 1

    @property
    def extra_steps(self) -> NDArray[np.int64]:
        """Step of each listed state."""
        return np.repeat(np.arange(self.n_voters + 1), np.diff(self.extra_start))

    def stop_probability(self, step: int, count: int) -> float:
        """Return the probability of stopping after `step` votes, `count` positive."""
        if count <= self.lower[step] or count >= self.upper[step]:
            return 1.0
        first, last = self.extra_start[step], self.extra_start[step + 1]
        found = np.flatnonzero(self.extra_count[first:last] == count)
        return float(self.extra_stop[first + found[0]]) if len(found) else 0.0

    def without_chance(self) -> CompactStrategy:
        """Return the rule that continues wherever this one draws at random."""
        sure = self.extra_stop == 1.0
        return listed_strategy(
            self.lower,
            self.upper,
            self.extra_steps[sure],
            self.extra_count[sure],
            self.extra_stop[sure],
        )

    def mirrored(self) -> CompactStrategy:
        """Return the rule for negative and positive votes exchanged.

        It does for ``N - n`` positive voters what this one does for ``n``, except
        where a tie stops the vote: that is negative for both.
        """
        numbers = np.arange(self.n_voters + 1)
        half = numbers // 2
        tie_stops = (numbers % 2 == 0) & (self.lower == half)
        all_stop = tie_stops & (self.upper == half + 1)
        tie_stops &= ~all_stop
        lower = np.where(all_stop, half, numbers - self.upper)
        upper = np.maximum(numbers - self.lower, half + 1)
        return listed_strategy(
            lower,
            upper,
            np.append(self.extra_steps, numbers[tie_stops]),
            np.append(self.extra_steps - self.extra_count, half[tie_stops]),
            np.append(self.extra_stop, np.ones(tie_stops.sum())),
        )


def listed_strategy(
    lower: NDArray[np.int64],
    upper: NDArray[np.int64],
    steps: NDArray[np.int64],
    counts: NDArray[np.int64],
    stops: NDArray[np.float64],
) -> CompactStrategy:
    """Return the rule with these thresholds and these states listed between them."""
    order = np.lexsort((counts, steps))
    start = np.searchsorted(steps[order], np.arange(len(lower) + 1))
    return CompactStrategy(
        lower,
        upper,
        start.astype(np.int64),
        np.ascontiguousarray(counts[order], dtype=np.int64),
        np.ascontiguousarray(stops[order], dtype=np.float64),
    )


def threshold_strategy(
    lower: NDArray[np.int64], upper: NDArray[np.int64]
) -> CompactStrategy:
    """Return the rule that is two thresholds per step and nothing else."""
    none = np.zeros(0, dtype=np.int64)
    return listed_strategy(lower, upper, none, none, np.zeros(0))


def full_vote_strategy(n_voters: int) -> CompactStrategy:
    """Return the rule that always hears everybody."""
    steps = np.arange(n_voters + 1)
    lower, upper = np.full(n_voters + 1, -1), steps + 1
    lower[-1], upper[-1] = n_voters // 2, n_voters // 2 + 1
    return threshold_strategy(lower, upper)


def earliest_strategy(n_voters: int, may_stop: NDArray[np.bool_]) -> CompactStrategy:
    """Return the rule that decides as soon as it may, whatever the votes are."""
    numbers = np.arange(n_voters + 1)
    waiting = ~may_stop
    lower = np.where(waiting, -1, numbers // 2)
    upper = np.where(waiting, numbers + 1, numbers // 2 + 1)
    return threshold_strategy(lower, upper)


def certain_strategy(
    n_voters: int,
    may_stop: NDArray[np.bool_],
    possible: NDArray[np.bool_] | None = None,
) -> CompactStrategy:
    """Return the rule that stops as soon as the rest cannot change the result.

    Among the rules that never disagree it stops first, whatever the votes are.

    Parameters
    ----------
    n_voters : int
        Number of voters.
    may_stop : ndarray of shape (n_voters + 1,), dtype=bool
        After which numbers of votes a stop is allowed; always after the last.
    possible : ndarray of shape (n_voters + 1,), dtype=bool, optional
        Which numbers of positive votes occur at all; None for all of them.
    """
    numbers = np.arange(n_voters + 1)
    if possible is None:
        possible = np.ones(n_voters + 1, dtype=bool)
    half = n_voters // 2
    below = numbers[: half + 1][possible[: half + 1]]
    above = numbers[half + 1 :][possible[half + 1 :]]
    # At step i with j positive votes the final number lies between j and N - i + j:
    # positive is safe if j lies above every losing number, and negative if N - i + j
    # lies below every winning one. No other state is safe: a positive majority so far
    # leaves room for every losing number that is not below j, and likewise below.
    most_losing = below.max(initial=-1)
    least_winning = above.min(initial=n_voters + 1)
    upper = np.maximum(most_losing + 1, numbers // 2 + 1)
    lower = np.minimum(least_winning - 1 - (n_voters - numbers), numbers // 2)
    upper = np.minimum(upper, numbers + 1)
    lower = np.maximum(lower, -1)
    waiting = ~may_stop
    lower[waiting], upper[waiting] = -1, numbers[waiting] + 1
    return threshold_strategy(lower.astype(np.int64), upper.astype(np.int64))
