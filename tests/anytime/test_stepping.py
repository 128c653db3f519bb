"""The resumable runtime against the slow twin: any state, any kind of node, any row."""

from __future__ import annotations

import copy
import pickle
import time
from contextlib import contextmanager
from unittest.mock import patch

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from anytime.states_reference import is_silent, node_after
from spinney import InvalidArgumentError
from spinney.anytime import racing, slices, stepping
from spinney.anytime.racing import winners_within
from spinney.anytime.session import AnytimeSession
from spinney.anytime.stepping import Stepper
from spinney.runtime import bitslicing as runtime_slicing
from strategies import forests, random_forest, random_rows

CLASSIFYING = (
    "vote",
    "mean classes",
    "mean score",
    "sum score",
    "sum classes",
    "sum by class",
)
SLOW = bool(numba.config.DISABLE_JIT)
classifiers = forests(tasks=CLASSIFYING, max_trees=6, max_depth=40).filter(
    lambda forest: not is_silent(forest)
)


def random_order(forest, seed=0):
    steps = np.repeat(np.arange(forest.n_trees), forest.depths)
    return np.random.default_rng(seed).permutation(steps)


def expected_sums(stepper, X, n_steps):
    """Sums after some steps, by the slow twin."""
    forest = stepper.forest
    levels = np.bincount(stepper.order[:n_steps], minlength=forest.n_trees)
    values = stepper.sums.by_class()
    return np.array(
        [
            stepper.sums.base
            + sum(
                values[node_after(forest, tree, row, int(levels[tree]))]
                for tree in range(forest.n_trees)
            )
            for row in reference.rounded_rows(forest, X)
        ]
    ).reshape(len(X), stepper.sums.n_classes)


@given(classifiers, st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=10 if SLOW else 150)
def test_sums_after_any_step_are_those_of_the_nodes_reached(forest, seed, dtype):
    rng = np.random.default_rng(seed)
    stepper = Stepper(forest, random_order(forest, seed))
    n_rows = int(rng.choice([0, 1, 7, 8, 9, 20]))
    X = random_rows(forest, n_rows, seed=seed, dtype=dtype)
    rows = forest.engine.rows(X)
    for n_steps in {0, int(rng.integers(stepper.n_steps + 1)), stepper.n_steps}:
        found = stepper.sums_after(rows, n_steps, None)
        assert found.tolist() == expected_sums(stepper, X, n_steps).tolist()


@given(classifiers, st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=10 if SLOW else 150)
def test_after_all_steps_the_answer_is_that_of_the_forest(forest, seed, dtype):
    stepper = Stepper(forest, random_order(forest, seed))
    X = random_rows(forest, 30, seed=seed, dtype=dtype)
    rows = forest.engine.rows(X)
    winner = stepper.winners_after(rows, stepper.n_steps, None)
    assert forest.classes[winner].tolist() == forest.predict(X).tolist()
    late = time.perf_counter() + 60
    winner, n_steps = winners_within(stepper, rows, late, None)
    assert (n_steps == stepper.n_steps).all()
    assert forest.classes[winner].tolist() == forest.predict(X).tolist()


@given(classifiers, st.integers(0, 10_000))
@settings(max_examples=10 if SLOW else 100)
def test_stopping_and_going_on_changes_nothing(forest, seed):
    rng = np.random.default_rng(seed)
    stepper = Stepper(forest, random_order(forest, seed))
    rows = forest.engine.rows(random_rows(forest, 11, seed=seed))
    block = stepper.block(rows, 0, len(rows))
    session = AnytimeSession(stepper, rows[3:4])
    while block.n_steps < stepper.n_steps:
        n_taken = int(rng.integers(1, 1 + stepper.n_steps - block.n_steps))
        stepper.advance(block, block.n_steps + n_taken)
        assert session.step(n_taken).steps_done == block.n_steps
        once = stepper.sums_after(rows, block.n_steps, None)
        assert block.sums.tolist() == once.tolist()
        winner = stepper.winners_after(rows, block.n_steps, None)
        assert session.predict() == forest.classes[winner[3]]
        if not session.done:
            expected = stepper.sums.probabilities(once)[3]
            assert session.predict_proba().tolist() == expected.tolist()
    assert session.done
    assert session.predict() == forest.predict(rows[3:4])[0]
    assert (session.predict_proba() == forest.predict_proba(rows[3:4])[0]).all()


