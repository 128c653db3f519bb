"""From the JSON of a run to the tables of benchmarks/serving/README.md.

``python -m benchmarks.serving.tables RESULTS.json`` writes them there again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.compare.cells import (
    BUSY,
    MAX_DIFFERENT,
    machine_text,
    number,
    percent,
    skipped,
    table,
)
from benchmarks.papers.page import put_results
from benchmarks.serving.worker import EARLY, EXACT

PAGE = Path(__file__).parent / "README.md"

# What is compared with the fastest other engine.
COMPARED = ("p50", "p99")


def write_page(result: dict[str, Any], page: Path = PAGE) -> None:
    """Put the tables between the two marks of the page."""
    put_results(page, render(result))


def render(result: dict[str, Any]) -> str:
    """Return the tables of a run as Markdown."""
    parts = [machine_text(result, "smaller models, few calls")]
    for name, what in ((EXACT, "all trees"), (EARLY, "early exit")):
        parts.append(_ratios(result, name, what))
    parts += [_behind(result), _tails(result)]
    parts += [_details(case, result["settings"]["threads"]) for case in result["cases"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def compared(
    case: dict[str, Any], ours: str, n_threads: int, which: str
) -> tuple[float, str] | None:
    """Return the least latency of another engine over ours, and that engine's name.

    Engines that give another label on more than one row in ten do not count.

    Parameters
    ----------
    case : dict
        One model.
    ours : str
        Which of our lines.
    n_threads : int
        Number of threads.
    which : {"p50", "p99", "p99.9"}
        Of the latencies.
    """
    mine = _found(case, ours, n_threads)
    others = {
        found["engine"]: found[which]
        for found in case["times"]
        if not found["ours"]
        and found["threads"] == n_threads
        and _answers(case["peers"][found["engine"]])
    }
    if mine is None or not others:
        return None
    name = min(others, key=others.__getitem__)
    return others[name] / mine[which], name


def _answers(peer: dict[str, Any]) -> bool:
    found = peer["agreement"]
    return found["labels_differ"] <= MAX_DIFFERENT * found["rows"]


def _found(case: dict[str, Any], name: str, n_threads: int) -> dict[str, Any] | None:
    return next(
        (
            found
            for found in case["times"]
            if found["engine"] == name and found["threads"] == n_threads
        ),
        None,
    )


def _ratios(result: dict[str, Any], ours: str, what: str) -> str:
    """Latency of the fastest other engine over ours, model by model."""
    counts = result["settings"]["threads"]
    lines = []
    for case in result["cases"]:
        for which in COMPARED:
            cells = []
            for n_threads in counts:
                ratio = compared(case, ours, n_threads, which)
                cells.append(
                    "" if ratio is None else f"{_shown(ratio[0])} ({ratio[1]})"
                )
            lines.append((f"{_case(case)}, {which}", cells))
    heads = [_threads(n_threads) for n_threads in counts]
    title = f"### Latency of the best other engine over that of `predictor()`, {what}"
    return f"{title}\n\n{table('model', heads, lines)}"


def _shown(ratio: float) -> str:
    text = f"{ratio:.2f}" if ratio < 1.95 else f"{ratio:.1f}"
    return f"**{text}**" if ratio >= 1.0 else text


def _behind(result: dict[str, Any]) -> str:
    """Name every place where another engine is ahead of evaluating all trees."""
    lines = []
    for case in result["cases"]:
        for n_threads in result["settings"]["threads"]:
            for which in COMPARED:
                ratio = compared(case, EXACT, n_threads, which)
                if ratio is None or ratio[0] >= 1.0:
                    continue
                early = compared(case, EARLY, n_threads, which)
                also = "" if early is None else f" (with early exit {early[0]:.2f})"
                lines.append(
                    f"- {_case(case)}, {_threads(n_threads)}, {which}: {ratio[1]} has "
                    f"{ratio[0]:.2f} of the latency of `predictor()`{also}."
                )
    if not lines:
        return "No other engine is ahead in any of these cases."
    return "Where another engine is ahead:\n\n" + "\n".join(lines)


def _tails(result: dict[str, Any]) -> str:
    """Latency of early exit by the number of trees that rows need."""
    lines = []
    for case in result["cases"]:
        *parts, slowest = case["tail"]["1"]
        for part in parts:
            low, high = part["trees"]
            trees = f"{high}" if low == high else f"{low} to {high}"
            name = f"{_case(case)}, {trees} trees"
            cells = [percent(part["share"], 1)]
            cells += [number(part[which]) for which in ("p50", "p99", "p99.9")]
            lines.append((name, cells))
        share = percent(slowest["all_trees_among_slowest"], 0)
        cells = [share, "", "", ""]
        lines.append((f"{_case(case)}, all trees, of the slowest 0.1 %", cells))
    heads = ["share of calls", "p50", "p99", "p99.9"]
    title = "### The tail of early exit: rows that need many trees, one thread, µs"
    return f"{title}\n\n{table('rows that need', heads, lines)}"


def _details(case: dict[str, Any], counts: list[int]) -> str:
    """Latencies and throughput of all engines for one model."""
    about, early = case["machine"], case["early"]
    busy = ""
    if (about.get("load_before") or 0.0) > BUSY * about["cores"]:
        busy = ", which is a busy machine"
    parts = [
        f"### {_case(case)}",
        f"Measured on {about['date']}, load average {about['load_before']:.1f} "
        f"before{busy}. Early exit ({early['method']}) evaluates "
        f"{number(early['trees'])} of {case['n_trees']} trees on average, all of them "
        f"for {percent(early['all_trees'], 1)} of the rows, and gives another label "
        f"than the model on {percent(early['disagreement'], 2)} of "
        f"{case['rows']['sent']:,} held-out rows.",
    ]
    names = list(dict.fromkeys(found["engine"] for found in case["times"]))
    is_ours = {found["engine"]: found["ours"] for found in case["times"]}

    def lines(cell: Any) -> list[tuple[str, list[str]]]:
        shown = []
        for name in names:
            found = [_found(case, name, n_threads) for n_threads in counts]
            title = f"**`{name}`**" if is_ours[name] else name
            shown.append((title, ["" if one is None else cell(one) for one in found]))
        return shown

    heads = [_threads(n_threads) for n_threads in counts]
    latencies = lines(
        lambda one: " / ".join(number(one[which]) for which in ("p50", "p99", "p99.9"))
    )
    rates = lines(lambda one: f"{one['rows_per_second']:,.0f}")
    parts.append(table("µs: p50 / p99 / p99.9", heads, latencies))
    parts.append(table("rows per second", heads, rates))
    parts.append(skipped(case))
    return "\n\n".join(part for part in parts if part)


def _case(case: dict[str, Any]) -> str:
    return f"{case['dataset']}: {case['title']}"


def _threads(n_threads: int) -> str:
    return "1 thread" if n_threads == 1 else f"{n_threads} threads"


if __name__ == "__main__":
    write_page(json.loads(Path(sys.argv[1]).read_text()))
