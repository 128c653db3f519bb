"""Figures about rows that exit early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spinney.base.wording import number, percent
from spinney.report.contents import Figure, Table
from spinney.report.drawing import Axis, Band, Bars, Chart, Line, Rule, Shape, linear


def trees_word(report: Mapping[str, Any]) -> str:
    """Return what is evaluated: trees, or voters of other kinds."""
    return "voters" if report["model"]["n_nodes"] is None else "trees"


def figure_of_histogram(
    name: str,
    title: str,
    caption: str,
    histogram: Mapping[str, Any],
    label: str,
    *,
    whole_numbers: bool,
    rules: list[Rule],
) -> Figure:
    """Return a figure of how many rows have which number.

    Parameters
    ----------
    name, title, caption : str
        As for `Figure`.
    histogram : mapping
        ``first``, ``last`` and ``rows`` of each bin.
    label : str
        What the number is.
    whole_numbers : bool
        Whether bins cover whole numbers, both ends included.
    rules : list of Rule
        Lines to draw across.
    """
    first, last, rows = histogram["first"], histogram["last"], histogram["rows"]
    total = sum(rows)
    shares = [n / total if total else 0.0 for n in rows]
    # A bar over whole numbers reaches from half below the first to half above the last.
    half = 0.5 if whole_numbers else 0.0
    bars = [
        (low - half, high + half, share)
        for low, high, share in zip(first, last, shares, strict=True)
    ]
    chart = Chart(
        linear(label, min(0, first[0]) if whole_numbers else first[0], last[-1] + half),
        linear("share of the rows", 0.0, max(shares) * 1.12, percent, most=4),
        [Bars(bars), *rules],
    )
    cells = [
        (_span(low, high, whole_numbers), f"{n:,}", percent(share))
        for low, high, n, share in zip(first, last, rows, shares, strict=True)
        if n
    ]
    table = Table((label[:1].upper() + label[1:], "Rows", "Share"), cells)
    return Figure(name, title, caption, chart, table)


def _span(low: float, high: float, whole_numbers: bool) -> str:
    if whole_numbers:
        return f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{number(low)} to {number(high)}"


def figure_of_distribution(report: Mapping[str, Any]) -> Figure:
    """Return the figure of how far rows are from the decision threshold.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    found, model = report["distribution"], report["model"]
    what = found["what"]
    n_trees, classes = model["n_trees"], model["classes"]
    word = trees_word(report)
    # With one class there is no threshold, and a lead has none worth drawing.
    has_threshold = "lead" not in what and found["border"] is not None
    rules = [Rule(found["border"], "threshold")] if has_threshold else []
    if what == "votes":
        title, label = (
            "Distribution of the votes",
            f"votes for “{classes[-1]}”, of {n_trees:,}",
        )
        caption = f"Votes of all {n_trees:,} {word}, row by row."
        early = (
            "Rows far from the decision threshold are decided after a few votes; those "
            "close to it take most of the work."
        )
    elif what == "score":
        title, label = (
            "Distribution of the scores",
            f"score of all {word} for “{classes[-1]}”",
        )
        caption = (
            f"The score of all {word}, row by row. Above the decision threshold the "
            f"prediction is “{classes[-1]}”."
        )
        early = "Rows far from it are decided early."
    else:
        title = "Distribution of the lead"
        label = "lead of the best class" + (", in votes" if "votes" in what else "")
        caption = (
            f"How far the best class is ahead of the second one with all {word}, row "
            "by row."
        )
        early = "Rows with a large lead are decided early."
    if report["kind"] != "all trees":
        caption += f" {early}"
    return figure_of_histogram(
        "distribution",
        title,
        caption,
        found["histogram"],
        label,
        whole_numbers="votes" in what,
        rules=rules,
    )


