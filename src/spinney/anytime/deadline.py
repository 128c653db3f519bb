"""Answers as good as the time allows.

Nobody interrupts a kernel: the art is to know how long the next one will take. Rows
advance together in rounds, each of which should take a share of the time left, so that
the last ones are short; then the answers are read off. Where the time is enough for all
trees, the forest's own evaluation takes over, which need not keep track of anything.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.engine import in_threads, threads_for
from spinney.runtime.steps.blocks import Block, Memory
from spinney.runtime.steps.engine import Stepper

# Seconds kept for the way back to the caller, and for each row's label.
RESERVE, RESERVE_PER_ROW = 3e-5, 4e-9

# Rows that go ahead, and steps times rows that they take.
FIRST_ROWS, FIRST_WORK = 256, 2048

# A round should take this share of the time left.
ROUND_SHARE = 0.6

# Work of fetching a row and its state, and of going down a level; turning to a tree,
# which changes the sums, is 1. As measured, a level rather too much.
FETCHING, LEVEL = 6.0, 0.6

# What is begun should fit this many times into the time left, and what is gone on with.
AMPLE, STILL_AMPLE = 1.5, 1.1

# Share of the time to try out the forest's own evaluation, and the least rows for it.
TRIAL_SHARE, MIN_TRIED_ROWS = 0.2, 64

# Rows that the forest itself answers at a time, at least and at most, and the share of
# the time left that this should take.
MIN_PLAIN_ROWS, MAX_PLAIN_ROWS, PLAIN_SHARE = 512, 16_384, 0.05


def winners_within(
    stepper: Stepper,
    rows: NDArray[np.floating],
    deadline: float,
    n_jobs: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the winning classes that can be found until `deadline`.

    Parameters
    ----------
    stepper : Stepper
        The forest and its order.
    rows : ndarray of shape (n_rows, n_features)
        Rows as the forest's engine makes them.
    deadline : float
        When to be back, by `time.perf_counter`.
    n_jobs : int or None
        Number of threads; None means one, -1 all cores.

    Returns
    -------
    winner : ndarray of shape (n_rows,), dtype=int64
        Class indices.
    n_steps : ndarray of shape (n_rows,), dtype=int64
        Steps that each row got.
    """
    # The initial state is the same for all rows, and so is its answer.
    winner = np.full(len(rows), int(stepper.start.argmax()), dtype=np.int64)
    n_steps = np.zeros(len(rows), dtype=np.int64)
    if stepper.n_steps == 0:
        raw = stepper.forest.engine.raw(rows, n_jobs)
        return stepper.forest.winners(raw).astype(np.int64), n_steps

    def race(start: int, end: int) -> None:
        Race(stepper, rows, deadline, winner, n_steps).run(start, end)

    in_threads(race, len(rows), threads_for(len(rows), n_jobs))
    return winner, n_steps


