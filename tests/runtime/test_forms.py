"""Kernels for batches are compiled with those parts that the trees at hand need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import strategies
from spinney.runtime.engine import Engine
from spinney.runtime.warming import _small_forest, _walked

TESTS = Path(__file__).parents[1]

# A fresh process, because other tests compile kernels too.
SCRIPT = """
import numpy as np
from numba.core import event
from spinney.runtime.warming import _small_forest, _walked

names = set()


class Listener(event.Listener):
    def on_start(self, event):
        names.add(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


event.register("numba:compile", Listener())
_walked(_small_forest("float32", "float64")).predict(np.zeros((96, 2), np.float32))
print(*names)
"""


def test_trees_that_are_all_walked_have_no_schedule():
    small = _small_forest("float32", "float64")
    leaf = strategies.random_forest(1, n_trees=3, shape="leaf", task="sum score")
    for forest, is_walked in ((small, False), (_walked(small), True), (leaf, True)):
        layout = Engine(forest).layout(np.float32)
        assert (layout.forms.schedule is None) == is_walked
        assert layout.all_forms.schedule is not None


def test_kernels_for_large_trees_are_told_apart():
    small = _small_forest("float32", "float64")
    names = {Engine(forest).named("batches") for forest in (small, _walked(small))}
    assert len(names) == 2


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_no_bitslicing_is_compiled_for_trees_that_are_all_walked(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(map(str, [TESTS.parent / "src", TESTS])),
            "SPINNEY_CACHE_DIR": str(tmp_path),
            "SPINNEY_ENGINE": "compiled",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    names = set(done.stdout.split())
    assert {"add_trees", "walk_tree"} <= names
    assert not names & {"bitslice_tree", "compare_chains"}
