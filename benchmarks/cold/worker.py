"""One first prediction, in a process of its own.

``python -m benchmarks.cold.worker CASE FOLDER`` prints a JSON document: seconds of
processor time and by the clock, for the imports and for what comes after them.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

N_ROWS = 1_000
# What any process with such a model has imported before it comes to spinney.
OTHERS = ("numpy", "scipy.special", "scipy.stats", "joblib", "sklearn.ensemble")


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def answer(case: str, folder: Path, X: Any, model: Any) -> int:
    """Do what is measured; return the number of rows predicted."""
    import spinney

    if case == "import spinney":
        return 0
    if case == "read_model + predict, random forest":
        return len(spinney.read_model(model).predict(X))
    if case == "read_model + predict, LightGBM file":
        return len(spinney.read_model(folder / "lightgbm.txt").predict(X))
    if case == "load + predict, cascade":
        return len(spinney.load(folder / "cascade.spinney").predict(X))
    if case == "read_model + predictor, one row":
        spinney.read_model(model).predictor()(X[0])
        return 1
    if case == "accelerate":
        fast = spinney.accelerate(model, X, max_disagreement=0.01, random_state=0)
        return len(fast.predict(X))
    msg = f"There is no case {case!r}."
    raise ValueError(msg)


def main(case: str, folder: Path) -> None:
    """Measure one case and print what came out."""
    start = _now()
    for name in OTHERS:
        import_module(name)
    imported = _now()
    import joblib
    import numpy as np

    X = np.load(folder / "rows.npy")
    X = X if case == "accelerate" else X[:N_ROWS]
    model = joblib.load(folder / "forest.joblib")
    if case != "import spinney":
        import_module("spinney")
    begin = _now()
    n_rows = answer(case, folder, X, model)
    end = _now()
    used = sys.modules.get("spinney.runtime.choice")
    document = {
        "imports": [b - a for a, b in zip(start, imported, strict=True)],
        "answer": [b - a for a, b in zip(begin, end, strict=True)],
        "n_rows": n_rows,
        "kernels": bool(used and used._ready),
        "spinney": getattr(sys.modules["spinney"], "__version__", ""),
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
