"""Rows in slices, threads that stop, and processes that are forked at a bad moment."""

from __future__ import annotations

import os
import signal
import threading
import time

import numba
import numpy as np
import pytest
from llvmlite.binding import ffi
from numba.core.compiler_lock import global_compiler_lock
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney
from spinney.runtime import sharing
from spinney.runtime.sharing import in_slices, in_threads

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="plain Python hears of Ctrl-C at any time"
)


@pytest.mark.parametrize("n_rows", [0, 1, 511, 512, 513, 5000, 40_000])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_trees", [1, 500, 10**6])
def test_slices_cover_every_row_once(n_rows, n_threads, n_trees):
    counts = np.zeros(n_rows, dtype=int)

    def evaluate(start, end):
        counts[start:end] += 1

    in_threads(in_slices(evaluate, n_trees), n_rows, n_threads)
    assert (counts == 1).all()


def test_slices_take_about_as_long_as_they_should():
    seconds = []

    def evaluate(start, end):
        time.sleep((end - start) * 10e-6)
        seconds.append((end - start) * 10e-6)

    # A guess that is far too low: ten microseconds a row, from one tree.
    in_slices(evaluate, n_trees=500)(0, 60_000)
    assert max(seconds[1:]) <= 1.6 * sharing.SLICE_SECONDS
    assert np.median(seconds) >= 0.3 * sharing.SLICE_SECONDS


def test_all_threads_stop_if_one_fails():
    done = []

    def evaluate(start, end):
        if start == 0:
            raise KeyboardInterrupt
        time.sleep(0.01)
        done.append(end - start)

    with pytest.raises(KeyboardInterrupt):
        in_threads(in_slices(evaluate, 10**6), 512 * 400, 2)
    assert len(done) < 50


@pytest.mark.slow
def test_an_interrupt_is_heard_within_a_second():
    X, y = make_classification(3000, 20, n_informative=15, flip_y=0.3, random_state=0)
    model = RandomForestClassifier(200, random_state=0).fit(X, y)
    forest = spinney.read_model(model)
    forest.predict(X)
    rows = np.repeat(X, 400, axis=0).astype(np.float32)
    began = time.perf_counter()
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    def predict_for_ever():
        while True:
            forest.predict(rows)

    with pytest.raises(KeyboardInterrupt):
        predict_for_ever()
    assert time.perf_counter() - began < 3.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_process_forked_while_locks_are_held_still_answers():
    X, y = make_classification(400, random_state=0)
    model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    forest = spinney.read_model(model)
    fast = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.1, random_state=0
    ).fit(X)
    expected = model.predict(X)
    in_threads(lambda start, end: None, 1024, 2)  # threads that a fork leaves behind
    held, release = threading.Event(), threading.Event()
    locks = [forest._engine_lock, forest.engine._lock, fast._engine._lock]
    locks += [fast.forest_._engine_lock, fast.forest_.engine._lock]
    locks += [global_compiler_lock, ffi.lib._lock]

    def hold():
        for lock in locks:
            lock.__enter__()
        held.set()
        release.wait()
        for lock in reversed(locks):
            lock.__exit__(None, None, None)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        same = (forest.predict(X, n_jobs=2) == expected).all()
        fast.predict(X)
        os._exit(0 if same else 1)
    release.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
