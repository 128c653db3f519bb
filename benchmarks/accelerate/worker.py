"""One model: accelerate it, prepare the other engines, time all in turn.

Runs in a process of its own, ``python -m benchmarks.accelerate.worker JOB OUT``, so
that an engine that brings its process down does not take the other results with it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import spinney
from benchmarks.accelerate.cases import CASES
from benchmarks.compare import beside, models
from benchmarks.compare.isolated import work
from spinney.calibration.bounds import clopper_pearson_upper

# Names of lines that are not engines of `benchmarks.compare`.
OWN, WHOLE, FAST = "own predict", "all trees", "accelerate"

# Part of the seconds that goes to batches; the rest goes to single rows.
BATCH_SHARE = 0.8

# `predictor()` is compared with `predict` on so many rows.
N_ROWS_ALONE = 2_000

CONFIDENCE = 0.95


@threadpool_limits.wrap(limits=1, user_api="openmp")
def run_case(job: dict[str, Any], say: Callable[[str], object]) -> dict[str, Any]:
    """Return what was kept, how often it disagreed and how long it took.

    Parameters
    ----------
    job : dict
        Written by `benchmarks.accelerate.run`.
    say : callable
        Told the name of the engine in hand, for the case that it brings all down.
    """
    started = time.perf_counter()
    case = CASES[job["case"]]
    say("")
    rows, trained = case.prepare(Path(job["cache"]), job["quick"])
    model = trained.estimator
    own = np.asarray(model.predict(rows.new))
    fits, fast = [], None
    for seed in range(job["n_fits"]):
        fit, fitted = _accelerated(model, rows.given, rows.new, own, job["level"], seed)
        fits.append(fit)
        fast = fast or fitted
        print(_told(fit), flush=True)
    ready = time.perf_counter()
    others = beside.admit(
        trained, rows.new, job["without"], say, case.peers, single_rows=True
    )
    forest = spinney.read_model(model)
    alone = {WHOLE: forest.predictor(), FAST: fast.predictor()}
    checks = {
        WHOLE: int((forest.predict(rows.new) != own).sum()),
        "predictor": _differ_alone(alone[FAST], fast.predict, rows.new),
    }
    measuring = time.perf_counter()
    predicts = {OWN: model.predict, WHOLE: forest.predict, FAST: fast.predict}
    times = others.time_batches(
        predicts, rows.new, job["batch"], BATCH_SHARE * job["seconds"], say
    )
    alone[OWN] = lambda row: model.predict(row[None])
    times += others.time_single_rows(
        alone, rows.new, (1.0 - BATCH_SHARE) * job["seconds"], say
    )
    ended = time.perf_counter()
    return {
        "dataset": case.dataset,
        "model": case.model,
        "title": models.RECIPES[case.model].named(job["quick"]),
        "n_trees": forest.n_trees,
        "paper_share": case.paper_share,
        "rows": {"train": rows.train, "given": len(rows.given), "new": len(rows.new)},
        "fits": fits,
        "labels_differ": checks,
        "peers": others.peers,
        "times": times,
        "seconds": {
            "accelerating": ready - started,
            "preparing": measuring - ready,
            "measuring": ended - measuring,
        },
    }


def _accelerated(
    model: Any,
    X_given: NDArray[np.float32],
    X_new: NDArray[np.float32],
    own: NDArray,
    level: float,
    seed: int,
) -> tuple[dict[str, Any], Any]:
    """Accelerate once, and predict rows that nothing has seen yet.

    Returns
    -------
    fit : dict
        What came out.
    fast : classifier
        The accelerated model.
    """
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", spinney.SpinneyWarning)
        fast = spinney.accelerate(
            model, X_given, max_disagreement=level, random_state=seed
        )
    seconds = time.perf_counter() - started
    labels, n_evaluated = fast.predict_counted(X_new)
    n_differ = int((labels != own).sum())
    said = [one for one in caught if issubclass(one.category, spinney.SpinneyWarning)]
    return {
        "seed": seed,
        "kept": fast.acceleration_.chosen.name,
        "share": float(n_evaluated.mean()) / fast.forest_.n_trees,
        "n_differ": n_differ,
        "n_new": len(X_new),
        "interval": interval(n_differ, len(X_new)),
        "seconds": seconds,
        "warnings": [str(one.message) for one in said],
        "acceleration": fast.acceleration_.to_dict(),
    }, fast


def interval(n_events: int, n_rows: int) -> tuple[float, float]:
    """Return the two-sided Clopper-Pearson interval for the rate of events."""
    side = 0.5 + CONFIDENCE / 2
    return (
        1.0 - clopper_pearson_upper(n_rows - n_events, n_rows, side),
        clopper_pearson_upper(n_events, n_rows, side),
    )


def _differ_alone(
    predict_one: Callable[[Any], Any],
    predict: Callable[[Any], Any],
    X: NDArray[np.float32],
) -> int:
    """Return how many rows are predicted differently if they come alone."""
    X = X[:N_ROWS_ALONE]
    return int((np.array([predict_one(row) for row in X]) != predict(X)).sum())


def _told(fit: dict[str, Any]) -> str:
    low, high = fit["interval"]
    return (
        f"  seed {fit['seed']}: {fit['kept']}, found in {fit['seconds']:.1f} s, takes "
        f"{100 * fit['share']:.2f} % of the trees, disagrees on "
        f"{100 * fit['n_differ'] / fit['n_new']:.3f} % of new rows "
        f"({100 * low:.3f} to {100 * high:.3f} %)"
    )


if __name__ == "__main__":
    work(run_case)
