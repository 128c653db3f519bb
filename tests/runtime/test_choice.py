"""Which engine serves, and when that changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import spinney
import strategies
from spinney import InvalidArgumentError
from spinney.runtime import choice, compiler
from spinney.runtime.choice import (
    COMPILE_SECONDS,
    LOAD_SECONDS,
    Kernels,
    config,
    either,
    kernels_at_once,
    plain_serves,
)

SOME = Kernels("some kernels", "float32")
TESTS = Path(__file__).parents[1]

compiled_only = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="nothing is compiled"
)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has compiled nothing, with an empty folder for kernels."""
    monkeypatch.setattr(config, "_engine", "auto")
    monkeypatch.setattr(choice, "_spent", {})
    monkeypatch.setattr(choice, "_ready", set())
    monkeypatch.setattr(choice, "_broken", [])
    monkeypatch.setattr(compiler, "compiles", True)
    monkeypatch.setattr(choice, "folders_to_read", lambda: [tmp_path])
    monkeypatch.setattr(choice, "folder_to_write", lambda: tmp_path)
    monkeypatch.setattr(choice, "anything_is_lost", lambda: False)
    return tmp_path


def answered_by(kernels, seconds=0.0):
    return either(kernels, seconds, lambda: "kernels", lambda: "plain")


def test_little_work_is_not_worth_compiling(fresh):
    assert answered_by(SOME, 0.1) == "plain"
    assert answered_by(SOME, 0.1) == "plain"
    assert not list(fresh.iterdir())


def test_much_work_is_worth_compiling_and_so_is_all_that_follows(fresh):
    assert answered_by(SOME, COMPILE_SECONDS) == "kernels"
    assert answered_by(SOME, 0.1) == "kernels"
    assert answered_by(Kernels("other kernels", "float32"), 0.1) == "plain"


def test_little_work_again_and_again_is_worth_compiling(fresh, monkeypatch):
    clock = iter(np.arange(0.0, 100.0, COMPILE_SECONDS / 4))
    monkeypatch.setattr(choice.time, "perf_counter", lambda: next(clock))
    assert [answered_by(SOME) for _ in range(6)] == ["plain"] * 4 + ["kernels"] * 2


def test_kernels_that_another_process_has_kept_serve_soon(fresh, monkeypatch):
    assert answered_by(SOME, COMPILE_SECONDS) == "kernels"
    monkeypatch.setattr(choice, "_ready", set())  # a new process
    assert answered_by(SOME, 0.5 * LOAD_SECONDS) == "plain"
    assert answered_by(SOME, LOAD_SECONDS) == "kernels"
    assert answered_by(SOME) == "kernels"


def test_kernels_that_could_not_be_kept_are_not_said_to_be(fresh, monkeypatch):
    monkeypatch.setattr(choice, "anything_is_lost", lambda: True)
    assert answered_by(SOME, COMPILE_SECONDS) == "kernels"
    monkeypatch.setattr(choice, "_ready", set())  # a new process
    assert answered_by(SOME, LOAD_SECONDS) == "plain"


@pytest.mark.parametrize("below", [None, "not/there"])
def test_what_cannot_be_noted_serves_all_the_same(fresh, monkeypatch, below):
    folder = None if below is None else fresh / below
    monkeypatch.setattr(choice, "folder_to_write", lambda: folder)
    assert answered_by(SOME, COMPILE_SECONDS) == "kernels"
    assert answered_by(SOME) == "kernels"


def test_before_times_are_taken_kernels_are_compiled(fresh):
    with kernels_at_once():
        assert answered_by(SOME) == "kernels"


def test_users_may_insist(fresh):
    config.engine = "compiled"
    assert answered_by(SOME) == "kernels"
    config.engine = "plain"
    assert answered_by(SOME, 1e9) == "plain"
    with kernels_at_once():
        assert answered_by(SOME) == "plain"
    assert "plain" in repr(config)


