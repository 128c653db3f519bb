"""Data sets of all benchmarks: from the folder SPINNEY_DATA, or from OpenML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Name here -> number on OpenML, rows that it should have there, and how many of them
# are the training part of the source (None: the source has no such part). Sets that
# are missing here are not on OpenML with the same rows.
OPENML = {
    "adult": (1590, 48_842, 32_561),
    "covertype": (1596, 581_012, None),
    "heart_statlog": (53, 270, None),
    "letter": (6, 20_000, None),
    "magic": (1120, 19_020, None),
    "nomao": (1486, 34_465, None),
    "shuttle": (40685, 58_000, None),
    "skin_segmentation": (1502, 245_057, None),
    "sonar": (40, 208, None),
    "spambase": (44, 4_601, None),
}


@dataclass(frozen=True)
class Table:
    """A whole data set, its rows in the order of the source."""

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    n_train: int | None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1

    @property
    def positive(self) -> NDArray[np.int64]:
        """Labels of the largest class against the rest: 1 for the largest."""
        return (self.y == np.bincount(self.y).argmax()).astype(np.int64)


def load(name: str, folder: str | Path | None = None) -> Table:
    """Return a whole data set.

    Parameters
    ----------
    name : str
        Name of a file in `folder`, without its ending.
    folder : path, optional
        Folder with ``NAME.npz`` files: ``X`` (float32), ``y`` (0, 1, ...) and, where
        the source has a training part, ``n_train``. By default the folder that the
        environment variable ``SPINNEY_DATA`` names; without it the set is fetched
        from OpenML, if it is there.
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
        X, y, n_train = _fetch(name)
    X = np.ascontiguousarray(X, dtype=np.float32)
    return Table(name, X, np.asarray(y, dtype=np.int64), n_train)


def split(
    n_rows: int, shares: Sequence[float], seed: int
) -> tuple[NDArray[np.int64], ...]:
    """Return row numbers at random, cut into parts.

    Parameters
    ----------
    n_rows : int
        Number of rows to be parted.
    shares : sequence of float
        Size of each part, together 1.
    seed : int
        The same number gives the same parts.
    """
    order = np.random.default_rng(seed).permutation(n_rows)
    cuts = np.rint(np.cumsum(shares)[:-1] * n_rows).astype(int)
    return tuple(np.split(order, cuts))


def _fetch(name: str) -> tuple[NDArray, NDArray, int | None]:
    """Fetch a set and code its categories 0, 1, ... in the order of their names."""
    from sklearn.datasets import fetch_openml

    if name not in OPENML:
        msg = (
            f"The data set must be one of {sorted(OPENML)}, got {name!r}. Others are "
            "read from the folder that the environment variable SPINNEY_DATA names."
        )
        raise ValueError(msg)
    number, n_rows, n_train = OPENML[name]
    table = fetch_openml(data_id=number, as_frame=True)
    if len(table.data) != n_rows:
        msg = (
            f"Set {number} on OpenML has {len(table.data)} rows, but {name} has "
            f"{n_rows}. Put the right one into the folder that SPINNEY_DATA names."
        )
        raise ValueError(msg)
    columns = [_as_numbers(table.data[column]) for column in table.data.columns]
    labels = np.unique(table.target.astype(str), return_inverse=True)[1]
    return np.column_stack(columns), labels, n_train


def _as_numbers(column: Any) -> NDArray[np.float32]:
    """Return a column as numbers; a missing category is a category of its own."""
    if column.dtype.kind in "fiub":
        return column.to_numpy(dtype=np.float32)
    names = column.astype(object).where(column.notna(), "?").astype(str)
    return np.unique(names, return_inverse=True)[1].astype(np.float32)
