"""From the JSON of a run to the tables of benchmarks/accelerate and of the README.

``python -m benchmarks.accelerate.tables RESULTS.json`` writes them there again.
"""

from __future__ import annotations

import json
import statistics
import sys
import textwrap
from pathlib import Path
from typing import Any

from benchmarks.accelerate.drawing import draw
from benchmarks.accelerate.names import NAMES, boosted_first, brief
from benchmarks.accelerate.worker import FAST, OWN, WHOLE
from benchmarks.compare.cells import (
    agrees,
    cell,
    fastest,
    labels_that_differ,
    machine_text,
    number,
    per_row,
    percent,
    skipped,
    table,
)
from benchmarks.papers.page import put_results

PAGE = Path(__file__).parent / "README.md"
README = Path(__file__).resolve().parents[2] / "README.md"
FIGURE = Path("docs", "figures", "speed.svg")
HOW = "benchmarks/accelerate/README.md"
BEGIN, END = "<!-- accelerate: begin -->", "<!-- accelerate: end -->"

# What is aimed at: so many times as fast as the fastest other engine, on data sets
# where the paper needs less than this share of the trees.
GOAL = 5.0
GOAL_SHARE = 0.2


def write_pages(
    result: dict[str, Any], page: Path = PAGE, readme: Path = README
) -> None:
    """Put the tables between the marks of the page, and the short one into the README.

    Parameters
    ----------
    result : dict
        The results of a run.
    page : path
        The page for all tables.
    readme : path
        The file for the short table. Without the two marks it is left as it is.
    """
    put_results(page, render(result))
    print(f"tables: {page}")
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{readme.name} is left as it is: it lacks the marks {BEGIN} and {END}.")
        return
    text = f"{before}{BEGIN}\n{short(result)}\n{END}{after}"
    readme.write_text(text, encoding="utf-8")
    print(f"short table: {readme}")
    figure = readme.parent / FIGURE
    draw(result, figure)
    print(f"figure: {figure}")


def short(result: dict[str, Any]) -> str:
    """Return one table for the README, and how to read it."""
    batch = result["settings"]["batch"]
    level = percent(result["settings"]["level"], 1)
    heads = [
        "own `predict`",
        "fastest other engine",
        "**spinney, exact**",
        f"**spinney, early exit** (bound {level})",
        "measured",
    ]
    lines = []
    for case in boosted_first(result):
        fit, ours = case["fits"][0], per_row(case, FAST, batch)
        own, peer = per_row(case, OWN, batch), fastest(case, batch)
        whole = per_row(case, WHOLE, batch)
        lines.append(
            (
                brief(case),
                [
                    number(own),
                    _named(case, peer),
                    f"**{number(whole)}** ({own / whole:.0f} ×)",
                    f"**{number(ours)}** ({own / ours:.0f} ×)",
                    percent(fit["n_differ"] / fit["n_new"], 2),
                ],
            )
        )
    about = result["machine"]
    trees = ", ".join(
        f"{percent(case['fits'][0]['share'], 1)} on {NAMES[case['dataset']]}"
        for case in boosted_first(result)
    )
    text = (
        f"Microseconds per row in batches of {batch:,} on one thread, medians of one "
        f"run in which all engines took turns ({about['cpu']}, {about['cores']} cores, "
        f"{about['date']}); in brackets, times as fast as the model's own `predict`. "
        "*Measured* is the share of new rows for which early exit changed the "
        f"prediction. It evaluated {trees} of the trees; all others evaluate every "
        "tree."
    )
    parts = [
        f"Microseconds per row ([how measured]({HOW})):",
        table("model", heads, lines),
        textwrap.fill(text, 88),
        textwrap.fill(_footnote(result["cases"], (batch,)), 88),
    ]
    return "\n\n".join(part for part in parts if part)


def render(result: dict[str, Any]) -> str:
    """Return all tables of a run as Markdown."""
    batch, cases = result["settings"]["batch"], result["cases"]
    parts = [
        machine_text(result, "two small models, few samples"),
        _goals(result),
        "### What was kept",
        _kept(cases),
        "### Batches",
        _times(cases, batch),
        _ratios(cases, batch),
        "### Single rows",
        _single_rows(cases),
        _footnote(cases, (batch, 1)),
        "### Every seed",
        _bounds(result),
        _seeds(cases),
        "### All engines",
        *(_details(case, batch) for case in cases),
    ]
    return "\n\n".join(part for part in parts if part)


