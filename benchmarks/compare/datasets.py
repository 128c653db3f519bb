"""Data sets for the comparison, parted into rows to train on and rows to predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import data

# What the options of `benchmarks.compare.run` name.
USUAL = ("adult", "magic", "covertype")

# Enough to grow trees of a realistic size; more would only make training longer.
MAX_TRAIN_ROWS = 50_000


@dataclass(frozen=True)
class Dataset:
    """Rows to train on and rows to predict, which the model has not seen."""

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float32]

    @property
    def n_classes(self) -> int:
        """Number of classes in the training part."""
        return int(self.y_train.max()) + 1


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """Return a data set, parted into rows to train on and rows to predict.

    Parameters
    ----------
    name, folder
        As for `benchmarks.data.load`.
    """
    table = data.load(name, folder)
    X, y, n_train = table.X, table.y, table.n_train
    if n_train is None:
        order = np.random.default_rng(0).permutation(len(X))
        X, y = X[order], y[order]
        n_train = int(0.7 * len(X))
    n_used = min(n_train, MAX_TRAIN_ROWS)
    return Dataset(name, X[:n_used], y[:n_used], np.ascontiguousarray(X[n_train:]))


def tiled(X: NDArray[np.float32], n_rows: int) -> NDArray[np.float32]:
    """Return `n_rows` rows: those of `X`, repeated as often as necessary."""
    repeats = -(-n_rows // len(X))
    return np.ascontiguousarray(np.tile(X, (repeats, 1))[:n_rows])
