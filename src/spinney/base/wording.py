"""Numbers and tables as people read them: in texts, on the terminal, on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# Shown where there is no number.
MISSING = "–"


def percent(share: float | None) -> str:
    """Return a share in per cent, with three significant digits."""
    if share is None or math.isnan(share):
        return MISSING
    if share and abs(share) < 1e-8:
        return "almost 0 %"
    return f"{_digits(100.0 * share, 3)} %"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, and commas in large ones.

    Parameters
    ----------
    value : float or None
        The number; None and NaN are shown as a dash.
    digits : int, default=3
        Significant digits.
    """
    if value is None or math.isnan(value):
        return MISSING
    return _digits(value, digits)


def whole(value: float) -> str:
    """Return a whole number with commas."""
    return f"{round(value):,}"


def times(factor: float | None) -> str:
    """Return a factor, as in 3.5 ×."""
    return MISSING if factor is None else f"{_digits(factor, 2)} ×"


def of_rows(n_chosen: int, n_rows: int) -> str:
    """Return how many of how many rows."""
    return f"{n_chosen:,} of {n_rows:,} row{'' if n_rows == 1 else 's'}"


def ratio(above: float | None, below: float | None) -> float | None:
    """Return a quotient, None where there is none."""
    if above is None or not below:
        return None
    return above / below


def date(stamp: str) -> str:
    """Return a time stamp as day and minute."""
    return f"{stamp[:10]} {stamp[11:16]} UTC"


def in_columns(rows: Sequence[Sequence[str]], left: tuple[int, ...] = (0,)) -> str:
    """Return cells as lines of text in which columns are aligned.

    Parameters
    ----------
    rows : sequence of sequences of str
        Cells; the first row holds the headings.
    left : tuple of int, default=(0,)
        Columns that are aligned to the left; all others to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _digits(value: Any, digits: int) -> str:
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(float(value), places)
    if rounded:
        # 9.996 has become 10.0, one digit too many.
        places = digits - 1 - math.floor(math.log10(abs(rounded)))
    text = f"{rounded:,.{max(places, 0)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")
