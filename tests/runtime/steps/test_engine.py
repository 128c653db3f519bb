"""The step engine against the slow twin: any state, any kind of node, any row."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from runtime.steps.steps_reference import classifiers, node_after, random_order
from spinney.runtime import tree_costs
from spinney.runtime.steps import bitslices
from spinney.runtime.steps import engine as engine_module
from spinney.runtime.steps.engine import StepEngine
from strategies import random_forest, random_rows

SLOW = bool(numba.config.DISABLE_JIT)


def expected_sums(engine, X, n_steps):
    """Sums after some steps, by the slow twin."""
    forest = engine.forest
    levels = np.bincount(engine.order[:n_steps], minlength=forest.n_trees)
    values = engine.class_sums.by_class()
    return np.array(
        [
            engine.class_sums.base
            + sum(
                values[node_after(forest, tree, row, int(levels[tree]))]
                for tree in range(forest.n_trees)
            )
            for row in reference.rounded_rows(forest, X)
        ]
    ).reshape(len(X), engine.class_sums.n_classes)


@given(classifiers, st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=10 if SLOW else 150)
def test_sums_after_any_step_are_those_of_the_nodes_reached(forest, seed, dtype):
    rng = np.random.default_rng(seed)
    engine = StepEngine(forest, random_order(forest, seed))
    n_rows = int(rng.choice([0, 1, 7, 8, 9, 20]))
    X = random_rows(forest, n_rows, seed=seed, dtype=dtype)
    rows = forest.engine.rows(X)
    for n_steps in {0, int(rng.integers(engine.n_steps + 1)), engine.n_steps}:
        found = engine.sums_after(rows, n_steps, None)
        assert found.tolist() == expected_sums(engine, X, n_steps).tolist()


@given(classifiers, st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=10 if SLOW else 150)
def test_after_all_steps_the_answer_is_that_of_the_forest(forest, seed, dtype):
    engine = StepEngine(forest, random_order(forest, seed))
    X = random_rows(forest, 30, seed=seed, dtype=dtype)
    rows = forest.engine.rows(X)
    winner = engine.winners_after(rows, engine.n_steps, None)
    assert forest.classes[winner].tolist() == forest.predict(X).tolist()
    assert (engine.forest_winners(rows) == winner).all()


@given(classifiers, st.integers(0, 10_000))
@settings(max_examples=10 if SLOW else 100)
def test_stopping_and_going_on_changes_nothing(forest, seed):
    rng = np.random.default_rng(seed)
    engine = StepEngine(forest, random_order(forest, seed))
    rows = forest.engine.rows(random_rows(forest, 11, seed=seed))
    block = engine.block(rows, 0, len(rows))
    one = engine.block(rows, 3, 4)
    row, sums = one.rows[0], one.sums[0]
    position = np.zeros(forest.n_trees, dtype=np.uint32)
    while block.n_steps < engine.n_steps:
        first = block.n_steps
        n_taken = int(rng.integers(1, 1 + engine.n_steps - first))
        engine.advance(block, first + n_taken)
        engine.advance_row(row, first, first + n_taken, position, sums)
        once = engine.sums_after(rows, block.n_steps, None)
        assert block.sums.tolist() == once.tolist()
        assert sums.tolist() == once[3].tolist()
        at_leaves = engine.is_at_leaves(block, np.array([3]))[0]
        assert engine.is_row_at_leaves(row, position) == at_leaves


@contextmanager
def bitslicing_all(at_once):
    """Bitslice all small trees, either at their first step or later than the first."""
    with (
        patch.object(tree_costs, "COST_LEVEL", 1e9),
        patch.object(bitslices, "COST_LEVEL", 1e9 if at_once else 0.5),
    ):
        yield


@given(classifiers, st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=15 if SLOW else 60)
def test_trees_may_be_bitsliced_instead_of_walked(forest, seed, dtype):
    rng = np.random.default_rng(seed)
    engine = StepEngine(forest, random_order(forest, seed))
    X = random_rows(forest, int(rng.choice([48, 70])), seed=seed, dtype=dtype)
    X = X[rng.integers(len(X), size=int(rng.choice([len(X), 520])))]
    with bitslicing_all(at_once=bool(rng.integers(2))):
        forest.engine._layouts.clear()
        rows = forest.engine.rows(X)
        block = engine.block(rows, 0, len(rows))
        assert (block.columns is not None) == (engine.n_steps > 0)
        while block.n_steps < engine.n_steps:
            n_taken = int(rng.integers(1, 1 + engine.n_steps - block.n_steps))
            engine.advance(block, block.n_steps + n_taken)
            some = rng.integers(len(X), size=5)
            expected = expected_sums(engine, X[some], block.n_steps)
            assert block.sums[some].tolist() == expected.tolist()
            walked = walked_to(engine, rows, block.n_steps)
            assert (block.sums == walked.sums).all()
            everyone = np.arange(len(rows))
            at_leaves = engine.is_at_leaves(block, everyone)
            assert (at_leaves == engine.is_at_leaves(walked, everyone)).all()
        winner = engine.winners_after(rows, engine.n_steps, None)
    assert forest.classes[winner].tolist() == forest.predict(X).tolist()


def walked_to(engine, rows, n_steps):
    """Rows after some steps, no tree bitsliced."""
    memory = engine.memory(len(rows), rows.dtype, can_bitslice=False)
    block = engine.block(rows, 0, len(rows), memory)
    engine.advance(block, n_steps)
    assert not block.is_bitsliced.any()
    return block


@pytest.mark.parametrize(("depth", "n_outputs"), [(6, 2), (6, 3), (300, 3), (900, 3)])
def test_trees_of_all_sizes_are_bitsliced(depth, n_outputs):
    # With more than 256 leaves a code takes two bytes; two sums are added apart.
    forest = random_forest(
        3, n_trees=3, depth=depth, task="mean classes", n_outputs=n_outputs
    )
    engine = StepEngine(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 600))
    with bitslicing_all(at_once=True):
        for n_steps in (engine.n_steps // 3, engine.n_steps - 1, engine.n_steps):
            block = engine.block(rows, 0, len(rows))
            engine.advance(block, n_steps)
            assert block.is_bitsliced[block.levels > 0].all()
            assert (block.sums == walked_to(engine, rows, n_steps).sums).all()


def test_tree_is_walked_until_bitslicing_would_have_been_as_cheap():
    forest = random_forest(2, n_trees=4, depth=6, shape="balanced", task="vote")
    order = np.tile(np.arange(4), 6)  # level by level
    engine = StepEngine(forest, order)
    with patch.object(tree_costs, "COST_LEVEL", 1e9):
        made = engine.bitsliced(np.float32)
    cost = made.costs + made.shared_costs
    rows = forest.engine.rows(random_rows(forest, 512, dtype=np.float32))
    with patch.object(bitslices, "COST_LEVEL", float(cost.max()) / 3.0):
        block = engine.block(rows, 0, 512)
        for level in range(1, 7):
            engine.advance(block, 4 * level)
            assert block.is_bitsliced.all() == (level >= 3)
        # Of few rows most of a vector would be wasted.
        few = engine.block(rows, 0, 64)
        engine.advance(few, 20)
        assert not few.is_bitsliced.any()
        # Together they share questions, and all levels at once are worth it.
        block = engine.block(rows, 0, 512)
        engine.advance(block, 12)
        assert block.is_bitsliced.all()


def test_large_trees_and_many_rows_go_through_several_blocks(monkeypatch):
    forest = random_forest(4, n_trees=3, depth=40, shape="chain", task="mean classes")
    engine = StepEngine(forest, random_order(forest))
    X = random_rows(forest, 300)
    rows = forest.engine.rows(X)
    whole = engine.winners_after(rows, 60, None).tolist()
    for name in ("BLOCK_ROWS", "BLOCK_ROWS_OF_BITSLICES"):
        monkeypatch.setattr(engine_module, name, 37)
    assert engine.block_rows == 37
    assert engine.winners_after(rows, 60, None).tolist() == whole
    expected = expected_sums(engine, X, 60).argmax(axis=1)
    assert whole == expected.tolist()
    monkeypatch.setattr(engine_module, "LARGE_TREE", 10)
    assert engine.block_rows == engine_module.BLOCK_ROWS_OF_LARGE_TREES


def test_threads_do_not_change_answers():
    forest = random_forest(5, n_trees=6, task="mean classes", shape="balanced", depth=4)
    engine = StepEngine(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 700))
    for n_steps in (0, 5, 24):
        alone = engine.winners_after(rows, n_steps, None)
        assert (engine.winners_after(rows, n_steps, 2) == alone).all()
        sums = engine.sums_after(rows, n_steps, None)
        assert (engine.sums_after(rows, n_steps, 2) == sums).all()


def test_rows_too_wide_for_32_bits_are_stepped_as_well():
    forest = random_forest(6, n_trees=2, depth=3, task="vote", n_features=3)
    engine = StepEngine(forest, random_order(forest))
    X = random_rows(forest, 20)
    expected = engine.winners_after(forest.engine.rows(X), 3, None)
    forest.engine.is_narrow = False
    wide = StepEngine(forest, engine.order)
    rows = forest.engine.rows(X)
    assert rows.dtype == np.float64
    assert (wide.winners_after(rows, 3, None) == expected).all()


def test_forest_of_single_leaves_has_no_steps():
    forest = random_forest(11, n_trees=3, shape="leaf", task="mean classes")
    engine = StepEngine(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 4))
    assert engine.n_steps == 0
    winner = engine.winners_after(rows, 0, None)
    assert (forest.classes[winner] == forest.predict(rows)).all()
