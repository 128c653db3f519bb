"""Rows per second on one machine: a plain loop, Dask and Spark, each with three models.

Rows lie in Parquet files, as they do in practice. Each engine reads them and answers
with nothing (the reading alone), with LightGBM's own predict, with all trees in
spinney's runtime, and with early exit. Two workers with one thread each; the plain loop
has one thread. Models take turns, so that a busy machine is busy for all of them.

    python -m benchmarks.engines.run --rows 20000000

It needs the extras dask and spark, and a Java runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import spinney
from benchmarks.engines.worker import COLUMNS, N_FEATURES, answer, answer_frame

N_TREES = 500
ROWS_PER_FILE = 50_000
ROOT = Path(__file__).parents[2]
KINDS = ("reading", "LightGBM", "all trees", "early exit")


def rows_of(n_rows, seed):
    """Return rows and labels of a task that is neither easy nor hopeless."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] - 0.5 * X[:, 4] ** 2
    return X, (score + 0.5 * rng.normal(size=n_rows) > 0).astype(int)


def make_models(folder):
    """Train, accelerate and save; return the paths."""
    import lightgbm as lgb

    X, y = rows_of(60_000, 1)
    model = lgb.LGBMClassifier(
        n_estimators=N_TREES, num_leaves=31, learning_rate=0.05, n_jobs=1, verbose=-1
    ).fit(X[:20_000], y[:20_000])
    fast = spinney.accelerate(
        model, X[20_000:], max_disagreement=1e-3, method="cascade", random_state=0
    )
    paths = {
        "LightGBM": folder / "model.txt",
        "all trees": folder / "all.spinney",
        "early exit": folder / "early.spinney",
    }
    model.booster_.save_model(paths["LightGBM"])
    spinney.save(spinney.read_model(model), paths["all trees"])
    spinney.save(fast, paths["early exit"])
    _, counts = fast.predict_counted(X[20_000:])
    return {name: str(path) for name, path in paths.items()}, float(counts.mean())


def write_rows(folder, n_rows):
    """Write rows as Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        X, _ = rows_of(min(ROWS_PER_FILE, n_rows - start), 100 + number)
        table = pa.table({name: X[:, k] for k, name in enumerate(COLUMNS)})
        pq.write_table(table, folder / f"part-{number:05d}.parquet")
    return str(folder)


class PlainLoop:
    """Files one after another in this process."""

    name = "plain loop, 1 process"

    def __init__(self, folder):
        self._files = sorted(Path(folder).glob("*.parquet"))

    def total(self, kind, path):
        import pyarrow.parquet as pq

        total = 0.0
        for file in self._files:
            table = pq.read_table(file, use_threads=False)
            X = np.stack([table[name].to_numpy() for name in COLUMNS], axis=1)
            total += float(np.sum(answer(kind, path, X), dtype=np.float64))
        return total

    def close(self):
        pass


class Dask:
    """A cluster of two processes; spinney through its integration."""

    name = "Dask, 2 processes"

    def __init__(self, folder):
        import dask.dataframe as dd
        from distributed import Client, LocalCluster

        self._cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        )
        self._client = Client(self._cluster)
        self._rows = dd.read_parquet(folder)

    def total(self, kind, path):
        import pandas as pd

        if kind in ("all trees", "early exit"):
            answers = spinney.integrations.dask.predict(path, self._rows)
        else:
            meta = pd.Series(dtype=np.float64)
            answers = self._rows.map_partitions(answer_frame, kind, path, meta=meta)
        return float(answers.sum().compute())

    def close(self):
        self._client.close()
        self._cluster.close()


class Spark:
    """local[2]; spinney through its integration, LightGBM in a pandas_udf."""

    name = "Spark, local[2]"

    def __init__(self, folder):
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        self._spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "4g")
            .getOrCreate()
        )
        self._rows = self._spark.read.parquet(folder)

    def total(self, kind, path):
        import pandas as pd
        from pyspark.sql import functions as F

        if kind in ("all trees", "early exit"):
            scored = spinney.integrations.spark.predict(
                path, self._rows, outputs=("label",)
            )
        else:

            def own(*columns):
                return answer_frame(
                    pd.concat(columns, axis=1, keys=COLUMNS), kind, path
                )

            own.__annotations__ = {"columns": pd.Series, "return": pd.Series}
            function = F.pandas_udf(own, "double")
            scored = self._rows.withColumn("label", function(*COLUMNS))
        return float(scored.agg(F.sum("label")).collect()[0][0])

    def close(self):
        self._spark.stop()


def measure(n_rows, repeats):
    """Return seconds by engine and kind of model, and what else is worth knowing."""
    # Workers import what they run from here.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    found = {"rows": n_rows, "trees": N_TREES, "features": N_FEATURES, "seconds": {}}
    found["machine"] = {"processor": platform.processor() or platform.machine()}
    found["machine"]["cores"] = os.cpu_count()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows").mkdir()
        paths, found["mean_trees"] = make_models(folder)
        rows = write_rows(folder / "rows", n_rows)
        for kind_of_engine in (PlainLoop, Dask, Spark):
            engine = kind_of_engine(rows)
            seconds = {kind: [] for kind in KINDS}
            sums = {}
            for kind in KINDS:  # workers start, models load, kernels compile
                sums[kind] = engine.total(kind, paths.get(kind))
            for _ in range(repeats):
                for kind in KINDS:
                    start = time.perf_counter()
                    assert engine.total(kind, paths.get(kind)) == sums[kind]
                    seconds[kind].append(time.perf_counter() - start)
            engine.close()
            assert sums["LightGBM"] == sums["all trees"]
            found["seconds"][engine.name] = {
                kind: min(times) for kind, times in seconds.items()
            }
            found["positives"] = sums
            print(engine.name, found["seconds"][engine.name], flush=True)
    return found


def table(found):
    """Return the figures as a table, in rows per second."""
    lines = [
        "| | " + " | ".join(KINDS) + " | early exit beside LightGBM |",
        "|---|" + "---|" * (len(KINDS) + 1),
    ]
    for engine, seconds in found["seconds"].items():
        rates = [f"{found['rows'] / seconds[kind]:,.0f}" for kind in KINDS]
        gain = seconds["LightGBM"] / seconds["early exit"]
        lines.append(f"| {engine} | " + " | ".join(rates) + f" | {gain:.1f} × |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--into", type=Path, default=None, help="file for the figures")
    arguments = parser.parse_args()
    found = measure(arguments.rows, arguments.repeats)
    print(table(found))
    if arguments.into:
        arguments.into.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
