"""Sets of rows: chains of conditions, runs of operations, leaves by their codes."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import patch

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import strategies
from spinney.runtime import Engine, bitslicing, tree_costs
from spinney.runtime.conditions import MISSING_LEFT
from spinney.runtime.runs import FINISH, KEEP, MARK, SPLIT

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)
N_ROWS = 50 if WITHOUT_JIT else 131


@contextmanager
def always_bitsliced(chains=True, listed=False):
    """Bitslice all small trees; put all conditions into chains or none."""
    with (
        patch.object(tree_costs, "COST_LEVEL", 1e9),
        patch.object(tree_costs, "COST_CHAIN", -1e9 if chains else 1e9),
        patch.object(bitslicing, "MAX_SPARSE_BYTES", 0 if listed else 1 << 40),
    ):
        yield


def assert_agrees(forest, X, **how):
    """Fail unless leaves and sums are those of the reference, to the last bit."""
    with always_bitsliced(**how):
        engine = Engine(forest)
        assert np.array_equal(
            engine.leaves(engine.rows(X)), reference.leaves(forest, X)
        )
        raw = engine.raw(engine.rows(X))
    assert raw.tobytes() == reference.raw(forest, X).tobytes()


@given(
    forest=strategies.forests(),
    seed=st.integers(0, 2**32 - 1),
    chains=st.booleans(),
    listed=st.booleans(),
)
def test_any_forest_agrees_with_the_reference_however_it_is_bitsliced(
    forest, seed, chains, listed
):
    X = strategies.random_rows(forest, N_ROWS, seed=seed)
    assert_agrees(forest, X, chains=chains, listed=listed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_thresholds", [1, 2, 3, 7, 8, 9, 200])
def test_chains_know_ties_infinity_and_nan(dtype, n_thresholds):
    rng = np.random.default_rng(n_thresholds)
    forest = strategies.random_forest(
        n_thresholds, n_trees=12, n_features=2, depth=30, input_dtype=dtype
    )
    thresholds = np.sort(rng.normal(size=n_thresholds)).astype(np.float32)
    thresholds[:: max(1, n_thresholds // 3)] = [-np.inf, np.inf, -0.0, 0.0][
        n_thresholds % 4
    ]
    forest = forest.replace(
        threshold=rng.choice(thresholds, size=forest.n_nodes).astype(np.float64),
        missing_left=rng.random(forest.n_nodes) < 0.5,
    )
    # Values at, just below and just above the thresholds.
    values = np.concatenate(
        [
            thresholds,
            np.nextafter(thresholds, np.float32(-np.inf)),
            np.nextafter(thresholds, np.float32(np.inf)),
            np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype=np.float32),
        ]
    )
    X = rng.choice(values, size=(N_ROWS, 2)).astype(dtype)
    assert_agrees(forest, X)
    with always_bitsliced():
        layout = Engine(forest).layout(X.dtype.type)
    assert len(layout.schedule.chain_column) == len(layout.columns)


@pytest.mark.skipif(WITHOUT_JIT, reason="takes minutes in plain Python")
def test_more_leaves_than_two_bytes_can_count_agree():
    forest = strategies.random_forest(
        3, n_trees=70, n_features=4, depth=999, task="mean classes"
    )
    assert np.sum(forest.left < 0) > 2**16
    X = strategies.random_rows(forest, 100)
    for listed in (False, True):
        assert_agrees(forest, X, listed=listed)


def test_costs_decide_what_is_chained():
    forest = strategies.random_forest(5, n_trees=30, n_features=3, depth=40)
    few = forest.replace(threshold=np.round(forest.threshold))
    with patch.object(tree_costs, "COST_LEVEL", 1e9):
        many = Engine(forest).layout(np.float32).schedule
        assert len(many.chain_column) == 3
        assert len(Engine(few).layout(np.float32).schedule.chain_column) == 0
    for chain, column in enumerate(many.chain_column):
        part = slice(*many.chain_offsets[chain : chain + 2])
        assert (many.condition_column[part] == column).all()
        thresholds = many.condition_threshold[part]
        assert (thresholds[:-1] <= thresholds[1:]).all()


# ------------------------------------------------------------------ operations


def carried_out(schedule, tree, outcomes):
    """Carry out the operations of one tree for one row, slowly and plainly.

    Returns the code of the row. Sets are 0 or 1; a set that was never written has no
    entry, so to read it is an error.
    """
    sets, code = {0: 1}, 0
    begin, end = schedule.run_offsets[tree : tree + 2]
    for run in range(begin, end):
        start = schedule.run_end[run - 1] if run > 0 else 0
        for operation in schedule.operations[start : schedule.run_end[run]].tolist():
            condition, left, right, plane, slot, last = operation
            here = sets[slot]
            moved = here & outcomes[condition]
            code ^= moved << plane
            kind = schedule.run_kind[run]
            if kind == FINISH:
                stayed = here ^ moved
                below = (stayed & outcomes[left]) | (moved & outcomes[right])
                code ^= below << last
            elif kind == KEEP:
                sets[slot] = here ^ moved if last else moved
            elif kind == SPLIT:
                sets[last], sets[slot] = moved, here ^ moved
            else:
                assert kind == MARK
    return code


def outcomes_of(schedule, row):
    """Return the outcome of one row in every slot; nobody has a bit in the last."""
    outcomes = [0] * (len(schedule.condition_slot) + 1)
    for q, slot in enumerate(schedule.condition_slot):
        x = row[schedule.condition_column[q]]
        goes_right = x > schedule.condition_threshold[q]
        if np.isnan(x):
            goes_right = schedule.condition_kind[q] != MISSING_LEFT
        outcomes[slot] = int(goes_right)
    return outcomes


@pytest.mark.parametrize("shape", ["grown", "chain", "balanced"])
@pytest.mark.parametrize("depth", [1, 2, 3, 6, 9])
def test_operations_lead_every_row_to_its_leaf(shape, depth):
    forest = strategies.random_forest(depth, n_trees=5, shape=shape, depth=depth)
    X = strategies.random_rows(forest, 40, dtype="float32")
    with always_bitsliced():
        layout = Engine(forest).layout(np.float32, share_leaves=False)
    bitsliced, schedule = layout.bitsliced, layout.schedule
    expected = reference.leaves(forest, X)
    for row, leaves in zip(X[:, layout.columns], expected, strict=True):
        outcomes = outcomes_of(schedule, row)
        for tree in range(forest.n_trees):
            code = carried_out(schedule, tree, outcomes)
            leaf = layout.value_node[bitsliced.first_value[tree] + code]
            assert leaf == leaves[tree]


def test_a_tree_has_few_runs_and_what_can_wait_comes_last():
    forest = strategies.random_forest(1, n_trees=8, shape="balanced", depth=7)
    with always_bitsliced():
        schedule = Engine(forest).layout(np.float32).schedule
    # 31 nodes are split, those below are finished with their children.
    for tree in range(forest.n_trees):
        part = slice(*schedule.run_offsets[tree : tree + 2])
        assert schedule.run_kind[part].tolist() == [SPLIT, FINISH]
    sizes = np.diff(schedule.run_end, prepend=0)
    assert sizes.tolist() == [31, 32] * 8


def test_slots_follow_the_order_of_their_first_use():
    forest = strategies.random_forest(2, n_trees=6, depth=30)
    with always_bitsliced():
        schedule = Engine(forest).layout(np.float32).schedule
    compared = schedule.operations[: schedule.run_end[-1], :3].ravel()
    compared = compared[compared < len(schedule.condition_slot)]
    _, first = np.unique(compared, return_index=True)
    assert (np.diff(first) > 0).all()
    assert sorted(schedule.condition_slot) == list(range(len(first)))
