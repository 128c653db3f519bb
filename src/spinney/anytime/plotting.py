"""Pictures of how the accuracy grows with the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spinney.base.axes import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_curves(curves: Mapping[str, ArrayLike], ax: Axes | None = None) -> Axes:
    """Draw accuracies over the number of steps.

    Parameters
    ----------
    curves : mapping of str to array-like of shape (n_steps + 1,)
        Accuracy in every state, by the name of the order.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        What was drawn on.
    """
    ax = axes_or_new(ax)
    for name, curve in curves.items():
        accuracy = np.asarray(curve)
        steps = np.arange(len(accuracy))
        ax.step(steps, accuracy, where="post", label=name, linewidth=1.2)
    ax.set_xlabel("steps taken")
    ax.set_ylabel("accuracy")
    ax.legend()
    return ax
