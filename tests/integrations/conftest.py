"""A model that the tests of all engines share."""

from __future__ import annotations

import numpy as np
import pytest

import spinney


@pytest.fixture(scope="session")
def rows():
    """Rows with missing values among them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6)).astype(np.float32)
    X[::50, 2] = np.nan
    return X


@pytest.fixture(scope="session")
def trained(rows):
    """A forest of scikit-learn with labels that are texts."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 6)).astype(np.float32)
    y = np.where(X[:, 0] + X[:, 1] * X[:, 3] > 0.1, "yes", "no")
    return RandomForestClassifier(40, max_depth=6, random_state=0).fit(X, y)


@pytest.fixture(scope="session")
def fast(trained):
    """A fitted early-exit classifier."""
    from sklearn.frozen import FrozenEstimator

    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 6)).astype(np.float32)
    return spinney.SequentialVotingClassifier(
        FrozenEstimator(trained), max_disagreement=0.02, random_state=0
    ).fit(X)


@pytest.fixture(scope="session")
def named(trained):
    """A fitted classifier that knows the names of its columns."""
    pd = pytest.importorskip("pandas")
    from sklearn.base import clone

    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(4000, 3)), columns=["age", "dose", "days"])
    y = (X["age"] + X["dose"] > 0.2).to_numpy().astype(int)
    model = clone(trained).fit(X[:1000], y[:1000])
    return spinney.accelerate(
        model, X[1000:], max_disagreement=0.02, method="sequential", random_state=0
    )
