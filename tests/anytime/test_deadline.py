"""Answers until a deadline, by a clock that the test winds."""

from __future__ import annotations

import pickle
import time

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.steps.steps_reference import classifiers, random_order
from spinney.anytime import deadline
from spinney.anytime.deadline import DeadlineRunner, Rates
from spinney.runtime import choice
from spinney.runtime.batch_kernels import MIN_BLOCK_ROWS
from spinney.runtime.steps import engine as engine_module
from spinney.runtime.steps.engine import StepEngine
from strategies import random_forest, random_rows

SLOW = bool(numba.config.DISABLE_JIT)


@given(classifiers, st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=10 if SLOW else 150)
def test_with_enough_time_the_answer_is_that_of_the_forest(forest, seed, dtype):
    engine = StepEngine(forest, random_order(forest, seed))
    X = random_rows(forest, 30, seed=seed, dtype=dtype)
    late = time.perf_counter() + 60
    rows = forest.engine.rows(X)
    winner, n_steps = DeadlineRunner(engine).winners_within(rows, late, None)
    assert (n_steps == engine.n_steps).all()
    assert forest.classes[winner].tolist() == forest.predict(X).tolist()


def test_threads_do_not_change_answers():
    forest = random_forest(5, n_trees=6, task="mean classes", shape="balanced", depth=4)
    engine = StepEngine(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 700))
    late = time.perf_counter() + 60
    winner, n_steps = DeadlineRunner(engine).winners_within(rows, late, 2)
    assert (n_steps == 24).all()
    assert (winner == engine.winners_after(rows, 24, None)).all()


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
    engine = StepEngine(forest, random_order(forest))
    X = random_rows(forest, n_rows)
    rows = forest.engine.rows(X)
    monkeypatch.setattr(deadline, "perf_counter", Clock(tick))
    monkeypatch.setattr(engine_module, "BLOCK_ROWS", 128)
    winner, n_steps = DeadlineRunner(engine).winners_within(rows, 0.02, None)
    for got in np.unique(n_steps):
        some = n_steps == got
        expected = engine.winners_after(rows, int(got), None)
        assert (winner[some] == expected[some]).all()
    if tick == 0.5:
        assert not n_steps.any()  # the time was over before the first step
    if tick == 1e-5:
        assert (n_steps == engine.n_steps).all()


def test_rounds_keep_rows_together(monkeypatch):
    forest = random_forest(8, n_trees=20, depth=8, shape="chain", task="mean classes")
    engine = StepEngine(forest, random_order(forest))
    rows = forest.engine.rows(random_rows(forest, 1000))
    clock = Clock(1e-5)
    advance = engine.advance

    def advance_slowly(block, n_steps):
        # As in reality: several steps of a tree at once are cheaper.
        n_taken = n_steps - block.n_steps
        units = 5 + min(n_taken, forest.n_trees) + 0.7 * n_taken
        clock.now += 1e-6 * len(block.rows) * units
        advance(block, n_steps)

    monkeypatch.setattr(engine, "advance", advance_slowly)
    monkeypatch.setattr(deadline, "perf_counter", clock)
    monkeypatch.setattr(deadline, "TRIAL_SHARE", 0.0)  # the forest does not help
    monkeypatch.setattr(engine_module, "BLOCK_ROWS", 256)
    runner = DeadlineRunner(engine)
    runner.rates, clock.now = Rates(), 0.0  # nothing has been rehearsed
    winner, n_steps = runner.winners_within(rows, 0.1, None)
    assert clock.now < 0.101
    # There would be time for about 100 of the 160 steps at one go.
    assert 25 <= n_steps.min() <= n_steps.max() <= 4 * n_steps.min()
    assert 35 <= n_steps.mean() <= 100
    monkeypatch.undo()
    for got in np.unique(n_steps):
        expected = engine.winners_after(rows, int(got), None)
        assert (winner == expected)[n_steps == got].all()


# By this clock compiled kernels take as long as plain Python.
on_known_costs = pytest.mark.skipif(SLOW, reason="the same plan as with compiled code")


