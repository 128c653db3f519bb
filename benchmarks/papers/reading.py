"""Take tables and numbers out of the pages that benchmarks have written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

NUMBER = r"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?"


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Parameters
    ----------
    heading : str
        The heading above it.
    columns : tuple of str
        Its head.
    rows : dict of str to tuple of str
        Its rows by their first cell; the cells after it.
    """

    heading: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]

    def cell(self, row: str, column: str) -> str:
        """Return the cell of a row and a column, both by name.

        Parameters
        ----------
        row, column : str
            Their names, as the page has them.
        """
        return self.rows[row][self.columns.index(column) - 1]


def tables_of(page: Path) -> list[Table]:
    """Return the tables of a page, from the top to the bottom.

    Parameters
    ----------
    page : path
        A Markdown file.
    """
    tables = []
    heading, lines = "", []
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("|"):
            lines.append(_cells(line))
        elif lines:
            head, _, *body = lines
            rows = {cells[0]: cells[1:] for cells in body}
            tables.append(Table(heading, head, rows))
            lines = []
    return tables


def table_under(page: Path, heading: str, first_column: str | None = None) -> Table:
    """Return the first table whose heading begins like this.

    Parameters
    ----------
    page : path
        A Markdown file.
    heading : str
        How the heading above the table begins.
    first_column : str, optional
        How the head of its first column begins, if several tables share a heading.
    """
    for table in tables_of(page):
        if table.heading.startswith(heading) and (
            first_column is None or table.columns[0].startswith(first_column)
        ):
            return table
    msg = f"{page.name} has no table under {heading!r} ({first_column or 'any'})."
    raise ValueError(msg)


def numbers_in(cell: str) -> list[float]:
    """Return the numbers of a cell, in the order in which they stand there.

    Parameters
    ----------
    cell : str
        A text such as ``13.04 ± 0.11 %``.
    """
    return [float(text.replace(",", "")) for text in re.findall(NUMBER, cell)]


def _cells(line: str) -> tuple[str, ...]:
    """Return the cells of a line of a table, without bold letters."""
    inside = line.strip().strip("|")
    return tuple(cell.strip().replace("**", "") for cell in inside.split("|"))
