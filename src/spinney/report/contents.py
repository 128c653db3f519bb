"""The parts of a page, whatever it is written in: HTML, Markdown or text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tile:
    """A headline number.

    Parameters
    ----------
    value : str
        The number.
    label : str
        What it counts or measures.
    detail : str
        What to compare it with.
    """

    value: str
    label: str
    detail: str


@dataclass(frozen=True)
class Table:
    """Numbers in rows and columns.

    Parameters
    ----------
    columns : tuple of str
        Heads of the columns. The first column names the row.
    rows : sequence of tuple of str
        Cells.
    marked : int or None
        The row to be marked, if one is.
    caption : str
        What the table shows.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    marked: int | None = None
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart, with the same information in words and numbers.

    Parameters
    ----------
    name : str
        A short name, unique on the page.
    title : str
        What is drawn.
    caption : str
        What is seen, in plain words.
    chart : object with a method `svg`
        The drawing.
    table : Table
        The numbers that are drawn.
    """

    name: str
    title: str
    caption: str
    chart: Any
    table: Table


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading.

    Parameters
    ----------
    name : str
        A short name, unique on the page.
    title : str
        The heading.
    paragraphs : list of str
        What is said first.
    figures : list of Figure
        Drawings.
    table : Table or None
        A table that is always shown.
    slider : dict or None
        Bounds to choose from with a slider, below the figures.
    warnings : list of str
        Warnings, shown before everything else.
    """

    name: str
    title: str
    paragraphs: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    table: Table | None = None
    slider: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """The contents of a report.

    Parameters
    ----------
    title : str
        The title.
    summary : str
        The main thing, in one or two sentences.
    tiles : list of Tile
        Headline numbers.
    sections : list of Section
        The rest.
    facts : list of (str, str)
        What the report is about and how it was made.
    """

    title: str
    summary: str
    tiles: list[Tile]
    sections: list[Section]
    facts: list[tuple[str, str]]