class SlowEngine:
    """A forest with known costs, by a clock that only work moves on."""

    # Seconds for a row: all trees at once; a unit of stepping; the initial state.
    plain, step, start = 1e-6, 5e-9, 4e-8
    # To call the forest's own evaluation takes as long as so many rows.
    call = 200

    def __init__(self, monkeypatch, slowdown=1.0):
        forest = random_forest(
            10, n_trees=20, depth=8, shape="chain", task="mean classes"
        )
        self.engine = engine = StepEngine(forest, random_order(forest))
        self.rows = forest.engine.rows(random_rows(forest, 6000))
        self.clock = clock = Clock(1e-7)
        self.slowdown = slowdown
        methods = engine.forest_winners, engine.advance, engine.block

        def forest_winners(rows, n_jobs=None):
            clock.now += self.slowdown * self.plain_seconds(len(rows))
            return methods[0](rows, n_jobs)

        def advance(block, n_steps):
            n_taken = n_steps - block.n_steps
            units = 6 + min(n_taken, forest.n_trees) + 0.6 * n_taken
            # The calls take time, too.
            units = units * len(block.rows) + 4000
            clock.now += self.slowdown * self.step * units
            methods[1](block, n_steps)

        def block(rows, first, end, *args):
            clock.now += self.slowdown * self.start * (end - first + 250)
            return methods[2](rows, first, end, *args)

        monkeypatch.setattr(engine, "forest_winners", forest_winners)
        monkeypatch.setattr(engine, "advance", advance)
        monkeypatch.setattr(engine, "block", block)
        monkeypatch.setattr(deadline, "perf_counter", clock)

    def plain_seconds(self, n_rows):
        return self.plain * (n_rows + (self.call if n_rows >= MIN_BLOCK_ROWS else 0))

    def within(self, runner, seconds):
        """Return the share of steps of each row, and the time taken."""
        begin = self.clock.now
        winner, n_steps = runner.winners_within(self.rows, begin + seconds, None)
        taken = self.clock.now - begin
        for got in np.unique(n_steps):
            some = n_steps == got
            expected = self.engine.winners_after(self.rows, int(got), None)
            assert (winner[some] == expected[some]).all()
        return n_steps / self.engine.n_steps, taken


@on_known_costs
# Stepping to the end takes 0.6 or 2.4 times as long as plain evaluation.
@pytest.mark.parametrize("step", [5e-9, 2e-8])
@pytest.mark.parametrize(
    ("time_allowed", "least_share"), [(0.5, 0.0), (1.0, 0.6), (1.2, 0.9), (2.0, 1.0)]
)
def test_nearly_enough_time_is_enough_for_nearly_all_steps(
    monkeypatch, step, time_allowed, least_share
):
    slow = SlowEngine(monkeypatch)
    slow.step = step
    runner = DeadlineRunner(slow.engine)
    seconds = time_allowed * slow.plain_seconds(len(slow.rows))
    for _ in range(3):  # the first call, too
        share, taken = slow.within(runner, seconds)
        assert taken <= seconds
        assert share.min() > 0.0
        assert share.mean() >= least_share


@on_known_costs
@pytest.mark.parametrize("call", [0, 600])
def test_later_calls_get_as_many_steps_as_the_first(monkeypatch, call):
    slow = SlowEngine(monkeypatch)
    slow.call = call
    runner = DeadlineRunner(slow.engine)
    seconds = 1.15 * slow.plain_seconds(len(slow.rows))
    first, _ = slow.within(runner, seconds)
    assert first.mean() > 0.8
    for _ in range(8):
        # The last piece of a call is small, and may be disturbed: it tells little.
        share, taken = slow.within(runner, seconds)
        assert taken <= seconds
        assert share.mean() >= first.mean() - 0.01


