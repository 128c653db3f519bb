"""The frontier as a readable table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Longer tables are shown with their first and last lines only.
SHOWN_LINES = 20


class FrontierPoint(NamedTuple):
    """One pruned forest on the frontier."""

    trade_off: float
    cost: float
    error: float
    ensemble_error: float
    n_nodes: int


@dataclass(frozen=True, repr=False, eq=False)
class Frontier:
    """All supported trade-offs between feature cost and error.

    Points are sorted from the largest forest to the smallest; each forest lies inside
    the one before it. ``frontier[i]`` is a point, and ``frontier.cost`` the column of
    all costs.

    Parameters
    ----------
    trade_off : ndarray of shape (n_points,)
        The smallest trade-off (error per unit of cost) at which this forest is optimal;
        it stays optimal up to the trade-off of the next point.
    cost : ndarray of shape (n_points,)
        Mean feature cost of a row.
    error : ndarray of shape (n_points,)
        Mean error of a single tree, the objective.
    ensemble_error : ndarray of shape (n_points,)
        Error of the forest as a whole.
    n_nodes : ndarray of shape (n_points,)
        Number of nodes of the forest, leaves included.
    breakpoints : tuple of Fraction
        `trade_off` exactly; as floats they are rounded up.
    """

    trade_off: NDArray[np.float64]
    cost: NDArray[np.float64]
    error: NDArray[np.float64]
    ensemble_error: NDArray[np.float64]
    n_nodes: NDArray[np.int64]
    breakpoints: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        for name in FrontierPoint._fields:
            getattr(self, name).flags.writeable = False

    def __len__(self) -> int:
        return len(self.cost)

    def __getitem__(self, index: int) -> FrontierPoint:
        columns = (getattr(self, name)[index] for name in FrontierPoint._fields)
        return FrontierPoint(*(column.item() for column in columns))

    def __iter__(self) -> Iterator[FrontierPoint]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        lines = [f"{'':>5}" + "".join(f"{name:>16}" for name in FrontierPoint._fields)]
        hidden = len(self) - SHOWN_LINES
        for index in range(len(self)):
            if hidden > 0 and index == SHOWN_LINES // 2:
                lines.append(f"{'...':>5}   ({hidden} more)")
            if hidden > 0 and SHOWN_LINES // 2 <= index < SHOWN_LINES // 2 + hidden:
                continue
            *numbers, n_nodes = self[index]
            cells = [f"{number:>16.6g}" for number in numbers]
            lines.append(f"{index:>5}" + "".join(cells) + f"{n_nodes:>16,}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, NDArray]:
        """Return the columns by name, as data frames take them.

        Returns
        -------
        columns : dict of ndarray
            `trade_off`, `cost`, `error`, `ensemble_error` and `n_nodes`.
        """
        return {name: getattr(self, name) for name in FrontierPoint._fields}

    def index_for_budget(self, budget: float) -> int:
        """Return the index of the point with the least error that a budget allows.

        Parameters
        ----------
        budget : float
            Mean feature cost of a row, not negative.

        Returns
        -------
        index : int
            Index of the point.
        """
        return int(np.argmax(self.cost <= budget))

    def index_for_trade_off(self, trade_off: float | Fraction) -> int:
        """Return the index of the best point at a trade-off, the smaller one if tied.

        Parameters
        ----------
        trade_off : float or Fraction
            Error per unit of cost, not negative.

        Returns
        -------
        index : int
            Index of the point.
        """
        exact = Fraction(trade_off)
        return sum(breakpoint <= exact for breakpoint in self.breakpoints) - 1

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw both errors over the cost; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
            Where it was drawn.
        """
        from spinney.pruning.plotting import plot_frontier

        return plot_frontier(self, ax)


def spread_over_costs(cost: NDArray[np.float64], n_points: int) -> list[int]:
    """Return some points of a frontier that cover all costs, the ends included.

    A frontier has most of its points where single splits are removed, and few where
    the cost falls fast.

    Parameters
    ----------
    cost : ndarray of shape (n_on_frontier,)
        Costs of the points, falling.
    n_points : int
        The largest number of points to return.
    """
    if len(cost) <= n_points:
        return list(range(len(cost)))
    wanted = np.linspace(cost[0], cost[-1], n_points)
    nearest = np.abs(cost[:, None] - wanted).argmin(axis=0)
    return sorted({0, *nearest[1:-1].tolist(), len(cost) - 1})
