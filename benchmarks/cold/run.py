"""How long the first prediction of a process takes, with and without compiled kernels.

``python -m benchmarks.cold.run`` trains small models, predicts in fresh processes with
an empty, a warm and a read-only folder for compiled kernels, and writes the table into
``README.md`` beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
CASES = (
    "import spinney",
    "read_model + predict, random forest",
    "read_model + predict, LightGBM file",
    "load + predict, cascade",
    "read_model + predictor, one row",
    "accelerate",
)
STATES = ("empty", "warm", "read-only")
# Predictions in less than this are measured several times.
QUICK_SECONDS = 5.0
REPEATS = 5


def make_models(folder: Path) -> None:
    """Train what is read in the cases, on synthetic rows."""
    import joblib
    import lightgbm
    import numpy as np
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.frozen import FrozenEstimator

    import spinney

    X, y = make_classification(
        14_000, 30, n_informative=12, flip_y=0.05, random_state=0
    )
    X = X.astype(np.float32)
    forest = RandomForestClassifier(100, max_depth=10, random_state=0, n_jobs=-1)
    forest.fit(X[:8_000], y[:8_000]).set_params(n_jobs=None)
    joblib.dump(forest, folder / "forest.joblib")
    boosted = lightgbm.LGBMClassifier(
        n_estimators=200, num_leaves=31, random_state=0, verbose=-1
    )
    boosted.fit(X[:8_000], y[:8_000])
    boosted.booster_.save_model(str(folder / "lightgbm.txt"))
    cascade = spinney.CascadeClassifier(
        FrozenEstimator(forest), max_disagreement=0.01, random_state=0
    )
    spinney.save(cascade.fit(X[8_000:]), folder / "cascade.spinney")
    np.save(folder / "rows.npy", X[8_000:])


def run_case(
    case: str, models: Path, cache: Path, engine: str, read_only: bool = False
) -> dict[str, Any]:
    """Predict in a new process; return what it has measured."""
    before: list[str] = []
    if read_only and os.geteuid() == 0:
        script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        before = ["unshare", "--mount", "sh", "-c", script, str(cache)]
    for folder in (cache, *cache.iterdir()):
        folder.chmod(0o555 if read_only else 0o755)
    environment = os.environ | {
        "SPINNEY_CACHE_DIR": str(cache),
        "SPINNEY_ENGINE": engine,
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "benchmarks.cold.worker", case, str(models)]
    done = subprocess.run(
        [*before, *command], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        msg = f"{case!r} has failed:\n{done.stderr}"
        raise RuntimeError(msg)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def median_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what was measured in the middle of several runs."""
    pairs = {
        name: [statistics.median(run[name][k] for run in runs) for k in (0, 1)]
        for name in ("imports", "answer")
    }
    return runs[0] | pairs | {"n_runs": len(runs)}


def measure(
    case: str, state: str, engine: str, models: Path, warm: Path
) -> dict[str, Any]:
    """Measure one cell of the table; `warm` has the kernels that the case needs."""
    with tempfile.TemporaryDirectory(prefix="spinney-cold-") as name:
        runs: list[dict[str, Any]] = []
        while len(runs) < REPEATS:
            cache = warm
            if state == "empty":
                cache = Path(name) / f"empty-{len(runs)}"
                cache.mkdir()
            runs.append(
                run_case(case, models, cache, engine, read_only=state == "read-only")
            )
            if runs[-1]["answer"][0] > QUICK_SECONDS:
                break
    return {"case": case, "state": state, "engine": engine} | median_of(runs)


def table_of(results: list[dict[str, Any]]) -> str:
    """Return the results as a table, a line for each case and engine."""
    lines = [
        "| first prediction | engine | "
        + " | ".join(f"{state}: CPU s | wall s" for state in STATES)
        + " |",
        "|---|---|" + "---:|" * (2 * len(STATES)),
    ]
    for engine in ("auto", "compiled"):
        for case in CASES:
            cells = [
                one for one in results if (one["case"], one["engine"]) == (case, engine)
            ]
            if not cells:
                continue
            by_state = {one["state"]: one["answer"] for one in cells}
            numbers = [
                f"{by_state[state][0]:.2f} | {by_state[state][1]:.2f}"
                if state in by_state
                else " | "
                for state in STATES
            ]
            lines.append(f"| {case} | {engine} | {' | '.join(numbers)} |")
    imports = statistics.median(one["imports"][0] for one in results)
    load = os.getloadavg()[0]
    machine = platform.processor() or platform.machine()
    lines.append("")
    lines.append(
        f"The imports before that (NumPy, SciPy, joblib, scikit-learn) take "
        f"{imports:.1f} s of processor time. {machine}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load average "
        f"{load:.1f} at the end of the run."
    )
    return "\n".join(lines)


def main() -> None:
    """Measure everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without accelerate")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    chosen = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="spinney-models-") as name:
        make_models(Path(name))
        warm = Path(name) / "kernels"
        warm.mkdir()
        for case in CASES:
            if chosen.quick and case == "accelerate":
                continue
            if case != CASES[0]:
                run_case(case, Path(name), warm, "compiled")
            # What insists on kernels compiles them; nothing is compiled for an import.
            engines = (
                ("auto",) if case in (CASES[0], "accelerate") else ("auto", "compiled")
            )
            for engine in engines:
                for state in STATES:
                    result = measure(case, state, engine, Path(name), warm)
                    results.append(result)
                    processor, wall = result["answer"]
                    print(
                        f"{case:40} {engine:9} {state:10} {processor:7.2f} s CPU "
                        f"{wall:7.2f} s wall, kernels: {result['kernels']}",
                        flush=True,
                    )
    table = table_of(results)
    print(table)
    if not chosen.dry:
        page = HERE / "README.md"
        text = page.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        tail = rest.partition(END)[2]
        page.write_text(f"{head}{BEGIN}\n\n{table}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
