"""The figure of results at other bounds, and the slider beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.wording import number, of_rows, percent, times
from spinney.report.contents import Figure, Table
from spinney.report.drawing import Axis, Chart, Line, Mark, linear
from spinney.report.figures_stopping import trees_word

ALLOWED = "allowed"
# What is bounded, by the kind of promise.
ALLOWED_WORDS = {
    "disagreement": "Disagreement allowed",
    "classes": "Largest disagreement allowed in a class",
    "accuracy": "Additional errors allowed",
}
EXTRA_WORDS = {
    "classes": "Class that uses most of its bound",
    "accuracy": "Additional errors",
}
TOO_FEW = (
    "There are too few rows to establish this bound, so rows exit only where the "
    "remaining trees cannot change the prediction."
)


def figure_of_sweep(report: Mapping[str, Any]) -> Figure:
    """Return the figure of disagreement against trees evaluated, over several levels.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    sweep = report["sweep"]
    points, n_rows = sweep["points"], sweep["n_measured"]
    word = trees_word(report)
    own = next(point for point in points if point["is_own"])
    # A bound on the loss of accuracy is not a disagreement, and is not drawn.
    is_bounded = sweep["what"] != "accuracy"
    # Less than one row cannot be measured: below it there is only zero.
    drawn = [p["disagreement"] for p in points]
    drawn += [p["level"] for p in points] if is_bounded else []
    smallest = min([1.0 / n_rows, *filter(None, drawn)])
    largest = max(2.0 / n_rows, *drawn)
    chart = Chart(
        linear(
            f"{word} evaluated per row", 0.0, 1.05 * max(p["trees"] for p in points)
        ),
        Axis(
            "disagreement",
            smallest / 4.0,
            largest * 1.3,
            percent,
            is_log=True,
            with_zero=True,
        ),
        [
            *(
                [
                    Line(
                        [(p["trees"], p["level"]) for p in points],
                        "quiet",
                        label=ALLOWED,
                    )
                ]
                if is_bounded
                else []
            ),
            Line(
                [(p["trees"], p["disagreement"]) for p in points],
                "first",
                dots=True,
                label="measured",
            ),
            Mark(own["trees"], own["disagreement"], identity="sweep-mark"),
        ],
    )
    cells = [
        (
            percent(p["level"]),
            number(p["trees"]),
            percent(p["share"]),
            of_rows(p["n_disagreements"], n_rows),
            percent(p["disagreement"]),
            times(p["speed_up"]),
        )
        for p in points
    ]
    table = Table(
        (
            ALLOWED_WORDS[sweep["what"]],
            f"{word.capitalize()} per row",
            "Share",
            "Differ",
            "Disagreement",
            f"Fewer {word} by",
        ),
        cells,
        marked=points.index(own),
    )
    caption = (
        f"Each dot is one bound: the higher it is, the fewer {word} are evaluated. The "
        f"height is the share of the {n_rows:,} rows for which the prediction differs "
        "from the model's own. The ring is the bound chosen with the slider."
    )
    if is_bounded:
        caption += (
            " The dotted line is the largest bound of a class; the others change in "
            "proportion."
            if sweep["what"] == "classes"
            else " The dotted line is what each bound allows."
        )
    return Figure(
        "sweep", f"Disagreement against {word} evaluated", caption, chart, table
    )


def slider_of(report: Mapping[str, Any], chart: Chart) -> dict[str, Any]:
    """Return what the slider shows at each level.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    chart : Chart
        The chart in which a ring marks the level.
    """
    sweep, model = report["sweep"], report["model"]
    word = trees_word(report)
    levels = []
    for point in sweep["points"]:
        level = percent(point["level"])
        trees = f"{number(point['trees'])} of {model['n_trees']:,}"
        differing = of_rows(point["n_disagreements"], sweep["n_measured"])
        levels.append(
            {
                "level": level,
                "own": point["is_own"],
                "trees": trees,
                "share": f"{percent(point['share'])} of all {word}",
                "disagreement": percent(point["disagreement"]),
                "differing": differing,
                "speed_up": times(point["speed_up"]),
                "extra": _extra(point),
                "note": "" if point["is_established"] else TOO_FEW,
                "spoken": f"{level} allowed: {trees} {word} evaluated per row, "
                f"{differing} predicted differently",
                "x": round(chart.at_x(point["trees"]), 1),
                "y": round(chart.at_y(point["disagreement"]), 1),
            }
        )
    own = next(k for k, point in enumerate(sweep["points"]) if point["is_own"])
    return {
        "levels": levels,
        "own": own,
        "word": word,
        "label": ALLOWED_WORDS[sweep["what"]],
        "extra": EXTRA_WORDS.get(sweep["what"]),
    }


def _extra(point: Mapping[str, Any]) -> list[str]:
    """Return one more number about a level, and what it is compared with."""
    worst = point["worst_class"]
    if worst is not None:
        share = percent(worst["n_lost"] / worst["n_full"])
        return [
            share,
            f"“{worst['label']}”: {worst['n_lost']:,} of {worst['n_full']:,}",
        ]
    if point["errors_added"] is not None:
        return [
            percent(point["errors_added"]),
            "errors with early exit minus errors without",
        ]
    return ["–", ""]
