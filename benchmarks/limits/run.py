"""How much memory and time very large forests, rows and numbers of models take.

``python -m benchmarks.limits.run nodes 50e6`` (or ``columns 20000``, ``rows 10e6``,
``models 500``). Linux only: memory is read from ``/proc``. Fifty million nodes need
12 GB.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import spinney

GIB = 2**30


def memory(name: str) -> int:
    """Return the bytes that this process holds (``VmRSS``) or held (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measured(what: str, call: Any) -> Any:
    """Call, print processor time and memory, and return the result."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    held, start = memory("VmRSS"), time.process_time()
    result = call()
    seconds = time.process_time() - start
    more, peak = memory("VmRSS") - held, memory("VmHWM") - held
    held_more, peak_more = f"{more / GIB:+.2f} GB", f"{peak / GIB:+.2f} GB"
    print(f"{what}: {seconds:.2f} s, holds {held_more}, peak {peak_more}", flush=True)
    return result


def noisy_rows(n_rows: int, n_columns: int) -> tuple[Any, Any]:
    """Return rows and labels of two classes that a tree can hardly tell apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    return X, (X[:, 0] + 3 * rng.normal(size=n_rows) > 0).astype(int)


def grown(model: RandomForestClassifier, n_nodes: int) -> None:
    """Give a forest as many trees as have so many nodes: copies, moved a little."""
    rng = np.random.default_rng(1)
    first = model.estimators_[0]
    state = first.tree_.__getstate__()
    n_columns = first.n_features_in_
    trees = []
    for number in range(round(n_nodes / first.tree_.node_count)):
        nodes = state["nodes"].copy()
        inner = nodes["feature"] >= 0
        nodes["feature"][inner] = (nodes["feature"][inner] + number) % n_columns
        nodes["threshold"][inner] += 0.01 * rng.normal()
        tree = type(first.tree_)(n_columns, np.array([2], dtype=np.intp), 1)
        tree.__setstate__({**state, "nodes": nodes, "values": state["values"].copy()})
        estimator = DecisionTreeClassifier()
        estimator.__dict__.update(first.__dict__)
        estimator.tree_ = tree
        trees.append(estimator)
    model.estimators_, model.n_estimators = trees, len(trees)


def nodes(n_nodes: int) -> None:
    X, y = noisy_rows(150_000, 10)
    model = RandomForestClassifier(n_estimators=1, random_state=0).fit(X, y)
    measured(
        f"scikit-learn's forest of {n_nodes:,} nodes", lambda: grown(model, n_nodes)
    )
    rows = X[:2000]
    forest = measured("read_model", lambda: spinney.read_model(model))
    measured("first predict_proba", lambda: forest.predict_proba(rows))
    ours = measured("second predict_proba", lambda: forest.predict_proba(rows))
    own = measured("scikit-learn's own", lambda: model.predict_proba(rows))
    print("equal:", np.array_equal(ours, own))


def columns(n_columns: int) -> None:
    X, y = noisy_rows(400, n_columns)
    model = RandomForestClassifier(50, random_state=0).fit(X, y)
    forest = measured("read_model", lambda: spinney.read_model(model))
    forest.predict_proba(X)
    ours = measured("predict_proba", lambda: forest.predict_proba(X))
    own = measured("scikit-learn's own", lambda: model.predict_proba(X))
    print("equal:", np.array_equal(ours, own))


def rows(n_rows: int) -> None:
    X, y = noisy_rows(4000, 10)
    model = RandomForestClassifier(10, max_depth=5, random_state=0).fit(X, y)
    forest = spinney.read_model(model)
    forest.predict(X)
    for dtype in (np.float32, np.float64):
        for order in ("C", "F"):
            many = np.empty((n_rows, 10), dtype=dtype, order=order)
            for start in range(0, n_rows, len(X)):
                many[start : start + len(X)] = X[: n_rows - start]
            size = f"{np.dtype(dtype).name}, order {order}, {many.nbytes / GIB:.2f} GB"
            measured(size, lambda many=many: forest.predict(many))


def models(n_models: int) -> None:
    X, y = noisy_rows(600, 8)
    trained = [
        RandomForestClassifier(20, max_depth=6, random_state=seed).fit(X, y)
        for seed in range(10)
    ]
    spinney.read_model(trained[0]).predict(X)
    many = measured(
        f"{n_models} forests read",
        lambda: [spinney.read_model(trained[k % 10]) for k in range(n_models)],
    )
    measured("first predict of each", lambda: [forest.predict(X) for forest in many])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    cases = {case.__name__: case for case in (nodes, columns, rows, models)}
    parser.add_argument("what", choices=cases)
    parser.add_argument("how_many", type=lambda text: int(float(text)))
    arguments = parser.parse_args()
    spinney.config.engine = "compiled"
    cases[arguments.what](arguments.how_many)


if __name__ == "__main__":
    main()
