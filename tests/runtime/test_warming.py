"""After the uses of the engines nothing is left to be compiled while somebody waits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

TESTS = Path(__file__).parents[1]

# A fresh process, because other tests compile kernels too.
SCRIPT = """
import numpy as np
import strategies
from spinney.runtime.scoring import scoring_forest
from spinney.runtime import EarlyExitEngine, ExitRule, batch_kernels, building
from spinney.runtime import row_kernels
from spinney.runtime.warming import engine_uses

kernels_by_name = {
    name: one
    for module in (building, batch_kernels, row_kernels)
    for name, one in vars(module).items()
    if hasattr(one, "signatures")
}
assert kernels_by_name


def count():
    return {name: len(one.signatures) for name, one in kernels_by_name.items()}


def evaluate_early(forest, X):
    n_trees = forest.n_trees
    order = np.arange(n_trees)
    for voting in ("hard", "soft") if forest.votes_by_class else ("soft",):
        rule = ExitRule.between(order, [1], [-0.5], [0.5])
        if voting == "hard":
            rule = ExitRule.by_count(order, [1], np.full((1, n_trees + 1), -1))
        if scoring_forest(forest, voting).n_outputs > 1:
            rule = ExitRule.by_margin(order, [1], [0.5], voting)
        engine = EarlyExitEngine(forest, rule)
        rows = forest.engine.rows(X)
        engine.evaluate(rows)
        engine.evaluate(rows[:2])
        engine.evaluate_with_sums(rows)
        engine.predictor()(X[0])
        engine.probability_predictor(*[lambda *_: 0] * 3)(X[0])


for use in engine_uses().values():
    use()
before = count()
for case, kinds, form in {cases}:
    kinds.setdefault("n_node_samples", None)
    forest = strategies.random_forest(depth=9, **kinds)
    X = strategies.random_rows(forest, 70, dtype=kinds.get("input_dtype", "float32"))
    if form == "read-only":
        X.flags.writeable = False
    forest.predict(X)
    forest.leaves(X)
    forest.scores(X)
    forest.predictor()(X[0])
    if forest.classes is not None:
        evaluate_early(forest, X)
    after = count()
    for name in after:
        if after[name] != before[name] and not name.startswith("_"):
            print(case + ":", name)
    before = after
"""

CASES = [
    ("votes", {"task": "vote"}, ""),
    ("scores", {"task": "sum score"}, ""),
    ("single leaves", {"task": "sum score", "shape": "leaf"}, ""),
    ("one output per tree", {"task": "sum by class"}, ""),
    ("regression", {"task": "mean score", "classes": None}, ""),
    ("float64 rows", {"task": "sum score", "input_dtype": "float64"}, ""),
    ("float32 sums", {"task": "sum score", "sum_dtype": "float32"}, ""),
    ("zero is missing", {"zero_is_missing": True}, ""),
    ("training rows", {"n_node_samples": [5.0] * 95}, ""),
    ("categories", {"categories": "floor"}, ""),
    ("read-only rows", {"task": "vote"}, "read-only"),
]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_nothing_is_compiled_after_warming_up():
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{cases}", repr(CASES))],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout, done.stdout
