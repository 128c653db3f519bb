"""Measure rivals at equal disagreement on held-out rows.

``python -m benchmarks.rivals.run`` trains four forests and four boosted models, fits
every rule to the same calibration rows, and writes the tables into README.md beside
this file.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

import spinney
from benchmarks.promise.cases import pool_of
from benchmarks.rivals import costs, reweighted, stop_rules, tables
from benchmarks.rivals.partial import Partial, partial_of
from spinney.errors import SpinneyWarning
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule

HERE = Path(__file__).parent
CASES = (
    ("forest", "adult"),
    ("forest", "magic"),
    ("forest", "census_income_kdd"),
    ("forest", "sensorless"),
    ("lightgbm", "adult"),
    ("lightgbm", "nomao"),
    ("lightgbm", "magic"),
    ("lightgbm", "covertype"),
)
TARGETS = (0.001, 0.005)
# With costs of trees given, exit points are planned for these and not for time.
FEWEST_TREES = "spinney, cascade, fewest trees"
# Rows to fit to, to choose how bold a rule is, and to measure on.
SHARES = (0.4, 0.3, 0.3)
MOST_ROWS = 30_000
# A row that costs nothing is bought off at once; one that costs a lot never.
PRICES = (None, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
# Trees between two exits of the margin rule where its time is measured.
EVERY = 8
N_REPEATS = 7

Rows = NDArray[np.float32]
# Trees on average, disagreement, what predicts (None if there is no engine for it).
Found = tuple[float, float, Callable[[Rows], Any] | None]


def main(arguments: list[str] | None = None) -> None:
    """Measure all cases and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals.run")
    parser.add_argument("--cache", type=Path, default=Path("build/models"))
    parser.add_argument("--only", help="data sets, separated by commas")
    parser.add_argument(
        "--spinney", action="store_true", help="measure spinney's own rules only"
    )
    parser.add_argument("--page", type=Path, default=HERE / "README.md")
    options = parser.parse_args(arguments)
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    wanted = options.only.split(",") if options.only else None
    for kind, dataset in CASES:
        if wanted is None or dataset in wanted:
            path = results / f"{kind}_{dataset}.json"
            earlier = json.loads(path.read_text("utf-8")) if options.spinney else None
            found = measure(kind, dataset, options.cache, earlier=earlier)
            path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
            print(path.name, flush=True)
    for dataset in costs.DATASETS:
        if (wanted is None or dataset in wanted) and not options.spinney:
            path = results / f"costs_{dataset}.json"
            path.write_text(json.dumps(costs.measure(dataset), indent=1) + "\n")
            print(path.name, flush=True)
    tables.write_page(results, options.page)