@on_known_costs
def test_rows_get_steps_if_the_forest_turns_out_to_be_slow(monkeypatch):
    slow = SlowEngine(monkeypatch)
    runner = DeadlineRunner(slow.engine)
    seconds = 1.3 * slow.plain_seconds(len(slow.rows))
    share, _ = slow.within(runner, seconds)
    slow.slowdown = 1.4
    share, taken = slow.within(runner, seconds)
    assert taken <= 1.05 * seconds
    assert 0.0 < share.min() < 1.0
    assert share.mean() > 0.5


@on_known_costs
def test_a_forest_that_was_slow_once_is_tried_again(monkeypatch):
    slow = SlowEngine(monkeypatch)
    slow.step = 2e-8
    runner = DeadlineRunner(slow.engine)
    runner.rates = Rates(plain=4 * slow.plain)
    seconds = 1.5 * slow.plain_seconds(len(slow.rows))
    share, _ = slow.within(runner, seconds)
    assert share.mean() < 0.5
    for _ in range(30):
        share, taken = slow.within(runner, seconds)
        assert taken <= seconds
    assert (share == 1.0).all()


def test_a_step_is_not_started_if_it_would_end_late(monkeypatch):
    forest = random_forest(9, n_trees=4, depth=6, shape="chain", task="vote")
    runner = DeadlineRunner(StepEngine(forest, random_order(forest)))
    rows = forest.engine.rows(random_rows(forest, 300))
    # A second for a row and a step, or a row.
    runner.rates = Rates(step=1.0, plain=1.0)
    monkeypatch.setattr(deadline, "perf_counter", Clock(1e-3))
    _, n_steps = runner.winners_within(rows, 1.0, None)
    assert not n_steps.any()


def test_what_was_slow_once_is_not_taken_for_granted():
    forest = random_forest(9, task="vote")
    runner = DeadlineRunner(StepEngine(forest, np.empty(0, dtype=np.int64)))
    runner.remember(Rates(4.0, 1.0, 0.0, 3.0))
    assert runner.rates == (4.0, 1.0, 0.0, 3.0)
    runner.remember(Rates(2.0, 9.0, 5.0, 3.3))
    assert runner.rates == (2.0, 1.2, 5.0, 3.3)
    runner.remember(Rates(0.0, 0.5, 0.0, 0.0))  # 0: there was no occasion to see
    assert runner.rates == (2.0, 0.5, 5.0, 3.3)


def test_a_pickle_does_not_know_how_long_things_take_here():
    forest = random_forest(9, n_trees=2, depth=2, task="vote")
    runner = DeadlineRunner(StepEngine(forest, random_order(forest)))
    runner.rates = Rates(1.0, 1.0, 1.0, 1.0)
    again = pickle.loads(pickle.dumps(runner))
    assert 0.0 < min(again.rates) <= max(again.rates) < 1.0  # rehearsed anew
    assert (again.engine.order == runner.engine.order).all()


@pytest.mark.skipif(SLOW, reason="nothing is compiled")
def test_no_kernel_of_the_forest_is_left_to_a_call_with_a_deadline(monkeypatch):
    monkeypatch.setattr(choice.config, "_engine", "auto")
    monkeypatch.setattr(choice, "_ready", set())
    monkeypatch.setattr(choice, "_spent", {})
    forest = random_forest(12, n_trees=3, depth=3, task="mean classes")
    StepEngine.warmed_up(forest, random_order(forest))
    batches = forest.engine.named_by_kind("batches")
    for what in (batches, "few rows", "few rows of small trees"):
        kernels = forest.engine.kernels(what, np.dtype(np.float32))
        assert not choice.plain_serves(kernels)


def test_forest_of_single_leaves_is_done_before_it_begins():
    forest = random_forest(11, n_trees=3, shape="leaf", task="mean classes")
    runner = DeadlineRunner(StepEngine(forest, random_order(forest)))
    rows = forest.engine.rows(random_rows(forest, 4))
    winner, n_steps = runner.winners_within(rows, time.perf_counter() + 9, None)
    assert (forest.classes[winner] == forest.predict(rows)).all()
    assert not n_steps.any()
