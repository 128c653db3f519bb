"""From the JSON of a run to the tables of benchmarks/early/README.md.

``python -m benchmarks.early.tables RESULTS.json`` writes them there again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.compare.cells import (
    cell,
    fastest,
    labels_that_differ,
    machine_text,
    number,
    per_row,
    percent,
    skipped,
    spread,
    table,
)
from benchmarks.early.worker import FIRST, LIGHTGBM_STOP, OWN, WHOLE
from benchmarks.papers.page import put_results

PAGE = Path(__file__).parent / "README.md"

TITLES = {
    "soft": "Soft voting, trees in random order",
    "hard": "Hard voting, trees in random order",
    "cascade": "Cascade, trees in an order chosen for the purpose",
}
NAMES = {
    "adult": "Adult",
    "magic": "MAGIC",
    "census_income_kdd": "Census income",
    "cdc_diabetes": "CDC diabetes",
    "nomao": "Nomao",
}

# What is aimed at: how many times as fast as the model's own predict and as the
# fastest other engine, by kind; and how much of the trees saved is to be time saved.
GOALS_OWN = {"soft": 30.0}
GOALS_PEER = {"soft": 10.0, "cascade": 1.0}
GOAL_REALISED = 0.7


def write_page(result: dict[str, Any], page: Path = PAGE) -> None:
    """Put the tables between the two marks of the page."""
    put_results(page, render(result))


def render(result: dict[str, Any]) -> str:
    """Return the tables of a run as Markdown."""
    parts = [machine_text(result, "smaller models, few rows"), _behind(result)]
    for voting, title in TITLES.items():
        cases = [case for case in result["cases"] if case["voting"] == voting]
        if cases:
            batch = result["settings"]["batch"]
            parts += [f"### {title}", _answers(cases), _times(cases, batch)]
            parts += [_ratios(cases, batch), _single_rows(cases)]
    parts.append("### All engines")
    parts += [_details(case, result["settings"]["batch"]) for case in result["cases"]]
    return "\n\n".join(part for part in parts if part)


# --------------------------------------------------------------------- parts


def _behind(result: dict[str, Any]) -> str:
    """List every goal that was missed."""
    batch = result["settings"]["batch"]
    missed = []
    for case in result["cases"]:
        for entry in case["early"]:
            name = entry["name"]
            ours = per_row(case, name, batch)
            best = fastest(case, batch)
            found = [
                (
                    GOALS_OWN.get(case["voting"]),
                    per_row(case, OWN, batch) / ours,
                    "times as fast as the model's own predict",
                ),
                (
                    GOALS_PEER.get(case["voting"]) if best else None,
                    best[1] / ours if best else 0.0,
                    f"times as fast as {best[0]}" if best else "",
                ),
                (
                    1.0 if case["lightgbm_early_stop"] else None,
                    per_row(case, LIGHTGBM_STOP, batch) / ours,
                    f"times as fast as {LIGHTGBM_STOP}",
                ),
                (
                    GOAL_REALISED,
                    _realised(case, entry, batch),
                    "of the saving in trees",
                ),
                (
                    1.0,
                    per_row(case, WHOLE, 1) / per_row(case, name, 1),
                    "times as fast as no early stopping, single rows",
                ),
            ]
            missed += [
                f"- {_line(case, entry)}: {number(reached)} {what}, aimed at {goal:g}."
                for goal, reached, what in found
                if goal is not None and reached < goal
            ]
    if not missed:
        return "All goals were reached in this run."
    return "Goals that were missed in this run:\n\n" + "\n".join(missed)


def _answers(cases: list[dict[str, Any]]) -> str:
    """Trees evaluated and disagreement, mean and deviation over the fits."""
    hard = cases[0]["voting"] == "hard"
    stop = any(case["lightgbm_early_stop"] for case in cases)
    heads = ["trees evaluated", "disagreement"]
    heads += ["with the model's own `predict`"] if hard else []
    heads += [LIGHTGBM_STOP] if stop else []
    heads += ["exit points", "fitted in", "rows to calibrate, held out"]
    lines = []
    for case in cases:
        for entry in case["early"]:
            cells = [
                spread(entry["shares"], 2),
                spread(entry["disagreements"], 3),
            ]
            if hard:
                cells.append(spread(entry["own_disagreements"], 3))
            if stop:
                theirs = case["lightgbm_early_stop"]
                cells.append(percent(theirs["disagreement"], 3) if theirs else "")
            rows = case["rows"]
            cells += [
                str(len(entry["checks"])),
                f"{entry['fit_seconds']:.1f} s",
                f"{rows['calibrate']:,}, {rows['test']:,}",
            ]
            lines.append((_line(case, entry), cells))
    text = table("trees and disagreement", heads, lines)
    if hard:
        all_trees = percent(cases[0]["hard_against_own"], 3)
        text += (
            "\n\nThe majority of all trees differs from the model's own `predict`, "
            f"which averages probabilities, on {all_trees} of the held-out rows."
        )
    if stop:
        notes = [
            f"{_case(case)}: every {found['frequency']} trees, margin "
            f"{found['margin']:.2f}, {percent(found['disagreement_cal'], 3)} on "
            "calibration rows"
            for case in cases
            if (found := case["lightgbm_early_stop"])
        ]
        text += f"\n\nSettings of {LIGHTGBM_STOP}: {'; '.join(notes)}."
    return text


def _times(cases: list[dict[str, Any]], batch: int) -> str:
    names = [entry["name"] for entry in cases[0]["early"]]
    stop = any(case["lightgbm_early_stop"] for case in cases)
    heads = ["own `predict`", "fastest peer", "fastest peer that agrees"]
    heads += [LIGHTGBM_STOP] if stop else []
    heads += ["same runtime, no early stopping"]
    heads += [f"**{name}**" for name in names]
    lines = []
    for case in cases:
        cells = [cell(case, OWN, batch)]
        for found in (fastest(case, batch), fastest(case, batch, agreeing=True)):
            cells.append(f"{number(found[1])} {found[0]}" if found else "")
        if stop:
            theirs = case["lightgbm_early_stop"]
            cells.append(cell(case, LIGHTGBM_STOP, batch) if theirs else "")
        cells.append(cell(case, WHOLE, batch))
        cells += [cell(case, name, batch) for name in names]
        lines.append((_case(case), cells))
    return table(f"µs per row, {batch:,} rows", heads, lines)


def _ratios(cases: list[dict[str, Any]], batch: int) -> str:
    stop = any(case["lightgbm_early_stop"] for case in cases)
    heads = ["own `predict`", "fastest peer", "fastest peer that agrees"]
    heads += [LIGHTGBM_STOP] if stop else []
    heads += ["no early stopping", "saving in trees that is saved time"]
    lines = []
    for case in cases:
        for entry in case["early"]:
            ours = per_row(case, entry["name"], batch)
            cells = [_times_as_fast(per_row(case, OWN, batch), ours)]
            for found in (fastest(case, batch), fastest(case, batch, agreeing=True)):
                cells.append(_times_as_fast(found[1], ours) if found else "")
            if stop:
                theirs = per_row(case, LIGHTGBM_STOP, batch)
                there = case["lightgbm_early_stop"]
                cells.append(_times_as_fast(theirs, ours) if there else "")
            cells += [
                _times_as_fast(per_row(case, WHOLE, batch), ours),
                f"{100 * _realised(case, entry, batch):.0f} %",
            ]
            lines.append((_line(case, entry), cells))
    return table("times as fast as", heads, lines)


def _single_rows(cases: list[dict[str, Any]]) -> str:
    heads = ["no early stopping", "early stopping", "times as fast", "saved time"]
    lines = []
    for case in cases:
        whole = per_row(case, WHOLE, 1)
        for entry in case["early"]:
            name = entry["name"]
            cells = [
                cell(case, WHOLE, 1),
                cell(case, name, 1),
                _times_as_fast(whole, per_row(case, name, 1)),
                f"{100 * _realised(case, entry, 1):.0f} %",
            ]
            lines.append((_line(case, entry), cells))
    return table("µs for a single row, `predictor()`", heads, lines)


def _details(case: dict[str, Any], batch: int) -> str:
    """Every engine, the fastest first."""
    timed = [entry["peer"] for entry in case["times"] if entry["batch"] == batch]
    timed.sort(key=lambda name: per_row(case, name, batch))
    lines = []
    for name in timed:
        ours = name == WHOLE or name.startswith(("early", FIRST))
        shown = f"**{name}**" if ours else name
        lines.append((shown, [cell(case, name, batch), _differs(case, name)]))
    heads = ["µs per row", "labels that differ"]
    text = f"#### {_case(case)}\n\n" + table("engine", heads, lines)
    left_out = skipped(case)
    return text + (f"\n\n{left_out}" if left_out else "")


# ------------------------------------------------------------------- numbers


def _realised(case: dict[str, Any], entry: dict[str, Any], batch: int) -> float:
    """Return the share of time saved over the share of trees saved."""
    saved = 1.0 - per_row(case, entry["name"], batch) / per_row(case, WHOLE, batch)
    return saved / (1.0 - entry["shares"][0])


# --------------------------------------------------------------------- words


def _case(case: dict[str, Any]) -> str:
    return f"{NAMES[case['dataset']]}: {case['title']}"


def _line(case: dict[str, Any], entry: dict[str, Any]) -> str:
    return f"{_case(case)}, {entry['name'].removeprefix('early stopping, ')}"


def _times_as_fast(theirs: float, ours: float) -> str:
    return f"{number(theirs / ours)}"


def _differs(case: dict[str, Any], name: str) -> str:
    found = case["peers"].get(name)
    return "" if found is None else labels_that_differ(found["agreement"])


if __name__ == "__main__":
    write_page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
