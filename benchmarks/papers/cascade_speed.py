"""Does asking fewer trees take less time? Cascades against engines that ask all.

``python -m benchmarks.papers.cascade_speed`` takes the LightGBM and XGBoost models of
`benchmarks.compare`, fits a cascade that disagrees on at most 0.5 % of held-out rows,
and times it in turn with spinney without early exit, with LightGBM's own early stopping
at the same disagreement, and with every other engine that is installed. It writes
``cascade_speed.md``; ``--quick`` takes smaller models and writes nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from benchmarks.compare import datasets, models
from benchmarks.compare.peers import PEERS, Skip
from benchmarks.compare.timing import Contestant, run_in_turn
from benchmarks.papers import page
from spinney.cascade import CascadeClassifier

TARGET = 0.005
LEVELS = (0.008, 0.0065, 0.005, 0.004, 0.003, 0.002, 0.001)
MARGINS = np.geomspace(0.2, 20.0, 40)
BATCHES = (100_000, 1_000, 1)
N_BATCHES = {100_000: 1, 1_000: 20, 1: 2_000}
CASES = (
    ("adult", "lightgbm"),
    ("adult", "xgboost"),
    ("nomao", "lightgbm"),
    ("nomao", "xgboost"),
)


class OnProcessor(Contestant):
    """A contestant timed by the processor's clock, which other programs do not stop.

    All engines run in one thread here, so that nothing is hidden in another.
    """

    def _timed(self, n_calls: int) -> float:
        ask = self.ask
        batches = [next(self._turn) for _ in range(n_calls)]
        started = time.process_time()
        for batch in batches:
            ask(batch)
        return time.process_time() - started


def fit_cascade(
    estimator: Any, X_fit: NDArray[np.float32], X_test: NDArray[np.float32]
) -> CascadeClassifier:
    """Return the boldest cascade with at most 0.5 % disagreement on test rows."""
    full = np.asarray(estimator.predict(X_test))
    for level in LEVELS:
        cascade = CascadeClassifier(
            FrozenEstimator(estimator),
            rule="optimal",
            max_disagreement=level,
            random_state=0,
        ).fit(X_fit)
        if np.mean(cascade.predict(X_test) != full) <= TARGET:
            break
    return cascade


def lightgbm_early_stop(
    estimator: Any, X_test: NDArray[np.float32], allowed: float
) -> tuple[Callable[[Any], Any], float]:
    """Return LightGBM's prediction with early stopping, and its disagreement.

    The margin is the smallest of a fine grid that disagrees on no more test rows than
    the cascade. It is looked at after every fifth tree.
    """
    booster = estimator.booster_
    full = np.asarray(estimator.predict(X_test))

    def ask(X: Any, margin: float) -> NDArray[np.float64]:
        return booster.predict(
            X,
            num_threads=1,
            pred_early_stop=True,
            pred_early_stop_freq=5,
            pred_early_stop_margin=margin,
        )

    for margin in MARGINS:
        labels = estimator.classes_[(ask(X_test, margin) > 0.5).astype(int)]
        disagreement = float(np.mean(labels != full))
        if disagreement <= allowed:
            break
    return (lambda X: ask(X, margin)), disagreement


def contestants(
    trained: models.Trained,
    cascade: CascadeClassifier,
    X_test: NDArray[np.float32],
    n_rows: int,
    early_stop: Callable[[Any], Any] | None,
    peers: list[str] | None,
) -> dict[str, Contestant]:
    """Return all engines for one batch size, each with rows in the form it takes."""
    tiled = datasets.tiled(X_test, n_rows * N_BATCHES[n_rows])
    batches = [
        np.ascontiguousarray(part) for part in np.split(tiled, N_BATCHES[n_rows])
    ]
    found = {}

    def enter(name: str, ask: Callable[[Any], Any], rows: list[Any]) -> None:
        found[name] = OnProcessor(ask, rows, n_rows)

    forest = cascade.forest_
    if n_rows == 1:
        single = [batch[0] for batch in batches]
        enter("cascade", cascade.predictor(), single)
        enter("spinney, all trees", forest.predictor(), single)
    else:
        enter("cascade", cascade.predict, batches)
        enter("spinney, all trees", forest.predict, batches)
    if early_stop is not None:
        enter("LightGBM, early stop", early_stop, batches)
    for name, peer in PEERS.items():
        if peer.ours or (peers is not None and name not in peers):
            continue
        try:
            engine = peer.prepare(trained)
            ask = engine.with_threads(1)
            if not engine.takes(n_rows, 1):
                continue
            rows = [engine.batch(batch) for batch in batches]
            ask(rows[0])
        except Skip:
            continue
        enter(name, ask, rows)
    return found


def run_case(dataset: str, model: str, options: argparse.Namespace) -> list[str]:
    """Return the lines about one model."""
    loaded = datasets.load(dataset)
    trained = models.train(model, loaded, options.cache, quick=options.quick)
    half = len(loaded.X_test) // 2
    X_fit, X_test = loaded.X_test[:half], loaded.X_test[half:]
    cascade = fit_cascade(trained.estimator, X_fit, X_test)
    labels, n_asked = cascade.predict_counted(X_test)
    full = np.asarray(trained.estimator.predict(X_test))
    disagreement = float(np.mean(labels != full))
    n_trees = cascade.forest_.n_trees
    early_stop = None
    note = ""
    if model == "lightgbm":
        early_stop, theirs = lightgbm_early_stop(
            trained.estimator, X_test, disagreement
        )
        note = f" LightGBM's own early stopping disagrees on {100 * theirs:.2f} %."
    share = n_asked.mean() / n_trees
    lines = [
        f"### {dataset.capitalize()}, {models.RECIPES[model].named(options.quick)}",
        "",
        f"The cascade looks after {', '.join(map(str, cascade.checks_))} trees, asks "
        f"{n_asked.mean():.1f} of {n_trees} ({100 * share:.1f} %) and disagrees on "
        f"{100 * disagreement:.2f} % of {len(X_test):,} held-out rows (level "
        f"{cascade.max_disagreement:g}, {len(X_fit):,} rows to fit).{note}",
        "",
        "| engine, µs per row | "
        + " | ".join(f"{n:,} rows" if n > 1 else "1 row" for n in BATCHES)
        + " |",
        "|---|" + "---:|" * len(BATCHES),
    ]
    times: dict[str, dict[int, float]] = {}
    for n_rows in BATCHES:
        entered = contestants(
            trained, cascade, X_test, n_rows, early_stop, options.peers
        )
        for one in entered.values():
            one.calibrate()
        run_in_turn(entered, options.seconds, min_samples=5)
        for name, one in entered.items():
            best = min(one.samples) / n_rows
            times.setdefault(name, {})[n_rows] = 1e6 * best
    for name, by_size in sorted(times.items(), key=lambda item: min(item[1].values())):
        cells = [f"{by_size[n]:.2f}" if n in by_size else "" for n in BATCHES]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    realised = []
    for n_rows in BATCHES:
        saved = 1.0 - times["cascade"][n_rows] / times["spinney, all trees"][n_rows]
        realised.append(f"{100 * saved / (1.0 - share):.0f} %")
    lines += [
        "",
        "Of the share of trees saved, so much is time saved against all trees in the "
        f"same runtime: {', '.join(realised)}.",
        "",
    ]
    return lines


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.cascade_speed", description=__doc__
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="smaller models, nothing written")
    add("--peers", nargs="+", help="other engines to take part, default all")
    add("--seconds", type=float, default=20.0, help="per model and batch size")
    add(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "spinney-bench",
        help="folder that keeps trained and compiled models",
    )
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    cases = CASES[:2] if options.quick else CASES
    lines = [
        page.machine_line(),
        "One thread; processor time, the shortest of several runs.",
        "",
    ]
    for dataset, model in cases:
        lines += run_case(dataset, model, options)
        print("\n".join(lines[-12:]), flush=True)
    text = "\n".join(lines)
    print(text)
    if not options.quick:
        page.put_results(page.FOLDER / "cascade_speed.md", text)


if __name__ == "__main__":
    main()
