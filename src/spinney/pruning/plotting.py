"""Plots of a frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spinney.base.axes import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from spinney.pruning.frontier import Frontier


def plot_frontier(frontier: Frontier, ax: Axes | None = None) -> Axes:
    """Draw the error of the forest and the mean error of a tree over the cost.

    Parameters
    ----------
    frontier : Frontier
        What to draw.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        Where it was drawn.
    """
    ax = axes_or_new(ax)
    ax.plot(
        frontier.cost,
        frontier.error,
        marker=".",
        color="tab:orange",
        label="mean error of a tree (minimised)",
    )
    ax.plot(
        frontier.cost,
        frontier.ensemble_error,
        marker=".",
        color="tab:blue",
        label="error of the forest",
    )
    ax.set_xlabel("mean feature cost of a row")
    ax.set_ylabel("error")
    ax.set_ylim(bottom=0.0)
    ax.legend()
    return ax
