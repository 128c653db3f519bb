"""The page that ``spinney demo`` writes: all that it has shown, with the drawings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spinney.base.wording import date, number, percent, whole
from spinney.report.contents import Page, Section, Table, Tile
from spinney.report.page import page_of
from spinney.report.rendering import html_of

if TYPE_CHECKING:
    from spinney.cli.demo_rooms import Shown


def html_of_demo(shown: Sequence[Shown], version: str) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    shown : sequence of Shown
        What was shown.
    version : str
        Version of spinney.
    """
    first = shown[0]
    tiles = [
        Tile(
            f"{one.scikit_learn / one.spinney:,.0f} ×",
            f"as fast as scikit-learn: {one.name}",
            f"{number(one.spinney)} µs per row against {number(one.scikit_learn)} µs, "
            "in batches",
        )
        for one in shown[:2]
    ]
    tiles.append(
        Tile(
            f"{first.single_scikit_learn / first.single_spinney:,.0f} ×",
            "as fast for a single row",
            f"{number(first.single_spinney)} µs against "
            f"{number(first.single_scikit_learn)} µs, {first.name}",
        )
    )
    tiles.append(
        Tile(
            percent(first.disagreement),
            "of new rows predicted differently",
            f"{percent(first.promised or 0.0)} allowed, {first.name}",
        )
    )
    page = Page(
        "Four ways to evaluate less",
        "Small models, trained on data that come with scikit-learn or are synthetic, "
        "evaluated by spinney: with all trees, and with less.",
        tiles,
        [
            _overview(shown),
            *(_section(one, index) for index, one in enumerate(shown)),
        ],
        [
            ("Data", "handwritten digits, breast cancer, and two synthetic classes"),
            ("Times", "one thread, the fastest of three, on this machine"),
            (
                "Made",
                f"{date(datetime.now(UTC).isoformat())} by spinney {version}",
            ),
        ],
    )
    return html_of(page)


def _overview(shown: Sequence[Shown]) -> Section:
    """Return the table that stands first."""
    rows = [
        (
            one.name,
            f"{number(one.used)} of {whole(one.in_all)} {one.unit}",
            "none" if one.promised is None else percent(one.promised),
            percent(one.disagreement),
            number(one.scikit_learn),
            number(one.spinney),
        )
        for one in shown
    ]
    columns = (
        "",
        "used per row",
        "disagreement promised",
        "measured on new rows",
        "scikit-learn, µs per row",
        "spinney, µs per row",
    )
    same = sum(one.n_different for one in shown) == 0
    words = (
        "With all trees, spinney makes the same prediction as scikit-learn for every "
        "one of these rows."
        if same
        else "With all trees, some predictions differ from those of scikit-learn; this "
        "is a bug."
    )
    return Section("overview", "All in one table", [words], [], Table(columns, rows))


def _section(one: Shown, index: int) -> Section:
    """Return the drawings of one way, under one heading."""
    report = dict(one.report)
    if "microseconds" in report:
        # Timed apart from the table, with as many threads as the model has.
        report["microseconds"] = report["microseconds"] | {"original": None}
    page = page_of(report)
    figures = [
        # Names are unique on a page, and the same drawing comes in several reports.
        replace(figure, name=f"{figure.name}-{index}")
        for section in page.sections
        for figure in section.figures
    ]
    sliders = [section.slider for section in page.sections if section.slider]
    return Section(
        f"way-{index}",
        one.name.capitalize(),
        [f"{one.model.capitalize()}. {page.summary}"],
        figures,
        # One slider is enough to see what it does, and the script drives one.
        slider=sliders[0] if sliders and index == 0 else None,
    )
