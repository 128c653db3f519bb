"""How good the probabilities of early exits are, beside those of the full model.

    python -m benchmarks.promise.probabilities           # some minutes of one core
    python -m benchmarks.promise.probabilities --quick   # one set, small models

Classifiers are fitted to 4,000 rows without labels, and measured on up to 20,000
others: area under the ROC curve, expected calibration error (15 bins), and trees.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

import spinney
from benchmarks import data
from benchmarks.promise import cases
from spinney.report.probabilities import area_under_curve, calibration_error

DATASETS = ("adult", "census_income_kdd", "cdc_diabetes", "magic", "nomao")
BOUND, N_ROWS = 0.005, 4000
VOTING = {"forest": "soft", "forest, hard votes": "hard"}
HEADS = (
    "data",
    "model",
    "trees",
    "ROC AUC, full",
    "early",
    "difference",
    "calibration error, full",
    "early",
    "difference",
)


def measure(
    dataset: str, kind: str, cache: Path, n_trees: int | None = None
) -> dict[str, Any]:
    """Fit to calibration rows of one set, and measure on held-out rows.

    Parameters
    ----------
    dataset, cache, n_trees
        As in `cases.pool_of`.
    kind : str
        "lightgbm", or a key of `VOTING`.
    """
    table = data.load(dataset)
    model = "lightgbm" if kind == "lightgbm" else "forest"
    pool = cases.pool_of(dataset, model, cache, n_trees)
    # The same draw as that of the pool, of which labels are needed too.
    n_trained = min(cases.MOST_TRAINED, int(cases.SHARE_TRAINED * len(table.y)))
    order = np.random.default_rng(0).permutation(len(table.y))
    y = table.y[order[n_trained : n_trained + cases.MOST_IN_POOL]]
    held_out = slice(N_ROWS, N_ROWS + cases.MOST_HELD_OUT)
    make: Any = spinney.CascadeClassifier
    if kind != "lightgbm":
        make = partial(spinney.SequentialVotingClassifier, voting=VOTING[kind])
    quick = make(FrozenEstimator(pool.model), max_disagreement=BOUND, random_state=0)
    quick.fit(pool.X[:N_ROWS])
    X, y = pool.X[held_out], y[held_out]
    labels, n_evaluated = quick.predict_counted(X)
    early, full = quick.predict_proba(X), quick.predict_proba_full(X)
    if not np.array_equal(quick.classes_[early.argmax(axis=1)], labels):
        msg = "probabilities contradict the labels"
        raise AssertionError(msg)
    classes = quick.classes_
    return {
        "dataset": dataset,
        "kind": kind,
        "trees": float(n_evaluated.mean() / len(quick.order_)),
        "auc": [area_under_curve(p, y, classes) for p in (full, early)],
        "error": [calibration_error(p, y, classes) for p in (full, early)],
    }


def table_of(results: list[dict[str, Any]]) -> str:
    """Return results as a table in Markdown.

    Parameters
    ----------
    results : list of dict
        What `measure` has returned.
    """
    lines = ["| " + " | ".join(HEADS) + " |", "|---|---|" + "---:|" * (len(HEADS) - 2)]
    for one in results:
        cells = [cases.NAMES[one["dataset"]], one["kind"], f"{one['trees']:.1%}"]
        for name in ("auc", "error"):
            full, early = one[name]
            cells += [f"{full:.4f}", f"{early:.4f}", f"{early - full:+.4f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one set, small models")
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "spinney"
    )
    given = parser.parse_args()
    datasets = DATASETS[3:4] if given.quick else DATASETS
    results = []
    for kind in ("lightgbm", *VOTING):
        for dataset in datasets:
            n_trees = 40 if given.quick else None
            results.append(measure(dataset, kind, given.cache, n_trees))
    print(table_of(results))


if __name__ == "__main__":
    main()
