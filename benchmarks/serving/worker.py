"""One model under load: our predictors and other engines take turns.

Runs in a process of its own, ``python -m benchmarks.serving.worker JOB OUT``, so that
an engine that brings its process down does not take the other results with it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import spinney
from benchmarks.compare import beside, machine, models
from benchmarks.compare.isolated import work
from benchmarks.compare.peers import PEERS
from benchmarks.serving.load import Latencies, by_trees, run_round

EXACT, PROBA, EARLY = "predictor()", 'predictor("proba")', "predictor(), early exit"

# Different rows that are sent.
N_ROWS = 4_000

# Between two engines: threads of the one before have gone to sleep then.
PAUSE_SECONDS = 0.02

Predict = Callable[[Any], Any]


def run_case(job: dict[str, Any], say: Callable[[str], object]) -> dict[str, Any]:
    """Return latencies and throughput of every engine for one model.

    Parameters
    ----------
    job : dict
        Written by `benchmarks.serving.run`.
    say : callable
        Told the name of the engine in hand, for the case that it brings all down.
    """
    started = time.perf_counter()
    about = machine.describe()
    spinney.config.engine = "compiled"  # as a service does that has warmed up
    say("")
    data, trained = models.prepared(job)
    # Half of the rows that the model has not seen calibrate, the others are sent.
    half = len(data.X_test) // 2
    X_cal, X = data.X_test[:half], data.X_test[half:][:N_ROWS]
    fast = spinney.accelerate(
        trained.estimator,
        X_cal,
        max_disagreement=job["max_disagreement"],
        random_state=0,
    )
    forest = spinney.read_model(trained.estimator)
    own = trained.labels(X)
    labels, n_evaluated = fast.predict_counted(X)
    ours: dict[str, Predict] = {
        EXACT: forest.predictor(),
        PROBA: forest.predictor("proba"),
        EARLY: fast.predictor(),
    }
    others = beside.admit(
        trained, X, job["without"], say, names=job["peers"], single_rows=True
    )
    rows = list(np.ascontiguousarray(X))
    senders: dict[str, tuple[Callable[[], Predict], Sequence[Any]]] = {
        name: (lambda predict=predict: predict, rows)  # type: ignore[misc]
        for name, predict in ours.items()
    }
    for name, engine in others.engines.items():
        senders[name] = (_caller(name, trained), [engine.batch(row[None]) for row in X])
    _check(ours, forest, own, labels, X)
    measured = _measure(senders, job, say)
    return {
        "dataset": data.name,
        "model": job["model"],
        "title": models.RECIPES[job["model"]].named(job["quick"]),
        "machine": about | {"load_after": machine.load_average()},
        "n_trees": forest.n_trees,
        "rows": {"calibrate": len(X_cal), "sent": len(X)},
        "early": {
            "method": type(fast).__name__,
            "trees": float(np.mean(n_evaluated)),
            "disagreement": float(np.mean(labels != own)),
            "all_trees": float(np.mean(n_evaluated == forest.n_trees)),
        },
        "peers": others.peers,
        "times": [
            {"engine": name, "threads": n_threads, "ours": name in ours}
            | found.to_dict()
            for (name, n_threads), found in measured.items()
        ],
        "tail": {
            str(n_threads): by_trees(
                measured[EARLY, n_threads], n_evaluated, forest.n_trees
            )
            for n_threads in job["threads"]
        },
        "wall_seconds": time.perf_counter() - started,
    }


def _caller(name: str, trained: models.Trained) -> Callable[[], Predict]:
    """Return what makes a function to call, for one thread."""
    shared = PEERS[name].prepare(trained)

    def make() -> Predict:
        engine = shared if shared.is_shareable else PEERS[name].prepare(trained)
        return engine.with_threads(1)

    return make


def _check(
    ours: dict[str, Predict],
    forest: Any,
    own: NDArray[np.integer],
    labels: NDArray[Any],
    X: NDArray[np.float32],
) -> None:
    """Raise if a predictor does not say what `predict` does."""
    codes = {label: code for code, label in enumerate(forest.classes_)}
    expected = {EXACT: own, EARLY: labels, PROBA: forest.predict_proba(X)}
    for name, predict in ours.items():
        for row, wanted in zip(X[:500], expected[name], strict=False):
            found = predict(row)
            same = (
                np.array_equal(found, wanted)
                if name == PROBA
                else codes[found] == codes.get(wanted, wanted)
            )
            if not same:
                msg = f"{name} predicts {found}, not {wanted}."
                raise AssertionError(msg)


def _measure(
    senders: dict[str, tuple[Callable[[], Predict], Sequence[Any]]],
    job: dict[str, Any],
    say: Callable[[str], object],
) -> dict[tuple[str, int], Latencies]:
    """Let engines take turns, in another order in each round."""
    measured: dict[tuple[str, int], Latencies] = {
        (name, n_threads): Latencies()
        for n_threads in job["threads"]
        for name in senders
    }
    order = list(measured)
    seconds = job["seconds"] / (len(order) * job["rounds"])
    shuffle = random.Random(0).shuffle
    for _ in range(job["rounds"]):
        shuffle(order)
        for name, n_threads in order:
            say(name if name in PEERS else "")
            make, rows = senders[name]
            predicts = [make() for _ in range(n_threads)]
            run_round(predicts, rows, seconds, measured[name, n_threads])
            time.sleep(PAUSE_SECONDS)
    say("")
    return measured


if __name__ == "__main__":
    work(run_case)
