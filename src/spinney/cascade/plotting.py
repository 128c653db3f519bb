"""Pictures of a cascade: its thresholds, and how many trees rows need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spinney.base.axes import axes_or_new
from spinney.errors import InvalidArgumentError
from spinney.runtime.exit_rule import ExitRule

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_thresholds(rule: ExitRule, ax: Axes | None) -> Axes:
    """Draw the thresholds over the number of trees evaluated.

    Parameters
    ----------
    rule : ExitRule
        What to draw. The rule of Fan et al. has too many thresholds for a picture.
    ax : matplotlib Axes or None
        Where to draw; None makes a new figure.
    """
    if rule.bins is not None:
        msg = (
            "The rule 'fan' has thresholds for every score bin and cannot be drawn. "
            "Draw kind='trees' instead."
        )
        raise InvalidArgumentError(msg)
    if rule.leads is not None:
        return _plot_leads(rule, rule.leads, ax)
    ax = axes_or_new(ax)
    steps = rule.exit_points
    lines = (
        [("leads by more than this", rule.margin, "tab:blue")]
        if rule.margin is not None
        else [
            ("positive above", rule.upper, "tab:blue"),
            ("negative below", rule.lower, "tab:orange"),
        ]
    )
    for label, values, colour in lines:
        assert values is not None
        # An infinite threshold decides no row and is left out.
        shown = np.isfinite(values)
        ax.plot(
            steps[shown],
            values[shown],
            marker="o",
            markersize=3,
            color=colour,
            label=label,
        )
    ax.set_xlim(0, rule.n_trees)
    ax.set_xlabel("trees evaluated")
    ax.set_ylabel("partial score" if rule.margin is None else "lead")
    ax.set_title(f"{len(steps)} exit points on the way through {rule.n_trees} trees")
    ax.legend()
    return ax


def _plot_leads(rule: ExitRule, leads: NDArray[np.float64], ax: Axes | None) -> Axes:
    """Draw at which leads classes are dropped, a line for each class in front."""
    ax = axes_or_new(ax)
    n_classes = leads.shape[1]
    others = ~np.eye(n_classes, dtype=np.bool_)
    for leader in range(n_classes):
        middle = np.median(leads[:, leader, others[leader]], axis=1)
        shown = np.isfinite(middle)
        ax.plot(
            rule.exit_points[shown],
            middle[shown],
            marker="o",
            markersize=3,
            label=f"class {leader} in front",
        )
    ax.set_xlim(0, rule.n_trees)
    ax.set_xlabel("trees, if no class is dropped")
    ax.set_ylabel("lead at which others are dropped, median")
    ax.set_title(f"{len(rule.exit_points)} exit points, {n_classes} classes")
    if n_classes <= 10:
        ax.legend()
    return ax


def plot_counts(
    n_evaluated: NDArray[np.integer], n_trees: int, ax: Axes | None
) -> Axes:
    """Draw a histogram of the number of trees evaluated per row.

    Parameters
    ----------
    n_evaluated : ndarray of shape (n_rows,)
        Trees evaluated for each row.
    n_trees : int
        Number of trees in all.
    ax : matplotlib Axes or None
        Where to draw; None makes a new figure.
    """
    ax = axes_or_new(ax)
    ax.hist(n_evaluated, bins=np.linspace(0, n_trees, 51).tolist(), color="tab:blue")
    if len(n_evaluated):
        mean = float(np.mean(n_evaluated))
        ax.axvline(mean, color="tab:red", linewidth=1, label=f"mean {mean:.1f}")
        ax.legend()
    ax.set_xlim(0, n_trees)
    ax.set_xlabel("trees evaluated")
    ax.set_ylabel("rows")
    return ax
