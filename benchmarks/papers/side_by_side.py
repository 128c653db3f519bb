"""One thing that a paper says and what came out here, as a row of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

NO_NUMBER = "prints no number"
NOT_AT_HAND = "not measured"
# Differences of means beyond so many standard errors are not called chance.
BEYOND_CHANCE = 2.0


@dataclass(frozen=True)
class Row:
    """One thing that a paper says, and what came out here."""

    where: str
    data_set: str
    what: str
    paper: str
    ours: str
    remark: str


@dataclass(frozen=True)
class Measured:
    """A mean, its standard deviation over runs, and the number of runs."""

    mean: float
    deviation: float
    n_runs: int


def as_table(rows: Iterable[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [
        "| where | data set | what | paper | ours | remark |",
        "|---|---|---|---:|---:|---|",
    ]
    lines += [
        f"| {row.where} | {row.data_set} | {row.what} | {row.paper} | {row.ours} "
        f"| {row.remark} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def compared(
    ours: Measured, paper: Measured, unit: str, digits: int, reason: str = ""
) -> str:
    """Say whether two means differ by more than chance, and by how much."""
    difference = ours.mean - paper.mean
    error = math.hypot(
        ours.deviation / math.sqrt(ours.n_runs),
        paper.deviation / math.sqrt(paper.n_runs),
    )
    last_digit = 1.001 * 10.0**-digits
    if abs(difference) <= max(BEYOND_CHANCE * error, last_digit):
        return "Alike."
    words = "higher" if difference > 0 else "lower"
    reason = reason or "No reason is known."
    return f"{abs(difference):.{digits}f}{unit} {words}. {reason}"
