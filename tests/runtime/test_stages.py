"""Stages behind one another are the stages themselves."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import numba
import numpy as np
import pytest

import reference
import strategies
from spinney.runtime import EarlyExitEngine, Engine, ExitRule, tree_costs
from spinney.runtime.engine import rows_per_block
from spinney.runtime.stage_kernels import Stage, join_stages, stage_of

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)


def stages_of(forest, steps, dtype):
    """The trees between the steps, each part laid out by itself."""
    stages = []
    for start, end in pairwise(steps):
        engine = Engine(forest.take(np.arange(start, end)))
        layout = engine.layout(dtype)
        block = rows_per_block(layout, np.empty(0, dtype=dtype))
        table = engine.table(layout, dtype)
        stages.append(Stage(layout.all_forms, block, table, engine.tree_output))
    return stages


def assert_same(found, expected):
    """Fail unless tuples of arrays and numbers are equal, field by field."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray):
        # The fields of nodes are views of the same words: compare the bits.
        assert found.tobytes() == expected.tobytes()
        assert found.dtype == expected.dtype
    else:
        assert found == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("task", ["sum score", "mean classes"])
def test_every_stage_is_found_again(dtype, task):
    forest = strategies.random_forest(
        4, n_trees=12, depth=6, n_features=9, task=task, input_dtype="float64"
    )
    stages = stages_of(forest, [0, 1, 4, 12], dtype)
    joined = join_stages(stages)
    for k, stage in enumerate(stages):
        assert_same(stage_of(joined, k), stage)


@pytest.mark.skipif(WITHOUT_JIT, reason="looks at what is compiled")
@pytest.mark.parametrize("n_features", [3, 20])
def test_no_part_of_a_stage_may_or_may_not_be_there(n_features):
    # What takes a part that may be None would be compiled a second time for it.
    forest = strategies.random_forest(
        4, n_trees=12, depth=6, n_features=n_features, task="sum score"
    )
    stage_of(join_stages(stages_of(forest, [0, 12], np.float32)), 0)
    for signature in stage_of.nopython_signatures:
        assert "Optional" not in str(signature.return_type)


@pytest.mark.parametrize("n_rows", [0, 1, 47, 48, 600 if WITHOUT_JIT else 1500])
@pytest.mark.parametrize("n_features", [3, 20])
@pytest.mark.parametrize("is_bitsliced", [True, False])
def test_rows_hear_the_trees_before_they_leave(n_rows, n_features, is_bitsliced):
    forest = strategies.random_forest(
        8, n_trees=20, depth=5, n_features=n_features, task="sum score"
    ).replace(base_added="first")
    X = strategies.random_rows(forest, n_rows, seed=1)
    values = forest.value[reference.leaves(forest, X), 0].astype(np.float64)
    sums = np.cumsum(
        np.column_stack([np.full(n_rows, forest.base_score[0]), values]), axis=1
    )[:, 1:]
    checks = np.array([1, 2, 7, 15])
    bounds = np.ones(4)
    if n_rows:
        bounds = np.quantile(np.abs(sums[:, checks - 1]), 0.7, axis=0)
    rule = ExitRule.between(np.arange(20), checks, -bounds, bounds)
    engine = EarlyExitEngine(forest.replace(decision_threshold=0.0), rule)
    with patch.object(tree_costs, "COST_LEVEL", 1e9 if is_bitsliced else 0.0):
        classes, counts = engine.evaluate(forest.engine.rows(X))
    for r in range(n_rows):
        expected = next(
            (
                (int(sums[r, step - 1] > 0), step)
                for step, bound in zip(checks, bounds, strict=True)
                if abs(sums[r, step - 1]) > bound
            ),
            (int(sums[r, -1] >= 0), 20),
        )
        assert (classes[r], counts[r]) == expected
    assert n_rows < 48 or len(np.unique(counts)) >= 4  # all ways are taken


@pytest.mark.parametrize("whole_is_bitsliced", [True, False])
def test_stages_are_compiled_as_other_rules_of_the_same_forest(whole_is_bitsliced):
    # Small stages are walked where the whole forest is bitsliced. Without a schedule
    # they would need kernels of their own, beside those for larger stages.
    forest = strategies.random_forest(8, n_trees=20, depth=5, task="sum score")
    rule = ExitRule.between(np.arange(20), [5], [-1.0], [1.0])
    engine = EarlyExitEngine(forest, rule)
    with patch.object(tree_costs, "COST_LEVEL", 1e9 if whole_is_bitsliced else 0.0):
        engine._scoring.engine.layout(np.float32)
    with patch.object(tree_costs, "COST_LEVEL", 0.0):
        schedule = engine._stages_for(np.float32).joined.forms.schedule
    assert (schedule is not None) == whole_is_bitsliced
