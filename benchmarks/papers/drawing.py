"""Figures that come out the same for the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.page import FOLDER

FIGURES = FOLDER / "figures"


def start_drawing() -> None:
    """Set matplotlib so that the same numbers give the same file; text stays text."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "spinney", "font.size": 9}
    )
    FIGURES.mkdir(exist_ok=True)


def save_figure(figure: Any, name: str) -> None:
    """Write a figure into the folder ``figures``.

    Parameters
    ----------
    figure : matplotlib Figure
        What was drawn.
    name : str
        Name of the file, without its suffix.
    """
    write_figure(figure, FIGURES / f"{name}.svg")


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure to a file; the same figure gives the same file.

    Parameters
    ----------
    figure : matplotlib Figure
        What was drawn.
    path : path
        An SVG file, in a folder that is made if it is not there.
    """
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(map(str.rstrip, lines)) + "\n", encoding="utf-8")


def draw_votes(
    n_positive: NDArray[np.integer], n_voters: int, y: NDArray[Any], ax: Any
) -> None:
    """Draw how many rows get 0, 1, ..., all positive votes.

    Rows far from the middle are those that a few votes decide.

    Parameters
    ----------
    n_positive : ndarray of shape (n_rows,)
        Number of positive votes of each row.
    n_voters : int
        Number of voters.
    y : ndarray of shape (n_rows,)
        True classes, 0 for negative and 1 for positive, drawn apart.
    ax : matplotlib Axes
        Where to draw.
    """
    edges = np.arange(n_voters + 2) - 0.5
    for label, chosen, colour in (
        ("truly negative", y != 1, "tab:orange"),
        ("truly positive", y == 1, "tab:blue"),
    ):
        counts = np.bincount(n_positive[chosen], minlength=n_voters + 1)
        share = 100.0 * counts / len(n_positive)
        ax.stairs(share, edges, fill=True, alpha=0.5, color=colour, label=label)
    ax.axvline(n_voters / 2, color="0.6", linewidth=0.8, linestyle=":", label="half")
    ax.set_xlabel("positive votes")
    ax.set_ylabel("% of rows")
    ax.legend()