def figure_of_counts(report: Mapping[str, Any]) -> Figure:
    """Return the figure of how many trees are evaluated for a row.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    trees, word = report["trees"], trees_word(report)
    caption = (
        f"Half of the rows need at most {number(trees['median'])} of the {word}, 95 % "
        f"at most {number(trees['percentile_95'])}. The mean is "
        f"{number(trees['mean'])}."
    )
    return figure_of_histogram(
        "counts",
        f"How many {word} a row needs",
        caption,
        trees["histogram"],
        f"{word} evaluated",
        whole_numbers=True,
        rules=[Rule(trees["mean"], f"mean {number(trees['mean'])}")],
    )


def figure_of_stopping(report: Mapping[str, Any]) -> Figure | None:
    """Return the figure of when a row is decided; None if there is nothing to draw.

    Parameters
    ----------
    report : mapping
        What `collect` has found.
    """
    found = report["stopping"]
    if found is None:
        return None
    word = trees_word(report)
    n_trees = report["model"]["n_trees"]
    if found["margin"] is not None:
        return _figure_of_margins(found, word, n_trees)
    steps = found["steps"]
    bounds = [
        value
        for side in ("lower", "upper")
        for value in found[side]
        if value is not None
    ]
    if not bounds:
        return None
    negative, positive = report["model"]["classes"]
    votes = found["what"] == "votes"
    # Votes are drawn as a share: the distance from one half is easy to see.
    low, high = (0.0, 1.0) if votes else _padded(bounds, found["border"])
    shapes: list[Shape] = []
    over = [(s, v / s if votes else v, high) for s, v in _known(steps, found["upper"])]
    under = [(s, low, v / s if votes else v) for s, v in _known(steps, found["lower"])]
    for points, style, label in (
        (over, "first", positive),
        (under, "second", negative),
    ):
        if points:
            points = _seen(points, n_trees)
            edge = [(s, a if style == "first" else b) for s, a, b in points]
            shapes.append(Band(points, style))
            shapes.append(
                Line(edge, style, dots=2 < len(edge) < 40, label=f"decided: “{label}”")
            )
    if votes:
        shapes.append(Rule(0.5, "tie", False, is_named_first=True))
        y_axis = linear(f"votes so far for “{positive}”", 0.0, 1.0, percent)
        caption = (
            "At each exit point, a row in a shaded area is decided. In between, the "
            f"vote is still open, and more {word} are evaluated."
        )
    else:
        shapes.append(Rule(found["border"], "threshold", False, is_named_first=True))
        y_axis = linear("partial score", low, high)
        caption = (
            "At each exit point, a row in a shaded area is decided. In between, the "
            f"score is still open, and more {word} are added."
        )
    chart = Chart(_steps_axis(word, steps, n_trees), y_axis, shapes)
    cells = [
        (f"{step:,}", number(below, 4), number(above, 4))
        for step, below, above in zip(
            steps, found["lower"], found["upper"], strict=True
        )
    ]
    inclusive = "at most" if votes else "below"
    table = Table(
        (
            f"{word.capitalize()} evaluated",
            f"“{negative}” if {inclusive}",
            f"“{positive}” if {'at least' if votes else 'above'}",
        ),
        cells,
    )
    return Figure(
        "stopping",
        "When a row is decided",
        caption + _ending(found, word),
        chart,
        table,
    )


def _ending(found: Mapping[str, Any], word: str) -> str:
    """Return a sentence about an exit point at which all rows are decided."""
    last = found["all_done_after"]
    return "" if last is None else f" After {last:,} {word} all rows are decided."


def _figure_of_margins(
    found: Mapping[str, Any], word: str, n_trees: int
) -> Figure | None:
    known = _known(found["steps"], found["margin"])
    if not known:
        return None
    votes = found["what"] == "lead in votes"
    lead = [(step, value / step if votes else value) for step, value in known]
    top = 1.1 * max(value for _, value in lead) or 1.0
    area = _seen([(step, value, top) for step, value in lead], n_trees)
    edge = [(step, value) for step, value, _ in area]
    caption = (
        "At each exit point, a row is decided if its best class leads the second by "
        "more than the line."
    )
    if votes:
        caption = (
            "At each exit point, a row is decided if its best class is far enough "
            "ahead. How far depends on its votes; the smallest lead that can suffice "
            "is drawn."
        )
    y_axis = linear("sufficient lead", 0.0, top)
    if votes:
        y_axis = linear("lead, of the votes so far", 0.0, top, percent)
    chart = Chart(
        _steps_axis(word, found["steps"], n_trees),
        y_axis,
        [
            Band(area, "first"),
            Line(edge, "first", dots=2 < len(edge) < 40, label="decided"),
        ],
    )
    cells = [(f"{step:,}", number(value, 4)) for step, value in known]
    table = Table((f"{word.capitalize()} evaluated", "Sufficient lead"), cells)
    return Figure(
        "stopping",
        "When a row is decided",
        caption + _ending(found, word),
        chart,
        table,
    )


def _seen(
    points: list[tuple[float, float, float]], n_trees: int
) -> list[tuple[float, float, float]]:
    """Return points of an area that can be seen, even with one exit point only."""
    if len(points) > 1:
        return points
    ((step, low, high),) = points
    return [(step - 0.02 * n_trees, low, high), (step + 0.02 * n_trees, low, high)]


def _steps_axis(word: str, steps: list[int], n_trees: int) -> Axis:
    """Return an axis on which early steps, where most rows exit, have some room."""
    label = f"{word} evaluated"
    first, last = float(steps[0]), float(steps[-1])
    if first == last:
        return linear(label, 0.0, float(n_trees))
    if last < 8 * first:
        return linear(label, 0.0, last)
    return Axis(label, first, last, lambda value: f"{value:,g}", is_log=True)


def _known(steps: list[int], values: list[float | None]) -> list[tuple[float, float]]:
    """Return the exit points at which a row may exit at all."""
    return [(s, v) for s, v in zip(steps, values, strict=True) if v is not None]


def _padded(values: list[float], threshold: float) -> tuple[float, float]:
    low, high = min([*values, threshold]), max([*values, threshold])
    pad = 0.12 * (high - low) or 1.0
    return low - pad, high + pad