class Race:
    """The rows of one thread against the clock.

    Parameters
    ----------
    stepper : Stepper
        The forest and its order.
    rows : ndarray of shape (n_rows, n_features)
        Rows.
    deadline : float
        When to be back, by `time.perf_counter`.
    winner, n_steps : ndarray of shape (n_rows,), dtype=int64
        Answers and steps; kept up to date for the rows that are raced.
    """

    def __init__(
        self,
        stepper: Stepper,
        rows: NDArray[np.floating],
        deadline: float,
        winner: NDArray[np.int64],
        n_steps: NDArray[np.int64],
    ) -> None:
        self.stepper = stepper
        self.rows = rows
        self.winner = winner
        self.n_steps = n_steps
        # Seconds per row: for a unit of stepping, for reading off the answer, and for
        # all trees by the forest itself. 0 if unknown.
        self.step_rate, self.answer_rate, self.plain_rate = stepper.rates
        self.deadline = deadline - RESERVE - RESERVE_PER_ROW * len(rows)

    def units(self, n_steps: int) -> float:
        """Return the work of so many steps of a row, taken at once.

        To fetch a row and its state is worth several units, however few steps are
        taken; then there are trees to turn to, and levels to go down in them.
        """
        return FETCHING + min(n_steps, self.stepper.forest.n_trees) + LEVEL * n_steps

    def steps_within(self, seconds: float, n_rows: int) -> int:
        """Return how many steps of so many rows should fit into some time."""
        units = seconds / (self.step_rate * n_rows) - FETCHING
        n_trees = self.stepper.forest.n_trees
        if units > (1.0 + LEVEL) * n_trees:
            return int(min((units - n_trees) / LEVEL, self.stepper.n_steps))
        return int(units / (1.0 + LEVEL)) if units > 0.0 else 0

    def left(self, n_rows: int) -> float:
        """Return the seconds left, after the answers of so many rows are read off."""
        return self.deadline - perf_counter() - self.answer_rate * n_rows

    def run(self, start: int, end: int) -> None:
        """Race the rows from `start` to `end`."""
        if self.left(0) <= 0.0:
            return
        is_batch = end - start >= FIRST_ROWS
        if self.step_rate == 0.0 or not is_batch:
            ahead = self._go_ahead(start, min(end, start + FIRST_ROWS))
            if not is_batch and ahead.n_steps == self.stepper.n_steps:
                return
        if self.plain_rate == 0.0:
            whole = self.step_rate * self.units(self.stepper.n_steps)
            n_tried = int(
                max(0.0, min(TRIAL_SHARE * self.left(0) / whole, end - start))
            )
            if n_tried >= min(MIN_TRIED_ROWS, end - start):
                self._let_forest_answer(start, start + n_tried)
                start += n_tried
        ample = AMPLE
        while start < end:
            left = self.left(0)
            if not 0.0 < ample * self.plain_rate * (end - start) < left:
                self._in_rounds(start, end)
                break
            fitting = int(PLAIN_SHARE * left / self.plain_rate)
            n_rows = min(MAX_PLAIN_ROWS, max(MIN_PLAIN_ROWS, fitting))
            last = min(end, start + n_rows)
            self._let_forest_answer(start, last)
            start, ample = last, STILL_AMPLE
        # With few rows all is slower, row for row: nothing to be remembered.
        if is_batch:
            self.stepper.remember(self.step_rate, self.answer_rate, self.plain_rate)

    def _go_ahead(self, start: int, end: int) -> Block:
        """Find out with a few rows how long things take; return where they are."""
        memory = self._memory(end - start)
        block = self.stepper.block(self.rows, start, end, memory)
        n_taken = min(self.stepper.n_steps, max(1, FIRST_WORK // (end - start)))
        self._advance(block, n_taken)
        self._answer(block)
        return block

    def _memory(self, n_rows: int) -> Memory:
        """Return room for so many rows.

        Trees are always walked here: what a round takes can then be told from the one
        before, and few steps are quicker.
        """
        return self.stepper.memory(n_rows, self.rows.dtype, can_slice=False)

    def _in_rounds(self, start: int, end: int) -> None:
        """Take all rows further and further, together, and read off their answers."""
        total = self.stepper.n_steps
        n_rows = end - start
        size = min(self.stepper.block_rows, n_rows)
        memory = self._memory(n_rows)
        blocks: list[Block] = []
        done = 0
        while done < total:
            left = self.left(n_rows)
            goal = total
            if AMPLE * self.step_rate * n_rows * self.units(total - done) > left:
                # Not much further than they are, lest some rows be left far behind.
                n_fitting = self.steps_within(ROUND_SHARE * left, n_rows)
                n_far = max(2 * done, self.stepper.forest.n_trees, 8)
                goal = min(total, done + min(n_fitting, n_far))
            # If a step of all rows is too long, as many as possible still get one.
            goal = max(goal, done + 1)
            for i, first in enumerate(range(start, end, size)):
                last = min(end, first + size)
                left = self.left(last - start) / STILL_AMPLE
                n_fitting = self.steps_within(left, last - first)
                if n_fitting < 1:
                    break
                if i == len(blocks):
                    at = first - start
                    block = self.stepper.block(self.rows, first, last, memory, at)
                    blocks.append(block)
                self._advance(blocks[i], min(goal, blocks[i].n_steps + n_fitting))
            done = min((block.n_steps for block in blocks), default=0)
            if done < goal or len(blocks) * size < n_rows:
                break
        for block in blocks:
            self._answer(block)

    def _advance(self, block: Block, goal: int) -> None:
        """Take a block to a step."""
        begin = perf_counter()
        units = self.units(goal - block.n_steps) * len(block.rows)
        self.stepper.advance(block, goal)
        self.step_rate = (perf_counter() - begin) / units

    def _answer(self, block: Block) -> None:
        """Read off the answers of a block."""
        begin = perf_counter()
        winner = self.winner[block.first : block.end]
        self.stepper.winners(block, self.rows, winner)
        self.n_steps[block.first : block.end] = block.n_steps
        self.answer_rate = (perf_counter() - begin) / len(winner)

    def _let_forest_answer(self, first: int, last: int) -> None:
        """Take rows to the end by the forest's own evaluation."""
        begin = perf_counter()
        forest = self.stepper.forest
        raw = forest.engine.raw(self.rows[first:last])
        self.winner[first:last] = forest.winners(raw)
        self.n_steps[first:last] = self.stepper.n_steps
        self.plain_rate = (perf_counter() - begin) / (last - first)
