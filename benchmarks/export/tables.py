"""The tables of the README, written from what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

README = Path(__file__).parent / "README.md"
MARKS = ("<!-- tables -->", "<!-- end of tables -->")


def write_tables(results: dict[str, Any]) -> None:
    """Put the tables into the README, between its marks.

    Parameters
    ----------
    results : dict
        What `run` has measured.
    """
    lines: list[str] = []
    for name, rows in results["devices"].items():
        lines += [f"### {name}: flash and instructions", ""]
        lines += [
            "| code | flash, Cortex-M0 | flash, Cortex-M3 | instructions per row "
            "| differ |",
            "|---|---:|---:|---:|---:|",
        ]
        for row in rows:
            lines.append(
                f"| {row['exporter']} | {_whole(row.get('cortex-m0'))} | "
                f"{_whole(row.get('cortex-m3'))} | {_whole(row.get('instructions'))} | "
                f"{_percent(row.get('differ'))} |"
            )
        lines.append("")
    for name, rows in results["servers"].items():
        lines += [f"### {name}: a single row on x86", ""]
        lines += [
            "| code in C, `-O2` | ns per row | trees | differ |",
            "|---|---:|---:|---:|",
        ]
        for row in rows:
            trees = "–" if "early exit" in row["exporter"] else "all"
            if "trees" in row:
                trees = f"{100 * row['trees']:.1f} %"
            lines.append(
                f"| {row['exporter']} | {_whole(row['ns'])} | {trees} "
                f"| {row.get('failed') or _percent(row['differ'])} |"
            )
        lines += _early_exit(rows)
        lines += ["", "| called from Python | µs per row |", "|---|---:|"]
        lines += [
            f"| {row['caller']} | {row['us']:.2f} |" for row in results["callers"][name]
        ]
        lines.append("")
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    README.write_text(
        "\n".join([before + MARKS[0], "", *lines, MARKS[1] + after]), encoding="utf-8"
    )


def _early_exit(rows: list[dict[str, Any]]) -> list[str]:
    """Return a sentence about what early exit saves, beside the trees that it saves."""
    by_name = {row["exporter"]: row for row in rows}
    early = by_name.get("spinney exact, early exit")
    if early is None or "trees" not in early:
        return []
    factor = by_name["spinney exact"]["ns"] / early["ns"]
    return [
        "",
        f"Early exit evaluates {100 * early['trees']:.1f} % of the trees, "
        f"{1 / early['trees']:.1f} times fewer, and is {factor:.1f} times as fast.",
    ]


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{round(value):,}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


if __name__ == "__main__":
    folder = Path(__file__).parent / "results"
    write_tables(json.loads((folder / "export.json").read_text(encoding="utf-8")))
