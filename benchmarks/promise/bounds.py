"""Do other bounds hold on new rows: at decision thresholds, per class, on accuracy?

``python -m benchmarks.promise.run --bounds`` measures what has not been measured, with
small models, in some minutes of one core, and writes the tables of bounds.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.compare import machine
from benchmarks.compare.cells import percent, table
from benchmarks.papers.page import put_results
from benchmarks.promise.cases import (
    BOOSTED,
    MOST_IN_POOL,
    MOST_TRAINED,
    NAMES,
    SHARE_TRAINED,
)
from benchmarks.promise.tables import mean_and_error

RESULTS = Path(__file__).parent / "results" / "bounds"
PAGE = Path(__file__).parent / "bounds.md"
CONFIDENCE = 0.95
N_SPLITS, N_TREES, MOST_HELD_OUT = 40, 40, 20_000
STRENGTHS = {"on average": None, f"`confidence={CONFIDENCE:g}`": CONFIDENCE}


@dataclass(frozen=True)
class Bound:
    """A bound to be measured on one data set.

    Parameters
    ----------
    kind : {"threshold", "per class", "accuracy"}
        What is bounded: the disagreement at a decision threshold, that of each class,
        or the loss of accuracy.
    dataset : str
        A key of `NAMES`.
    bound : float
        The bound.
    n_rows : int
        Calibration rows of a split.
    threshold : float or None
        The decision threshold; None for the model's own.
    """

    kind: str
    dataset: str
    bound: float
    n_rows: int
    threshold: float | None = None

    @property
    def slug(self) -> str:
        """Name of the file with the results, without its ending."""
        words = [self.kind.replace(" ", "-"), self.dataset, f"{self.bound:g}"]
        return "_".join(words + ([f"{self.threshold:g}"] if self.threshold else []))


TWO_CLASSES, THRESHOLDS = BOOSTED[:6], (0.1, 0.3, 0.9)
SMALL = ("magic",)  # it leaves too few rows
BOUNDS = (
    *(Bound("threshold", d, 0.005, 4000, t) for d in TWO_CLASSES for t in THRESHOLDS),
    # Covertype has classes with too few rows for such a bound.
    *(Bound("per class", d, 0.02, 8000) for d in BOOSTED if d != "covertype"),
    *(Bound("accuracy", d, 0.005, 10_000) for d in BOOSTED if d not in SMALL),
)


@cache
def model_and_rows(dataset: str, n_trees: int) -> tuple[Any, NDArray, NDArray]:
    """Return a trained model, and rows with labels that it was not trained on."""
    from lightgbm import LGBMClassifier

    found = data.load(dataset)
    order = np.random.default_rng(0).permutation(len(found.y))
    n_trained = min(MOST_TRAINED, int(SHARE_TRAINED * len(order)))
    trained, pool = order[:n_trained], order[n_trained : n_trained + MOST_IN_POOL]
    rounds = max(1, n_trees // (1 if found.n_classes == 2 else found.n_classes))
    model = LGBMClassifier(n_estimators=rounds, verbose=-1, n_jobs=1, random_state=0)
    model.fit(found.X[trained], found.y[trained])
    return model, found.X[pool], found.y[pool]


def measure(
    bound: Bound, n_splits: int = N_SPLITS, n_trees: int = N_TREES
) -> dict[str, Any]:
    """Return what is found over all splits.

    Parameters
    ----------
    bound : Bound
        What to measure.
    n_splits, n_trees : int
        How often rows are parted anew; trees of the model.
    """
    import spinney

    model, X, y = model_and_rows(bound.dataset, n_trees)
    forest = spinney.read_model(model, decision_threshold=bound.threshold)
    full = np.searchsorted(forest.classes_, forest.predict(X))
    n_classes = len(forest.classes_)
    clock = time.process_time()
    splits = []
    for seed in range(n_splits):
        order = np.random.default_rng([seed, bound.n_rows]).permutation(len(X))
        given = order[: bound.n_rows]
        new = order[bound.n_rows : bound.n_rows + MOST_HELD_OUT]
        kept = fits(bound, forest, X[given], full[given], y[given], seed)
        split = {}
        for name, classifier in kept.items():
            labels, n_evaluated = classifier.predict_counted(X[new])
            codes = np.searchsorted(forest.classes_, labels)
            split[name] = {
                "figures": _figures(bound.kind, codes, full[new], y[new]),
                "changed": float(np.mean(codes != full[new])),
                "trees": float(n_evaluated.mean()),
            }
        splits.append(split)
    return {
        "kind": bound.kind,
        "dataset": bound.dataset,
        "bound": bound.bound,
        "threshold": bound.threshold,
        "n_rows": bound.n_rows,
        "n_trees": forest.n_trees,
        "shares": [round(float(np.mean(full == c)), 4) for c in range(n_classes)],
        "cpu_seconds": round(time.process_time() - clock, 1),
        "machine": machine.describe(),
        "splits": splits,
    }


def fits(
    bound: Bound, forest: Any, X: NDArray, full: NDArray, y: NDArray, seed: int
) -> dict[str, Any]:
    """Return the classifiers of both strengths: one ladder serves both.

    Parameters
    ----------
    bound : Bound
        What is to hold.
    forest : Forest
        The model.
    X, full, y : ndarray
        Calibration rows, the classes that the forest puts them into, and the true ones.
    seed : int
        Draws which row is for what.
    """
    import spinney
    from spinney.calibration.ladder import boldest_kept
    from spinney.calibration.limits import limits_for
    from spinney.calibration.row_splits import SHARES, split_by_class, split_by_use

    classes = forest.classes_
    asked = {
        "threshold": (bound.bound, False, classes),
        "per class": (bound.bound, True, classes),
        "accuracy": (None, False, classes),
    }[bound.kind]
    loss = bound.bound if bound.kind == "accuracy" else None
    limits = {c: limits_for(*asked, c, loss) for c in STRENGTHS.values()}
    one, rng = limits[CONFIDENCE], np.random.RandomState(seed)
    if one.by_class is None:
        parts = split_by_use(len(X), SHARES, one.n_to_prove, rng)
    else:
        parts = split_by_class(full, SHARES, one.n_to_prove_by_class, rng)
    quick = spinney.CascadeClassifier(forest, **one.as_parameters(), random_state=seed)
    ladder = [cache(make) for make in quick.candidates(X[parts.fit])]
    fresh = X[parts.prove]

    def answers(make: Callable[[], Any]) -> NDArray:
        return np.searchsorted(classes, make().predict(fresh))

    kept = {}
    for name, confidence in STRENGTHS.items():
        limit = limits[confidence]
        found = None
        if limit.are_enough(full[parts.prove]):
            true = np.searchsorted(classes, y[parts.prove])
            found = boldest_kept(ladder[1:], answers, full[parts.prove], limit, true)
        kept[name] = (ladder[0] if found is None else found[0])()
    return kept


def _figures(kind: str, codes: NDArray, full: NDArray, true: NDArray) -> list[float]:
    """Return what is bounded, on held-out rows: one number, or one for each class."""
    if kind == "accuracy":
        return [float(np.mean(codes != true) - np.mean(full != true))]
    if kind == "threshold":
        return [float(np.mean(codes != full))]
    return [
        float(np.mean(codes[full == c] != c)) if np.any(full == c) else 0.0
        for c in range(int(full.max()) + 1)
    ]


# --------------------------------------------------------------------- tables

TITLES = {
    "threshold": "Disagreement at a decision threshold, {} allowed",
    "per class": "Disagreement of each class, {} allowed",
    "accuracy": "Loss of accuracy, {} allowed",
}


def render(found: list[dict[str, Any]]) -> str:
    """Return all tables as Markdown.

    Parameters
    ----------
    found : list of dict
        Results.
    """
    minutes = sum(one["cpu_seconds"] for one in found) / 60
    parts = [f"{minutes:.0f} minutes of one core in all."]
    for kind, title in TITLES.items():
        cases = [one for one in found if one["kind"] == kind]
        if not cases:
            continue
        parts.append(f"### {title.format(percent(cases[0]['bound'], 1))}")
        heads = []
        for name in STRENGTHS:
            heads += [f"{name}: over the bound", "splits above", "predictions changed"]
            heads.append("trees")
        lines = [line for case in cases for line in _lines(case)]
        parts.append(table("data", heads, lines))
    return "\n\n".join(parts)


def _lines(case: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the lines of a case: one, or one for each class."""
    n_figures = len(case["splits"][0]["on average"]["figures"])
    lines = []
    for c in range(n_figures):
        name = NAMES[case["dataset"]]
        if case["kind"] == "threshold":
            share = case["shares"][-1]
            name += f", threshold {case['threshold']:g} ({percent(share, 1)} positive)"
        if case["kind"] == "per class":
            name += f", class {c} ({percent(case['shares'][c], 1)} of the rows)"
        cells = []
        for strength in STRENGTHS:
            found = [split[strength] for split in case["splits"]]
            over = [one["figures"][c] / case["bound"] for one in found]
            mean, error = mean_and_error(over)
            trees = np.mean([one["trees"] for one in found]) / case["n_trees"]
            changed = float(np.mean([one["changed"] for one in found]))
            cells += [
                f"{mean:.2f} ± {error:.2f}",
                percent(sum(one > 1.0 for one in over) / len(over), 0),
                percent(changed, 2),
                percent(float(trees), 1),
            ]
        lines.append((name, cells))
    return lines


def load_all() -> list[dict[str, Any]]:
    """Return the results of all bounds that have been measured."""
    paths = (RESULTS / f"{bound.slug}.json" for bound in BOUNDS)
    return [json.loads(path.read_text("utf-8")) for path in paths if path.exists()]


def run(again: bool = False, until: float = float("inf")) -> None:
    """Measure what has not been measured, and write the tables.

    Parameters
    ----------
    again : bool, default=False
        Whether to measure anew what is there.
    until : float
        Begin nothing after this time, by `time.monotonic`.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    for bound in BOUNDS:
        path = RESULTS / f"{bound.slug}.json"
        if (path.exists() and not again) or time.monotonic() > until:
            continue
        found = measure(bound)
        path.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print(f"{bound.slug}: {found['cpu_seconds']:.0f} s", flush=True)
    if found_all := load_all():
        put_results(PAGE, render(found_all))
        print(f"tables: {PAGE}")
