"""Kernels for batches are compiled with those parts that the trees at hand need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from spinney.runtime.engine import Engine
from spinney.runtime.warming import LARGE, SMALL, example_forest

TESTS = Path(__file__).parents[1]

# A fresh process, because other tests compile kernels too.
SCRIPT = """
import numpy as np
from numba.core import event
from spinney.runtime.warming import LARGE, SMALL, example_forest

names = set()


class Listener(event.Listener):
    def on_start(self, event):
        names.add(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


event.register("numba:compile", Listener())
example_forest(sizes={sizes}).predict(np.zeros((96, 2), np.float32))
print(*names)
"""


@pytest.mark.parametrize("has_categories", [False, True])
@pytest.mark.parametrize(
    ("sizes", "walks", "bitslices"),
    [
        (SMALL, False, True),
        (LARGE, True, False),
        ((*SMALL, *LARGE), True, True),
        ((0, 0), True, False),
    ],
)
def test_only_parts_that_trees_need_are_there(sizes, walks, bitslices, has_categories):
    if sizes == (0, 0) and has_categories:
        pytest.skip("leaves look nothing up")
    forest = example_forest(sizes=sizes, has_categories=has_categories)
    layout = Engine(forest).layout(np.float32)
    assert (layout.forms.walk is not None) == walks
    assert (layout.forms.schedule is not None) == bitslices
    is_kept = has_categories or (walks and bitslices)
    assert (layout.forms.categories is not None) == is_kept
    assert layout.walked_forms.walk is layout.walk
    assert layout.walked_forms.schedule is None
    assert (layout.walked_forms.categories is not None) == has_categories
    assert all(part is not None for part in layout.all_forms)


def test_kernels_of_each_kind_are_told_apart():
    engines = [
        Engine(example_forest(sizes=sizes, has_categories=has_categories))
        for sizes in (SMALL, LARGE, (*SMALL, *LARGE))
        for has_categories in (False, True)
    ]
    kinds = {
        tuple(part is None for part in engine.layout(np.float32).forms)
        for engine in engines
    }
    names = {engine.named_by_kind("batches") for engine in engines}
    assert len(names) == len(kinds) == 5
    assert len({engine.named("early exit batches") for engine in engines}) == 2


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize(
    ("sizes", "needed", "others"),
    [
        (LARGE, {"walk_tree"}, {"bitslice_tree", "compare_chains", "walk_special"}),
        (SMALL, {"bitslice_tree"}, {"walk_tree", "load_rows", "find_codes_of"}),
    ],
)
def test_nothing_is_compiled_that_trees_do_not_need(sizes, needed, others, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{sizes}", repr(sizes))],
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
    assert names >= {"add_trees", *needed}
    # The layout is made without a compiler.
    assert not names & {*others, "distinct_rows", "arrange_nodes", "list_splits"}
