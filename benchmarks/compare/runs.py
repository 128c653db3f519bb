"""What all runs share: cases one after another, and where their results go."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from benchmarks.compare import machine
from benchmarks.compare.isolated import run_isolated


def run_cases(
    worker: str,
    jobs: dict[str, dict[str, Any]],
    settings: dict[str, Any],
    options: argparse.Namespace,
    tell: Callable[[dict[str, Any]], object] = lambda found: None,
) -> dict[str, Any]:
    """Run a worker on case after case, and return all that was found.

    Parameters
    ----------
    worker : str
        Module of the worker.
    jobs : dict of str to dict
        What the worker is to do, by a title for people; `settings` are added.
    settings : dict
        What is the same for all.
    options : Namespace
        With `quick` and `cache`.
    tell : callable
        Is given what was found for each case.
    """
    options.cache.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    result = new_result(options, settings)
    for title, job in jobs.items():
        print(title, flush=True)
        more = {"quick": options.quick, "cache": str(options.cache.resolve())}
        found = run_isolated(worker, settings | more | job, title)
        tell(found)
        result["cases"].append(found)
    close_result(result, started)
    return result


def new_result(options: argparse.Namespace, settings: dict[str, Any]) -> dict[str, Any]:
    """Return a result without cases: the machine, and what was set."""
    return {
        "format": 1,
        "quick": options.quick,
        "machine": machine.describe(),
        "settings": dict(settings),
        "cases": [],
    }


def close_result(result: dict[str, Any], started: float) -> None:
    """Note the load of the machine at the end, and the time since `started`."""
    result["machine"]["load_after"] = machine.load_average()
    result["settings"]["wall_seconds"] = round(time.monotonic() - started, 1)


def write_result(result: dict[str, Any], folder: Path, text: str) -> None:
    """Write a result to a file named after the machine, and print it."""
    write_result_to(result, folder / f"{machine.slug()}.json", text)


def write_result_to(result: dict[str, Any], path: Path, text: str) -> None:
    """Write a result to a file, and print it as `text`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(text)
    print(f"results: {path}")


def words(text: str) -> list[str]:
    """Return what stands between commas, as an option of a command gives it."""
    return [word.strip() for word in text.split(",") if word.strip()]


def add_cache(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the option for the folder that keeps models between runs."""
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / name,
        help="folder for trained and converted models",
    )


def check_names(
    parser: argparse.ArgumentParser, given: Iterable[str], known: Collection[str]
) -> None:
    """End with an error if a name is none of those that are known."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        parser.error(f"there is no {unknown}; there are {list(known)}")
