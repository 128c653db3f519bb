"""Where pictures are drawn: the one place that loads matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib Axes or None
        Where to draw; None makes a new figure.

    Raises
    ------
    ImportError
        If matplotlib is not installed; the message names the extra to install.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        msg = (
            "Drawing needs matplotlib, which is not installed. Install the extra "
            '"plot": python -m pip install "spinney[plot]"'
        )
        raise ImportError(msg) from error
    return pyplot.subplots()[1]
