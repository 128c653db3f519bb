"""Real data for tests: sets bundled with scikit-learn, and those in SPINNEY_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets


def bundled(name):
    """Return (X, y) of a set bundled with scikit-learn, such as ``breast_cancer``."""
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def real(name, n_rows=None, seed=0):
    """Return (X, y) of a set in the folder SPINNEY_DATA, or skip the test without it.

    With `n_rows`, a random part of that size is returned.
    """
    folder = os.environ.get("SPINNEY_DATA")
    if not folder:
        pytest.skip("SPINNEY_DATA names no folder of data sets")
    path = Path(folder) / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in the folder SPINNEY_DATA")
    with np.load(path, allow_pickle=False) as stored:
        X, y = stored["X"], stored["y"]
    if n_rows is not None and n_rows < len(X):
        chosen = np.random.default_rng(seed).choice(len(X), n_rows, replace=False)
        X, y = X[chosen], y[chosen]
    return X, y
