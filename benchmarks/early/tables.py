"""From the JSON of a run to the tables of benchmarks/early/README.md.

``python -m benchmarks.early.tables RESULTS.json`` writes them there again.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.compare.table import BUSY, MAX_DIFFERENT
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
    parts = [_machine(result), _behind(result)]
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


def _machine(result: dict[str, Any]) -> str:
    about = result["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in about["versions"].items())
    load = ", ".join(
        f"{about[key]:.1f} {when}"
        for key, when in (("load_before", "before"), ("load_after", "after"))
        if about.get(key) is not None
    )
    remarks = " A quick run: smaller models, few rows." if result["quick"] else ""
    if (about.get("load_before") or 0.0) > BUSY * about["cores"]:
        remarks += (
            " **The machine was busy with other work: do not trust these times.**"
        )
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['system']}, "
        f"{about['date']}. Load average {load}. The run took "
        f"{result['settings']['wall_seconds'] / 60:.0f} minutes.{remarks}\n\n"
        f"Python {about['python']}; {versions}."
    )


def _behind(result: dict[str, Any]) -> str:
    """List every goal that was missed."""
    batch = result["settings"]["batch"]
    missed = []
    for case in result["cases"]:
        for entry in case["early"]:
            name = entry["name"]
            ours = _per_row(case, name, batch)
            fastest = _fastest(case, batch)
            found = [
                (
                    GOALS_OWN.get(case["voting"]),
                    _per_row(case, OWN, batch) / ours,
                    "times as fast as the model's own predict",
                ),
                (
                    GOALS_PEER.get(case["voting"]) if fastest else None,
                    fastest[1] / ours if fastest else 0.0,
                    f"times as fast as {fastest[0]}" if fastest else "",
                ),
                (
                    1.0 if case["lightgbm_early_stop"] else None,
                    _per_row(case, LIGHTGBM_STOP, batch) / ours,
                    f"times as fast as {LIGHTGBM_STOP}",
                ),
                (
                    GOAL_REALISED,
                    _realised(case, entry, batch),
                    "of the saving in trees",
                ),
                (
                    1.0,
                    _per_row(case, WHOLE, 1) / _per_row(case, name, 1),
                    "times as fast as no early stopping, single rows",
                ),
            ]
            missed += [
                f"- {_line(case, entry)}: {_number(reached)} {what}, aimed at {goal:g}."
                for goal, reached, what in found
                if goal is not None and reached < goal
            ]
    if not missed:
        return "All goals were reached in this run."
    return "Goals that were missed in this run:\n\n" + "\n".join(missed)


def _answers(cases: list[dict[str, Any]]) -> str:
    """Trees asked and disagreement, mean and deviation over the fits."""
    hard = cases[0]["voting"] == "hard"
    stop = any(case["lightgbm_early_stop"] for case in cases)
    heads = ["trees asked", "disagreement"]
    heads += ["with the model's own `predict`"] if hard else []
    heads += [LIGHTGBM_STOP] if stop else []
    heads += ["looks", "fitted in", "rows to calibrate, held out"]
    lines = []
    for case in cases:
        for entry in case["early"]:
            cells = [
                _spread(entry["shares"], 2),
                _spread(entry["disagreements"], 3),
            ]
            if hard:
                cells.append(_spread(entry["own_disagreements"], 3))
            if stop:
                theirs = case["lightgbm_early_stop"]
                cells.append(_percent(theirs["disagreement"], 3) if theirs else "")
            rows = case["rows"]
            cells += [
                str(len(entry["checks"])),
                f"{entry['fit_seconds']:.1f} s",
                f"{rows['calibrate']:,}, {rows['test']:,}",
            ]
            lines.append((_line(case, entry), cells))
    text = _table("trees and answers", heads, lines)
    if hard:
        all_trees = _percent(cases[0]["hard_against_own"], 3)
        text += (
            "\n\nThe majority of all trees differs from the model's own `predict`, "
            f"which averages probabilities, on {all_trees} of the held-out rows."
        )
    if stop:
        notes = [
            f"{_case(case)}: every {found['frequency']} trees, margin "
            f"{found['margin']:.2f}, {_percent(found['disagreement_cal'], 3)} on "
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
        cells = [_cell(case, OWN, batch)]
        for found in (_fastest(case, batch), _fastest(case, batch, agreeing=True)):
            cells.append(f"{_number(found[1])} {found[0]}" if found else "")
        if stop:
            theirs = case["lightgbm_early_stop"]
            cells.append(_cell(case, LIGHTGBM_STOP, batch) if theirs else "")
        cells.append(_cell(case, WHOLE, batch))
        cells += [_cell(case, name, batch) for name in names]
        lines.append((_case(case), cells))
    return _table(f"µs per row, {batch:,} rows", heads, lines)


def _ratios(cases: list[dict[str, Any]], batch: int) -> str:
    stop = any(case["lightgbm_early_stop"] for case in cases)
    heads = ["own `predict`", "fastest peer", "fastest peer that agrees"]
    heads += [LIGHTGBM_STOP] if stop else []
    heads += ["no early stopping", "saving in trees that is saved time"]
    lines = []
    for case in cases:
        for entry in case["early"]:
            ours = _per_row(case, entry["name"], batch)
            cells = [_times_as_fast(_per_row(case, OWN, batch), ours)]
            for found in (_fastest(case, batch), _fastest(case, batch, agreeing=True)):
                cells.append(_times_as_fast(found[1], ours) if found else "")
            if stop:
                theirs = _per_row(case, LIGHTGBM_STOP, batch)
                there = case["lightgbm_early_stop"]
                cells.append(_times_as_fast(theirs, ours) if there else "")
            cells += [
                _times_as_fast(_per_row(case, WHOLE, batch), ours),
                f"{100 * _realised(case, entry, batch):.0f} %",
            ]
            lines.append((_line(case, entry), cells))
    return _table("times as fast as", heads, lines)


def _single_rows(cases: list[dict[str, Any]]) -> str:
    heads = ["no early stopping", "early stopping", "times as fast", "saved time"]
    lines = []
    for case in cases:
        whole = _per_row(case, WHOLE, 1)
        for entry in case["early"]:
            name = entry["name"]
            cells = [
                _cell(case, WHOLE, 1),
                _cell(case, name, 1),
                _times_as_fast(whole, _per_row(case, name, 1)),
                f"{100 * _realised(case, entry, 1):.0f} %",
            ]
            lines.append((_line(case, entry), cells))
    return _table("µs for a single row, `predictor()`", heads, lines)


def _details(case: dict[str, Any], batch: int) -> str:
    """Every engine, the fastest first."""
    timed = [entry["peer"] for entry in case["times"] if entry["batch"] == batch]
    timed.sort(key=lambda name: _per_row(case, name, batch))
    lines = []
    for name in timed:
        ours = name == WHOLE or name.startswith(("early", FIRST))
        shown = f"**{name}**" if ours else name
        lines.append((shown, [_cell(case, name, batch), _differs(case, name)]))
    heads = ["µs per row", "labels that differ"]
    text = f"#### {_case(case)}\n\n" + _table("engine", heads, lines)
    skipped = [
        f"{name}: {entry['reason']}"
        for name, entry in case["peers"].items()
        if entry["status"] == "skipped"
    ]
    return text + (f"\n\nSkipped: {'; '.join(skipped)}." if skipped else "")


# ------------------------------------------------------------------- numbers


def _entry(case: dict[str, Any], name: str, batch: int) -> dict[str, Any] | None:
    for entry in case["times"]:
        if entry["peer"] == name and entry["batch"] == batch:
            return entry
    return None


def _per_row(case: dict[str, Any], name: str, batch: int) -> float:
    """Median microseconds per row; NaN if the engine was not timed."""
    entry = _entry(case, name, batch)
    return float("nan") if entry is None else entry["median_us"] / entry["rows"]


def _fastest(
    case: dict[str, Any], batch: int, agreeing: bool = False
) -> tuple[str, float] | None:
    """Return the fastest other engine that asks all trees, and its time per row.

    Engines that give another label on more than one row in ten do not count. With
    `agreeing`, only engines count that answer as the model does on every row.
    """

    def counts(entry: dict[str, Any]) -> bool:
        if entry["status"] != "timed":
            return False
        found = entry["agreement"]
        if agreeing:
            return not (found["labels_differ"] or found["probabilities_differ"])
        return found["labels_differ"] <= MAX_DIFFERENT * found["rows"]

    peers = {
        name: _per_row(case, name, batch)
        for name, entry in case["peers"].items()
        if counts(entry)
    }
    if not peers:
        return None
    name = min(peers, key=peers.__getitem__)
    return name, peers[name]


def _realised(case: dict[str, Any], entry: dict[str, Any], batch: int) -> float:
    """Return the share of time saved over the share of trees saved."""
    saved = 1.0 - _per_row(case, entry["name"], batch) / _per_row(case, WHOLE, batch)
    return saved / (1.0 - entry["shares"][0])


# --------------------------------------------------------------------- words


def _table(first: str, heads: list[str], lines: list[tuple[str, list[str]]]) -> str:
    rows = [f"| {first} | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    rows += [f"| {name} | {' | '.join(cells)} |" for name, cells in lines]
    return "\n".join(rows)


def _case(case: dict[str, Any]) -> str:
    return f"{NAMES[case['dataset']]}: {case['title']}"


def _line(case: dict[str, Any], entry: dict[str, Any]) -> str:
    return f"{_case(case)}, {entry['name'].removeprefix('early stopping, ')}"


def _percent(share: float, digits: int) -> str:
    return f"{100 * share:.{digits}f} %"


def _spread(values: list[float], digits: int) -> str:
    mean = f"{100 * statistics.mean(values):.{digits}f}"
    if len(values) == 1:
        return f"{mean} %"
    return f"{mean} ± {100 * statistics.stdev(values):.{digits}f} %"


def _cell(case: dict[str, Any], name: str, batch: int) -> str:
    entry = _entry(case, name, batch)
    if entry is None:
        return ""
    median, least = entry["median_us"], entry["min_us"]
    fewer = "" if entry["rows"] == batch else f" on {entry['rows']:,} rows"
    return (
        f"{_number(median / entry['rows'])} ({_number(least / entry['rows'])}){fewer}"
    )


def _times_as_fast(theirs: float, ours: float) -> str:
    return f"{_number(theirs / ours)}"


def _number(value: float) -> str:
    """Three digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _differs(case: dict[str, Any], name: str) -> str:
    entry = case["peers"].get(name)
    if entry is None:
        return ""
    found = entry["agreement"]
    text = f"{found['labels_differ']:,} of {found['rows']:,}"
    if found["labels_differ"] == 0:
        text = "none"
    if found["probabilities_differ"]:
        text += f"; probabilities of {found['probabilities_differ']:,}"
    return text


if __name__ == "__main__":
    write_page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