def measure(
    kind: str,
    dataset: str,
    cache: Path,
    n_trees: int | None = None,
    earlier: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what every rule does on one model, for each target.

    Parameters
    ----------
    kind : {"forest", "lightgbm"}
        Kind of the model.
    dataset : str
        Name of the data set.
    cache : path
        Folder that keeps trained models.
    n_trees : int, optional
        Trees, if other than usual.
    earlier : dict, optional
        Results of an earlier run, of which those of the rivals stay as they are.
    """
    pool = pool_of(dataset, kind, cache, n_trees)
    order = np.random.default_rng(1).permutation(len(pool.X))[:MOST_ROWS]
    cuts = (np.cumsum(SHARES[:2]) * len(order)).astype(int)
    fit, choose, new = (pool.X[part] for part in np.split(order, cuts))
    partials = [partial_of(pool.model, rows) for rows in (fit, choose, new)]
    full = spinney.accelerate(pool.model)
    expected = pool.model.predict(new)
    own = full.classes_[partials[2].labels[:, -1]]
    assert np.mean(own != expected) < 0.001, "partial sums do not end at the model"
    entries = []
    for target in TARGETS:
        rows = (fit, choose, new)
        if earlier is None:
            measured = rivals(kind, pool.model, rows, partials, target)
        else:
            measured = _spinney(kind, pool.model, rows, target)
        for name, found in measured:
            trees, differ, predict = found
            seconds = None if predict is None else beside(full.predict, predict, new)
            entries.append(
                {
                    "rival": name,
                    "target": target,
                    "trees": trees,
                    "disagreement": differ,
                    "time_share": seconds,
                }
            )
        if earlier is not None:
            entries += [
                one
                for one in earlier["entries"]
                if one["target"] == target and not one["rival"].startswith("spinney")
            ]
    return {
        "kind": kind,
        "dataset": dataset,
        "n_trees": int(partials[0].n_trees[-1]),
        "n_classes": len(full.classes_),
        "n_rows": [len(fit), len(choose), len(new)],
        "entries": entries,
    }


def rivals(
    kind: str,
    model: Any,
    rows: tuple[Rows, Rows, Rows],
    partials: list[Partial],
    target: float,
) -> Iterator[tuple[str, Found]]:
    """Yield every rule by name, as bold as the target allows on rows to choose by."""
    yield from _spinney(kind, model, rows, target)
    yield "aggregated margin", _margin(kind, model, partials, target)
    if kind == "lightgbm":
        stop = _chosen(stop_rules.lightgbm_early_stop, partials, target)
        yield "LightGBM pred_early_stop", (*stop[:2], _lightgbm(model, stop[2]))
    windows = [
        _chosen(partial(stop_rules.interquartile, window=window), partials, target)
        for window in stop_rules.WINDOWS
    ]
    yield "P2-STOP", (*min(windows)[:2], None)
    first = _chosen(stop_rules.fewer_trees, partials, target)
    n_first = round(first[0])
    forest = spinney.read_model(model)
    yield "fewer trees", (*first[:2], forest.take(np.arange(n_first)).predict)
    if partials[0].sums.ndim == 2:
        yield "fewer trees, reweighted", _reweighted(model, forest, rows, target)
    certain = spinney.CascadeClassifier(
        FrozenEstimator(model), max_disagreement=0, order="natural"
    ).fit(rows[0])
    labels, n_evaluated = certain.predict_counted(rows[2])
    differ = float(np.mean(labels != certain.predict_full(rows[2])))
    yield "only certain exits", (float(n_evaluated.mean()), differ, certain.predict)


def _spinney(
    kind: str, model: Any, rows: tuple[Rows, Rows, Rows], target: float
) -> Iterator[tuple[str, Found]]:
    """Yield spinney's own classifiers, chosen as the others are."""
    frozen = FrozenEstimator(model)
    settings = {"max_disagreement": target, "random_state": 0}
    ours: list[tuple[str, Any]] = [
        ("spinney, cascade", spinney.CascadeClassifier(frozen, **settings)),
        (
            FEWEST_TREES,
            spinney.CascadeClassifier(
                frozen,
                tree_costs=np.ones(spinney.read_model(model).n_trees),
                **settings,
            ),
        ),
    ]
    if kind == "forest":
        votes = spinney.SequentialVotingClassifier(frozen, voting="soft", **settings)
        ours.append(("spinney, soft votes", votes))
    for name, classifier in ours:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpinneyWarning)
            made = [make() for make in classifier.candidates(rows[0])]
        full = [made[0].predict_full(part) for part in rows]
        best = min(
            (
                candidate
                for candidate in made
                if np.mean(candidate.predict(rows[1]) != full[1]) <= target
            ),
            key=lambda one: one.predict_counted(rows[1])[1].mean(),
        )
        labels, n_evaluated = best.predict_counted(rows[2])
        differ = float(np.mean(labels != full[2]))
        yield name, (float(n_evaluated.mean()), differ, best.predict)