@contextmanager
def slicing(at_once):
    """Slice all small trees, either at their first step or later than the first."""
    with (
        patch.object(runtime_slicing, "COST_LEVEL", 1e9),
        patch.object(slices, "COST_LEVEL", 1e9 if at_once else 0.5),
    ):
        yield


@given(classifiers, st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=5 if SLOW else 60)
def test_trees_may_be_sliced_instead_of_walked(forest, seed, dtype):
    rng = np.random.default_rng(seed)
    stepper = Stepper(forest, random_order(forest, seed))
    X = random_rows(forest, int(rng.choice([48, 70])), seed=seed, dtype=dtype)
    X = X[rng.integers(len(X), size=int(rng.choice([len(X), 520])))]
    with slicing(at_once=bool(rng.integers(2))):
        forest.engine._layouts.clear()
        rows = forest.engine.rows(X)
        block = stepper.block(rows, 0, len(rows))
        assert (block.columns is not None) == (stepper.n_steps > 0)
        while block.n_steps < stepper.n_steps:
            n_taken = int(rng.integers(1, 1 + stepper.n_steps - block.n_steps))
            stepper.advance(block, block.n_steps + n_taken)
            some = rng.integers(len(X), size=5)
            expected = expected_sums(stepper, X[some], block.n_steps)
            assert block.sums[some].tolist() == expected.tolist()
            walked = walked_to(stepper, rows, block.n_steps)
            assert (block.sums == walked.sums).all()
            everyone = np.arange(len(rows))
            arrived = stepper._at_leaves(block, everyone)
            assert (arrived == stepper._at_leaves(walked, everyone)).all()
        winner = stepper.winners_after(rows, stepper.n_steps, None)
    assert forest.classes[winner].tolist() == forest.predict(X).tolist()


def walked_to(stepper, rows, n_steps):
    """Rows after some steps, none of which was bitsliced."""
    memory = stepper.memory(len(rows), rows.dtype, can_slice=False)
    block = stepper.block(rows, 0, len(rows), memory)
    stepper.advance(block, n_steps)
    assert not block.is_bitsliced.any()
    return block


