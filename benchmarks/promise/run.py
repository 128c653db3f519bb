"""Measure how often predictions differ on new rows, over many splits.

``python -m benchmarks.promise.run`` takes about an hour of one core once models are
trained. Every case is written when it is done, so that an interrupted run continues
where it stopped. ``--quick`` takes less than a minute and writes nothing. See
benchmarks/promise/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import machine, runs
from benchmarks.promise import bounds, tables
from benchmarks.promise.cases import (
    APPROACHES,
    CASES,
    NAMES,
    QUICK_CASES,
    Case,
    pool_of,
)
from benchmarks.promise.fits import fit_all

RESULTS = Path(__file__).parent / "results"
QUICK_TREES = 40


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run what has not been run, write results and tables."""
    parser = _parser()
    options = parser.parse_args(arguments)
    runs.check_names(parser, options.approaches or [], APPROACHES)
    runs.check_names(parser, options.datasets or [], NAMES)
    if options.quick:
        found = [
            measure(case, options.cache, n_trees=QUICK_TREES) for case in QUICK_CASES
        ]
        print(tables.render(found))
        return
    wanted = [
        case
        for case in CASES
        if case.approach in (options.approaches or APPROACHES)
        and case.dataset in (options.datasets or NAMES)
    ]
    started = time.monotonic()
    if options.bounds:
        bounds.run(options.again, started + 60 * options.minutes)
        return
    for case in wanted:
        path = RESULTS / f"{case.slug}.json"
        if path.exists() and not options.again:
            continue
        if time.monotonic() - started > 60 * options.minutes:
            print("Time is up; the same command continues.", flush=True)
            break
        _write(path, measure(case, options.cache))
    tables.write_pages(load_all(RESULTS))


def measure(case: Case, cache: Path, n_trees: int | None = None) -> dict[str, Any]:
    """Return what is found over all splits of a case.

    Parameters
    ----------
    case : Case
        What to measure.
    cache : path
        Folder that keeps trained models.
    n_trees : int, optional
        Trees of the model, if other than usual.
    """
    pool = pool_of(case.dataset, APPROACHES[case.approach], cache, n_trees)
    bound, n_rows = case.setting.bound, case.setting.n_rows
    clock = time.process_time()
    splits: list[dict[str, Any]] = []
    all_trees = n_held_out = 0
    for seed in range(case.n_splits):
        X, held_out = pool.split(n_rows, seed)
        fitted, full, kept = fit_all(case.approach, pool.model, X, bound, seed)
        reference, n_held_out = full(held_out), len(held_out)
        split: dict[str, Any] = {"kept": kept} if kept else {}
        for name, counted in fitted.items():
            labels, n_evaluated = counted(held_out)
            split[name] = {
                "n_differ": int(np.count_nonzero(labels != reference)),
                "trees": round(float(n_evaluated.mean()), 3),
            }
        splits.append(split)
    all_trees = _n_trees(pool.model)
    seconds = time.process_time() - clock
    print(f"{case.approach}, {case.dataset}, {bound:g}: {seconds:.0f} s", flush=True)
    return {
        "format": 1,
        "approach": case.approach,
        "dataset": case.dataset,
        "model": APPROACHES[case.approach],
        "bound": bound,
        "n_rows": n_rows,
        "n_held_out": n_held_out,
        "n_trees": all_trees,
        "cpu_seconds": round(seconds, 1),
        "machine": machine.describe(),
        "splits": splits,
    }


def load_all(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the results of all cases that have been run, in the order of `CASES`.

    Parameters
    ----------
    folder : path
        Folder with one file per case.
    """
    paths = (folder / f"{case.slug}.json" for case in CASES)
    return [
        json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()
    ]


def _n_trees(model: Any) -> int:
    import spinney

    return spinney.read_model(model).n_trees


def _write(path: Path, found: dict[str, Any]) -> None:
    """Write a result, whole or not at all: the next run takes what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found) + "\n", encoding="utf-8")
    os.replace(part, path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promise.run", description=__doc__
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="one data set, two splits, small models")
    add(
        "--bounds",
        action="store_true",
        help="thresholds, bounds per class and on accuracy instead: see bounds.md",
    )
    add("--again", action="store_true", help="also measure what has been measured")
    add(
        "--minutes",
        type=float,
        default=float("inf"),
        help="begin no case after so many minutes; the next run continues",
    )
    add("--approaches", action="append", help="one of the approaches; may be repeated")
    add(
        "--datasets",
        type=runs.words,
        help=f"of {', '.join(NAMES)}; all by default",
    )
    runs.add_cache(parser, "spinney-promise")
    return parser


if __name__ == "__main__":
    main()
