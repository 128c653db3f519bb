"""Kernels for single rows keep Python's global lock, unless their work is long."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

import spinney
from spinney.runtime import EarlyExitEngine, ExitRule
from spinney.runtime.compiler import compiles
from spinney.runtime.global_lock import MOST_TREES, give_back, take_again
from spinney.runtime.kernel_cache import kernel
from strategies import random_forest


@kernel(keeps_lock=True)
def _work(n, is_long):
    """Take about `n` times ten nanoseconds."""
    lock = give_back(is_long)
    x = 0.5
    for _ in range(n):
        x = 3.9 * x * (1.0 - x)
    take_again(lock)
    return x


@pytest.mark.skipif(not compiles, reason="plain Python does not give the lock back")
@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock"
)
@pytest.mark.parametrize("is_long", [False, True])
def test_other_threads_run_during_long_work_only(is_long):
    _work(1, is_long)
    count, is_done = [0], threading.Event()

    def other():
        while not is_done.is_set():
            count[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=other)
    interval = sys.getswitchinterval()
    thread.start()
    try:
        while count[0] == 0:
            time.sleep(0.001)
        sys.setswitchinterval(60.0)  # nobody is made to give the lock back
        before = count[0]
        _work(10_000_000, is_long)
        after = count[0]
    finally:
        sys.setswitchinterval(interval)
        is_done.set()
        thread.join()
    assert (after > before) == is_long


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(spinney.config, "_engine", "compiled")


def rule_for(forest):
    order = np.arange(forest.n_trees)
    if forest.tree_output is None:
        return ExitRule.between(order, [900], [-1e9], [0.0])
    return ExitRule.dropping(order, [900], np.ones((1, 3, 3)), forest.tree_output)


@pytest.mark.skipif(not compiles, reason="takes minutes as plain Python")
@pytest.mark.parametrize("task", ["mean score", "sum by class"])
def test_many_trees_predict_a_single_row_as_in_a_batch(compiled, task):
    n_trees = MOST_TREES + 1
    forest = random_forest(0, n_trees=n_trees, shape="stump", task=task)
    X = np.random.default_rng(1).normal(size=(60, forest.n_features))
    X = X.astype(np.float32)
    X[::7, 0] = np.nan
    expected, proba = forest.predict(X), forest.predict_proba(X)
    early = EarlyExitEngine(forest, rule_for(forest))
    exits, n_evaluated = early.evaluate(forest.engine.rows(X))
    predictors = forest.predictor(), forest.predictor("proba"), early.predictor()
    for i in range(5):
        one, probabilities, exiting = (predict(X[i]) for predict in predictors)
        assert one == expected[i]
        assert np.array_equal(probabilities, proba[i])
        assert np.array_equal(forest.predict_proba(X[i : i + 1])[0], proba[i])
        assert exiting == forest.classes_[exits[i]]
    assert np.array_equal(forest.predict_proba(X[:9]), proba[:9])
    assert set(n_evaluated) <= {900, n_trees}
