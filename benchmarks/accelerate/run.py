"""Measure what `spinney.accelerate` saves, beside engines that evaluate all trees.

python -m benchmarks.accelerate.run takes about half an hour once models are trained
and converted, seven minutes of it measuring; --quick takes a minute or two. See
benchmarks/accelerate/README.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.accelerate import tables
from benchmarks.accelerate.cases import CASES, QUICK_CASES
from benchmarks.compare import runs

RESULTS = Path(__file__).parent / "results"
MODELS = tuple(case.dataset for case in CASES)

# Bound on the disagreement, rows of a batch, and how often each model is accelerated.
FULL = {"level": 1e-3, "batch": 10_000, "n_fits": 3}
QUICK = {"level": 1e-3, "batch": 2_000, "n_fits": 2}

# Seconds of measuring, all models together.
SECONDS, QUICK_SECONDS = 400.0, 10.0


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run all cases, write the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    runs.check_names(parser, options.models or [], MODELS)
    cases = QUICK_CASES if options.quick else CASES
    if options.models:
        cases = tuple(case for case in CASES if case.dataset in options.models)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    share = seconds / len(QUICK_CASES if options.quick else CASES)
    result = runs.run_cases(
        "benchmarks.accelerate.worker",
        {f"{one.dataset}, {one.model}": {"case": CASES.index(one)} for one in cases},
        (QUICK if options.quick else FULL) | {"seconds": share},
        options,
        _tell,
    )
    whole = not options.quick and options.seconds is None and len(cases) == len(CASES)
    runs.write_result(
        result, RESULTS if whole else options.cache, tables.render(result)
    )
    if whole:
        tables.write_pages(result)


def _tell(found: dict[str, Any]) -> None:
    parts = ", ".join(f"{what} {s:.0f} s" for what, s in found["seconds"].items())
    print(f"  {parts}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerate.run", description=__doc__
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="two small models, few samples")
    add(
        "--seconds",
        type=float,
        help=f"seconds of measuring for all models together, default {SECONDS:.0f}, "
        f"quick {QUICK_SECONDS:.0f}; with another number, no page is written",
    )
    add(
        "--models",
        type=runs.words,
        help=f"by data set, of {', '.join(MODELS)}; all by default",
    )
    runs.add_cache(parser, "spinney-accelerate")
    return parser


if __name__ == "__main__":
    main()
