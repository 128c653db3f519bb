"""Measure exported C beside other exporters; writes the tables of the README.

``python -m benchmarks.export.run`` from the root of the project. Exporters that are not
installed are left out, and so are targets whose compiler or emulator is missing.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import spinney
from benchmarks.export import measure
from benchmarks.export.cases import LARGE, SMALL, Case, make
from benchmarks.export.exporters import (
    FOR_DEVICES,
    FOR_SERVERS,
    LLEAVES,
    NotTaken,
    Written,
    early,
    fresh,
    run_lleaves,
)
from benchmarks.export.quickest import quickest
from benchmarks.export.tables import write_tables

RESULTS = Path(__file__).parent / "results"
N_COUNTED = 200  # rows on the emulated Cortex-M3
LLEAVES_ROWS = (
    LLEAVES
    + """
import numpy
from quickest import quickest
rows = [row[None] for row in numpy.load("rows.npy")]
print(quickest(model.predict, rows))
"""
)


def build_all(case: Case, work: Path) -> list[dict[str, Any]]:
    """Let every exporter write its code and compile it, before anything is timed."""
    built: list[dict[str, Any]] = []
    for name, write in FOR_SERVERS.items():
        folder = fresh(work / name.replace(" ", "_").replace(",", ""))
        try:
            with np.errstate(all="ignore"):  # some exporters make errors of warnings
                written = write(case, folder)
            measure.build(written, case.test, folder)
        except NotTaken as error:
            say(f"  {name}: {str(error)[:200]}")
        except RuntimeError as error:
            say(f"  {name}: {str(error)[:200]}")
            built.append({"exporter": name, "ns": None, "failed": str(error)[:80]})
        else:
            built.append({"exporter": name, "folder": folder})
    return built


def servers(case: Case, built: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the time of a single row in C, exporter by exporter."""
    full = case.model.predict(case.test)
    found = []
    for row in built:
        if "failed" in row:
            found.append(row)
            continue
        name = row["exporter"]
        taken, classes = measure.nanoseconds(row["folder"])
        differ = float((classes != full).mean())
        found.append({"exporter": name, "ns": taken, "differ": differ})
        if "early exit" in name:
            found[-1]["trees"] = share_of_trees(early(case), case.test)
        say(f"  {name}: {taken:,.0f} ns, {differ:.2%} differ")
    return found


def share_of_trees(fast: Any, rows: Any) -> float:
    """Return which part of the trees is evaluated for a row, on average."""
    return float(fast.predict_counted(rows)[1].mean() / fast.forest_.n_trees)


def callers(case: Case, work: Path) -> list[dict[str, Any]]:
    """Return the time of a single row called from Python."""
    forest = spinney.read_model(case.model)
    fast = early(case)
    dtype = np.dtype(forest.input_dtype)
    rows = [np.array(row, dtype=dtype) for row in case.test[:500]]
    ways: dict[str, Any] = {
        "predictor(), all trees": forest.predictor(),
        "compile(), all trees": spinney.compile(forest),
        "predictor(), early exit": fast.predictor(),
        "compile(), early exit": spinney.compile(fast),
    }
    is_lightgbm = type(case.model).__name__.startswith("LGBM")
    if is_lightgbm:
        ways["LightGBM, single-row C call"] = lightgbm_caller(case)
    found = []
    for name, answer in ways.items():
        microseconds = quickest(answer, rows)
        found.append({"caller": name, "us": microseconds})
        say(f"  {name}: {microseconds:.2f} µs")
    if is_lightgbm:
        found += lleaves_from_python(case, rows, work)
    return found


def lleaves_from_python(
    case: Case, rows: list[Any], work: Path
) -> list[dict[str, Any]]:
    """Return the time of lleaves' own predict, in the environment that it needs."""
    folder = work / "lleaves"  # where it is compiled already
    if not folder.exists():
        return []
    np.save(folder / "rows.npy", np.array(rows))
    shutil.copy(Path(__file__).with_name("quickest.py"), folder)
    try:
        done = run_lleaves(LLEAVES_ROWS, folder)
    except NotTaken as error:
        say(f"  {error}")
        return []
    say(f"  lleaves, predict of one row: {float(done):.2f} µs")
    return [{"caller": "lleaves, predict of one row", "us": float(done)}]


