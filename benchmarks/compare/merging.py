"""Put the cells of a partial run in the place of those of an earlier, full one.

``python -m benchmarks.compare.merging PARTIAL.json`` changes the result file of this
machine and the tables of benchmarks/README.md, which then say what is of which run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.compare import machine, table

RESULTS = Path(__file__).parent / "results"


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return an earlier result with the cells of a later one.

    For a model and a batch size that were measured again, no time of the earlier run
    stays, so that engines are compared within one run only. Models that the earlier
    run does not have come last.

    Parameters
    ----------
    before, now : dict
        Results of two runs.
    """
    later = {(case["dataset"], case["model"]): case for case in now["cases"]}
    cases = []
    for case in before["cases"]:
        again = later.get((case["dataset"], case["model"]))
        cases.append(case if again is None else _merged_case(case, again))
    known = {(case["dataset"], case["model"]) for case in cases}
    cases += [case for key, case in later.items() if key not in known]
    about = now["machine"]
    note = {
        "date": about["date"],
        "load_before": about["load_before"],
        "batches": now["settings"]["batches"],
        "cases": [list(key) for key in later],
        "versions": about["versions"],
    }
    earlier = [one for one in before.get("later", []) if not _is_covered(one, note)]
    return before | {"cases": cases, "later": [*earlier, note]}


def _merged_case(case: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    measured = {(entry["threads"], entry["batch"]) for entry in again["times"]}
    kept = [
        entry
        for entry in case["times"]
        if (entry["threads"], entry["batch"]) not in measured
    ]
    timed = {
        name: peer for name, peer in again["peers"].items() if peer["status"] == "timed"
    }
    names = list(case["peers"])
    times = sorted(
        [*kept, *again["times"]],
        key=lambda entry: (
            entry["threads"],
            entry["batch"],
            names.index(entry["peer"]) if entry["peer"] in names else len(names),
        ),
    )
    return case | {"peers": case["peers"] | timed, "times": times}


def _is_covered(one: dict[str, Any], note: dict[str, Any]) -> bool:
    """Whether nothing of a partial run is left after a later one."""
    same = all(case in note["cases"] for case in one["cases"])
    return same and set(one["batches"]) <= set(note["batches"])


def main(path: Path) -> None:
    """Merge a result into the one of this machine, and write the tables.

    Parameters
    ----------
    path : path
        What the partial run has written, by its option ``--out``.
    """
    whole = RESULTS / f"{machine.slug()}.json"
    result = merged(json.loads(whole.read_text()), json.loads(path.read_text()))
    whole.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    table.write_readme(result)
    print(f"tables: {table.README}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
