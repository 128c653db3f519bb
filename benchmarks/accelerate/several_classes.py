"""Boosting of several classes: trees that `accelerate` leaves, and how long it takes.

``python -m benchmarks.accelerate.several_classes letter`` trains LightGBM on a part of
a data set and calls `spinney.accelerate` with another part, for several splits, and
prints for each the trees per row, the disagreement on new rows over the bound, and the
CPU seconds of training and of `accelerate` (kernels loaded, one thread). The table in
docs/cascade.md is made of the means; splits in which all trees were the fastest are
counted and left out of them.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import lightgbm
import numpy as np

import spinney
from benchmarks import data


@dataclass(frozen=True)
class Setting:
    """A model, the parts of a data set, and the bound."""

    n_rounds: int
    n_train: int
    n_calibration: int
    n_test: int
    bound: float
    n_splits: int


SETTINGS = {
    "covertype": Setting(200, 20_000, 20_000, 40_000, 0.001, 9),
    "letter": Setting(100, 8_000, 6_000, 6_000, 0.005, 3),
    "sensorless": Setting(100, 20_000, 15_000, 20_000, 0.002, 3),
    "satellite": Setting(200, 2_000, 2_000, 2_435, 0.01, 10),
}


def measure(
    table: data.Table, setting: Setting, seed: int
) -> tuple[float, float, float, float]:
    """Return trees, disagreement over the bound, and both CPU times of one split."""
    order = np.random.default_rng(seed).permutation(len(table.X))
    ends = np.cumsum([setting.n_train, setting.n_calibration, setting.n_test])
    train, calibration, test = np.split(order[: ends[-1]], ends[:-1])
    model = lightgbm.LGBMClassifier(n_estimators=setting.n_rounds, verbose=-1, n_jobs=1)
    begin = time.process_time()
    model.fit(table.X[train], table.y[train])
    training = time.process_time() - begin
    begin = time.process_time()
    fast = spinney.accelerate(
        model,
        table.X[calibration],
        max_disagreement=setting.bound,
        random_state=seed,
    )
    accelerating = time.process_time() - begin
    labels, n_evaluated = fast.predict_counted(table.X[test])
    disagreement = np.mean(labels != model.predict(table.X[test]))
    trees = float(n_evaluated.mean())
    return trees, disagreement / setting.bound, training, accelerating


def main() -> None:
    """Measure one data set and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SETTINGS)
    parser.add_argument("--splits", type=int, help="fewer splits than in the table")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    setting, table = SETTINGS[given.name], data.load(given.name)
    measure(table, setting, 0)  # kernels are loaded
    found = []
    n_trees = setting.n_rounds * table.n_classes
    for seed in range(given.splits or setting.n_splits):
        found.append(measure(table, setting, seed))
        print(f"{given.name} {seed}: " + "  ".join(f"{x:.3f}" for x in found[-1]))
    exiting = np.array([each for each in found if each[0] < n_trees])
    print(f"{len(found) - len(exiting)} of {len(found)} splits: all {n_trees:,} trees")
    if len(exiting) == 0:
        return
    print("mean " + "  ".join(f"{x:.3f}" for x in exiting.mean(axis=0)))
    if len(exiting) > 1:
        errors = exiting.std(axis=0, ddof=1) / len(exiting) ** 0.5
        print("standard error " + "  ".join(f"{x:.3f}" for x in errors))


if __name__ == "__main__":
    main()
