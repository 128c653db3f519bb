"""Compare spinney's runtime with every other engine that is installed.

python -m benchmarks.compare.run measures for ten minutes and, the first time,
trains and converts models for about as long; --quick takes about a minute. See
benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.compare import machine, table
from benchmarks.compare.datasets import USUAL
from benchmarks.compare.isolated import run_isolated
from benchmarks.compare.models import RECIPES
from benchmarks.compare.peers import PEERS
from benchmarks.compare.runs import (
    add_cache,
    check_names,
    close_result,
    new_result,
    words,
    write_result_to,
)

RESULTS = Path(__file__).parent / "results"

# All models on a data set with two classes, and two of them on seven classes.
CASES = [("adult", name) for name in RECIPES] + [
    ("covertype", "rf-deep"),
    ("covertype", "xgboost"),
]
QUICK_CASES = [("adult", name) for name in RECIPES]


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run all cases, write the results."""
    options = _options(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    cases = _cases(options)
    settings = ("seconds", "threads", "batches")
    result = new_result(options, {name: getattr(options, name) for name in settings})
    left = options.seconds
    for i, (dataset, model) in enumerate(cases):
        # What one case did not need, or took too much, is shared by those after it.
        share = max(left / (len(cases) - i), 0.3 * options.seconds / len(cases))
        print(f"{dataset}, {model}: {share:.0f} s", flush=True)
        case = _run_case(dataset, model, share, options)
        left -= case["measured_seconds"]
        result["cases"].append(case)
    close_result(result, started)
    _write(result, options)


def _write(result: dict[str, Any], options: argparse.Namespace) -> None:
    out = options.out
    if out is None:
        folder = options.cache if options.quick else RESULTS
        out = folder / f"{machine.slug()}.json"
    write_result_to(result, out, table.render(result))
    if not options.quick and options.out is None:
        table.write_readme(result)
        print(f"tables: {table.README}")


def _run_case(
    dataset: str, model: str, seconds: float, options: argparse.Namespace
) -> dict[str, Any]:
    """Run one case in a process of its own."""
    job = {
        "dataset": dataset,
        "model": model,
        "seconds": seconds,
        "cache": str(options.cache.resolve()),
        "threads": options.threads,
        "batches": options.batches,
        "peers": options.peers,
        "quick": options.quick,
        "compile_seconds": options.compile_seconds,
        "check_rows": options.check_rows,
        "min_samples": 2 if options.quick else 3,
    }
    return run_isolated(
        "benchmarks.compare.worker", job, f"{dataset}, {model}", max(options.threads)
    )


def _cases(options: argparse.Namespace) -> list[tuple[str, str]]:
    cases = QUICK_CASES if options.quick else CASES
    if options.datasets:
        cases = [
            (data, model)
            for data in options.datasets
            for model, recipe in RECIPES.items()
            if recipe.takes(data)
        ]
    if options.models:
        cases = [case for case in cases if case[1] in options.models]
    return cases


def _options(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line and fill in what depends on ``--quick``."""
    parser = _parser()
    options = parser.parse_args(arguments)
    quick = options.quick
    options.seconds = options.seconds or (40.0 if quick else 600.0)
    options.batches = options.batches or [1, 10, 1_000, 10_000 if quick else 100_000]
    options.compile_seconds = options.compile_seconds or (5.0 if quick else 60.0)
    options.check_rows = 2_000 if quick else 50_000
    check_names(parser, options.peers or [], PEERS)
    return options


def _parser() -> argparse.ArgumentParser:
    def numbers(text: str) -> list[int]:
        return [int(word) for word in words(text)]

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare.run", description=__doc__
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="smaller models, two classes, few samples")
    add("--seconds", type=float, help="seconds of measuring (default 600, quick 40)")
    add("--datasets", type=words, help=f"of {', '.join(USUAL)}, or a file's name")
    add("--models", type=words, help=f"of {', '.join(RECIPES)}")
    add("--peers", type=words, help="names of engines; all by default")
    add("--threads", type=numbers, default=[1, 2], help="default 1,2")
    add("--batches", type=numbers, help="rows per call, default 1,10,1000,100000")
    add(
        "--compile-seconds",
        type=float,
        help="limit for a C compiler, default 60, quick 5",
    )
    add_cache(parser, "spinney-benchmarks")
    add("--out", type=Path, help="where to write the JSON; leaves the README alone")
    return parser


if __name__ == "__main__":
    main()
