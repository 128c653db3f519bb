"""Compile all kernels ahead of time, so that the first answer is not the slow one."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from spinney.forest import Forest


def _small_forest(input_dtype: str, sum_dtype: str, *, labels: bool) -> Forest:
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
        classes=np.array([0, 1]) if labels else None,
        link="logistic" if labels else "identity",
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
        rows = np.zeros((32, 2), dtype=row_type)
        name = f"{row_type} rows, {sum_type} sums"
        forest = _small_forest(row_type, sum_type, labels=True)
        timed(f"batches: {name}", lambda: forest.predict(rows))  # noqa: B023
        predictor = forest.predictor()
        timed(f"single rows: {name}", lambda: predictor(rows[0]))  # noqa: B023
        regressor = _small_forest(row_type, sum_type, labels=False).predictor()
        timed(f"single rows, regression: {name}", lambda: regressor(rows[0]))  # noqa: B023
        if sum_type == "float64":
            timed(f"leaves: {row_type} rows", lambda: forest.leaves(rows))  # noqa: B023
    return timings
