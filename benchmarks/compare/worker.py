"""One model in all engines: prepare, check that they agree, time them in turn.

Runs in a process of its own, ``python -m benchmarks.compare.worker JOB OUT``, so that
an engine that brings its process down does not take the other results with it.
"""

from __future__ import annotations

import time
import traceback
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.compare import agreement, datasets, models
from benchmarks.compare.engines import failure
from benchmarks.compare.isolated import work
from benchmarks.compare.peers import PEERS, Engine, NotApplicable, Skip
from benchmarks.compare.timing import EngineTimer, run_in_turn

# Part of the time that goes to each batch size; long calls need more of it.
WEIGHTS = {1: 1.0, 10: 1.0, 1_000: 1.5}
WEIGHT_OF_LARGE = 4.0

# A single call that would take longer is timed on a tenth of the rows, or a
# hundredth; at these sizes the time per row no longer depends on their number.
MAX_CALL_SECONDS = 3.0

# Different batches that an engine is given in turn; large ones are taken once.
N_BATCHES = {1: 2_000, 10: 500, 1_000: 20}


def run_case(job: dict[str, Any], say: Any) -> dict[str, Any]:
    """Return agreement, preparation and times of every engine for one model.

    Parameters
    ----------
    job : dict
        Written by `benchmarks.compare.run`.
    say : callable
        Told the name of the engine in hand, for the case that it brings all down.
    """
    started = time.perf_counter()
    say("")
    data, trained = models.prepared(job)
    X = data.X_test[: job["check_rows"]]
    labels, probabilities = trained.labels(X), trained.probabilities(X)
    peers: dict[str, dict[str, Any]] = {}
    engines: dict[str, Engine] = {}
    rates: dict[str, float] = {}
    check_seconds = 0.0
    with threadpool_limits(1, user_api="openmp"):
        for name, peer in PEERS.items():
            if job["peers"] and name not in job["peers"] and not peer.ours:
                continue
            say(name)
            peers[name], engine = _admit(
                name, trained, X, labels, probabilities, job["without"]
            )
            if engine is not None:
                engines[name] = engine
                rates[name] = peers[name].pop("rows_per_second")
                check_seconds += peers[name]["agreement"]["rows"] / rates[name]
    left = max(job["seconds"] - check_seconds, 0.4 * job["seconds"])
    timing_started = time.perf_counter()
    rows = datasets.tiled(data.X_test, max(job["batches"]))
    times = _time_all(engines, rates, rows, job, left, say)
    return {
        "dataset": data.name,
        "model": job["model"],
        "title": models.RECIPES[job["model"]].named(job["quick"]),
        "n_classes": data.n_classes,
        "n_features": data.X_train.shape[1],
        "train_rows": len(data.X_train),
        "check_rows": len(X),
        "tolerance": agreement.TOLERANCE,
        "peers": peers,
        "times": times,
        "wall_seconds": time.perf_counter() - started,
        "measured_seconds": check_seconds + time.perf_counter() - timing_started,
    }


def _admit(
    name: str,
    trained: models.Trained,
    X: NDArray[np.float32],
    labels: NDArray,
    probabilities: NDArray,
    without: dict[str, str],
) -> tuple[dict[str, Any], Engine | None]:
    """Prepare one engine and compare its predictions with the original's."""
    if name in without:
        return {"status": "skipped", "reason": without[name]}, None
    started = time.perf_counter()
    try:
        engine = PEERS[name].prepare(trained)
        # The first call belongs to the preparation: some compile or lay out then, and
        # some take another way for a few rows than for many.
        first = 1 if engine.only_batch == 1 else 200
        engine.with_threads(1)(engine.batch(X[:first]))
        seconds = time.perf_counter() - started
        found = agreement.measure(engine, X, labels, probabilities)
    except NotApplicable as error:
        return {"status": "not applicable", "reason": str(error)}, None
    except Skip as error:
        return {"status": "skipped", "reason": str(error)}, None
    except Exception as error:
        # What an engine does wrong on these rows is a result too.
        traceback.print_exc()
        return {"status": "skipped", "reason": failure(error)}, None
    entry = {
        "status": "timed",
        "call": engine.call,
        "returns": engine.returns,
        "ours": PEERS[name].ours,
        "prepare_seconds": engine.prepare_seconds or seconds,
        "agreement": found.to_dict(),
        "rows_per_second": found.n_rows / found.seconds,
    }
    print(
        f"  {name}: ready in {entry['prepare_seconds']:.1f} s, "
        f"{found.n_labels_differ} of {found.n_rows} labels differ",
        flush=True,
    )
    return entry, engine


def _time_all(
    engines: dict[str, Engine],
    rates: dict[str, float],
    rows: NDArray[np.float32],
    job: dict[str, Any],
    seconds: float,
    say: Any,
) -> list[dict[str, Any]]:
    """Time every batch size with every number of threads."""
    weights = [WEIGHTS.get(n_rows, WEIGHT_OF_LARGE) for n_rows in job["batches"]]
    unit = seconds / (sum(weights) * len(job["threads"]))
    times = []
    for n_threads in job["threads"]:
        for n_rows, weight in zip(job["batches"], weights, strict=True):
            with threadpool_limits(n_threads, user_api="openmp"):
                timers = {}
                for name, engine in engines.items():
                    if not engine.takes(n_rows, n_threads):
                        continue
                    say(name)
                    batches, n_used = _batches(engine, rows, n_rows, rates[name])
                    predict = engine.with_threads(n_threads)
                    timers[name] = EngineTimer(predict, batches, n_used)
                run_in_turn(
                    list(timers.values()),
                    unit * weight,
                    min_samples=job["min_samples"],
                )
            for name, one in timers.items():
                entry = {"peer": name, "threads": n_threads, "batch": n_rows}
                times.append(entry | one.to_dict())
    return times


def _batches(
    engine: Engine, rows: NDArray[np.float32], n_rows: int, rate: float
) -> tuple[list[Any], int]:
    """Return batches for one engine, smaller ones if a call would take too long."""
    if n_rows in N_BATCHES:
        count = min(N_BATCHES[n_rows], len(rows) // n_rows)
        parts = rows[: count * n_rows].reshape(count, n_rows, -1)
        return [engine.batch(part) for part in parts], n_rows
    n_used = n_rows
    while n_used / rate > MAX_CALL_SECONDS and n_used > 1_000:
        n_used //= 10
    return [engine.batch(rows[:n_used])], n_used


if __name__ == "__main__":
    work(run_case)