def lightgbm_caller(case: Case) -> Any:
    """Return LightGBM's own single-row call, as a Python function."""
    import ctypes

    booster = case.model.booster_
    from lightgbm.basic import _LIB

    config = ctypes.c_void_p()
    n = case.test.shape[1]
    _LIB.LGBM_BoosterPredictForMatSingleRowFastInit(
        booster._handle, 0, 0, -1, 1, n, b"num_threads=1", ctypes.byref(config)
    )
    out, size = ctypes.c_double(), ctypes.c_int64()
    call = _LIB.LGBM_BoosterPredictForMatSingleRowFast
    out_at, size_at = ctypes.byref(out), ctypes.byref(size)

    def single(row: Any) -> bool:
        data = ctypes.c_void_p(row.__array_interface__["data"][0])
        call(config, data, size_at, out_at)
        return out.value > 0.5

    return single


def devices(case: Case, work: Path) -> list[dict[str, Any]]:
    """Return bytes of flash and agreement, exporter by exporter."""
    full = case.model.predict(case.test)
    found = []
    for name, write in FOR_DEVICES.items():
        folder = fresh(work / name.replace(" ", "_").replace(",", ""))
        row: dict[str, Any] = {"exporter": name}
        try:
            with np.errstate(all="ignore"):
                written = write(case, folder)
            measure.build(written, case.test, folder, rounds=1)
            _, classes = measure.nanoseconds(folder)
            row["differ"] = float((classes != full).mean())
            n_features = case.test.shape[1]
            for cpu in ("cortex-m0", "cortex-m3"):
                row[cpu] = measure.flash_bytes(written, n_features, folder, cpu)
            if not name.startswith("micromlgen"):
                some = case.test[:N_COUNTED]
                row["instructions"] = measure.instructions(written, some, folder)
        except (NotTaken, RuntimeError) as error:
            say(f"  {name}: {str(error)[:200]}")
            if len(row) < 3:
                continue
        found.append(row)
        say(f"  {row}")
    return found


def anytime(case: Case, work: Path) -> list[dict[str, Any]]:
    """Return the instructions of an anytime forest at a quarter of its steps."""
    from sklearn.frozen import FrozenEstimator

    half = len(case.calibration) // 2
    X, rest = case.calibration[:half], case.calibration[half:]
    y = case.model.predict(X)
    fitted = spinney.AnytimeForestClassifier(FrozenEstimator(case.model)).fit(X, y)
    folder = fresh(work / "anytime")
    spinney.export_c(
        fitted,
        folder / "model.c",
        name="m",
        arithmetic="integer",
        X=rest,
        input_type="int16",
    )
    n_steps = len(fitted.order_)
    found = []
    for share in (0.25, 1.0):
        steps = int(n_steps * share)
        (folder / "entry.c").write_text(
            f'#include "model.h"\nint answer(const int16_t *row) {{\n'
            "    m_state state;\n    int i;\n    m_start(&state, row);\n"
            f"    for (i = 0; i < {steps}; i++) {{\n        m_step(&state);\n    }}\n"
            "    return m_answer(&state);\n}\n"
        )
        written = Written("int16_t")
        full = case.model.predict(case.test)
        measure.build(written, case.test, folder, rounds=1)
        _, classes = measure.nanoseconds(folder)
        row = {
            "exporter": f"spinney anytime, {share:.0%} of {n_steps} steps",
            "differ": float((classes != full).mean()),
            "instructions": measure.instructions(
                written, case.test[:N_COUNTED], folder
            ),
        }
        found.append(row)
        say(f"  {row}")
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(*names: str) -> None:
    """Measure everything, or only some models; write results and tables.

    Parameters
    ----------
    *names : str
        Names of models; all if none is named. What was measured before is kept.
    """
    path = RESULTS / "export.json"
    results: dict[str, Any] = {"devices": {}, "servers": {}, "callers": {}}
    if path.exists():
        results |= json.loads(path.read_text(encoding="utf-8"))
    work = Path(tempfile.mkdtemp())
    for name in [name for name in SMALL if not names or name in names]:
        say(name)
        case = make(name)
        results["devices"][name] = devices(case, work)
        if name.startswith("RF"):
            results["devices"][name] += anytime(case, work)
        _save(path, results)
    for name in [name for name in LARGE if not names or name in names]:
        say(name)
        case = make(name)
        results["servers"][name] = servers(case, build_all(case, work))
        results["callers"][name] = callers(case, work)
        _save(path, results)
    shutil.rmtree(work, ignore_errors=True)
    write_tables(results)


def _save(path: Path, results: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
