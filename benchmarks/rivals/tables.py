"""The tables of the rivals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.compare.cells import percent, table
from benchmarks.papers.page import machine_line, put_results
from benchmarks.promise.cases import NAMES
from benchmarks.rivals.costs import SHARES, least_error

KINDS = {"forest": "random forest", "lightgbm": "LightGBM"}
MORE_NAMES = {"spambase": "Spambase", "miniboone_5k_partial": "MiniBooNE (5,044 rows)"}


def write_page(folder: Path, page: Path) -> None:
    """Put all results of a folder into a page."""
    put_results(page, render(_read(folder, "[!c]*"), _read(folder, "costs_*")))


def _read(folder: Path, pattern: str) -> list[dict[str, Any]]:
    paths = sorted(folder.glob(f"{pattern}.json"))
    return [json.loads(path.read_text("utf-8")) for path in paths]


def render(cases: list[dict[str, Any]], costs: list[dict[str, Any]]) -> str:
    """Return the tables as Markdown."""
    parts = []
    for target in sorted({one["target"] for case in cases for one in case["entries"]}):
        parts.append(f"### At most {percent(target, 1)} disagreement")
        parts += [_table(case, target) for case in cases]
    parts.append("### Columns bought per row")
    parts.append(_costs(costs))
    parts.append(machine_line())
    return "\n\n".join(parts)


def _table(case: dict[str, Any], target: float) -> str:
    entries = [one for one in case["entries"] if one["target"] == target]
    # What disagrees more than the target on the last rows is no winner.
    fewest = min(one["trees"] for one in entries if one["disagreement"] <= 1.5 * target)
    lines = []
    for one in entries:
        trees = percent(one["trees"] / case["n_trees"], 1)
        time = one["time_share"]
        cells = [
            f"**{trees}**" if one["trees"] == fewest else trees,
            percent(one["disagreement"], 2),
            "–" if time is None else percent(time, 0),
        ]
        lines.append((one["rival"], cells))
    head = (
        f"{NAMES[case['dataset']]}: {KINDS[case['kind']]}, {case['n_trees']} trees, "
        f"{case['n_rows'][2]:,} held-out rows"
    )
    heads = ["trees evaluated", "disagreement", "time, of all trees in spinney"]
    return table(head, heads, lines)


def _costs(costs: list[dict[str, Any]]) -> str:
    lines = []
    for case in costs:
        name = MORE_NAMES.get(case["dataset"]) or NAMES[case["dataset"]]
        for kind in ("pruned forest", "LightGBM, CEGB"):
            points = [(cost, error) for cost, error in case[kind]]
            cells = []
            for share in SHARES:
                error = least_error(points, share * case["n_columns"])
                cells.append("–" if error is None else percent(error, 1))
            cells.append(percent(min(error for _, error in points), 1))
            lines.append((f"{name}, {kind}", cells))
    heads = [f"error with {percent(share, 0)} of the columns" for share in SHARES]
    return table("data, method", [*heads, "with any"], lines)