@pytest.mark.parametrize("depth", [6, 300, 900])
def test_trees_of_all_sizes_are_sliced(depth):
    # With more than 256 leaves a code takes two bytes.
    forest = random_forest(3, n_trees=3, depth=depth, task="mean classes")
    stepper = Stepper(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 600))
    with slicing(at_once=True):
        for n_steps in (stepper.n_steps // 3, stepper.n_steps - 1, stepper.n_steps):
            block = stepper.block(rows, 0, len(rows))
            stepper.advance(block, n_steps)
            assert block.is_bitsliced[block.levels > 0].all()
            assert (block.sums == walked_to(stepper, rows, n_steps).sums).all()


def test_tree_is_walked_until_slicing_would_have_been_as_cheap():
    forest = random_forest(2, n_trees=4, depth=6, shape="balanced", task="vote")
    order = np.tile(np.arange(4), 6)  # level by level
    stepper = Stepper(forest, order)
    with patch.object(runtime_slicing, "COST_LEVEL", 1e9):
        made = stepper.slices(np.float32)
    cost = made.costs + made.shared_costs
    rows = forest.engine.rows(random_rows(forest, 512, dtype=np.float32))
    with patch.object(slices, "COST_LEVEL", float(cost.max()) / 3.0):
        block = stepper.block(rows, 0, 512)
        for level in range(1, 7):
            stepper.advance(block, 4 * level)
            assert block.is_bitsliced.all() == (level >= 3)
        # Of few rows most of a vector would be wasted.
        few = stepper.block(rows, 0, 64)
        stepper.advance(few, 20)
        assert not few.is_bitsliced.any()
        # Together they share questions, and all levels at once are worth it.
        block = stepper.block(rows, 0, 512)
        stepper.advance(block, 12)
        assert block.is_bitsliced.all()


def test_large_trees_and_many_rows_go_through_several_blocks(monkeypatch):
    forest = random_forest(4, n_trees=3, depth=40, shape="chain", task="mean classes")
    stepper = Stepper(forest, random_order(forest))
    X = random_rows(forest, 300)
    rows = forest.engine.rows(X)
    whole = stepper.winners_after(rows, 60, None).tolist()
    for name in ("BLOCK_ROWS", "BLOCK_ROWS_OF_SLICES"):
        monkeypatch.setattr(stepping, name, 37)
    assert stepper.block_rows == 37
    assert stepper.winners_after(rows, 60, None).tolist() == whole
    expected = expected_sums(stepper, X, 60).argmax(axis=1)
    assert whole == expected.tolist()
    monkeypatch.setattr(stepping, "LARGE_TREE", 10)
    assert stepper.block_rows == stepping.BLOCK_ROWS_OF_LARGE_TREES


def test_threads_do_not_change_answers():
    forest = random_forest(5, n_trees=6, task="mean classes", shape="balanced", depth=4)
    stepper = Stepper(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 700))
    for n_steps in (0, 5, 24):
        alone = stepper.winners_after(rows, n_steps, None)
        assert (stepper.winners_after(rows, n_steps, 2) == alone).all()
        sums = stepper.sums_after(rows, n_steps, None)
        assert (stepper.sums_after(rows, n_steps, 2) == sums).all()
    winner, n_steps = winners_within(stepper, rows, time.perf_counter() + 60, 2)
    assert (n_steps == 24).all()
    assert (winner == stepper.winners_after(rows, 24, None)).all()


def test_rows_too_wide_for_32_bits_are_stepped_as_well():
    forest = random_forest(6, n_trees=2, depth=3, task="vote", n_features=3)
    stepper = Stepper(forest, random_order(forest))
    X = random_rows(forest, 20)
    expected = stepper.winners_after(forest.engine.rows(X), 3, None)
    forest.engine.is_narrow = False
    wide = Stepper(forest, stepper.order)
    rows = forest.engine.rows(X)
    assert rows.dtype == np.float64
    assert (wide.winners_after(rows, 3, None) == expected).all()


