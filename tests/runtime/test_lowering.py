"""Kernels that call kernels: optimised once, and as right as in Numba's public way."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import contextmanager

import numba
import numpy as np
import pytest

from spinney.runtime import lowering
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.kernel_folders import folder_to_write, folders_to_read
from spinney.runtime.kernel_sources import PACKAGE

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="nothing is compiled"
)

WEIGHTS = np.array([1.0, 10.0, 100.0])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder for compiled code that only this test uses."""
    monkeypatch.setenv("SPINNEY_CACHE_DIR", str(tmp_path))
    folders_to_read.cache_clear()
    folder_to_write.cache_clear()
    yield folder_to_write()
    folders_to_read.cache_clear()
    folder_to_write.cache_clear()


def fresh_kernels():
    """Return kernels of which one calls the next, as a new process has them."""

    @kernel
    def weight(k):
        if k >= WEIGHTS.shape[0]:
            raise IndexError
        return WEIGHTS[k]

    @kernel
    def weighted(values):
        total = np.zeros(2)
        for k in range(values.shape[0]):
            total[k % 2] += weight(k) * values[k]
        return total

    @kernel
    def difference(values):
        total = weighted(values)
        return total[1] - total[0]

    return weight, weighted, difference


VALUES = np.array([3.0, 5.0, 7.0])


def test_only_the_kernel_that_python_calls_is_compiled_and_kept(folder):
    weight, weighted, difference = fresh_kernels()
    assert difference(VALUES) == 50 - 703
    assert not weight.signatures
    assert not weighted.signatures
    (path,) = folder.iterdir()
    assert "difference" in path.name


def test_a_kernel_inside_another_can_be_called_from_python_too(folder):
    weight, weighted, difference = fresh_kernels()
    difference(VALUES)
    assert weighted(VALUES).tolist() == [703, 50]
    assert weight(2) == 100
    assert len(list(folder.iterdir())) == 3


def test_the_other_way_round(folder):
    weight, weighted, difference = fresh_kernels()
    assert weight(2) == 100
    assert weighted(VALUES).tolist() == [703, 50]
    assert difference(VALUES) == 50 - 703


def test_each_numba_that_is_admitted_has_the_parts_that_are_relied_on(monkeypatch):
    _, _, difference = fresh_kernels()
    usual, public = lowering._Compiler.compile_extra, []

    def noted(compiler, function):
        if function is difference.py_func and type(compiler) is lowering._Compiler:
            public.append(function)
        return usual(compiler, function)

    monkeypatch.setattr(lowering._Compiler, "compile_extra", noted)
    assert difference(VALUES) == 50 - 703
    assert not public


@pytest.mark.parametrize("is_on", [True, False])
def test_no_garbage_is_collected_while_a_kernel_is_compiled(monkeypatch, is_on):
    _, _, difference = fresh_kernels()
    usual, compiling, collected = lowering._linking_only, [], []

    @contextmanager
    def noted(codegen):
        compiling.append(codegen)
        with usual(codegen):
            yield
        compiling.clear()

    def note(phase, info):
        collected.extend(compiling)

    monkeypatch.setattr(lowering, "_linking_only", noted)
    was_on, thresholds = gc.isenabled(), gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(100, 10, 10)
    (gc.enable if is_on else gc.disable)()
    try:
        assert difference(VALUES) == 50 - 703
        assert gc.isenabled() is is_on
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
        (gc.enable if was_on else gc.disable)()
    assert not collected


NESTED = """
import numpy as np
from spinney.runtime.kernel_cache import kernel

@kernel
def limit(k, most):
    if k >= most:
        raise IndexError("no such weight", k)
    return k

@kernel
def count(values):
    return limit(values.shape[0], 3)

def use():
    assert count(np.ones(2)) == 2
    try:
        count(np.ones(4))
    except IndexError as error:
        print(*error.args, sum(count.stats.cache_hits.values()))
"""


def test_errors_inside_reach_python_when_compiled_and_when_loaded(tmp_path):
    (tmp_path / "nested.py").write_text(NESTED)
    for n_loaded in (0, 1):
        done = run("import nested; nested.use()", tmp_path)
        assert done.stdout == f"no such weight 4 {n_loaded}\n", done.stderr


def run(code, folder):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_functions_of_users_may_call_kernels():
    _, weighted, difference = fresh_kernels()

    @numba.njit
    def of_the_user(values):
        return difference(values) + weighted(values)[0]

    assert of_the_user(VALUES) == 50
    assert difference(VALUES) == 50 - 703


def test_types_that_do_not_fit_are_told_as_numba_does():
    _, _, difference = fresh_kernels()
    with pytest.raises(numba.TypingError):
        difference("text")
    assert difference(VALUES) == 50 - 703


def usual_library():
    return numba.core.registry.cpu_target.target_context.codegen()._library_class


def fail(*arguments):
    msg = "a Numba that differs"
    raise AttributeError(msg)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (lowering, "_linking_only"),
        (lowering, "_set_environments"),
        (lowering, "_check_numba"),
        (lowering.LinkedLibrary, "__init__"),
    ],
)
def test_with_a_numba_that_differs_kernels_are_compiled_in_its_public_way(
    owner, name, monkeypatch
):
    # New types, for which Numba has lowered nothing before.
    dtype = np.dtype([("x", np.int32), (name.strip("_"), np.int8)])
    monkeypatch.setattr(owner, name, fail)

    @kernel
    def double(record):
        return 2 * record.x

    @kernel
    def first(records):
        return double(records[0]) + np.full(3, 1.5).sum()

    usual = usual_library()
    assert first(np.array([(4, 1)], dtype=dtype)) == 12.5
    assert usual_library() is usual
    monkeypatch.undo()
    assert double(np.array([(4, 1)], dtype=dtype)[0]) == 8


def test_without_the_parts_of_numba_that_are_needed_nothing_changes(monkeypatch):
    monkeypatch.setattr(lowering, "is_known", False)
    weight, weighted, difference = fresh_kernels()
    assert difference(VALUES) == 50 - 703
    # In Numba's public way, what a kernel calls is compiled by itself, too.
    assert weighted.signatures
    assert weight.signatures


def test_kernels_answer_in_a_process_where_nothing_is_lowered_as_expected(tmp_path):
    code = """
import numpy as np
from spinney.runtime import lowering
del lowering.LinkedLibrary.get_pointer_to_function
del lowering.LinkedLibrary._finalize_final_module
from spinney.ordering.exit_kernels import count_below
assert count_below(np.array([1.0, 2.0, 3.0]), 2.5) == 2
print("answered")
"""
    done = run(code, tmp_path)
    assert done.stdout == "answered\n", done.stderr
