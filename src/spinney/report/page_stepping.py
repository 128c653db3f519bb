"""The page of a classifier that can be stopped after any step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.wording import number, percent
from spinney.report.contents import Figure, Page, Section, Table, Tile
from spinney.report.drawing import Chart, Line, Rule, linear, spread

# Points of a curve that are drawn, and those that are listed.
MOST_DRAWN = 300
MOST_LISTED = 21


def page_of_anytime(report: Mapping[str, Any], facts: list[tuple[str, str]]) -> Page:
    """Return the parts of the page.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    facts : list of (str, str)
        What the report is about.
    """
    curve, n_steps = report["curve"], report["n_steps"]
    n_rows = report["rows"]["n_rows"]
    last = curve["values"][-1]
    by_truth = curve["what"] == "accuracy"
    said = "correct" if by_truth else "predicted as by the whole forest"
    soon = curve["steps_to_99_percent"]
    quarter = next(at for at in curve["at"] if at["share"] == 0.25)
    summary = (
        f"On {n_rows:,} rows, {percent(quarter['value'])} are {said} after a quarter "
        f"of the {n_steps:,} steps"
    )
    summary += f", and {percent(last)} after all of them." if by_truth else "."
    tiles = [
        Tile(
            percent(quarter["value"]),
            f"{'correct' if by_truth else 'agree'} after a quarter of the steps",
            f"{quarter['steps']:,} of {n_steps:,} steps",
        ),
        Tile(
            f"{soon:,}",
            "steps to 99 % of the final value",
            f"{percent(soon / n_steps if n_steps else 0.0)} of all steps; from there "
            f"on the {curve['what']} never falls below it",
        ),
        Tile(
            percent(curve["mean"]),
            f"mean {curve['what']}",
            "over all states, from no step to all of them",
        ),
    ]
    if by_truth:
        tiles.append(Tile(percent(1.0 - last), "wrong at the end", "after all steps"))
    paragraphs = [
        "A step goes one level down in one tree. The classifier may be stopped after "
        "any step, and predicts from the nodes reached so far; after all steps the "
        "prediction is that of the model itself."
    ]
    if not by_truth:
        paragraphs.append(
            "No labels were given, so predictions are compared with those of the "
            "whole forest. Pass y to see the accuracy."
        )
    table = Table(
        ("Steps taken", f"{curve['what'].capitalize()}", "Same as after all steps"),
        [
            (
                f"{at['steps']:,} ({percent(at['share'])})",
                percent(at["value"]),
                percent(at["agreement"]),
            )
            for at in curve["at"]
        ],
        caption="Predictions after some of the steps, and how many already equal those "
        "after all of them",
    )
    section = Section(
        "curve", "Quality of early predictions", paragraphs, [_figure(report)], table
    )
    promise = Section(
        "promise",
        "What holds for new rows",
        [
            f"These are means over the {n_rows:,} rows of this report, and promise "
            "nothing about new ones. Rows that the step order was fitted to look "
            "better than others."
        ],
    )
    return Page(
        "Predictions after any number of steps",
        summary,
        tiles,
        [section, promise],
        facts,
    )


def _figure(report: Mapping[str, Any]) -> Figure:
    curve = report["curve"]
    values = curve["values"]
    n_steps, what = len(values) - 1, curve["what"]
    points = [(float(step), values[step]) for step in spread(n_steps, MOST_DRAWN)]
    low = min(values)
    # From a round number below the curve: from zero, its shape would be lost.
    bottom = 0.0 if low < 0.2 else max(0.0, low - 0.15 * (1.0 - low))
    chart = Chart(
        linear("steps taken", 0.0, float(n_steps)),
        linear(what, bottom, max(max(values) + 0.02, bottom + 0.05), percent),
        [
            Rule(values[-1], f"all steps {percent(values[-1])}", upright=False),
            Line(points, "first"),
        ],
    )
    listed = spread(n_steps, MOST_LISTED)
    table = Table(
        ("Steps", "Share of the steps", what.capitalize()),
        [
            (
                f"{step:,}",
                percent(step / n_steps if n_steps else 1.0),
                percent(values[step]),
            )
            for step in listed
        ],
    )
    whom = "the true labels" if what == "accuracy" else "the whole forest"
    soon = number(curve["steps_to_99_percent"])
    caption = (
        f"The share of the rows that agree with {whom}, after each step. From step "
        f"{soon} on it never falls below 99 % of its last value."
    )
    title = "Accuracy" if what == "accuracy" else "Agreement with all steps"
    return Figure("curve", f"{title} over the steps", caption, chart, table)
