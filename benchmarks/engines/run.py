"""Rows per second on one machine: a plain loop, Dask, Spark, Ray; three models each.

Rows lie in Parquet files, as they do in practice. Each engine reads and predicts
with nothing (the reading alone), with LightGBM's own predict, with all trees in
spinney's runtime, and with early exit. Two workers with one thread each; the plain loop
has one thread. Models take turns, so that a busy machine is busy for all of them.

    python -m benchmarks.engines.run --rows 20000000

LightGBM's own predict takes so long that it is given 200,000 rows only
(``--own-rows``); rows per second do not depend on it. Besides the time, what all
processes of an engine take of the processors is measured, which says more on a busy
machine; not of Ray, whose actors end with each job and leave no account of it.
``--folder`` keeps rows and models for another run, ``--engines`` names some of the
engines, and ``--into`` adds what they did to a file: so it can be run in parts.

It needs the extras dask, spark and ray, psutil, and a Java runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

import spinney
import spinney.integrations.dask
import spinney.integrations.ray
import spinney.integrations.spark
from benchmarks.engines.worker import (
    COLUMNS,
    N_FEATURES,
    Answering,
    answer,
    answer_frame,
)

N_TREES = 500
ROWS_PER_FILE = 500_000
# In a batch of Ray.
BATCH_ROWS = 100_000
ROOT = Path(__file__).parents[2]
KINDS = ("reading", "LightGBM", "all trees", "early exit")


def rows_of(n_rows, seed):
    """Return rows and labels of a task that is neither easy nor hopeless."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] - 0.5 * X[:, 4] ** 2
    return X, (score + 0.5 * rng.normal(size=n_rows) > 0).astype(int)


def make_models(folder):
    """Train, accelerate and save, unless that was done; return the paths."""
    import lightgbm as lgb

    paths = {
        "LightGBM": folder / "model.txt",
        "all trees": folder / "all.spinney",
        "early exit": folder / "early.spinney",
    }
    if not paths["early exit"].exists():
        X, y = rows_of(60_000, 1)
        model = lgb.LGBMClassifier(
            n_estimators=N_TREES,
            num_leaves=31,
            learning_rate=0.05,
            n_jobs=1,
            verbose=-1,
        ).fit(X[:20_000], y[:20_000])
        fast = spinney.accelerate(
            model, X[20_000:], max_disagreement=1e-3, method="cascade", random_state=0
        )
        model.booster_.save_model(paths["LightGBM"])
        spinney.save(spinney.read_model(model), paths["all trees"])
        spinney.save(fast, paths["early exit"])
    fast = spinney.load(paths["early exit"])
    _, counts = fast.predict_counted(rows_of(20_000, 2)[0])
    return {name: str(path) for name, path in paths.items()}, float(counts.mean())