class Clock:
    """A clock that goes on by a tick whenever somebody looks at it."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


@pytest.mark.parametrize("tick", [1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 0.5])
@pytest.mark.parametrize("n_rows", [1, 100, 900])
def test_rows_that_run_out_of_time_have_the_answer_of_the_steps_they_got(
    monkeypatch, tick, n_rows
):
    forest = random_forest(7, n_trees=12, depth=5, shape="chain", task="mean classes")
    stepper = Stepper(forest, random_order(forest))
    X = random_rows(forest, n_rows)
    rows = forest.engine.rows(X)
    monkeypatch.setattr(racing, "perf_counter", Clock(tick))
    monkeypatch.setattr(stepping, "BLOCK_ROWS", 128)
    winner, n_steps = winners_within(stepper, rows, 0.02, None)
    for got in np.unique(n_steps):
        some = n_steps == got
        expected = stepper.winners_after(rows, int(got), None)
        assert (winner[some] == expected[some]).all()
    if tick == 0.5:
        assert not n_steps.any()  # the time was over before the first step
    if tick == 1e-5:
        assert (n_steps == stepper.n_steps).all()


def test_rounds_keep_rows_together(monkeypatch):
    forest = random_forest(8, n_trees=20, depth=8, shape="chain", task="mean classes")
    stepper = Stepper(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 1000))
    clock = Clock(1e-5)
    advance = stepper.advance

    def advance_slowly(block, n_steps):
        # As in reality: several steps of a tree at once are cheaper.
        n_taken = n_steps - block.n_steps
        units = 5 + min(n_taken, forest.n_trees) + 0.7 * n_taken
        clock.now += 1e-6 * len(block.rows) * units
        advance(block, n_steps)

    monkeypatch.setattr(stepper, "advance", advance_slowly)
    monkeypatch.setattr(racing, "perf_counter", clock)
    monkeypatch.setattr(racing, "MIN_TRIED_ROWS", 10**9)  # the forest does not help
    monkeypatch.setattr(stepping, "BLOCK_ROWS", 128)
    winner, n_steps = winners_within(stepper, rows, 0.1, None)
    assert clock.now < 0.101
    # There would be time for about 100 of the 160 steps at one go.
    assert 25 <= n_steps.min() <= n_steps.max() <= 4 * n_steps.min()
    assert 40 <= n_steps.mean() <= 100
    monkeypatch.undo()
    for got in np.unique(n_steps):
        expected = stepper.winners_after(rows, int(got), None)
        assert (winner == expected)[n_steps == got].all()


def test_a_step_is_not_begun_if_it_would_end_late(monkeypatch):
    forest = random_forest(9, n_trees=4, depth=6, shape="chain", task="vote")
    stepper = Stepper(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 300))
    stepper.remember(1.0, 0.0, 1.0)  # a second for a row and a step, or a row
    monkeypatch.setattr(racing, "perf_counter", Clock(1e-3))
    _, n_steps = winners_within(stepper, rows, 1.0, None)
    assert not n_steps.any()


def test_what_was_slow_once_is_not_taken_for_granted():
    stepper = Stepper(random_forest(9, task="vote"), np.empty(0, dtype=np.int64))
    stepper.remember(4.0, 1.0, 0.0)
    assert stepper.rates == (4.0, 1.0, 0.0)
    stepper.remember(2.0, 9.0, 5.0)
    assert stepper.rates == (2.0, 1.2, 5.0)
    stepper.remember(0.0, 0.5, 0.0)  # 0: there was no occasion to see
    assert stepper.rates == (2.0, 0.5, 5.0)


def test_copies_of_a_session_go_their_own_way():
    forest = random_forest(10, n_trees=4, depth=4, shape="chain", task="mean classes")
    stepper = Stepper(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 1))
    session = AnytimeSession(stepper, rows).step(5)
    before = session.predict_proba().tolist()
    twins = [copy.copy(session), copy.deepcopy(session)]
    twins.append(pickle.loads(pickle.dumps(session)))
    for twin in twins:
        assert twin.steps_done == 5
        assert twin.step(100).done
        assert twin.steps_done == twin.n_steps == 16
        assert session.steps_done == 5
        assert session.predict_proba().tolist() == before
        assert twin.predict() == forest.predict(rows)[0]
    assert repr(session) == "<AnytimeSession: 5 of 16 steps done>"


@pytest.mark.parametrize("k", [-1, 0.5, 1.0, True, "2", None])
def test_sessions_take_whole_steps_only(k):
    forest = random_forest(10, n_trees=2, task="vote")
    session = AnytimeSession(
        Stepper(forest, random_order(forest)),
        forest.engine.rows(random_rows(forest, 1)),
    )
    with pytest.raises(InvalidArgumentError, match="k must be an integer, 0 or more"):
        session.step(k)


def test_forest_of_single_leaves_is_done_before_it_begins():
    forest = random_forest(11, n_trees=3, shape="leaf", task="mean classes")
    stepper = Stepper(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 4))
    session = AnytimeSession(stepper, rows[:1])
    assert session.done
    assert session.predict() == forest.predict(rows[:1])[0]
    winner, n_steps = winners_within(stepper, rows, time.perf_counter() + 9, None)
    assert (forest.classes[winner] == forest.predict(rows)).all()
    assert not n_steps.any()
