"""What the paper on pruning with feature costs prints, beside ours."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers import published
from benchmarks.papers.reading import Table, numbers_in, table_under
from benchmarks.papers.side_by_side import NOT_AT_HAND, Measured, Row, compared

NOTES = """\
Errors are matched, not equal: the paper and we prune until the error on test rows has
grown by the same factor, and compare the remaining cost. Forests of scikit-learn,
unequal costs, and pruning with unseen rows, which the paper does not have, are in
[pruning.md](pruning.md). CIFAR was not available.
"""
OUR_NAMES = {"MiniBooNE": "MiniBooNE (part)"}
CELLS = (
    ("low", "together", "together_low"),
    ("low", "one by one", "alone_low"),
    ("high", "together", "together_high"),
    ("high", "one by one", "alone_high"),
)


def all_rows(folder: Path) -> list[Row]:
    """Return Table 1, and what the text makes of it."""
    table = table_under(folder / "pruning.md", "BudgetRF")
    rows: list[Row] = []
    cheaper: list[bool] = []
    for name, paper in published.TABLE_1.items():
        ours = OUR_NAMES.get(name, name)
        if ours not in table.rows:
            rows += _not_at_hand(name, paper)
            continue
        rows += _unpruned(table, ours, name, paper)
        rows += _pruned(table, ours, name, paper)
        for level in ("low", "high"):
            together, alone = (
                numbers_in(table.cell(ours, f"{level}: {way}"))[0]
                for way in ("together", "one by one")
            )
            cheaper.append(together < alone)
    rows.append(
        Row(
            "Section 6",
            "all sets",
            "pairs in which pruning together is cheaper than one by one",
            "all (10 of 10)",
            f"{sum(cheaper)} of {len(cheaper)}",
            "Alike." if all(cheaper) else "Not always here.",
        )
    )
    return rows


def _unpruned(
    table: Table, ours: str, name: str, paper: published.PruningRow
) -> list[Row]:
    """Return cost and error of the forest as it was grown."""
    n_runs = int(table.cell(ours, "runs"))
    rows = []
    for what, printed, digits in (("cost", paper.cost, 2), ("error", paper.error, 4)):
        cell = table.cell(ours, what)
        remark = compared(
            Measured(*numbers_in(cell), n_runs),
            Measured(*printed, paper.n_runs),
            "",
            digits,
            published.REASONS_PRUNING.get(name, ""),
        )
        title = f"{what} without pruning"
        rows.append(Row("Table 1", name, title, _shown(printed, digits), cell, remark))
    return rows


def _pruned(
    table: Table, ours: str, name: str, paper: published.PruningRow
) -> list[Row]:
    """Return what is left of the cost at two errors."""
    n_runs = int(table.cell(ours, "runs"))
    whole = numbers_in(table.cell(ours, "cost"))[0]
    rows = []
    for level, way, field in CELLS:
        printed = getattr(paper, field)
        cell = table.cell(ours, f"{level}: {way}")
        percent, cost, deviation, error, error_deviation = numbers_in(cell)
        scale = 100.0 / whole
        paper_scale = 100.0 / paper.cost.mean
        remark = compared(
            Measured(percent, scale * deviation, n_runs),
            Measured(
                printed.percent, paper_scale * printed.cost.deviation, paper.n_runs
            ),
            " points",
            1,
            published.REASONS_PRUNING.get(name, ""),
        )
        found = published.Pruned(
            percent,
            published.Spread(cost, deviation),
            published.Spread(error, error_deviation),
        )
        what = f"cost left at the {level} error, pruned {way}"
        rows.append(
            Row("Table 1", name, what, _shown_cell(printed), _shown_cell(found), remark)
        )
    return rows


def _not_at_hand(name: str, paper: published.PruningRow) -> list[Row]:
    """Return the rows of a data set that we do not have."""
    said = [
        ("cost without pruning", _shown(paper.cost, 2)),
        ("error without pruning", _shown(paper.error, 4)),
    ]
    said += [
        (f"cost left at the {level} error, pruned {way}", _shown_cell(cell))
        for level, way, field in CELLS
        for cell in [getattr(paper, field)]
    ]
    remark = "The set was not available."
    return [
        Row("Table 1", name, what, cell, NOT_AT_HAND, remark) for what, cell in said
    ]


def _shown(number: published.Spread, digits: int) -> str:
    return f"{number.mean:.{digits}f} ± {number.deviation:.{digits}f}"


def _shown_cell(cell: published.Pruned) -> str:
    return (
        f"{cell.percent:.1f} %: {_shown(cell.cost, 2)}, error {_shown(cell.error, 4)}"
    )
