"""Rows on their way through a cascade: partial scores, and the risk of each exit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from spinney.base.parameters import check_costs
from spinney.calibration.posterior import logistic_curve
from spinney.ordering import ScoreTable
from spinney.ordering.score_table import margins

Numbers = NDArray[np.float64]
Points = NDArray[np.int64]

# Curves with two parameters do not get better with more paths.
MOST_PATHS = 10_000
# For random orders: so many of them, and paths of all rows together.
N_ORDERS = 20
MOST_PATHS_OF_ORDERS = 40_000


@dataclass(frozen=True, eq=False)
class Paths:
    """Values of rows at exit points, and how likely a prediction given there is wrong.

    With two classes the value is the partial score; exiting downwards means the first
    class, exiting upwards the second. With several classes the value is the lead of
    the class in front, and rows exit upwards only.

    Parameters
    ----------
    points : ndarray of shape (n_points,)
        The exit points.
    costs : ndarray of shape (n_points + 1,)
        Mean cost of exiting at each of them, and at the end.
    values : ndarray of shape (n_points, n_paths)
        The values.
    intercept, slope : ndarray of shape (n_points,)
        Curves: exiting upwards is right with probability
        ``expit(intercept + slope * value)``.
    down, up : bool
        Which way rows may exit.
    wrong_down, wrong_up : ndarray of shape (n_points, n_paths), dtype=bool
        Whether exiting downwards or upwards disagrees with the full ensemble.
    """

    points: Points
    costs: Numbers
    values: Numbers
    intercept: Numbers
    slope: Numbers
    down: bool
    up: bool
    wrong_down: NDArray[np.bool_]
    wrong_up: NDArray[np.bool_]

    def risks(self, k: int) -> tuple[Numbers, Numbers]:
        """Return how likely an exit downwards and upwards at a point is wrong.

        A curve that does not rise is not used, and no row exits there.
        """
        if not self.slope[k] > 0.0:
            certain = np.ones(self.values.shape[1])
            return certain, certain
        odds = self.intercept[k] + self.slope[k] * self.values[k]
        return expit(odds), expit(-odds)

    def follow(
        self, lower: Numbers, upper: Numbers
    ) -> tuple[NDArray[np.int64], float, float]:
        """Follow all paths to where thresholds let them go.

        Parameters
        ----------
        lower, upper : ndarray of shape (n_points,)
            Rows leave downwards below `lower`, upwards above `upper`.

        Returns
        -------
        left_at : ndarray of shape (n_paths,)
            Index of the exit point, ``n_points`` for the end.
        expected : float
            Mean risk of a prediction, by the curves.
        disagreement : float
            Share of the predictions that disagree.
        """
        n_points, n_paths = self.values.shape
        left_at = np.full(n_paths, n_points, dtype=np.int64)
        active = np.arange(n_paths)
        expected, wrong = 0.0, 0
        for k in range(n_points):
            here = self.values[k, active]
            falls, rises = here < lower[k], here > upper[k]
            risk_down, risk_up = self.risks(k)
            expected += float(risk_down[active[falls]].sum())
            expected += float(risk_up[active[rises]].sum())
            wrong += int(np.count_nonzero(self.wrong_down[k, active[falls]]))
            wrong += int(np.count_nonzero(self.wrong_up[k, active[rises]]))
            left_at[active[falls | rises]] = k
            active = active[~(falls | rises)]
        return left_at, expected / n_paths, wrong / n_paths

    def undecided(self, left_at: NDArray[np.int64]) -> Numbers:
        """Return the share of the paths that go on after each exit point."""
        left = np.bincount(left_at, minlength=len(self.points) + 1)[:-1]
        return 1.0 - np.cumsum(left) / len(left_at)

    def take_points(self, points: Points) -> Paths:
        """Return the same paths with some of the exit points only."""
        kept = np.searchsorted(self.points, points)
        return Paths(
            self.points[kept],
            self.costs[np.append(kept, len(self.points))],
            self.values[kept],
            self.intercept[kept],
            self.slope[kept],
            self.down,
            self.up,
            self.wrong_down[kept],
            self.wrong_up[kept],
        )


def paths_of(
    table: ScoreTable,
    orders: Sequence[NDArray[np.int64]],
    points: Points,
    *,
    costs: ArrayLike | None = None,
    early_exit: str = "both",
) -> Paths:
    """Return the paths of the rows of a table through one order or several.

    Parameters
    ----------
    table : ScoreTable
        Rows to fit to; of very many, a part is taken.
    orders : sequence of ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    points : ndarray of int
        Exit points.
    costs : array-like of shape (n_trees,), optional
        Cost of each tree; 1 each by default.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which predictions may be given early.
    """
    most = MOST_PATHS if len(orders) == 1 else MOST_PATHS_OF_ORDERS // len(orders)
    if table.n_rows > most:
        # Spread over all of them: rows may be sorted by something.
        table = table.take_rows(np.arange(most) * table.n_rows // most)
    each = check_costs(costs, table.n_trees)
    sums = np.mean([np.cumsum(each[order]) for order in orders], axis=0)
    n_paths = table.n_rows * len(orders)
    values = np.empty((len(points), n_paths))
    wrong_up = np.empty(values.shape, dtype=np.bool_)
    curves = np.empty((2, len(points)))
    full = np.tile(table.decisions, len(orders))
    for k, partial in enumerate(_partial_scores(table, orders, points)):
        if table.is_binary:
            values[k], wrong_up[k] = partial, full != 1
        else:
            winner, values[k] = margins(partial)
            wrong_up[k] = winner != full
        curves[:, k] = logistic_curve(values[k], ~wrong_up[k])
    return Paths(
        points,
        np.append(sums[points - 1], sums[-1]),
        values,
        curves[0],
        curves[1],
        table.is_binary and early_exit != "positive",
        early_exit != "negative",
        ~wrong_up if table.is_binary else np.ones_like(wrong_up),
        wrong_up,
    )


def _partial_scores(
    table: ScoreTable, orders: Sequence[NDArray[np.int64]], points: Points
) -> Iterator[Numbers]:
    """Yield the partial scores of all rows in all orders, exit point by exit point."""
    partial = [table.start() for _ in orders]
    step = 0
    for end in points.tolist():
        for order, sums in zip(orders, partial, strict=True):
            for tree in order[step:end].tolist():
                table.add_tree(tree, sums)
        step = end
        yield np.concatenate(partial)
