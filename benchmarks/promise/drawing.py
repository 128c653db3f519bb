"""The figure: how often predictions differ on new rows, over the bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.drawing import start_drawing, write_figure
from benchmarks.promise.cases import NAMES
from benchmarks.promise.fits import CONFIDENCE, FITS
from benchmarks.promise.tables import family_of, mean_and_error, ratios

LABELS = {
    "rows": "fitted to the calibration rows",
    "risk control": "risk control (the default)",
    "confidence": f"confidence={CONFIDENCE:g}",
}
COLOURS = {"rows": "tab:red", "risk control": "tab:blue", "confidence": "tab:green"}
PANELS = {
    "cascade, thresholds": "CascadeClassifier",
    "cascade, optimal": 'CascadeClassifier, rule="optimal"',
    "accelerate": "accelerate",
    "soft votes": "SequentialVotingClassifier, soft",
    "hard votes": "SequentialVotingClassifier, hard",
}
N_COLUMNS = 3


def draw(cases: list[dict[str, Any]], path: Path) -> None:
    """Draw the mean over splits and the middle 90 % of them, a panel per approach.

    Parameters
    ----------
    cases : list of dict
        Results with the same bound and number of rows.
    path : path
        File to write.
    """
    start_drawing()
    from matplotlib import pyplot

    found = {
        family: [case for case in cases if family_of(case) == family]
        for family in PANELS
    }
    found = {family: shown for family, shown in found.items() if shown}
    # One place more than there are panels, for the words.
    n_rows = len(found) // N_COLUMNS + 1
    figure, axes = pyplot.subplots(
        n_rows,
        N_COLUMNS,
        figsize=(11.0, 3.1 * n_rows),
        sharex=True,
        layout="constrained",
        squeeze=False,
    )
    places = list(axes.flat)
    for ax, (family, shown) in zip(places, found.items(), strict=False):
        _panel(ax, shown)
        ax.set_title(PANELS[family], fontsize=9)
        ax.tick_params(labelbottom=True)
    for ax in places[len(found) :]:
        ax.axis("off")
    words = places[len(found)]
    handles, labels = places[0].get_legend_handles_labels()
    # To the left, where the other panels have the names of the data sets.
    words.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(-0.45, 1.0),
        frameon=False,
        fontsize=9,
    )
    words.text(
        -0.41,
        0.66,
        "dot: mean over splits\nline: the middle 90 % of the splits\n"
        f"dashed: the bound, {100 * cases[0]['bound']:g} %",
        transform=words.transAxes,
        verticalalignment="top",
    )
    figure.supxlabel(
        "share of held-out rows predicted differently, divided by the bound", fontsize=9
    )
    write_figure(figure, path)


def _panel(ax: Any, cases: list[dict[str, Any]]) -> None:
    """Draw one approach: data sets below one another, the three fits side by side."""
    for k, fit in enumerate(FITS):
        values = [ratios(case, fit) for case in cases]
        heights = np.arange(len(cases)) + 0.24 * (k - 1)
        low, high = np.array([np.quantile(one, (0.05, 0.95)) for one in values]).T
        means = [mean_and_error(one)[0] for one in values]
        colour = COLOURS[fit]
        ax.hlines(heights, low, high, color=colour, linewidth=1.0, alpha=0.6)
        ax.plot(means, heights, "o", color=colour, markersize=4, label=LABELS[fit])
    ax.axvline(1.0, color="0.3", linewidth=0.8, linestyle="--")
    ax.set_xlim(left=0.0)
    ax.set_yticks(range(len(cases)), [NAMES[case["dataset"]] for case in cases])
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.2)
