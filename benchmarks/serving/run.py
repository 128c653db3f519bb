"""Measure single rows from many threads of one process, beside other engines.

python -m benchmarks.serving.run takes about two minutes per model once models are
trained and converted; --quick takes less than a minute. See README.md beside it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.compare import machine, runs
from benchmarks.compare.models import RECIPES
from benchmarks.serving import tables

RESULTS = Path(__file__).parent / "results"

MODELS = ("rf-deep", "rf-500x10", "lightgbm", "xgboost")
THREADS = (1, 2, 4, 8, 16)

# The engines that are made for single rows, or are often called with them.
PEERS = (
    "LightGBM single row",
    "lleaves",
    "lleaves single row",
    "ONNX Runtime",
    "nvForest",
    "XGBoost",
)

# Seconds of measuring per model, over all engines and numbers of threads.
FULL = {"seconds": 100.0, "rounds": 5, "compile_seconds": 60.0}
QUICK = {"seconds": 4.0, "rounds": 2, "compile_seconds": 5.0}


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run all cases, write the results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    runs.check_names(parser, options.models, RECIPES)
    settings: dict[str, Any] = dict(QUICK if options.quick else FULL)
    settings |= {
        "threads": list(THREADS),
        "peers": list(PEERS),
        "max_disagreement": 0.001,
    }
    if options.seconds:
        settings["seconds"] = options.seconds
    jobs = {
        f"{options.dataset}, {model}": {"dataset": options.dataset, "model": model}
        for model in options.models
    }
    result = runs.run_cases("benchmarks.serving.worker", jobs, settings, options)
    if options.quick:
        runs.write_result(result, options.cache, tables.render(result))
        return
    path = RESULTS / f"{machine.slug()}.json"
    if path.exists():
        result = with_other_cases(result, json.loads(path.read_text()))
    runs.write_result_to(result, path, tables.render(result))
    tables.write_page(result)
    print(f"tables: {tables.PAGE}")


def with_other_cases(result: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the cases of an earlier one that it does not have.

    Each case says when, and with which load, it was measured.

    Parameters
    ----------
    result, before : dict
        What two runs have found.
    """

    def key(case: dict[str, Any]) -> tuple[str, str]:
        return case["dataset"], case["model"]

    found = {key(case): case for case in [*before["cases"], *result["cases"]]}
    names = list(RECIPES)
    order = sorted(found, key=lambda case: (case[0], names.index(case[1])))
    return result | {"cases": [found[each] for each in order]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving.run", description=__doc__
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="smaller models, few calls; no page")
    add("--dataset", default="adult", help="default adult")
    add(
        "--models",
        type=runs.words,
        default=list(MODELS),
        help=f"of {', '.join(RECIPES)}; cases of earlier runs stay in the page",
    )
    add("--seconds", type=float, help="of measuring per model (default 100, quick 4)")
    runs.add_cache(parser, "spinney-benchmarks")
    return parser


if __name__ == "__main__":
    main()
