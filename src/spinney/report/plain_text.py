"""Pages as Markdown and as plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from spinney.base.wording import in_columns
from spinney.report.contents import Page, Table

WIDTH = 80
# Characters with a meaning in Markdown.
SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&])")


def markdown_of(page: Page) -> str:
    """Return a page as Markdown, with tables where there are drawings.

    Parameters
    ----------
    page : Page
        The page.
    """
    parts = [f"# {page.title}", _escaped(page.summary)]
    heads = ("", "", "")
    tiles = [(f"**{_escaped(t.value)}**", t.label, t.detail) for t in page.tiles]
    parts.append(_markdown_table(heads, tiles, raw_first=True))
    for section in page.sections:
        parts.append(f"## {_escaped(section.title)}")
        parts += [f"**Warning:** {_escaped(words)}" for words in section.warnings]
        parts += [_escaped(words) for words in section.paragraphs]
        for figure in section.figures:
            parts += [
                f"### {_escaped(figure.title)}",
                _escaped(figure.caption),
                _markdown_table(figure.table.columns, _marked(figure.table)),
            ]
        if section.table is not None:
            table = section.table
            parts.append(_markdown_table(table.columns, _marked(table)))
    parts.append("## About this report")
    parts.append(
        "\n".join(f"- {_escaped(name)}: {_escaped(said)}" for name, said in page.facts)
    )
    return "\n\n".join(parts) + "\n"


def _marked(table: Table) -> list[tuple[str, ...]]:
    """Return the rows of a table, the marked one with a sign after its name."""
    return [
        (f"{row[0]} ◂", *row[1:]) if k == table.marked else row
        for k, row in enumerate(table.rows)
    ]


def _markdown_table(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], raw_first: bool = False
) -> str:
    lines = ["| " + " | ".join(map(_escaped, columns)) + " |"]
    lines.append("|" + " --- |" + " ---: |" * (len(columns) - 1))
    if raw_first:
        lines[1] = "|" + " --- |" * len(columns)
    for first, *rest in rows:
        cells = [first if raw_first else _escaped(first), *map(_escaped, rest)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def text_of_page(page: Page) -> str:
    """Return a page as plain text: headline numbers, tables and facts.

    Parameters
    ----------
    page : Page
        The page.
    """
    parts = [f"{page.title}\n{'=' * len(page.title)}", _filled(page.summary)]
    width = max(len(tile.value) for tile in page.tiles)
    parts.append(
        "\n".join(
            textwrap.fill(
                _printable(f"{tile.label} ({tile.detail})"),
                WIDTH,
                initial_indent=f"{tile.value:>{width}}  ",
                subsequent_indent=" " * (width + 2),
            )
            for tile in page.tiles
        )
    )
    for section in page.sections:
        tables = [section.table] if section.table is not None else []
        if section.slider is not None:
            tables += [figure.table for figure in section.figures]
        if not tables and not section.paragraphs:
            continue
        title = section.title
        parts.append(f"{title}\n{'-' * len(title)}")
        parts += [_filled(f"Warning: {words}") for words in section.warnings]
        parts += [_filled(words) for words in section.paragraphs]
        parts += [_text_table(table) for table in tables]
    names = max(len(name) for name, _ in page.facts)
    parts.append(
        "\n".join(f"{name:<{names}}  {_printable(said)}" for name, said in page.facts)
    )
    return "\n\n".join(parts) + "\n"


def _filled(words: str) -> str:
    return textwrap.fill(_printable(words), WIDTH)


def _printable(text: str) -> str:
    """Return a text without characters that would move a terminal's cursor."""
    return "".join(
        sign if sign.isprintable() else " " if sign.isspace() else "�" for sign in text
    )


def _text_table(table: Table) -> str:
    rows = [table.columns, *_marked(table)]
    cells = [[_printable(cell) for cell in row] for row in rows]
    return in_columns(cells)
