"""The models: two for a microcontroller, three for a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import load

# Rows to train on, to calibrate on, and to measure on.
N_TRAIN, N_CAL, N_TEST = 8000, 8000, 3000


@dataclass(frozen=True)
class Case:
    """A trained model and rows.

    Parameters
    ----------
    name : str
        What it is.
    model : object
        The model of its library.
    calibration, test : ndarray
        Rows that it was not trained on.
    """

    name: str
    model: Any
    calibration: NDArray[np.float32]
    test: NDArray[np.float32]


def rows(name: str, *, integers: bool = False) -> tuple[Any, ...]:
    """Return training rows and labels, calibration rows, and test rows.

    Parameters
    ----------
    name : str
        Name of a data set.
    integers : bool, default=False
        Whether features are rounded to 16-bit integers, as sensors deliver them.
    """
    table = load(name)
    order = np.random.default_rng(0).permutation(len(table.X))
    X, y = table.X[order], table.positive[order]
    if integers:
        span = np.quantile(np.abs(X), 0.999, axis=0)
        X = np.clip(np.rint(X / np.maximum(span, 1e-9) * 2000), -32000, 32000)
        X = X.astype(np.float32)
    ends = np.cumsum([N_TRAIN, N_CAL, N_TEST])
    train, calibration, test = np.split(X[: ends[-1]], ends[:-1])
    return train, y[:N_TRAIN], calibration, test


def random_forest(n_trees: int, depth: int | None, data: str, integers: bool) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    X, y, calibration, test = rows(data, integers=integers)
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=0, n_jobs=2)
    return model.fit(X, y), calibration, test


def xgboost(n_trees: int, depth: int, data: str, integers: bool) -> Any:
    from xgboost import XGBClassifier

    X, y, calibration, test = rows(data, integers=integers)
    model = XGBClassifier(
        n_estimators=n_trees, max_depth=depth, base_score=0.5, n_jobs=2
    )
    return model.fit(X, y), calibration, test


def lightgbm(n_trees: int, leaves: int, data: str) -> Any:
    from lightgbm import LGBMClassifier

    X, y, calibration, test = rows(data)
    model = LGBMClassifier(
        n_estimators=n_trees, num_leaves=leaves, verbose=-1, n_jobs=2
    )
    return model.fit(X, y), calibration, test


SMALL: dict[str, Callable[[], Any]] = {
    "RF 20 × depth 8, int16": lambda: random_forest(20, 8, "magic", True),
    "XGBoost 100 × depth 6, int16": lambda: xgboost(100, 6, "magic", True),
}
LARGE: dict[str, Callable[[], Any]] = {
    "RF 20 × depth 8": lambda: random_forest(20, 8, "magic", False),
    "RF 101, full depth": lambda: random_forest(101, None, "magic", False),
    "LightGBM 500 × 31": lambda: lightgbm(500, 31, "magic"),
    "XGBoost 500 × depth 6": lambda: xgboost(500, 6, "magic", False),
}


def make(name: str) -> Case:
    """Train a model.

    Parameters
    ----------
    name : str
        One of the names above.
    """
    model, calibration, test = (SMALL | LARGE)[name]()
    return Case(name, model, calibration, test)
