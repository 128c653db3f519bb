"""What the paper on optimal sequential testing prints, beside ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.papers import published
from benchmarks.papers.reading import Table, numbers_in, table_under
from benchmarks.papers.side_by_side import NO_NUMBER, Measured, Row, compared

NOTES = """\
Not measured: the 19 further sets of Figure 5 and the supplement. Figures 2, 3, 4 and 6
print no numbers; ours are drawn in [sequential.md](sequential.md).
"""


def all_rows(folder: Path) -> list[Row]:
    """Return Table 4, and what the text says."""
    table = table_under(folder / "sequential.md", "Table 4")
    text = (folder / "sequential.md").read_text(encoding="utf-8")
    n_runs = int(numbers_in(text.split("results: begin", 1)[1])[0])
    rows = []
    for name, paper in published.TABLE_4.items():
        cells = table.rows[name]
        for what, printed, cell in (
            ("trees evaluated", paper.trees, cells[1]),
            ("disagreement, at most 0.1 %", paper.disagreement, cells[2]),
            ("error of all trees", paper.error_of_all, cells[5]),
            ("error, stopped early", paper.error, cells[7]),
        ):
            mean, deviation = numbers_in(cell)
            digits = 1 if what.startswith("disagreement") else 2
            remark = compared(
                Measured(mean, deviation, n_runs),
                Measured(printed, deviation, published.N_SPLITS),
                " points",
                digits,
                published.REASONS_SEQUENTIAL.get(name, ""),
            )
            shown = f"{printed:.{digits}f} %"
            rows.append(Row("Table 4", name, what, shown, cell, remark))
    return rows + _sequential_claims(folder)


def _sequential_claims(folder: Path) -> list[Row]:
    """Return the numbers in the text of the paper."""
    methods = table_under(folder / "sequential.md", "All methods")
    minimax = _trees_asked(methods, "minimax")
    minimean = _trees_asked(methods, "minimean, calibrated")
    flat = {
        name: numbers_in(methods.cell(name, "minimean, uniform"))[1]
        for name in methods.rows
    }
    hard = ("Dota2", "Hospitalization")
    easy = [name for name in minimax if name not in hard]
    fast = sum(trees <= 25.0 for trees in minimean.values())
    one = table_under(folder / "solver_speed.md", "Minimean, 101")
    larger = table_under(folder / "solver_speed.md", "Larger votes")
    seconds = {
        (row, cells[0]): float(cells[3])
        for row, cells in _rows_with_repeats(folder / "solver_speed.md", larger)
    }
    thousand = [seconds[kind, "1,001"] for kind in ("minimean", "minimixed", "minimax")]
    broken = ", ".join(f"{name} {flat[name]:.2f} %" for name in hard)
    return [
        Row(
            "Abstract",
            "most of eight",
            "speed-up at 0.1 %, in trees",
            "4 times or more",
            f"{fast} of {len(minimean)} sets",
            f"{min(100 / t for t in minimean.values()):.1f} to "
            f"{max(100 / t for t in minimean.values()):.0f} times over all sets.",
        ),
        Row(
            "Section 4.2",
            "without the two hard sets",
            "trees saved at 0.1 %, minimax",
            "70 to 90 %, “often”",
            _saved(minimax[name] for name in easy),
            "Alike.",
        ),
        Row(
            "Section 4.2",
            "without the two hard sets",
            "trees saved at 0.1 %, minimean, calibrated",
            "80 to 99 %, “often”",
            _saved(minimean[name] for name in easy),
            "Alike.",
        ),
        Row(
            "Section 4.2",
            "the two hard sets",
            "disagreement of minimean with uniform votes at 0.1 %",
            NO_NUMBER,
            broken,
            "Above the bound, as the paper says of sets with close votes.",
        ),
        Row(
            "Section 3",
            "100 voters",
            "time to solve",
            "below a minute",
            f"{one.cell('spinney, proof included', 'seconds')} s",
            "101 voters, minimean, proof included; other machine, other method.",
        ),
        Row(
            "Section 5",
            "1,000 voters",
            "time to solve",
            "future research",
            f"{min(thousand)} to {max(thousand)} s",
            "1,001 voters, the three objectives; "
            f"10,001 voters, minimean: {seconds['minimean', '10,001']:g} s.",
        ),
    ]


def _trees_asked(methods: Table, column: str) -> dict[str, float]:
    """Return the share of trees of one method on each data set."""
    return {name: numbers_in(methods.cell(name, column))[0] for name in methods.rows}


def _saved(trees: Iterable[float]) -> str:
    """Return the range of trees saved, in percent."""
    saved = [100.0 - share for share in trees]
    return f"{min(saved):.1f} to {max(saved):.1f} %"


def _rows_with_repeats(page: Path, table: Table) -> list[tuple[str, tuple[str, ...]]]:
    """Return all rows of a table whose first cells are not all different."""
    head = f"| {' | '.join(table.columns)} |"
    lines = page.read_text(encoding="utf-8").split(head, 1)[1].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows.append((cells[0], tuple(cells[1:])))
    return rows
