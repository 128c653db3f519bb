"""Thresholds that are moved together until a disagreement is kept.

Rows are walked through in random orders. A path stops at the first exit point at which
it is beyond the thresholds there. The backward recursion of
`spinney.calibration.recursion` finds thresholds for a few disagreements; those for all
others are the nearest of these, moved. How often paths are wrong, and where they stop,
is worked out for all moves at once, so that one walk and a handful of solutions serve a
whole ladder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Thresholds = TypeVar("Thresholds")

# How far paths are beyond thresholds at one exit point, and whether stopping is wrong.
Beyond = Iterable[tuple[NDArray[np.floating], NDArray[np.bool_]]]

# Moves, inwards and outwards: up to so many units, in steps that grow with the move.
# Where most rows are clear the unit is small, and a move may have to be far.
FARTHEST, N_MOVES = 1e4, 4096
# Thresholds are fitted for disagreements that differ by this factor. Where trees give
# whole numbers, all thresholds moved by one are another rule altogether: with a factor
# of 4 the ladder had steps that rows stumbled over.
APART = 2.0


@dataclass(frozen=True, eq=False)
class Moved(Generic[Thresholds]):
    """Thresholds, how far to move them outwards, and what they then do.

    Parameters
    ----------
    thresholds
        The thresholds before they are moved.
    by : float
        How far; ``inf`` if nothing less keeps the disagreement.
    trees, disagreement : float
        What they do on average.
    undecided : ndarray of shape (n_exit_points,)
        Share of the paths that go on after each exit point.
    """

    thresholds: Thresholds
    by: float
    trees: float
    disagreement: float
    undecided: Numbers


class MovedThresholds(Generic[Thresholds]):
    """The thresholds with the fewest trees for one disagreement after another.

    Parameters
    ----------
    fit : callable
        Returns thresholds for a disagreement.
    beyond : callable
        Takes thresholds and returns, for one exit point after another, how far each
        path is beyond them, negative if it is not, and whether it would be wrong to
        stop there: on other paths than those that `fit` has seen. ``inf`` for paths
        that stop however far thresholds are moved, which must be right.
    costs : ndarray of shape (n_exit_points + 1,)
        Trees evaluated at each exit point, at least one, and in all.
    unit : float
        A small move.
    """

    def __init__(
        self,
        fit: Callable[[float], Thresholds],
        beyond: Callable[[Thresholds], Beyond],
        costs: Numbers,
        unit: float,
    ) -> None:
        self._fit, self._beyond = fit, beyond
        self._costs = costs
        self._unit = unit if unit > 0.0 else 1.0
        self._end = float(np.arcsinh(FARTHEST))
        steps = np.linspace(-self._end, self._end, N_MOVES)
        # The last one is as far as it gets: there is always one that no path is beyond.
        self._moves = np.append(self._unit * np.sinh(steps), np.inf)
        self._known: dict[int, tuple[Thresholds, Numbers, Numbers]] = {}

    def at(self, target: float, least: float) -> Moved[Thresholds]:
        """Return the thresholds with the fewest trees that keep a disagreement.

        Parameters
        ----------
        target : float
            Largest allowed disagreement.
        least : float
            The least disagreement, above 0, that thresholds are fitted for.
        """
        which = round(float(np.log(max(target, least)) / np.log(APART)))
        if which not in self._known:
            thresholds = self._fit(min(APART**which, 0.5))
            self._known[which] = (thresholds, *self._measured(thresholds))
        thresholds, wrong, undecided = self._known[which]
        first = np.flatnonzero(wrong <= target)[0]
        stay = undecided[:, first]
        trees = float(self._costs[0] + stay @ np.diff(self._costs))
        return Moved(
            thresholds, float(self._moves[first]), trees, float(wrong[first]), stay
        )

    def _measured(self, thresholds: Thresholds) -> tuple[Numbers, Numbers]:
        """Return the disagreement for each of the moves, and the shares that go on.

        A path stops at an exit point if it is beyond the thresholds there by more than
        they are moved, and was not before.
        """
        n_moves = len(self._moves)
        undecided = np.empty((len(self._costs) - 1, n_moves))
        changes = np.zeros(n_moves + 1)
        before = np.zeros(1, dtype=np.int64)
        for k, (excess, wrong) in enumerate(self._beyond(thresholds)):
            # The path stops with this many moves, the farthest inwards first.
            stops = np.maximum(self._index(excess), before)
            further = np.flatnonzero(wrong & (stops > before))
            was = before[further] if k else np.zeros(len(further), dtype=np.int64)
            changes += np.bincount(was, minlength=n_moves + 1)
            changes -= np.bincount(stops[further], minlength=n_moves + 1)
            counts = np.bincount(stops, minlength=n_moves + 1)
            undecided[k] = np.cumsum(counts[:-1]) / len(stops)
            before = stops
        return np.cumsum(changes[:-1]) / len(before), undecided

    def _index(self, excess: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return how many of the moves are smaller than each number."""
        step = np.arcsinh(excess / self._unit) + self._end
        step *= (N_MOVES - 1) / (2.0 * self._end)
        index = np.clip(np.ceil(step, out=step), 0, N_MOVES).astype(np.int64)
        index[np.isposinf(excess)] = N_MOVES + 1
        return index
