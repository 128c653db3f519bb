"""Measure what early stopping saves on the clock, beside engines that ask all trees.

python -m benchmarks.early.run takes about ten minutes once models are trained and
converted; --quick takes a minute or two. See benchmarks/early/README.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.compare import machine
from benchmarks.compare.isolated import run_isolated
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
    options = _parser().parse_args(arguments)
    unknown = sorted(set(options.models) - set(MODELS))
    if unknown:
        _parser().error(f"there is no model {unknown}; there are {list(MODELS)}")
    options.cache.mkdir(parents=True, exist_ok=True)
    cases = [
        case
        for case in (QUICK_CASES if options.quick else CASES)
        if case.model in options.models
    ]
    settings = QUICK if options.quick else FULL
    started = time.monotonic()
    result = {
        "format": 1,
        "quick": options.quick,
        "machine": machine.describe(),
        "settings": dict(settings),
        "cases": [],
    }
    for case in cases:
        title = f"{case.dataset}, {case.model}"
        print(title, flush=True)
        job = settings | {
            "case": CASES.index(case),
            "quick": options.quick,
            "cache": str(options.cache.resolve()),
        }
        found = run_isolated("benchmarks.early.worker", job, title)
        result["cases"].append(found)
    result["machine"]["load_after"] = machine.load_average()
    result["settings"]["wall_seconds"] = round(time.monotonic() - started, 1)
    whole = not options.quick and len(cases) == len(CASES)
    out = (RESULTS if whole else options.cache) / f"{machine.slug()}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(tables.render(result))
    print(f"results: {out}")
    if whole:
        tables.write_page(result)
        print(f"tables: {tables.PAGE}")


def _parser() -> argparse.ArgumentParser:
    def words(text: str) -> list[str]:
        return [word.strip() for word in text.split(",") if word.strip()]

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.early.run", description=__doc__
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="smaller models, Adult only, few rows")
    add(
        "--models",
        type=words,
        default=list(MODELS),
        help=f"of {', '.join(MODELS)}; all by default",
    )
    add(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "spinney-early",
        help="folder for trained and converted models",
    )
    return parser


if __name__ == "__main__":
    main()