def _chosen(
    rule: Callable[..., Iterable[stop_rules.Stopped]],
    partials: list[Partial],
    target: float,
) -> tuple[float, float, float]:
    """Return trees and disagreement of a rule on new rows, and how bold it is.

    Of the numbers that suit the calibration rows, the one with the fewest trees among
    those that keep to the target on the rows to choose by.
    """
    dials = np.array([one.dial for one in rule(partials[0])])
    kept = []
    for one in rule(partials[1], dials=dials):
        trees, differ = stop_rules.outcome(partials[1], one)
        if differ <= target:
            kept.append((trees, one.dial))
    _, dial = min(kept)
    (stopped,) = rule(partials[2], dials=np.array([dial]))
    return (*stop_rules.outcome(partials[2], stopped), dial)


def _margin(kind: str, model: Any, partials: list[Partial], target: float) -> Found:
    """Return the margin rule; of a forest the variant with the fewest trees."""
    variants = [{"first": first, "summed": False} for first in stop_rules.FIRST_LOOKS]
    variants = [*variants, {"first": 1, "summed": True}]
    if kind == "lightgbm":  # sums are what it has
        variants = variants[:1]
    found = [
        (*_chosen(partial(stop_rules.aggregated_margin, **one), partials, target), one)
        for one in variants
    ]
    trees, differ, dial, variant = min(found, key=lambda one: one[0])
    grows = kind == "forest" and not variant["summed"]
    engine = _margin_engine(model, partials[0], dial, variant["first"], grows)
    return trees, differ, engine


def _margin_engine(
    model: Any, steps: Partial, dial: float, first: int, grows: bool
) -> Callable[[Rows], Any]:
    """Return spinney's engine with one margin for all exits, one every few trees.

    Its sums are compared, so the margin of an average grows with the trees.
    """
    forest = spinney.read_model(model)
    order = np.arange(forest.n_trees)
    points = np.arange(EVERY, len(steps.n_trees), EVERY)
    points = points[points >= first] * int(steps.n_trees[0])
    margin = dial * (points if grows else np.ones(len(points)))
    if steps.sums.ndim == 2:
        middle = forest.effective_threshold if forest.n_outputs == 1 else 0.0
        rule = ExitRule.between(order, points, middle - margin, middle + margin)
    else:
        rule = ExitRule.by_margin(order, points, margin)
    engine = EarlyExitEngine(forest, rule)
    return lambda rows: engine.evaluate(forest.engine.rows(rows), None)


def _lightgbm(model: Any, dial: float) -> Callable[[Rows], Any]:
    """Return LightGBM's own prediction with its early stop."""
    margin = dial * (2.0 if len(model.classes_) == 2 else 1.0)
    return lambda rows: model.booster_.predict(
        rows,
        raw_score=True,
        pred_early_stop=True,
        pred_early_stop_freq=stop_rules.LIGHTGBM_FREQUENCY,
        pred_early_stop_margin=margin,
        num_threads=1,
    )


def _reweighted(
    model: Any, forest: spinney.Forest, rows: tuple[Rows, Rows, Rows], target: float
) -> Found:
    """Return the fewest trees with new weights that keep to the target."""
    scores = [reweighted.signed_scores(model, part) for part in rows]
    best: tuple[int, float, Any] | None = None
    for price in PRICES:
        weights = reweighted.fewest_weights(scores[0], price)
        used = np.flatnonzero(np.abs(weights[:-1]) > 1e-9)
        differ = [float(np.mean(part @ weights <= 0)) for part in scores]
        if differ[1] <= target and (best is None or len(used) < best[0]):
            best = len(used), differ[2], used
    if best is None:  # nothing but the model itself
        return float(forest.n_trees), 0.0, forest.predict
    return float(best[0]), best[1], forest.take(best[2]).predict


def beside(
    full: Callable[[Rows], Any], predict: Callable[[Rows], Any], rows: Rows
) -> float:
    """Return the processor time of a prediction over that of all trees, in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    full(rows), predict(rows)
    for _ in range(N_REPEATS):
        for call, taken in zip((full, predict), times, strict=True):
            start = time.process_time()
            call(rows)
            taken.append(time.process_time() - start)
    return min(times[1]) / min(times[0])


if __name__ == "__main__":
    main()
