"""From the JSON of all cases to the tables of benchmarks/promise and the figure.

``python -m benchmarks.promise.tables`` writes them again.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.compare.cells import percent, table
from benchmarks.papers.page import put_results
from benchmarks.promise.cases import MAIN, NAMES
from benchmarks.promise.fits import CONFIDENCE, FITS

PAGE = Path(__file__).parent / "README.md"
FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "promise.svg"

HEADS = {
    "rows": "fitted to the rows",
    "risk control": "risk control",
    "confidence": f"`confidence={CONFIDENCE:g}`",
}
TITLES = {
    "cascade, thresholds": "Cascade, rule thresholds (the default)",
    "cascade, optimal": "Cascade, rule optimal",
    "soft votes": "Soft votes in random order",
    "hard votes": "Hard votes in random order",
    "accelerate": "`accelerate`",
}
# What is aimed at: at most so many times the trees of the fit to the rows.
GOAL = 1.25
# Where the mean is above the bound by more than chance would have it: standard errors.
SURELY = 2.0


def write_pages(
    found: list[dict[str, Any]], page: Path = PAGE, figure: Path = FIGURE
) -> None:
    """Put the tables between the marks of the page, and draw the figure.

    Parameters
    ----------
    found : list of dict
        Results of cases.
    page : path
        The page for all tables.
    figure : path
        File for the figure.
    """
    put_results(page, render(found))
    print(f"tables: {page}")
    if main_cases(found):
        from benchmarks.promise.drawing import draw

        draw(main_cases(found), figure)
        print(f"figure: {figure}")


def main_cases(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results with the bound and the rows of the main tables."""
    setting = (MAIN.bound, MAIN.n_rows)
    return [case for case in found if (case["bound"], case["n_rows"]) == setting]


def render(found: list[dict[str, Any]]) -> str:
    """Return all tables as Markdown."""
    settings = list(dict.fromkeys((case["bound"], case["n_rows"]) for case in found))
    parts = [_machine(found)]
    for bound, n_rows in settings:
        cases = [c for c in found if (c["bound"], c["n_rows"]) == (bound, n_rows)]
        parts.append(f"### {percent(bound, 1)}, {n_rows:,} rows to calibrate on")
        parts.append(_summary(cases))
        for family, title in TITLES.items():
            shown = [case for case in cases if family_of(case) == family]
            if shown:
                parts += [f"#### {title}", _table(shown)]
                chosen = _chosen(shown)
                parts += [chosen] if chosen else []
    return "\n\n".join(parts)


# --------------------------------------------------------------------- numbers


def family_of(case: dict[str, Any]) -> str:
    """Return the approach, whichever model it is measured with.

    Parameters
    ----------
    case : dict
        Results of a case.
    """
    family = case["approach"]
    return "accelerate" if family.startswith("accelerate") else family


def ratios(case: dict[str, Any], fit: str) -> list[float]:
    """Return the disagreement on held-out rows over the bound, of each split.

    Parameters
    ----------
    case : dict
        Results of a case.
    fit : str
        One of `FITS`.
    """
    allowed = case["bound"] * case["n_held_out"]
    return [split[fit]["n_differ"] / allowed for split in case["splits"]]


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error; splits are drawn independently.

    Parameters
    ----------
    values : list of float
        One number for each split.
    """
    error = statistics.stdev(values) / math.sqrt(len(values)) if values[1:] else 0.0
    return statistics.mean(values), error


def trees(case: dict[str, Any], fit: str) -> float:
    """Return the share of the trees that is evaluated, on average over splits.

    Parameters
    ----------
    case : dict
        Results of a case.
    fit : str
        One of `FITS`.
    """
    return (
        statistics.mean(split[fit]["trees"] for split in case["splits"])
        / case["n_trees"]
    )


# --------------------------------------------------------------------- words


def _name(case: dict[str, Any]) -> str:
    kind = {"lightgbm": "LightGBM", "forest": "random forest"}[case["model"]]
    return f"{NAMES[case['dataset']]} ({kind}, {case['n_trees']} trees)"


def _table(cases: list[dict[str, Any]]) -> str:
    """Return disagreement over the bound, splits above it, and trees."""
    heads = [f"{HEADS[fit]}: over the bound | splits above | trees" for fit in FITS]
    heads.append("trees: risk control over fitted to the rows")
    heads = [head for one in heads for head in one.split(" | ")]
    lines = []
    for case in cases:
        cells = []
        for fit in FITS:
            values = ratios(case, fit)
            mean, error = mean_and_error(values)
            above = sum(value > 1.0 for value in values) / len(values)
            cells += [
                f"{mean:.2f} ± {error:.2f}",
                percent(above, 0),
                percent(trees(case, fit), 1),
            ]
        cells.append(f"{trees(case, 'risk control') / trees(case, 'rows'):.2f}")
        lines.append((_name(case), cells))
    return table("data", heads, lines)


def _summary(cases: list[dict[str, Any]]) -> str:
    """Say where the mean is above the bound, and where trees are above the goal."""
    lines = []
    for fit in FITS:
        means = [mean_and_error(ratios(case, fit)) for case in cases]
        above = [mean > 1.0 for mean, _ in means]
        surely = [mean > 1.0 + SURELY * error for mean, error in means]
        splits = [value for case in cases for value in ratios(case, fit)]
        share = sum(value > 1.0 for value in splits) / len(splits)
        lines.append(
            f"- {HEADS[fit]}: {statistics.mean(mean for mean, _ in means):.2f} times "
            f"the bound on average over all {len(cases)} cases; the mean over splits "
            f"is above the bound in {sum(above)} of them, by more than {SURELY:g} "
            f"standard errors in {sum(surely)}; {percent(share, 0)} of the splits are "
            "above it."
        )
    cascades = [case for case in cases if case["approach"].startswith("cascade")]
    if cascades:
        factors = {
            _name(case) + ", " + case["approach"].split(", ")[1]: trees(
                case, "risk control"
            )
            / trees(case, "rows")
            for case in cascades
        }
        missed = [f"{name} ({x:.2f})" for name, x in factors.items() if x > GOAL]
        lines.append(
            f"- Cascades evaluate at most {GOAL:g} times the trees of the fit to the "
            f"rows in {len(factors) - len(missed)} of {len(factors)} cases"
            + (f"; more for {', '.join(missed)}." if missed else ".")
        )
    return "\n".join(lines)


def _chosen(cases: list[dict[str, Any]]) -> str:
    """Say what `accelerate` has chosen how often; nothing for other approaches."""
    counts = Counter(
        split["kept"] for case in cases for split in case["splits"] if "kept" in split
    )
    if not counts:
        return ""
    words = ", ".join(f"{name} {n} times" for name, n in counts.most_common())
    return f"Chosen: {words}."


def _machine(found: list[dict[str, Any]]) -> str:
    about = found[-1]["machine"]
    names = ("lightgbm", "numba", "numpy", "scikit-learn", "spinney")
    versions = ", ".join(
        f"{name} {about['versions'][name]}"
        for name in names
        if name in about["versions"]
    )
    minutes = sum(case["cpu_seconds"] for case in found) / 60
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['system']}, {about['date']}; "
        f"{minutes:.0f} minutes of one core. Python {about['python']}; {versions}."
    )


if __name__ == "__main__":
    from benchmarks.promise.run import load_all

    write_pages(load_all())
