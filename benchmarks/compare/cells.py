"""What the tables of several benchmarks are made of: numbers found, and words."""

from __future__ import annotations

import statistics
from typing import Any

# An engine whose labels differ on more than this share of the rows does not predict
# for this model; it stays in the tables, but nothing is compared with it.
MAX_DIFFERENT = 0.1

# Load average per core before a run, above which its times mean little.
BUSY = 0.5

# ------------------------------------------------------------------- numbers


def entry(case: dict[str, Any], name: str, batch: int) -> dict[str, Any] | None:
    """Return the times of an engine for a batch size, if there are any."""
    for found in case["times"]:
        if found["peer"] == name and found["batch"] == batch:
            return found
    return None


def per_row(case: dict[str, Any], name: str, batch: int) -> float:
    """Return the median in microseconds per row; NaN if the engine was not timed."""
    found = entry(case, name, batch)
    return float("nan") if found is None else found["median_us"] / found["rows"]


def agrees(case: dict[str, Any], name: str) -> bool:
    """Whether an engine gave the labels and probabilities of the original."""
    found = case["peers"][name]["agreement"]
    return not (found["labels_differ"] or found["probabilities_differ"])


def fastest(
    case: dict[str, Any], batch: int, agreeing: bool = False
) -> tuple[str, float] | None:
    """Return the fastest other engine that evaluates all trees, and its time per row.

    Engines that give another label on more than one row in ten do not count. With
    `agreeing`, only engines count that predict as the model does on every row.
    """

    def counts(name: str, peer: dict[str, Any]) -> bool:
        if peer["status"] != "timed" or entry(case, name, batch) is None:
            return False
        if agreeing:
            return agrees(case, name)
        found = peer["agreement"]
        return found["labels_differ"] <= MAX_DIFFERENT * found["rows"]

    peers = {
        name: per_row(case, name, batch)
        for name, peer in case["peers"].items()
        if counts(name, peer)
    }
    if not peers:
        return None
    name = min(peers, key=peers.__getitem__)
    return name, peers[name]


# --------------------------------------------------------------------- words


def machine_text(result: dict[str, Any], quick: str) -> str:
    """Return where and when a run was made, and with which versions.

    Parameters
    ----------
    result : dict
        The results of a run.
    quick : str
        What a quick run leaves out.
    """
    about = result["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in about["versions"].items())
    load = ", ".join(
        f"{about[key]:.1f} {when}"
        for key, when in (("load_before", "before"), ("load_after", "after"))
        if about.get(key) is not None
    )
    wall = result["settings"].get("wall_seconds")
    remarks = "" if wall is None else f" The run took {wall / 60:.0f} minutes."
    if result["quick"]:
        remarks += f" A quick run: {quick}."
    if (about.get("load_before") or 0.0) > BUSY * about["cores"]:
        remarks += (
            " **The machine was busy with other work: do not trust these times.**"
        )
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['system']}, "
        f"{about['date']}. Load average {load}.{remarks}\n\n"
        f"Python {about['python']}; {versions}."
    )


def table(first: str, heads: list[str], lines: list[tuple[str, list[str]]]) -> str:
    """Return a Markdown table whose first column has words and the others numbers."""
    rows = [f"| {first} | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    rows += [f"| {name} | {' | '.join(cells)} |" for name, cells in lines]
    return "\n".join(rows)


def cell(case: dict[str, Any], name: str, batch: int) -> str:
    """Return the median and, in brackets, the smallest time per row."""
    found = entry(case, name, batch)
    return "" if found is None else time_cell(found)


def time_cell(found: dict[str, Any]) -> str:
    """Return the same for what was found about one engine."""
    median, least = found["median_us"] / found["rows"], found["min_us"] / found["rows"]
    fewer = "" if found["rows"] == found["batch"] else f" on {found['rows']:,} rows"
    return f"{number(median)} ({number(least)}){fewer}"


def number(value: float) -> str:
    """Return three digits, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(share: float, digits: int) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{digits}f} %"


def spread(shares: list[float], digits: int) -> str:
    """Return mean and standard deviation of shares, in percent."""
    mean = f"{100 * statistics.mean(shares):.{digits}f}"
    if len(shares) == 1:
        return f"{mean} %"
    return f"{mean} ± {100 * statistics.stdev(shares):.{digits}f} %"


def labels_that_differ(found: dict[str, Any]) -> str:
    """Return on how many rows an engine predicts otherwise than the model."""
    text = f"{found['labels_differ']:,} of {found['rows']:,}"
    if found["labels_differ"] == 0:
        text = "none"
    if found["probabilities_differ"]:
        text += f"; probabilities of {found['probabilities_differ']:,}"
    return text


def skipped(case: dict[str, Any]) -> str:
    """Return which engines were left out, and why; nothing if none was."""
    reasons = [
        f"{name}: {found['reason']}"
        for name, found in case["peers"].items()
        if found["status"] == "skipped"
    ]
    return f"Skipped: {'; '.join(reasons)}." if reasons else ""