# --------------------------------------------------------------------- parts


def _goals(result: dict[str, Any]) -> str:
    """Say where the goal applies, and list every place where it was missed."""
    batch = result["settings"]["batch"]
    meant = [
        case
        for case in result["cases"]
        if case["paper_share"] is not None and case["paper_share"] < GOAL_SHARE
    ]
    if not meant:
        return ""
    aim = (
        f"The goal, at least {GOAL:g} times as fast as the fastest other engine where "
        f"the paper needs under {percent(GOAL_SHARE, 0)} of the trees,"
    )
    missed = []
    for case in meant:
        peer, ours = fastest(case, batch), per_row(case, FAST, batch)
        if peer is not None and not peer[1] / ours >= GOAL:
            missed.append(
                f"- {_case(case)}: {_ratio(peer, ours)} times as fast as {peer[0]}."
            )
    if not missed:
        return f"{aim} was reached on {len(meant)} of {len(meant)}."
    return f"{aim} was missed on {len(missed)} of {len(meant)}:\n\n" + "\n".join(missed)


def _kept(cases: list[dict[str, Any]]) -> str:
    heads = [
        "kept",
        "trees evaluated: paper",
        "ours",
        "disagreement on new rows",
        "95 % interval",
        "rows given, new",
        "`accelerate` took",
    ]
    lines = []
    for case in cases:
        fit, rows = case["fits"][0], case["rows"]
        paper = case["paper_share"]
        took = statistics.median(one["seconds"] for one in case["fits"])
        lines.append(
            (
                _case(case),
                [
                    fit["kept"],
                    "" if paper is None else percent(paper, 2),
                    percent(fit["share"], 2),
                    percent(fit["n_differ"] / fit["n_new"], 3),
                    _interval(fit),
                    f"{rows['given']:,}, {rows['new']:,}",
                    f"{took:.1f} s",
                ],
            )
        )
    return table("model", heads, lines)


def _times(cases: list[dict[str, Any]], batch: int) -> str:
    heads = [
        "own `predict`",
        "fastest peer",
        "fastest peer that agrees",
        "same runtime, all trees",
        "**accelerated**",
    ]
    lines = []
    for case in cases:
        cells = [cell(case, OWN, batch)]
        cells.append(_named(case, fastest(case, batch)))
        cells.append(_named(case, fastest(case, batch, agreeing=True)))
        cells += [cell(case, WHOLE, batch), cell(case, FAST, batch)]
        lines.append((_case(case), cells))
    return table(f"µs per row, {batch:,} rows", heads, lines)


def _ratios(cases: list[dict[str, Any]], batch: int) -> str:
    heads = [
        "own `predict`",
        "fastest peer",
        "fastest peer that agrees",
        "same runtime, all trees",
    ]
    lines = []
    for case in cases:
        ours = per_row(case, FAST, batch)
        cells = [
            number(per_row(case, OWN, batch) / ours),
            _ratio(fastest(case, batch), ours),
            _ratio(fastest(case, batch, agreeing=True), ours),
            number(per_row(case, WHOLE, batch) / ours),
        ]
        lines.append((_case(case), cells))
    return table("accelerated, times as fast as", heads, lines)


def _single_rows(cases: list[dict[str, Any]]) -> str:
    heads = [
        "own `predict`",
        "fastest peer",
        "fastest peer that agrees",
        "`predictor()`, all trees",
        "**`predictor()`, accelerated**",
        "times as fast as `predict`",
        "as the fastest peer",
        "as all trees",
    ]
    lines = []
    for case in cases:
        peer, ours = fastest(case, 1), per_row(case, FAST, 1)
        cells = [
            cell(case, OWN, 1),
            _named(case, peer),
            _named(case, fastest(case, 1, agreeing=True)),
            cell(case, WHOLE, 1),
            cell(case, FAST, 1),
            number(per_row(case, OWN, 1) / ours),
            _ratio(peer, ours),
            number(per_row(case, WHOLE, 1) / ours),
        ]
        lines.append((_case(case), cells))
    return table("µs for a single row", heads, lines)


def _bounds(result: dict[str, Any]) -> str:
    """Say how often new rows disagree more than was allowed."""
    level = result["settings"]["level"]
    fits = [fit for case in result["cases"] for fit in case["fits"]]
    above = [fit for fit in fits if fit["n_differ"] > level * fit["n_new"]]
    surely = [fit for fit in above if fit["interval"][0] > level]
    return (
        f"Disagreement on new rows is above {percent(level, 1)} for {len(above)} of "
        f"{len(fits)} accelerated models, and for {len(surely)} the whole interval is."
    )


