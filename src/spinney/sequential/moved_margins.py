"""One margin per exit point for several classes, moved until a disagreement is kept.

Rows are walked through in random orders. A path stops at the first exit point at which
the class in front leads by more than a margin. The backward recursion of
`spinney.calibration.recursion` finds the margins; they are smoothed over the exit
points, and moved together until a disagreement is kept in fresh orders. How often paths
are wrong is worked out for all moves at once, so that one walk serves a whole ladder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.sequential.soft import N_BINS, smoothed

Numbers = NDArray[np.float64]

# Margins are moved by so many units at most, inwards and outwards, in so many steps.
INWARDS, OUTWARDS, N_STEPS = -4.0, 12.0, 2048
# Margins for a disagreement serve for others that are up to twice or half of it.
SHAPES = 4.0


@dataclass(frozen=True, eq=False)
class Walk:
    """Rows walked through in random orders: what is seen at the exit points.

    Parameters
    ----------
    lead : ndarray of shape (n_exit_points, n_paths)
        How far the class in front is ahead, in units in which a margin changes little.
    wrong : ndarray of shape (n_exit_points, n_paths), dtype=bool
        Whether it is not the one that the full ensemble chooses.
    """

    lead: NDArray[np.float32]
    wrong: NDArray[np.bool_]


class MovedMargins:
    """Margins for one disagreement after another.

    Parameters
    ----------
    walk, fresh : Walk
        Where margins are fitted, and where they are measured.
    exit_points : ndarray of shape (n_exit_points,)
        Exit points, at least one.
    n_trees : int
        Number of trees.
    unit : float
        Size of the moves.
    """

    def __init__(
        self,
        walk: Walk,
        fresh: Walk,
        exit_points: NDArray[np.int64],
        n_trees: int,
        unit: float,
    ) -> None:
        from spinney.calibration.recursion import margin_solver

        self._fresh = fresh
        self._points, self._n_trees = exit_points, n_trees
        self._shifts = unit * np.linspace(INWARDS, OUTWARDS, N_STEPS)
        self._costs = np.append(exit_points, n_trees).astype(np.float64)
        sample = (walk.lead, walk.wrong, walk.lead.shape[1], self._costs)
        self._solve = margin_solver(*sample, n_bins=N_BINS)
        self._least = np.nextafter(walk.lead.min(axis=1), -np.inf, dtype=np.float32)
        self._known: dict[int, tuple[Numbers, Numbers]] = {}

    def at(self, target: float) -> tuple[Numbers, float, float, Numbers]:
        """Return the margins with the fewest trees that keep a disagreement.

        Parameters
        ----------
        target : float
            Largest allowed disagreement, above 0.

        Returns
        -------
        margins : ndarray of shape (n_exit_points,)
            In the units of the walks; ``inf`` where no path stops.
        trees, disagreement : float
            What they do in fresh orders, on average.
        undecided : ndarray of shape (n_exit_points,)
            Share of the paths that go on, likewise.
        """
        margins, most = self._shape(target)
        wrong = self._wrong(most)
        kept = np.flatnonzero(wrong <= target)
        shift = self._shifts[kept[0]] if len(kept) else np.inf
        disagreement = float(wrong[kept[0]]) if len(kept) else 0.0
        undecided = (most <= shift).mean(axis=1)
        trees = self._costs[0] + undecided @ np.diff(self._costs)
        return margins + shift, float(trees), disagreement, undecided

    def _shape(self, target: float) -> tuple[Numbers, Numbers]:
        """Return margins to be moved, and how far paths have exceeded them by then."""
        which = round(float(np.log(target) / np.log(SHAPES)))
        if which not in self._known:
            found = self._solve(min(SHAPES**which, 0.5))
            # Where all paths stop, a margin just below all leads can still be moved.
            found = np.maximum(found, self._least)
            margins = smoothed(found, self._points, self._n_trees)
            most = self._fresh.lead - margins[:, None].astype(np.float32)
            self._known[which] = margins, np.maximum.accumulate(most, axis=0)
        return self._known[which]

    def _wrong(self, most: Numbers) -> Numbers:
        """Return the disagreement for each of the moves.

        A path stops at an exit point if it exceeds the margins there by more than they
        are moved, and did not before.
        """
        n_moves = len(self._shifts)
        step = self._shifts[1] - self._shifts[0]
        changes = np.zeros(n_moves + 1)
        before = np.full(most.shape[1], -np.inf, dtype=np.float32)
        for now, wrong in zip(most, self._fresh.wrong, strict=True):
            stops = np.flatnonzero(wrong & (now > before))
            for ends, sign in ((before, 1.0), (now, -1.0)):
                at = np.ceil((ends[stops] - self._shifts[0]) / step)
                index = np.clip(at, 0, n_moves).astype(np.int64)
                changes += sign * np.bincount(index, minlength=n_moves + 1)
            before = now
        return np.cumsum(changes[:-1]) / most.shape[1]