def write_rows(folder, n_rows, rows_per_file, seed):
    """Write rows as Parquet files, unless they are there; return the folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, n_rows, rows_per_file)):
        file = folder / f"part-{number:05d}.parquet"
        if not file.exists():
            X, _ = rows_of(min(rows_per_file, n_rows - start), seed + number)
            table = pa.table({name: X[:, k] for k, name in enumerate(COLUMNS)})
            pq.write_table(table, file)
    return str(folder)


def cpu_seconds():
    """Return what this process and all below it have taken of the processors so far."""
    import psutil

    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])  # and of its children that have ended
    return total


class PlainLoop:
    """Files one after another in this process."""

    name = "plain loop, 1 process"

    def total(self, kind, path, folder):
        import pyarrow.parquet as pq

        total = 0.0
        for file in sorted(Path(folder).glob("*.parquet")):
            table = pq.read_table(file, use_threads=False)
            X = np.stack([table[name].to_numpy() for name in COLUMNS], axis=1)
            total += float(np.sum(answer(kind, path, X), dtype=np.float64))
        return total

    def close(self):
        pass


class Dask:
    """A cluster of two processes; spinney through its integration."""

    name = "Dask, 2 processes"

    def __init__(self):
        from distributed import Client, LocalCluster

        self._cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        )
        self._client = Client(self._cluster)

    def total(self, kind, path, folder):
        import dask.dataframe as dd
        import pandas as pd

        rows = dd.read_parquet(folder)
        if kind in ("all trees", "early exit"):
            answers = spinney.integrations.dask.predict(path, rows)
        else:
            meta = pd.Series(dtype=np.float64)
            answers = rows.map_partitions(answer_frame, kind, path, meta=meta)
        return float(answers.sum().compute())

    def close(self):
        self._client.close()
        self._cluster.close()


class Spark:
    """local[2]; spinney through its integration, LightGBM in a pandas_udf."""

    name = "Spark, local[2]"

    def __init__(self):
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

    def total(self, kind, path, folder):
        import pandas as pd
        from pyspark.sql import functions as F

        rows = self._spark.read.parquet(folder)
        if kind in ("all trees", "early exit"):
            scored = spinney.integrations.spark.predict(path, rows, outputs=("label",))
        else:

            def own(*columns):
                return answer_frame(
                    pd.concat(columns, axis=1, keys=COLUMNS), kind, path
                )

            own.__annotations__ = {"columns": pd.Series, "return": pd.Series}
            function = F.pandas_udf(own, "double")
            scored = rows.withColumn("label", function(*COLUMNS))
        return float(scored.agg(F.sum("label")).collect()[0][0])

    def close(self):
        self._spark.stop()


class Ray:
    """Two actors; spinney through its integration, LightGBM in a class of its own."""

    name = "Ray, 2 actors"

    def __init__(self):
        import ray
        import ray.data

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        ray.init(
            num_cpus=4,  # two actors, and room for what reads and adds up
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            object_store_memory=2**31,
            logging_level="error",
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}},
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        self._ray = ray

    def total(self, kind, path, folder):
        rows = self._ray.data.read_parquet(folder)
        options = {"concurrency": 2, "batch_size": BATCH_ROWS}
        if kind in ("all trees", "early exit"):
            scored = spinney.integrations.ray.predict(
                path, rows, outputs=("label",), **options
            )
        else:
            scored = rows.map_batches(
                Answering, fn_constructor_args=(kind, path), **options
            )
        return float(scored.sum("label"))

    def close(self):
        self._ray.shutdown()


ENGINES = {"plain": PlainLoop, "dask": Dask, "spark": Spark, "ray": Ray}


def measure(name, folder, n_rows, n_own_rows, repeats):
    """Return seconds per row of one engine by kind of model, and what else to know."""
    # Workers import what they run from here.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    paths, mean_trees = make_models(folder)
    every = write_rows(folder / "rows", n_rows, ROWS_PER_FILE, 100)
    few = write_rows(folder / "few", n_own_rows, n_own_rows // 2, 50)
    found = {
        "rows": n_rows,
        "rows of LightGBM": n_own_rows,
        "trees": N_TREES,
        "mean trees": mean_trees,
        "features": N_FEATURES,
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "seconds": {},
        "cpu seconds": {},
    }
    rows = dict.fromkeys(KINDS, n_rows) | {"LightGBM": n_own_rows}
    engine = ENGINES[name]()
    # Workers start, models load, kernels are there.
    sums = {kind: engine.total(kind, paths.get(kind), few) for kind in KINDS[2:]}
    times = {kind: [] for kind in KINDS}
    for _ in range(repeats):
        for kind in KINDS:
            own = kind == "LightGBM"
            start, cpu_start = time.perf_counter(), cpu_seconds()
            total = engine.total(kind, paths.get(kind), few if own else every)
            cpu = cpu_seconds() - cpu_start
            times[kind].append((time.perf_counter() - start, cpu))
            if own:
                assert total == sums["all trees"]  # they predict alike
    engine.close()
    print(engine.name, times, flush=True)
    for k, unit in enumerate(("seconds", "cpu seconds")):
        if unit == "cpu seconds" and name == "ray":
            continue
        found[unit][engine.name] = {
            kind: min(one[k] for one in times[kind]) / rows[kind] for kind in KINDS
        }
    return found


def table(found, unit):
    """Return the figures as a table, in rows per second."""
    lines = [
        f"| rows per {unit[:-1]} | "
        + " | ".join(KINDS)
        + " | early exit beside LightGBM |",
        "|---|" + "---:|" * (len(KINDS) + 1),
    ]
    for engine, seconds in found[unit].items():
        rates = [f"{1 / seconds[kind]:,.0f}" for kind in KINDS]
        gain = seconds["LightGBM"] / seconds["early exit"]
        lines.append(f"| {engine} | " + " | ".join(rates) + f" | {gain:.0f} × |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--own-rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--folder", type=Path, help="keeps rows and models")
    parser.add_argument("--into", type=Path, help="file that the figures are added to")
    arguments = parser.parse_args()
    found = None
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for engine in arguments.engines.split(","):
            found = measure(
                engine, folder, arguments.rows, arguments.own_rows, arguments.repeats
            )
            into = arguments.into or folder / "figures.json"
            if into.exists():
                before = json.loads(into.read_text(encoding="utf-8"))
                for unit in ("seconds", "cpu seconds"):
                    found[unit] = before[unit] | found[unit]
            into.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for unit in ("seconds", "cpu seconds"):
        print(table(found, unit), end="\n\n")


if __name__ == "__main__":
    main()