def _seeds(cases: list[dict[str, Any]]) -> str:
    heads = ["seed", "kept", "trees evaluated", "disagreement", "95 % interval", "took"]
    lines = [
        (
            _case(case),
            [
                str(fit["seed"]),
                fit["kept"],
                percent(fit["share"], 2),
                percent(fit["n_differ"] / fit["n_new"], 3),
                _interval(fit),
                f"{fit['seconds']:.1f} s",
            ],
        )
        for case in cases
        for fit in case["fits"]
    ]
    warned = [
        f"- {_case(case)}, seed {fit['seed']}: {text}"
        for case in cases
        for fit in case["fits"]
        for text in fit["warnings"]
    ]
    notes = "\n\nWarnings that were given:\n\n" + "\n".join(warned) if warned else ""
    return table("model", heads, lines) + notes


def _details(case: dict[str, Any], batch: int) -> str:
    """Every engine, the fastest first, and what `accelerate` tried."""
    timed = [found["peer"] for found in case["times"] if found["batch"] == batch]
    alone = [found["peer"] for found in case["times"] if found["batch"] == 1]
    timed.sort(key=lambda name: per_row(case, name, batch))
    lines = []
    for name in dict.fromkeys(timed + alone):
        shown = f"**{name}**" if name in (WHOLE, FAST) else name
        cells = [cell(case, name, batch), cell(case, name, 1), _differs(case, name)]
        lines.append((shown, cells))
    heads = [f"µs per row, {batch:,} rows", "µs for one row", "labels that differ"]
    parts = [f"#### {_case(case)}", table("engine", heads, lines)]
    acceleration = case["fits"][0]["acceleration"]
    heads = ["trees evaluated", "disagreement", "µs in batches", "µs alone", ""]
    tried = [(trial["name"], _trial(trial)) for trial in acceleration["trials"]]
    first = f"tried, on {acceleration['n_compared']:,} held-out rows"
    return "\n\n".join([*parts, table(first, heads, tried), skipped(case)]).strip()


# --------------------------------------------------------------------- words


def _case(case: dict[str, Any]) -> str:
    return f"{NAMES[case['dataset']]}: {case['title']}"


def _named(case: dict[str, Any], peer: tuple[str, float] | None) -> str:
    """Return the time of an engine and its name; a star if its predictions differ."""
    if peer is None:
        return ""
    star = "" if agrees(case, peer[0]) else r"\*"
    return f"{number(peer[1])} ({peer[0]}{star})"


def _footnote(cases: list[dict[str, Any]], batches: tuple[int, ...]) -> str:
    """Explain the star, if there is one in tables about these sizes of batches."""
    found = [
        (case, peer[0])
        for case in cases
        for batch in batches
        if (peer := fastest(case, batch)) is not None
    ]
    if all(agrees(case, name) for case, name in found):
        return ""
    return (
        "\\* Its predictions differ from the model's on some rows: another label, or a "
        "probability that differs by more than 0.00001."
    )


def _ratio(peer: tuple[str, float] | None, ours: float) -> str:
    return "" if peer is None else number(peer[1] / ours)


def _interval(fit: dict[str, Any]) -> str:
    low, high = fit["interval"]
    return f"{100 * low:.3f} to {percent(high, 3)}"


def _differs(case: dict[str, Any], name: str) -> str:
    if name in case["peers"]:
        return labels_that_differ(case["peers"][name]["agreement"])
    if name == WHOLE:
        n_differ = case["labels_differ"][WHOLE]
        return f"{n_differ:,} of {case['rows']['new']:,}" if n_differ else "none"
    if name == FAST:
        fit = case["fits"][0]
        text = f"{fit['n_differ']:,} of {fit['n_new']:,}"
        alone = case["labels_differ"]["predictor"]
        return text + (f"; {alone:,} others if rows come alone" if alone else "")
    return ""


def _trial(trial: dict[str, Any]) -> list[str]:
    verdict = "kept" if trial["chosen"] else ""
    if not trial["kept_promise"]:
        verdict = "breaks the bound"
    times = [
        "" if trial[key] is None else number(trial[key])
        for key in ("microseconds_batch", "microseconds_single")
    ]
    return [f"{trial['trees']:.1f}", percent(trial["disagreement"], 3), *times, verdict]


if __name__ == "__main__":
    write_pages(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
