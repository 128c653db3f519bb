"""Compile all kernels ahead of time, so that the first answer is not the slow one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from spinney.forest import Forest
from spinney.runtime.batch_kernels import MIN_BLOCK_ROWS
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule


def _small_forest(input_dtype: str, sum_dtype: str) -> Forest:
    """Return a forest of two stumps."""
    return Forest(
        tree_offsets=np.array([0, 3, 6]),
        feature=np.array([0, -1, -1, 1, -1, -1]),
        threshold=np.zeros(6),
        left=np.array([1, -1, -1, 4, -1, -1]),
        right=np.array([2, -1, -1, 5, -1, -1]),
        value=np.array([0.0, -1.0, 1.0, 0.0, -2.0, 2.0]),
        n_features=2,
        aggregation="sum",
        classes=np.array([0, 1]),
        link="logistic",
        input_dtype=input_dtype,
        sum_dtype=sum_dtype,
    )


def warm_up() -> list[tuple[str, float]]:
    """Compile every kernel for every type of row and sum, or load it from the cache.

    Returns
    -------
    timings : list of (str, float)
        What was compiled or loaded, and the seconds it took.
    """
    timings = []

    def timed(what: str, call: Callable[[], object]) -> None:
        start = time.perf_counter()
        call()
        timings.append((what, time.perf_counter() - start))

    kinds = [("float32", "float64"), ("float32", "float32"), ("float64", "float64")]
    for row_type, sum_type in kinds:
        rows = np.zeros((2 * MIN_BLOCK_ROWS, 2), dtype=row_type)
        name = f"{row_type} rows, {sum_type} sums"
        forest = _small_forest(row_type, sum_type)
        timed(f"batches, {name}", partial(forest.predict, rows))
        timed(f"small batches, {name}", partial(forest.predict, rows[:2]))
        timed(f"single rows, {name}", partial(forest.predictor(), rows[0]))
        if sum_type == "float64":
            timed(f"leaves, {row_type} rows", partial(forest.leaves, rows))
            coded = forest.replace(
                category_set=np.array([0, -1, -1, -1, -1, -1]),
                category_offsets=np.array([0, 1]),
                category_words=np.array([1]),
            )
            timed(f"categories, {row_type} rows", partial(coded.predictor(), rows[0]))
            rule = ExitRule.between([0, 1], [1], [-np.inf], [np.inf])
            early = EarlyExitEngine(forest, rule)
            read_only = forest.engine.rows(rows)
            name = f"early exits, {row_type} rows"
            timed(f"{name}, batches", partial(early.evaluate, read_only))
            timed(f"{name}, small batches", partial(early.evaluate, read_only[:2]))
            timed(f"{name}, single rows", partial(early.predictor(), rows[0]))
    return timings