def test_what_the_plain_engine_calls_is_not_compiled_either(fresh):
    def plain():
        return answered_by(Kernels("other kernels", "float32"), 1e9)

    assert either(SOME, 0.0, lambda: "kernels", plain) == "plain"


def test_without_a_compiler_the_plain_engine_serves(fresh, monkeypatch):
    monkeypatch.setattr(compiler, "compiles", False)
    assert answered_by(SOME, 1e9) == "plain"
    with kernels_at_once():
        assert answered_by(SOME) == "plain"


@compiled_only
def test_when_the_compiler_fails_the_plain_engine_serves(fresh):
    @numba.njit
    def impossible(x):
        return x.no_such_attribute

    def answer():
        return either(SOME, 1e9, lambda: impossible(1), lambda: "plain")

    assert answer() == "plain"
    assert plain_serves(Kernels("other kernels", "float64"), 1e9)
    config.engine = "compiled"
    with pytest.raises(numba.TypingError):
        answer()


@compiled_only
def test_a_predictor_whose_kernel_cannot_be_compiled_answers_all_the_same(fresh):
    @numba.njit
    def impossible(row, *arguments):
        return row.no_such_attribute

    forest = strategies.random_forest(2, n_trees=5, task="vote")
    rows = strategies.random_rows(forest, 3, dtype=np.float32)
    predictor = forest.predictor()
    predictor._kernel = impossible
    choice._spent[predictor._kernels] = COMPILE_SECONDS
    assert [predictor(row) for row in rows] == list(forest.predict(rows))


def test_errors_of_ours_are_not_taken_for_those_of_the_compiler(fresh):
    def fail():
        msg = "a bug"
        raise KeyError(msg)

    with pytest.raises(KeyError, match="a bug"):
        either(SOME, 1e9, fail, lambda: "plain")
    assert not plain_serves(SOME, 1e9)


@pytest.mark.parametrize("engine", ["", "numba", None])
def test_only_engines_that_there_are_can_be_insisted_on(fresh, engine):
    with pytest.raises(InvalidArgumentError, match="auto, compiled, plain"):
        spinney.config.engine = engine
    assert spinney.config.engine == "auto"


def test_the_environment_is_read_once_and_checked(fresh, monkeypatch):
    monkeypatch.setattr(config, "_engine", None)
    monkeypatch.setenv("SPINNEY_ENGINE", "fast")
    with pytest.raises(InvalidArgumentError, match="SPINNEY_ENGINE"):
        plain_serves(SOME)
    monkeypatch.setenv("SPINNEY_ENGINE", "plain")
    assert plain_serves(SOME, 1e9)


def test_a_predictor_goes_over_to_kernels(fresh, monkeypatch):
    forest = strategies.random_forest(2, n_trees=5, task="vote")
    rows = strategies.random_rows(forest, 6, dtype=np.float32)
    expected = forest.predict(rows)
    predictor = forest.predictor()
    for k, row in enumerate(rows):
        assert predictor(row) == expected[k]
        assert bool(predictor._arguments) == (k >= 3)
        if k == 2:
            choice._spent[predictor._kernels] = COMPILE_SECONDS


COLD = """
import sys, time
import numpy as np
import strategies
from spinney.runtime import batch_kernels, building

forest = strategies.random_forest(2, n_trees=50, depth=40)
X = strategies.random_rows(forest, 1000)
forest.predict(X)
forest.predict(X[:3])
forest.votes(X)
forest.predictor()(X[0])
kernels = [one for module in (batch_kernels, building)
           for one in vars(module).values() if hasattr(one, "signatures")]
assert kernels and not any(one.signatures for one in kernels)
"""


@compiled_only
def test_a_first_answer_compiles_nothing(tmp_path):
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "SPINNEY_CACHE_DIR": str(tmp_path)}
    del environment["SPINNEY_ENGINE"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", COLD],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
