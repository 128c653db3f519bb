"""Pictures of a cascade: its thresholds, and how many trees rows need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spinney.base.axes import axes_or_new
from spinney.errors import InvalidArgumentError
from spinney.ordering import ExitPolicy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from spinney.cascade.fan import FanPolicy


def plot_thresholds(policy: ExitPolicy | FanPolicy, ax: Axes | None) -> Axes:
    """Draw the thresholds over the number of trees evaluated.

    Parameters
    ----------
    policy : ExitPolicy
        What to draw. The rule of Fan et al. has too many thresholds for a picture.
    ax : matplotlib Axes or None
        Where to draw; None makes a new figure.
    """
    if not isinstance(policy, ExitPolicy):
        msg = (
            "The rule 'fan' has thresholds for every score bin and cannot be drawn. "
            "Draw kind='trees' instead."
        )
        raise InvalidArgumentError(msg)
    ax = axes_or_new(ax)
    steps = policy.check_steps
    lines = (
        [("leads by more than this", policy.margin, "tab:blue")]
        if policy.margin is not None
        else [
            ("positive above", policy.upper, "tab:blue"),
            ("negative below", policy.lower, "tab:orange"),
        ]
    )
    for label, values, colour in lines:
        assert values is not None
        # An infinite threshold decides nobody and is left out.
        shown = np.isfinite(values)
        ax.plot(
            steps[shown],
            values[shown],
            marker="o",
            markersize=3,
            color=colour,
            label=label,
        )
    ax.set_xlim(0, policy.n_trees)
    ax.set_xlabel("trees evaluated")
    ax.set_ylabel("partial score" if policy.margin is None else "lead")
    ax.set_title(f"{len(steps)} exit points on the way through {policy.n_trees} trees")
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
