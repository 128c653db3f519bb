"""The figure: how often answers differ on new rows, over what was allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.papers.drawing import start_drawing, write_figure
from benchmarks.promise.cases import NAMES
from benchmarks.promise.fits import CONFIDENCE, FITS
from benchmarks.promise.tables import mean_and_error, ratios

LABELS = {
    "rows": "fitted to the calibration rows",
    "risk control": "risk control (the default)",
    "confidence": f"confidence={CONFIDENCE:g}",
}
COLOURS = {"rows": "tab:red", "risk control": "tab:blue", "confidence": "tab:green"}
PANELS = {
    "cascade, thresholds": "CascadeClassifier",
    "cascade, optimal": 'CascadeClassifier, rule="optimal"',
    "soft votes": "SequentialVotingClassifier, soft",
    "hard votes": "SequentialVotingClassifier, hard",
    "accelerate": "accelerate",
}


def draw(cases: list[dict[str, Any]], path: Path) -> None:
    """Draw the mean over splits and the middle 90 % of them, a panel per approach.

    Parameters
    ----------
    cases : list of dict
        Results with the same bound and number of rows.
    path : path
        File to write.
    """
    import numpy as np

    start_drawing()
    from matplotlib import pyplot

    families: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        family = case["approach"].removesuffix(", forests")
        families.setdefault(family, []).append(case)
    figure, axes = pyplot.subplots(
        1,
        len(families),
        figsize=(2.2 * len(families) + 1.4, 3.9),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    names = [name for name in NAMES if any(c["dataset"] == name for c in cases)]
    for ax, (family, shown) in zip(axes[0], families.items(), strict=True):
        for k, fit in enumerate(FITS):
            found = {case["dataset"]: ratios(case, fit) for case in shown}
            places = [names.index(name) + 0.24 * (k - 1) for name in found]
            means = [mean_and_error(values)[0] for values in found.values()]
            low, high = np.array(
                [np.quantile(values, (0.05, 0.95)) for values in found.values()]
            ).T
            colour = COLOURS[fit]
            ax.hlines(places, low, high, color=colour, linewidth=1.0, alpha=0.6)
            ax.plot(means, places, "o", color=colour, markersize=4, label=LABELS[fit])
        ax.axvline(1.0, color="0.3", linewidth=0.8, linestyle="--")
        ax.set_xlim(left=0.0)
        ax.set_title(PANELS[family], fontsize=8.5)
        ax.grid(axis="x", alpha=0.2)
    axes[0, 0].set_yticks(range(len(names)), [NAMES[name] for name in names])
    axes[0, 0].invert_yaxis()
    setting = f"{100 * cases[0]['bound']:g} %"
    figure.supxlabel(
        f"disagreement on held-out rows, times the bound of {setting}", fontsize=9
    )
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    write_figure(figure, path)
