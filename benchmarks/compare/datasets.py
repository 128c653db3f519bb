"""Data sets for the comparison: from the folder SPINNEY_DATA, or from OpenML."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Name here -> number on OpenML, and how many of the first rows are the training part
# of the source (None: the source has no such part).
OPENML = {"adult": (1590, 32_561), "magic": (1120, None), "covertype": (1596, None)}

# Enough to grow trees of a realistic size; more would only make training longer.
MAX_TRAIN_ROWS = 50_000


@dataclass(frozen=True)
class Dataset:
    """Rows to train on and rows to ask, which the model has not seen."""

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float32]

    @property
    def n_classes(self) -> int:
        """Number of classes in the training part."""
        return int(self.y_train.max()) + 1


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """Return a data set, split into rows to train on and rows to ask.

    Parameters
    ----------
    name : str
        ``"adult"``, ``"magic"``, ``"covertype"``, or the name of any file in `folder`.
    folder : path, optional
        Folder with ``NAME.npz`` files: ``X`` (float32), ``y`` (0, 1, ...) and, where
        the source has a training part, ``n_train``. By default the folder that the
        environment variable ``SPINNEY_DATA`` names; without it the set is fetched
        from OpenML.
    """
    folder = folder or os.environ.get("SPINNEY_DATA")
    if folder:
        path = Path(folder) / f"{name}.npz"
        if not path.exists():
            msg = f"There is no file {path.name} in the folder {str(folder)!r}."
            raise FileNotFoundError(msg)
        with np.load(path, allow_pickle=False) as stored:
            X, y = stored["X"], stored["y"]
            n_train = int(stored["n_train"]) if "n_train" in stored else None
    else:
        X, y, n_train = _from_openml(name)
    X = np.ascontiguousarray(X, dtype=np.float32)
    y = np.asarray(y, dtype=np.int64)
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


def _from_openml(name: str) -> tuple[NDArray, NDArray, int | None]:
    """Fetch a set and code its categories 0, 1, ... in the order of their names."""
    from sklearn.datasets import fetch_openml

    if name not in OPENML:
        msg = (
            f"The data set must be one of {sorted(OPENML)}, got {name!r}. Others are "
            "read from the folder that SPINNEY_DATA names."
        )
        raise ValueError(msg)
    number, n_train = OPENML[name]
    table = fetch_openml(data_id=number, as_frame=True)
    columns = [as_numbers(table.data[column]) for column in table.data.columns]
    labels = np.unique(table.target.astype(str), return_inverse=True)[1]
    return np.column_stack(columns), labels, n_train


def as_numbers(column) -> NDArray[np.float32]:
    """Return a column as numbers; a missing category is a category of its own."""
    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=np.float32)
    names = column.astype(object).where(column.notna(), "?").astype(str)
    return np.unique(names, return_inverse=True)[1].astype(np.float32)
