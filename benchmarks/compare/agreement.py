"""Whether an engine predicts as the original does; without that, it is not timed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.engines import Engine

# Sums of 500 float32 numbers may differ this much by the order in which they are
# added; a row that ends in another leaf of one tree differs by far more.
TOLERANCE = 1e-5

# Engines for single rows take one row at a time, so not for all rows.
MAX_SINGLE_ROWS = 5_000


@dataclass(frozen=True)
class Agreement:
    """How often an engine's predictions differ from those of the original.

    `seconds` is how long the engine took for all of them, on one thread.
    """

    n_rows: int
    n_labels_differ: int
    n_probabilities_differ: int | None
    largest_difference: float | None
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for a JSON file."""
        return {
            "rows": self.n_rows,
            "labels_differ": self.n_labels_differ,
            "probabilities_differ": self.n_probabilities_differ,
            "largest_difference": self.largest_difference,
        }


def measure(
    engine: Engine,
    X: NDArray[np.float32],
    labels: NDArray[np.integer],
    probabilities: NDArray[np.floating],
) -> Agreement:
    """Predict the rows `X` with `engine` and compare with the original.

    Parameters
    ----------
    engine : Engine
        The engine.
    X : ndarray of shape (n_rows, n_features)
        Rows.
    labels : ndarray of shape (n_rows,)
        Labels that the original says; 0, 1, ...
    probabilities : ndarray of shape (n_rows, n_classes)
        Probabilities that the original says.
    """
    predict = engine.with_threads(1)
    started = time.perf_counter()
    if engine.only_batch is None:
        answers = np.asarray(predict(engine.batch(X)))
    else:
        X = X[:MAX_SINGLE_ROWS]
        labels, probabilities = labels[: len(X)], probabilities[: len(X)]
        # Copied, because an engine may write every prediction into the same buffer.
        answers = np.concatenate(
            [np.array(predict(engine.batch(row[None]))).reshape(1, -1) for row in X]
        )
    seconds = time.perf_counter() - started
    if engine.returns == "label":
        n_differ = int((answers.ravel() != labels).sum())
        return Agreement(len(X), n_differ, None, None, seconds)
    found = by_class(answers, len(X))
    own = engine.labels(X) if engine.labels is not None else found.argmax(axis=1)
    difference = np.abs(found - probabilities).max(axis=1)
    # NaN is not within any tolerance.
    outside = ~(difference <= TOLERANCE)
    largest = float(difference.max())
    return Agreement(
        n_rows=len(X),
        n_labels_differ=int((np.asarray(own) != labels).sum()),
        n_probabilities_differ=int(outside.sum()),
        largest_difference=largest if np.isfinite(largest) else None,
        seconds=seconds,
    )


def by_class(answers: NDArray, n_rows: int) -> NDArray:
    """Return one column per class, also where only the second class was given."""
    answers = answers.reshape(n_rows, -1)
    if answers.shape[1] > 1:
        return answers
    return np.hstack([1 - answers, answers])
