"""What `accelerate` saves at decision thresholds on sets with a rare class.

``python -m benchmarks.promise.imbalanced`` writes a table into docs/thresholds.md, in
some minutes of one core.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.compare import machine
from benchmarks.compare.cells import number, percent, table
from benchmarks.papers.page import put_results
from benchmarks.promise.cases import NAMES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "thresholds.md"
THRESHOLDS = (0.1, 0.3, 0.5, 0.9)
DATASETS = ("census_income_kdd", "cdc_diabetes")
N_TREES, N_TRAINED, N_GIVEN, N_NEW, N_REPEATS = 300, 20_000, 20_000, 20_000, 3


def main(arguments: list[str] | None = None) -> None:
    """Measure all sets, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promise.imbalanced")
    parser.add_argument("--page", type=Path, default=PAGE)
    page = parser.parse_args(arguments).page
    lines = [line for name in DATASETS for line in measure(name)]
    heads = ["predicted", "trees", "differ, all rows", "differ, rare class"]
    heads += ["model, µs", "spinney, all trees, µs", "early exit, µs"]
    heads += ["times as fast as the model"]
    about = machine.describe()
    words = (
        f"{about['cpu']}, {about['cores']} cores, {about['date']}; CPU time per row of "
        f"{N_NEW:,} new rows, the best of {N_REPEATS} in turns, on a busy machine."
    )
    put_results(page, f"{table('data, threshold', heads, lines)}\n\n{words}")


def measure(dataset: str) -> list[tuple[str, list[str]]]:
    """Return the lines of a data set, one for each threshold.

    Parameters
    ----------
    dataset : str
        Its name.
    """
    from lightgbm import LGBMClassifier

    import spinney

    found = data.load(dataset)
    order = np.random.default_rng(0).permutation(len(found.y))
    trained, given, new = np.split(
        order[: N_TRAINED + N_GIVEN + N_NEW], [N_TRAINED, N_TRAINED + N_GIVEN]
    )
    model = LGBMClassifier(n_estimators=N_TREES, verbose=-1, n_jobs=1, random_state=0)
    model.fit(found.X[trained], found.y[trained])
    X = found.X[new]
    lines = []
    for threshold in THRESHOLDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", spinney.SpinneyWarning)
            fast = spinney.accelerate(
                model,
                found.X[given],
                decision_threshold=threshold,
                max_disagreement=0.03,
                per_class=True,
                random_state=0,
            )
        expected = model.predict_proba(X)[:, 1] >= threshold
        labels, n_evaluated = fast.predict_counted(X)
        differs = (labels == 1) != expected
        own, whole, ours = cpu_microseconds(
            (
                lambda: model.predict_proba(X)[:, 1] >= threshold,  # noqa: B023
                lambda: fast.predict_full(X),  # noqa: B023
                lambda: fast.predict(X),  # noqa: B023
            ),
            len(X),
        )
        lines.append(
            (
                f"{NAMES[dataset]}, {threshold:g}",
                [
                    percent(float(expected.mean()), 1),
                    percent(float(n_evaluated.mean()) / N_TREES, 1),
                    percent(float(differs.mean()), 2),
                    percent(float(differs[expected].mean()), 1),
                    number(own),
                    f"{whole:.3f}",
                    f"{ours:.3f}",
                    f"{own / ours:.1f}",
                ],
            )
        )
        print(lines[-1], flush=True)
    return lines


def cpu_microseconds(calls: Sequence[Callable[[], Any]], n_rows: int) -> list[float]:
    """Return the least CPU time per row of each call, measured in turns.

    Parameters
    ----------
    calls : sequence of callables
        What to measure.
    n_rows : int
        How many rows each predicts.
    """
    best = [float("inf")] * len(calls)
    for _ in range(N_REPEATS):
        for k, call in enumerate(calls):
            clock = time.process_time()
            call()
            best[k] = min(best[k], time.process_time() - clock)
    return [seconds / n_rows * 1e6 for seconds in best]


if __name__ == "__main__":
    main()
