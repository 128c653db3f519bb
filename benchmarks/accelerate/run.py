"""Measure what `spinney.accelerate` saves, beside engines that ask all trees.

python -m benchmarks.accelerate.run takes about half an hour once models are trained
and converted, seven minutes of it measuring; --quick takes a minute or two. See
benchmarks/accelerate/README.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.accelerate import tables
from benchmarks.accelerate.cases import CASES, QUICK_CASES
from benchmarks.compare import machine
from benchmarks.compare.isolated import run_isolated

RESULTS = Path(__file__).parent / "results"
MODELS = tuple(case.dataset for case in CASES)

# Bound on the disagreement, rows of a batch, and how often each model is accelerated.
FULL = {"level": 1e-3, "batch": 10_000, "n_fits": 3}
QUICK = {"level": 1e-3, "batch": 2_000, "n_fits": 2}

# Seconds of measuring, all models together.
SECONDS, QUICK_SECONDS = 400.0, 10.0


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run all cases, write the results."""
    options = _parser().parse_args(arguments)
    unknown = sorted(set(options.models or []) - set(MODELS))
    if unknown:
        _parser().error(f"there is no model {unknown}; there are {list(MODELS)}")
    options.cache.mkdir(parents=True, exist_ok=True)
    cases = QUICK_CASES if options.quick else CASES
    if options.models:
        cases = tuple(case for case in CASES if case.dataset in options.models)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    share = seconds / len(QUICK_CASES if options.quick else CASES)
    settings = (QUICK if options.quick else FULL) | {"seconds": share}
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
        found = run_isolated("benchmarks.accelerate.worker", job, title)
        parts = ", ".join(f"{what} {s:.0f} s" for what, s in found["seconds"].items())
        print(f"  {parts}", flush=True)
        result["cases"].append(found)
    result["machine"]["load_after"] = machine.load_average()
    result["settings"]["wall_seconds"] = round(time.monotonic() - started, 1)
    whole = not options.quick and options.seconds is None and len(cases) == len(CASES)
    out = (RESULTS if whole else options.cache) / f"{machine.slug()}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(tables.render(result))
    print(f"results: {out}")
    if whole:
        tables.write_pages(result)


def _parser() -> argparse.ArgumentParser:
    def words(text: str) -> list[str]:
        return [word.strip() for word in text.split(",") if word.strip()]

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
        type=words,
        help=f"by data set, of {', '.join(MODELS)}; all by default",
    )
    add(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "spinney-accelerate",
        help="folder for trained and converted models",
    )
    return parser


if __name__ == "__main__":
    main()
