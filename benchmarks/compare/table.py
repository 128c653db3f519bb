"""From the JSON of a run to the Markdown tables of benchmarks/README.md.

``python -m benchmarks.compare.table RESULTS.json`` writes them there again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.compare.cells import MAX_DIFFERENT, agrees, machine_text, time_cell

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

OURS, OURS_ROW = "spinney", "spinney predictor()"


def write_readme(result: dict[str, Any], readme: Path = README) -> None:
    """Put the tables between the two markers of the README."""
    text = readme.read_text()
    if BEGIN not in text or END not in text:
        msg = f"{readme} must contain the lines {BEGIN!r} and {END!r}."
        raise ValueError(msg)
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{BEGIN}\n\n{render(result)}\n{END}{after}")


def render(result: dict[str, Any]) -> str:
    """Return the tables of a run as Markdown."""
    parts = [machine_text(result, "smaller models, few samples")]
    parts += [_later(note, result) for note in result.get("later", [])]
    for n_threads in result["settings"]["threads"]:
        parts.append(_summary(result, n_threads))
    parts.append(_behind(result))
    parts += [_details(case) for case in result["cases"]]
    return "\n\n".join(part for part in parts if part) + "\n"


# --------------------------------------------------------------------- parts


def _later(note: dict[str, Any], result: dict[str, Any]) -> str:
    """What is of a later run than the rest, and how that differs."""
    titles = {(case["dataset"], case["model"]): _case(case) for case in result["cases"]}
    names = [titles[key] for key in map(tuple, note["cases"]) if key in titles]
    sizes = " and ".join(_rows(n_rows) for n_rows in note["batches"])
    versions = result["machine"]["versions"]
    other = ", ".join(
        f"{name} {version}"
        for name, version in note["versions"].items()
        if versions.get(name) != version
    )
    return (
        f"**The columns for {sizes} are of a later run**, of {note['date']} (load "
        f"average {note['load_before']:.1f} before), for {'; '.join(names)}. Engines "
        "without a number there were not measured again, and columns of different runs "
        "are not to be compared with one another."
        + (f" Other versions in it: {other}." if other else "")
    )


def _summary(result: dict[str, Any], n_threads: int) -> str:
    """Speed of spinney over that of the fastest other engine, case by case."""
    batches = result["settings"]["batches"]
    with_row = n_threads == 1 and 1 in batches
    heads = ["1 row, `predictor()`"] if with_row else []
    heads += [_rows(n_rows) for n_rows in batches]
    lines = [
        f"### How many times as fast as the fastest peer, {_threads(n_threads)}",
        "",
        "| model | " + " | ".join(heads) + " |",
        "|---|" + "---:|" * len(heads),
    ]
    for case in result["cases"]:
        cells = [_ratio(case, n_threads, 1, OURS_ROW)] if with_row else []
        cells += [_ratio(case, n_threads, n_rows, OURS) for n_rows in batches]
        lines.append(f"| {_case(case)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ratio(case: dict[str, Any], n_threads: int, n_rows: int, ours: str) -> str:
    found = compared(case, n_threads, n_rows, ours)
    if found is None:
        return ""
    ratio, name = found
    if agrees(case, name):
        return f"{_shown(ratio)} ({name})"
    text = f"{_shown(ratio)} ({name}\\*)"
    among_equals = compared(case, n_threads, n_rows, ours, agreeing=True)
    if among_equals is not None:
        text += f"; {_shown(among_equals[0])} ({among_equals[1]})"
    return text


def _shown(ratio: float) -> str:
    text = f"{ratio:.2f}" if ratio < 1.95 else f"{ratio:.1f}"
    return f"**{text}**" if ratio >= 1.0 else text


def compared(
    case: dict[str, Any],
    n_threads: int,
    n_rows: int,
    ours: str,
    agreeing: bool = False,
) -> tuple[float, str] | None:
    """Return spinney's speed over that of the fastest peer, and the peer's name.

    With `agreeing`, only peers count that predict as the original does on every row.
    """
    medians = {
        entry["peer"]: entry["median_us"] / entry["rows"]
        for entry in case["times"]
        if entry["threads"] == n_threads and entry["batch"] == n_rows
    }
    if ours not in medians:
        return None
    peers = {
        name: median
        for name, median in medians.items()
        if not case["peers"][name]["ours"]
        and _labels_differ(case, name) <= MAX_DIFFERENT
        and (not agreeing or agrees(case, name))
    }
    if not peers:
        return None
    fastest = min(peers, key=peers.__getitem__)
    return peers[fastest] / medians[ours], fastest


def _behind(result: dict[str, Any]) -> str:
    """Name every place where a peer is ahead."""
    lines = []
    for case in result["cases"]:
        for n_threads in result["settings"]["threads"]:
            for n_rows in result["settings"]["batches"]:
                found = compared(case, n_threads, n_rows, OURS)
                if found is None or found[0] >= 1.0:
                    continue
                ratio, name = found
                also = ""
                row = compared(case, n_threads, n_rows, OURS_ROW)
                if row is not None:
                    also = f" (with `predictor()`: {row[0]:.2f})"
                lines.append(
                    f"- {_case(case)}, {_rows(n_rows)}, {_threads(n_threads)}: {name} "
                    f"is ahead, spinney has {ratio:.2f} of its speed{also}."
                )
    if not lines:
        return "No peer is ahead in any of these cases."
    return "Where a peer is ahead:\n\n" + "\n".join(lines)


def _details(case: dict[str, Any]) -> str:
    """Time per row of every engine for one model, and who was left out."""
    parts = [
        f"### {_case(case)}",
        f"Predictions compared on {case['check_rows']:,} rows. Microseconds per row, "
        "median (smallest).",
    ]
    parts += [
        _times(case, n_threads)
        for n_threads in dict.fromkeys(entry["threads"] for entry in case["times"])
    ]
    notes = [
        f"- {name}: {entry['reason']}."
        for name, entry in case["peers"].items()
        if entry["status"] == "skipped"
    ]
    if notes:
        parts += ["Skipped:", "\n".join(notes)]
    return "\n\n".join(parts)


def _times(case: dict[str, Any], n_threads: int) -> str:
    """One table: engines, sorted by the time of the largest batch."""
    cells = {
        (entry["peer"], entry["batch"]): entry
        for entry in case["times"]
        if entry["threads"] == n_threads
    }
    batches = list(dict.fromkeys(batch for _, batch in cells))

    def order(name: str) -> float:
        largest = cells.get((name, max(batches)))
        return (
            float("inf") if largest is None else largest["median_us"] / largest["rows"]
        )

    lines = [
        f"| {_threads(n_threads)} | labels that differ | ready in | "
        + " | ".join(_rows(batch) for batch in batches)
        + " |",
        "|---|---:|---:|" + "---:|" * len(batches),
    ]
    for name in sorted(dict.fromkeys(name for name, _ in cells), key=order):
        entry = case["peers"][name]
        timed = [cells.get((name, batch)) for batch in batches]
        shown = ["" if found is None else time_cell(found) for found in timed]
        lines.append(
            f"| {f'**{name}**' if entry['ours'] else name} | {_differs(entry)} | "
            f"{entry['prepare_seconds']:.1f} s | " + " | ".join(shown) + " |"
        )
    return "\n".join(lines)


# --------------------------------------------------------------------- words


def _differs(entry: dict[str, Any]) -> str:
    found = entry["agreement"]
    text = f"{found['labels_differ']:,} of {found['rows']:,}"
    if found["labels_differ"] == 0:
        text = "none"
    if found["probabilities_differ"]:
        largest = found["largest_difference"]
        size = "not a number" if largest is None else f"by up to {largest:.2g}"
        text += f"; probabilities of {found['probabilities_differ']:,} {size}"
    return text


def _labels_differ(case: dict[str, Any], name: str) -> float:
    found = case["peers"][name]["agreement"]
    return found["labels_differ"] / found["rows"]


def _case(case: dict[str, Any]) -> str:
    kind = f", {case['n_classes']} classes" if case["n_classes"] > 2 else ""
    return f"{case['dataset']}: {case['title']}{kind}"


def _rows(n_rows: int) -> str:
    return "1 row" if n_rows == 1 else f"{n_rows:,} rows"


def _threads(n_threads: int) -> str:
    return "1 thread" if n_threads == 1 else f"{n_threads} threads"


if __name__ == "__main__":
    write_readme(json.loads(Path(sys.argv[1]).read_text()))
