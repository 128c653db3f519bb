"""Answers as good as the time allows.

A kernel that runs cannot be interrupted, so it has to be known beforehand how long the
next one will take. Rows advance together in rounds, each of which should take a share
of the remaining time, so that the last ones are short; then the answers are read off.
Where the time is enough for all trees, the forest's own evaluation takes over, which
need not keep track of anything.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.sharing import in_threads, threads_for
from spinney.runtime.steps.blocks import Block, Memory
from spinney.runtime.steps.engine import StepEngine

# Seconds kept for the return to the caller, and for each row's label.
RESERVE, RESERVE_PER_ROW = 3e-5, 4e-9

# Rows that are timed first, and steps times rows that they take.
FIRST_ROWS, FIRST_WORK = 256, 2048

# A round should take this share of the remaining time.
ROUND_SHARE = 0.6

# Work of fetching a row and its state, and of going down a level; turning to a tree,
# which changes the sums, is 1. As measured, a level rather too much.
FETCHING, LEVEL = 6.0, 0.6

# Start something only if it fits this many times into the remaining time, and go on
# with it only as long as it fits this many times.
AMPLE, STILL_AMPLE = 1.5, 1.1

# Share of the time to try out the forest's own evaluation, and the least rows for it.
TRIAL_SHARE, MIN_TRIED_ROWS = 0.2, 64

# Rows that the forest itself evaluates at a time, at least and at most, and the share
# of the remaining time that this should take.
MIN_PLAIN_ROWS, MAX_PLAIN_ROWS, PLAIN_SHARE = 512, 16_384, 0.05


class Rates(NamedTuple):
    """How long things take, in seconds per row; 0 if unknown."""

    step: float = 0.0  # a unit of stepping
    answer: float = 0.0  # reading off the answer
    plain: float = 0.0  # all trees, by the forest's own evaluation


class DeadlineRunner:
    """Runs rows through a forest until a deadline.

    It keeps in mind how long things take, from one call to the next.

    Parameters
    ----------
    engine : StepEngine
        The forest and its order.
    """

    def __init__(self, engine: StepEngine) -> None:
        self.engine = engine
        self.rates = Rates()

    # How long things take here need not be true elsewhere.
    def __reduce__(self) -> tuple[Any, ...]:
        return DeadlineRunner, (self.engine,)

    def winners_within(
        self, rows: NDArray[np.floating], deadline: float, n_jobs: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the winning classes that can be found until `deadline`.

        Parameters
        ----------
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
        engine = self.engine
        # The initial state is the same for all rows, and so is its answer.
        winner = np.full(len(rows), int(engine.initial_sums.argmax()), dtype=np.int64)
        n_steps = np.zeros(len(rows), dtype=np.int64)
        if engine.n_steps == 0:
            return engine.forest_winners(rows, n_jobs).astype(np.int64), n_steps

        def run(start: int, end: int) -> None:
            rates = _Run(engine, self.rates, rows, deadline, winner, n_steps).run(
                start, end
            )
            # With few rows all is slower, row for row: nothing to be remembered.
            if rates is not None:
                self.remember(rates)

        in_threads(run, len(rows), threads_for(len(rows), n_jobs))
        return winner, n_steps

    def remember(self, seen: Rates) -> None:
        """Keep in mind how long things took, for the next time.

        What is quicker is believed at once, what is slower a little at a time: it may
        have been the machine that was busy.

        Parameters
        ----------
        seen : Rates
            Seconds per row; 0 for what was not done.
        """
        self.rates = Rates(
            *(
                min(new, 1.2 * old) if old > 0.0 and new > 0.0 else max(new, old)
                for new, old in zip(seen, self.rates, strict=True)
            )
        )


class _Run:
    """The rows of one thread and one call.

    Parameters
    ----------
    engine : StepEngine
        The forest and its order.
    rates : Rates
        How long things take, as far as known.
    rows : ndarray of shape (n_rows, n_features)
        Rows.
    deadline : float
        When to be back, by `time.perf_counter`.
    winner, n_steps : ndarray of shape (n_rows,), dtype=int64
        Answers and steps; kept up to date for the rows that are run.
    """

    def __init__(
        self,
        engine: StepEngine,
        rates: Rates,
        rows: NDArray[np.floating],
        deadline: float,
        winner: NDArray[np.int64],
        n_steps: NDArray[np.int64],
    ) -> None:
        self.engine = engine
        self.rows = rows
        self.winner = winner
        self.n_steps = n_steps
        self.step_rate, self.answer_rate, self.plain_rate = rates
        self.deadline = deadline - RESERVE - RESERVE_PER_ROW * len(rows)

    def units(self, n_steps: int) -> float:
        """Return the work of so many steps of a row, taken at once.

        To fetch a row and its state is worth several units, however few steps are
        taken; then there are trees to turn to, and levels to go down in them.
        """
        return FETCHING + min(n_steps, self.engine.forest.n_trees) + LEVEL * n_steps

    def steps_within(self, seconds: float, n_rows: int) -> int:
        """Return how many steps of so many rows should fit into some time."""
        units = seconds / (self.step_rate * n_rows) - FETCHING
        n_trees = self.engine.forest.n_trees
        if units > (1.0 + LEVEL) * n_trees:
            return int(min((units - n_trees) / LEVEL, self.engine.n_steps))
        return int(units / (1.0 + LEVEL)) if units > 0.0 else 0

    def remaining(self, n_rows: int) -> float:
        """Return the seconds left, after the answers of so many rows are read off."""
        return self.deadline - perf_counter() - self.answer_rate * n_rows

    def run(self, start: int, end: int) -> Rates | None:
        """Run the rows from `start` to `end`; return how long a batch of them took."""
        if self.remaining(0) <= 0.0:
            return None
        is_batch = end - start >= FIRST_ROWS
        if self.step_rate == 0.0 or not is_batch:
            ahead = self._time_first(start, min(end, start + FIRST_ROWS))
            if not is_batch and ahead.n_steps == self.engine.n_steps:
                return None
        if self.plain_rate == 0.0:
            whole = self.step_rate * self.units(self.engine.n_steps)
            n_tried = int(
                max(0.0, min(TRIAL_SHARE * self.remaining(0) / whole, end - start))
            )
            if n_tried >= min(MIN_TRIED_ROWS, end - start):
                self._evaluate_fully(start, start + n_tried)
                start += n_tried
        ample = AMPLE
        while start < end:
            remaining = self.remaining(0)
            if not 0.0 < ample * self.plain_rate * (end - start) < remaining:
                self._run_rounds(start, end)
                break
            fitting = int(PLAIN_SHARE * remaining / self.plain_rate)
            n_rows = min(MAX_PLAIN_ROWS, max(MIN_PLAIN_ROWS, fitting))
            last = min(end, start + n_rows)
            self._evaluate_fully(start, last)
            start, ample = last, STILL_AMPLE
        if not is_batch:
            return None
        return Rates(self.step_rate, self.answer_rate, self.plain_rate)

    def _time_first(self, start: int, end: int) -> Block:
        """Find out with a few rows how long things take; return where they are."""
        memory = self._memory(end - start)
        block = self.engine.block(self.rows, start, end, memory)
        n_taken = min(self.engine.n_steps, max(1, FIRST_WORK // (end - start)))
        self._advance(block, n_taken)
        self._answer(block)
        return block

    def _memory(self, n_rows: int) -> Memory:
        """Return memory for so many rows.

        Trees are always walked here: what a round takes can then be told from the one
        before, and few steps are quicker.
        """
        return self.engine.memory(n_rows, self.rows.dtype, can_bitslice=False)

    def _run_rounds(self, start: int, end: int) -> None:
        """Take all rows further and further, together, and read off their answers."""
        total = self.engine.n_steps
        n_rows = end - start
        size = min(self.engine.block_rows, n_rows)
        memory = self._memory(n_rows)
        blocks: list[Block] = []
        done = 0
        while done < total:
            remaining = self.remaining(n_rows)
            goal = total
            if AMPLE * self.step_rate * n_rows * self.units(total - done) > remaining:
                # Not much further than they are, lest some rows be left far behind.
                n_fitting = self.steps_within(ROUND_SHARE * remaining, n_rows)
                n_far = max(2 * done, self.engine.forest.n_trees, 8)
                goal = min(total, done + min(n_fitting, n_far))
            # If a step of all rows is too long, as many as possible still get one.
            goal = max(goal, done + 1)
            for i, first in enumerate(range(start, end, size)):
                last = min(end, first + size)
                remaining = self.remaining(last - start) / STILL_AMPLE
                n_fitting = self.steps_within(remaining, last - first)
                if n_fitting < 1:
                    break
                if i == len(blocks):
                    at = first - start
                    block = self.engine.block(self.rows, first, last, memory, at)
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
        self.engine.advance(block, goal)
        self.step_rate = (perf_counter() - begin) / units

    def _answer(self, block: Block) -> None:
        """Read off the answers of a block."""
        begin = perf_counter()
        winner = self.winner[block.first : block.end]
        self.engine.winners(block, self.rows, winner)
        self.n_steps[block.first : block.end] = block.n_steps
        self.answer_rate = (perf_counter() - begin) / len(winner)

    def _evaluate_fully(self, first: int, last: int) -> None:
        """Take rows to the end by the forest's own evaluation."""
        begin = perf_counter()
        self.winner[first:last] = self.engine.forest_winners(self.rows[first:last])
        self.n_steps[first:last] = self.engine.n_steps
        self.plain_rate = (perf_counter() - begin) / (last - first)
