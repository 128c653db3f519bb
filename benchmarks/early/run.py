"""Measure what early exit saves on the clock, beside engines that take all trees.

python -m benchmarks.early.run takes about ten minutes once models are trained and
converted; --quick takes a minute or two. See benchmarks/early/README.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.compare import runs
from benchmarks.early import tables
from benchmarks.early.cases import CASES, QUICK_CASES

RESULTS = Path(__file__).parent / "results"
MODELS = tuple(dict.fromkeys(case.model for case in CASES))

# Rows of a batch, fits per level (the spread is taken over them) and seconds of
# measuring per model: batches, single rows.
FULL = {"batch": 10_000, "n_fits": 5, "batch_seconds": 20.0, "row_seconds": 4.0}
QUICK = {"batch": 2_000, "n_fits": 2, "batch_seconds": 5.0, "row_seconds": 1.0}


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run all cases, write the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    runs.check_names(parser, options.models, MODELS)
    cases = [
        case
        for case in (QUICK_CASES if options.quick else CASES)
        if case.model in options.models
    ]
    result = runs.run_cases(
        "benchmarks.early.worker",
        {
            f"{one.dataset}, {one.model}, {one.voting}": {"case": CASES.index(one)}
            for one in cases
        },
        QUICK if options.quick else FULL,
        options,
    )
    whole = not options.quick and len(cases) == len(CASES)
    runs.write_result(
        result, RESULTS if whole else options.cache, tables.render(result)
    )
    if whole:
        tables.write_page(result)
        print(f"tables: {tables.PAGE}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.early.run", description=__doc__
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="smaller models, Adult only, few rows")
    add(
        "--models",
        type=runs.words,
        default=list(MODELS),
        help=f"of {', '.join(MODELS)}; all by default",
    )
    runs.add_cache(parser, "spinney-early")
    return parser


if __name__ == "__main__":
    main()
