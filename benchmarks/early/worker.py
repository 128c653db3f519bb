"""One model: fit early stopping, prepare the other engines, time all in turn.

Runs in a process of its own, ``python -m benchmarks.early.worker JOB OUT``, so that
an engine that brings its process down does not take the other results with it.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.compare import agreement, datasets, models
from benchmarks.compare.engines import failure
from benchmarks.compare.peers import PEERS, Engine, NotApplicable, Skip
from benchmarks.compare.timing import Contestant, run_in_turn
from benchmarks.early import stopping
from benchmarks.early.cases import CASES, Case, Rows, Way

# Names of lines that are not engines of `benchmarks.compare`.
OWN, WHOLE, LIGHTGBM_STOP = "own predict", "all trees", "LightGBM early stop"
FIRST = "the first "

# Other engines are compared with the model on so many rows at most.
MAX_CHECK_ROWS = 20_000

# An engine that would take longer for a batch is timed on a tenth of its rows; at these
# sizes the time per row no longer depends on their number.
MAX_CALL_SECONDS = 1.5

# Different batches, and different single rows, that are asked in turn.
N_BATCHES, N_SINGLE_ROWS = 4, 2_000


def main() -> None:
    """Read the job, work, write the results."""
    job, out = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    in_hand = out.with_suffix(".now")
    case = CASES[job["case"]]
    with threadpool_limits(1, user_api="openmp"):
        found = run_case(case, job, lambda name: in_hand.write_text(name))
    out.write_text(json.dumps(found))


def run_case(
    case: Case, job: dict[str, Any], say: Callable[[str], object]
) -> dict[str, Any]:
    """Return what was asked, how often it disagreed and how long it took.

    Parameters
    ----------
    case : Case
        The model.
    job : dict
        Written by `benchmarks.early.run`.
    say : callable
        Told the name of the engine in hand, for the case that it brings all down.
    """
    started = time.perf_counter()
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
    peers, engines = _admit_all(trained, rows.X_test, job["batch"], job["without"], say)
    say("")
    forest = stopping.whole_ensemble(trained.estimator, case.voting)
    asks = {OWN: trained.estimator.predict, WHOLE: forest.predict}
    asks |= {one.way.name: one.classifier.predict for one in fitted}
    asks |= dict(_first_trees(forest, one) for one in fitted)
    if stop is not None:
        asks[LIGHTGBM_STOP] = stop.ask
    times = _time_batches(asks, engines, peers, rows.X_test, job, say)
    single = {WHOLE: forest.predictor()}
    single |= {one.way.name: one.classifier.predictor() for one in fitted}
    times += _time_single_rows(single, rows.X_test, job)
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
        "peers": peers,
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
    """Return all rows asking as many trees as early stopping asks on average.

    Trees of a forest share questions, so that the first cost more than the later
    ones: this tells what so many trees cost without any looking.
    """
    n_trees = max(1, round(one.shares[0] * forest.n_trees))
    first = forest.take(one.classifier.order_[:n_trees])
    return f"{FIRST}{n_trees} trees for every row", first.predict


def _tell(one: stopping.Fitted) -> None:
    print(
        f"  {one.way.name}: fitted in {one.fit_seconds:.1f} s, asks "
        f"{100 * np.mean(one.shares):.2f} % of the trees, disagrees on "
        f"{100 * np.mean(one.disagreements):.3f} % of held-out rows",
        flush=True,
    )


def _hard_against_own(
    case: Case, forest: Any, trained: models.Trained, rows: Rows
) -> float | None:
    """Return how often the majority of all trees differs from the model's answer."""
    if case.voting != "hard":
        return None
    return float(np.mean(forest.predict(rows.X_test) != trained.labels(rows.X_test)))


# ------------------------------------------------------------- other engines


def _admit_all(
    trained: models.Trained,
    X: NDArray[np.float32],
    n_rows: int,
    without: dict[str, str],
    say: Callable[[str], object],
) -> tuple[dict[str, dict[str, Any]], dict[str, Engine]]:
    """Prepare every engine for batches and compare its answers with the model's.

    `n_rows` is the number of rows of a batch.
    """
    X = X[:MAX_CHECK_ROWS]
    labels, probabilities = trained.labels(X), trained.probabilities(X)
    peers: dict[str, dict[str, Any]] = {}
    engines: dict[str, Engine] = {}
    for name, peer in PEERS.items():
        if peer.ours or name.endswith("single row"):
            continue
        say(name)
        try:
            if name in without:
                raise Skip(without[name])
            engine = peer.prepare(trained)
            found = agreement.measure(engine, X, labels, probabilities)
        except NotApplicable:
            continue
        except Skip as error:
            peers[name] = {"status": "skipped", "reason": str(error)}
            continue
        except Exception as error:
            # What an engine does wrong on these rows is a result too.
            traceback.print_exc()
            peers[name] = {"status": "skipped", "reason": failure(error)}
            continue
        engines[name] = engine
        peers[name] = {
            "status": "timed",
            "call": engine.call,
            "ours": False,
            "agreement": found.to_dict(),
            "call_seconds": found.seconds * n_rows / len(X),
        }
        print(
            f"  {name}: {found.n_labels_differ} of {len(X)} labels differ", flush=True
        )
    return peers, engines


# ------------------------------------------------------------------- timing


def _time_batches(
    asks: dict[str, Callable[[Any], Any]],
    engines: dict[str, Engine],
    peers: dict[str, dict[str, Any]],
    X: NDArray[np.float32],
    job: dict[str, Any],
    say: Callable[[str], object],
) -> list[dict[str, Any]]:
    n_rows = job["batch"]
    tiled = datasets.tiled(X, N_BATCHES * n_rows)
    batches = [np.ascontiguousarray(part) for part in np.split(tiled, N_BATCHES)]
    contestants = {name: Contestant(ask, batches, n_rows) for name, ask in asks.items()}
    for name, engine in engines.items():
        n_used = n_rows
        if peers[name]["call_seconds"] > MAX_CALL_SECONDS:
            n_used //= 10
        parts = [engine.batch(part[:n_used]) for part in batches]
        contestants[name] = Contestant(engine.with_threads(1), parts, n_used)
    return _in_turn(contestants, n_rows, job["batch_seconds"], say)


def _time_single_rows(
    asks: dict[str, Callable[[Any], Any]],
    X: NDArray[np.float32],
    job: dict[str, Any],
) -> list[dict[str, Any]]:
    rows = list(datasets.tiled(X, N_SINGLE_ROWS))
    contestants = {name: Contestant(ask, rows, 1) for name, ask in asks.items()}
    return _in_turn(contestants, 1, job["row_seconds"], lambda name: None)


def _in_turn(
    contestants: dict[str, Contestant],
    n_rows: int,
    seconds: float,
    say: Callable[[str], object],
) -> list[dict[str, Any]]:
    for name, one in contestants.items():
        say(name)
        one.calibrate()
    say("")
    run_in_turn(contestants, seconds, min_samples=5)
    return [
        {"peer": name, "threads": 1, "batch": n_rows} | one.to_dict()
        for name, one in contestants.items()
    ]


if __name__ == "__main__":
    main()
