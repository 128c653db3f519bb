"""One model: fit early stopping, prepare the other engines, time all in turn.

Runs in a process of its own, ``python -m benchmarks.early.worker JOB OUT``, so that
an engine that brings its process down does not take the other results with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.compare import beside, models
from benchmarks.compare.isolated import work
from benchmarks.early import stopping
from benchmarks.early.cases import CASES, Case, Rows, Way

# Names of lines that are not engines of `benchmarks.compare`.
OWN, WHOLE, LIGHTGBM_STOP = "own predict", "all trees", "LightGBM early stop"
FIRST = "the first "


@threadpool_limits.wrap(limits=1, user_api="openmp")
def run_case(job: dict[str, Any], say: Callable[[str], object]) -> dict[str, Any]:
    """Return what was evaluated, how often it disagreed and how long it took.

    Parameters
    ----------
    job : dict
        Written by `benchmarks.early.run`.
    say : callable
        Told the name of the engine in hand, for the case that it brings all down.
    """
    started = time.perf_counter()
    case = CASES[job["case"]]
    say("")
    rows = Rows.load(case.dataset, job["quick"])
    trained = rows.trained(case.model, Path(job["cache"]), job["quick"])
    fitted = []
    for way in case.ways:
        fitted.append(_fit(case, trained.estimator, rows, way, job["n_fits"]))
        _tell(fitted[-1])
    stop = None
    if case.model == "lightgbm":
        allowed = fitted[0].disagreements[0]
        stop = stopping.stop_lightgbm(trained.estimator, rows, allowed)
    seconds_fitting = time.perf_counter() - started
    others = beside.admit(trained, rows.X_test, job["without"], say)
    forest = stopping.whole_ensemble(trained.estimator, case.voting)
    predicts = {OWN: trained.estimator.predict, WHOLE: forest.predict}
    predicts |= {one.way.name: one.classifier.predict for one in fitted}
    predicts |= dict(_first_trees(forest, one) for one in fitted)
    if stop is not None:
        predicts[LIGHTGBM_STOP] = stop.predict
    times = others.time_batches(
        predicts, rows.X_test, job["batch"], job["batch_seconds"], say
    )
    single = {WHOLE: forest.predictor()}
    single |= {one.way.name: one.classifier.predictor() for one in fitted}
    times += beside.Beside({}, {}).time_single_rows(
        single, rows.X_test, job["row_seconds"], say
    )
    return {
        "dataset": case.dataset,
        "model": case.model,
        "voting": case.voting,
        "title": models.RECIPES[case.model].named(job["quick"]),
        "n_trees": forest.n_trees,
        "rows": {
            "train": len(rows.X_train),
            "calibrate": len(rows.X_cal),
            "test": len(rows.X_test),
        },
        "hard_against_own": _hard_against_own(case, forest, trained, rows),
        "early": [one.to_dict() for one in fitted],
        "lightgbm_early_stop": None if stop is None else stop.to_dict(),
        "peers": others.peers,
        "times": times,
        "fit_seconds": seconds_fitting,
        "wall_seconds": time.perf_counter() - started,
    }


def _fit(
    case: Case, estimator: Any, rows: Rows, way: Way, n_fits: int
) -> stopping.Fitted:
    seeds = range(n_fits)
    if case.voting == "cascade":
        return stopping.fit_cascade(estimator, rows, way, seeds)
    return stopping.fit_votes(estimator, rows, case.voting, way, seeds)


def _first_trees(forest: Any, one: stopping.Fitted) -> tuple[str, Callable[[Any], Any]]:
    """Return what evaluates as many trees for all rows as early exit on average.

    Trees of a forest share questions, so that the first cost more than the later
    ones: this tells what so many trees cost without any exit points.
    """
    n_trees = max(1, round(one.shares[0] * forest.n_trees))
    first = forest.take(one.classifier.order_[:n_trees])
    return f"{FIRST}{n_trees} trees for every row", first.predict


def _tell(one: stopping.Fitted) -> None:
    print(
        f"  {one.way.name}: fitted in {one.fit_seconds:.1f} s, takes "
        f"{100 * np.mean(one.shares):.2f} % of the trees, disagrees on "
        f"{100 * np.mean(one.disagreements):.3f} % of held-out rows",
        flush=True,
    )


def _hard_against_own(
    case: Case, forest: Any, trained: models.Trained, rows: Rows
) -> float | None:
    """Return how often the majority of all trees differs from the model's label."""
    if case.voting != "hard":
        return None
    return float(np.mean(forest.predict(rows.X_test) != trained.labels(rows.X_test)))


if __name__ == "__main__":
    work(run_case)
