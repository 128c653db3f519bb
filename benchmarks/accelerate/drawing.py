"""The figure of the README: microseconds per row, on a logarithmic axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.accelerate.names import boosted_first, brief
from benchmarks.accelerate.worker import FAST, OWN, WHOLE
from benchmarks.compare.cells import fastest, per_row
from benchmarks.papers.drawing import start_drawing, write_figure

SERIES = {
    "the model's own predict": ("0.45", "s"),
    "fastest other engine": ("tab:orange", "D"),
    "spinney, exact": ("tab:blue", "o"),
    "spinney, early exit (0.1 %)": ("tab:green", "o"),
}


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw how long a row takes in batches, a line for each model.

    Parameters
    ----------
    result : dict
        The results of a run.
    path : path
        File to write.
    """
    start_drawing()
    from matplotlib import pyplot

    batch = result["settings"]["batch"]
    cases = boosted_first(result)
    figure, ax = pyplot.subplots(figsize=(8.0, 2.6), layout="constrained")
    times = []
    for case in cases:
        peer = fastest(case, batch)
        times.append(
            [
                per_row(case, OWN, batch),
                None if peer is None else peer[1],
                per_row(case, WHOLE, batch),
                per_row(case, FAST, batch),
            ]
        )
    for height, row in enumerate(times):
        known = [value for value in row if value is not None]
        ax.hlines(height, min(known), max(known), color="0.85", zorder=0)
    for k, (label, (colour, marker)) in enumerate(SERIES.items()):
        points = [(row[k], i) for i, row in enumerate(times) if row[k] is not None]
        ax.plot(*zip(*points, strict=True), marker, color=colour, label=label)
    ax.set_xscale("log")
    ax.set_xlabel("microseconds per row (less is better)")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_yticks(range(len(cases)), [brief(case) for case in cases])
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.2)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    write_figure(figure, path)
