"""Predictions within a time limit.

A kernel that runs cannot be interrupted, so it has to be known beforehand how long the
next one will take. Rows advance together in rounds, each of which should take a share
of the remaining time, so that the last ones are short; then the predictions are read
off. Where the time is enough for all trees, the forest's own evaluation takes over,
which need not keep track of anything and may be many times as quick. Where it is nearly
enough, the forest evaluates most rows, and the others still take some steps.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.batch_kernels import BLOCK_UNIT, MIN_BLOCK_ROWS
from spinney.runtime.sharing import in_threads, threads_for
from spinney.runtime.steps.blocks import Block, Memory
from spinney.runtime.steps.engine import WIDEST_WARMED, StepEngine, padded

# Seconds kept for the return to the caller, and for each row's label.
RESERVE, RESERVE_PER_ROW = 2e-5, 2e-9

# Rows that are timed first, steps that they take at least, and steps times rows.
FIRST_ROWS, FIRST_STEPS, FIRST_WORK = 256, 8, 2048

# A round should take this share of the remaining time.
ROUND_SHARE = 0.6

# Work of fetching a row and its state, and of going down a level; turning to a tree,
# which changes the sums, is 1. As measured, a level rather too much.
FETCHING, LEVEL = 6.0, 0.6

# To call what takes a block of rows some steps is worth so many units; to call what
# brings it to the initial state, or reads off its predictions, so many rows.
STEP_CALL, BLOCK_CALL = 4096, 256

# Start something only if it fits this many times into the remaining time, and go on
# with it only as long as it fits this many times.
AMPLE, STILL_AMPLE = 1.5, 1.1

# Share of the time to try out the forest's own evaluation, if its speed is not known.
TRIAL_SHARE = 0.3

# Everything is rehearsed so often, on so many rows; on fewer of many columns.
REHEARSALS, REHEARSED_ROWS, MANY_COLUMNS = 5, 4 * BLOCK_UNIT, 1024

# If the forest's own evaluation was too slow to be used, it may have been the machine:
# the next time it is expected to take so many times as long.
DOUBT = 0.8

# Rows that the forest itself evaluates at a time, at least and at most, and the share
# of the remaining time that the first of a call should take: then it is known how fast
# it is now.
MIN_PLAIN_ROWS, MAX_PLAIN_ROWS, PLAIN_SHARE = 1024, 16_384, 0.7

# To call the forest's own evaluation of a batch takes as long as so many rows in it, if
# that has not been measured, and at most.
PLAIN_CALL, LONGEST_PLAIN_CALL = 300.0, 2048.0

# If the time is not enough for all trees, the forest itself evaluates rows only if
# these are at least a share of all; the others have the time for some steps.
WORTHWHILE, STEPS_OF_OTHERS = 0.4, 4


class Rates(NamedTuple):
    """How long things take, in seconds per row, calls apart; 0 if unknown."""

    step: float = 0.0  # a unit of stepping
    answer: float = 0.0  # reading off the prediction
    plain: float = 0.0  # all trees, by the forest's own evaluation
    start: float = 0.0  # bringing it to the initial state


class DeadlineRunner:
    """Runs rows through a forest until a deadline.

    It measures once before the first call, and records how long things take, from one
    call to the next.

    Parameters
    ----------
    engine : StepEngine
        The forest and its order.
    rows : ndarray of shape (n_rows, n_features), optional
        Rows to rehearse on; rows of random thresholds, which take longer, if there are
        none or too few.
    """

    def __init__(
        self, engine: StepEngine, rows: NDArray[np.floating] | None = None
    ) -> None:
        self.engine = engine
        # Before the first call: then, somebody is waiting for a result.
        self.rates, self.plain_call = rehearse(engine, rows)
        self.rehearsed = self.rates.plain or np.inf

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
        # The initial state is the same for all rows, and so is its prediction.
        winner = np.full(len(rows), int(engine.initial_sums.argmax()), dtype=np.int64)
        n_steps = np.zeros(len(rows), dtype=np.int64)
        if engine.n_steps == 0:
            return engine.forest_winners(rows, n_jobs).astype(np.int64), n_steps

        def run(start: int, end: int) -> None:
            rates = _Run(
                engine,
                self.rates,
                self.rehearsed,
                self.plain_call,
                rows,
                deadline,
                winner,
                n_steps,
            ).run(start, end)
            # With few rows all is slower, row for row: nothing to be remembered.
            if rates is not None:
                self.remember(rates)

        in_threads(run, len(rows), threads_for(len(rows), n_jobs))
        return winner, n_steps

    def remember(self, seen: Rates) -> None:
        """Record how long things took, for the next time.

        A faster time is adopted at once, a slower one little by little: the machine may
        have been busy.

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
    rehearsed : float
        What the forest's own evaluation took at the rehearsal; infinity if unknown.
    plain_call : float
        To call it takes as long as so many rows.
    rows : ndarray of shape (n_rows, n_features)
        Rows.
    deadline : float
        When to be back, by `time.perf_counter`.
    winner, n_steps : ndarray of shape (n_rows,), dtype=int64
        Predictions and steps; kept up to date for the rows that are run.
    """

    def __init__(
        self,
        engine: StepEngine,
        rates: Rates,
        rehearsed: float,
        plain_call: float,
        rows: NDArray[np.floating],
        deadline: float,
        winner: NDArray[np.int64],
        n_steps: NDArray[np.int64],
    ) -> None:
        self.engine = engine
        self.rehearsed = rehearsed
        self.plain_call = plain_call
        self.rows = rows
        self.winner = winner
        self.n_steps = n_steps
        self.step_rate, self.answer_rate, self.plain_rate, self.start_rate = rates
        # What this run has taken, and the work that it was.
        self.plain_seconds = self.plain_work = 0.0
        self.stepping_seconds = self.stepping_work = 0.0
        self.deadline = deadline - RESERVE - RESERVE_PER_ROW * len(rows)

    def units(self, n_steps: int) -> float:
        """Return the work of so many steps of a row, taken at once.

        To fetch a row and its state is worth several units, however few steps are
        taken; then there are trees to turn to, and levels to go down in them.
        """
        return FETCHING + min(n_steps, self.engine.forest.n_trees) + LEVEL * n_steps

    def plain_units(self, n_rows: int) -> float:
        """Return the work of the forest's own evaluation, in rows of a batch."""
        if n_rows < MIN_BLOCK_ROWS:
            return n_rows
        return padded(n_rows) + self.plain_call

    def step_seconds(self, n_steps: int, n_rows: int) -> float:
        """Return how long so many steps of rows should take."""
        units = self.units(n_steps) * n_rows + STEP_CALL * self._n_blocks(n_rows)
        return self.step_rate * units

    def start_seconds(self, n_rows: int) -> float:
        """Return how long it should take to bring rows to the initial state."""
        return self.start_rate * (n_rows + BLOCK_CALL * self._n_blocks(n_rows))

    def answer_seconds(self, n_rows: int) -> float:
        """Return how long it should take to read off the predictions of rows."""
        return self.answer_rate * (n_rows + BLOCK_CALL * self._n_blocks(n_rows))

    def _n_blocks(self, n_rows: int) -> int:
        """Return in how many blocks rows are stepped."""
        return -(-n_rows // self.engine.block_rows)

    def steps_within(self, seconds: float, n_rows: int) -> int:
        """Return how many steps of so many rows should fit into some time."""
        units = seconds / self.step_rate - STEP_CALL * self._n_blocks(n_rows)
        units = units / n_rows - FETCHING
        n_trees = self.engine.forest.n_trees
        if units > (1.0 + LEVEL) * n_trees:
            return int(min((units - n_trees) / LEVEL, self.engine.n_steps))
        return int(units / (1.0 + LEVEL)) if units > 0.0 else 0

    def remaining(self, n_rows: int) -> float:
        """Return the seconds left after reading off the predictions of so many rows."""
        return self.deadline - perf_counter() - self.answer_seconds(n_rows)

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
            start = self._try_plain(start, end)
        if self._is_plain_worthwhile(end - start):
            start = self._evaluate_fitting(start, end)
        else:
            quickest = min(self._likely_plain_rate(), self.plain_rate)
            self.plain_rate = max(quickest, DOUBT * self.plain_rate)
        if start < end:
            self._run_rounds(start, end)
        if not is_batch:
            return None
        return Rates(self.step_rate, self.answer_rate, self.plain_rate, self.start_rate)

    def _time_first(self, start: int, end: int) -> Block:
        """Find out with a few rows how long things take; return where they are."""
        memory = self._memory(end - start)
        block = self._block(start, end, memory, 0)
        n_taken = max(FIRST_STEPS, FIRST_WORK // (end - start))
        n_taken = min(self.engine.n_steps, n_taken)
        self._advance(block, n_taken)
        self._answer(block)
        return block

    def _try_plain(self, start: int, end: int) -> int:
        """Measure how fast the forest itself is; return the first row that remains.

        It is tried only if it is likely not to take much of the time.
        """
        last = min(end, start + BLOCK_UNIT)
        seconds = self._likely_plain_rate() * self.plain_units(last - start)
        if seconds >= TRIAL_SHARE * self.remaining(0):
            return start
        self._evaluate_fully(start, last)
        return last

    def _likely_plain_rate(self) -> float:
        """Return how long the forest's own evaluation is likely to take, untried.

        Stepping to the end takes longer, sometimes more than ten times; a rehearsal
        does if kernels were not loaded yet.
        """
        stepping = self.step_seconds(self.engine.n_steps, BLOCK_UNIT)
        return min(self.rehearsed, stepping / BLOCK_UNIT)

    def _is_plain_worthwhile(self, n_rows: int) -> bool:
        """Return whether the forest itself should evaluate rows, or most of them."""
        if self.plain_rate == 0.0:
            return False
        if n_rows < FIRST_ROWS:
            seconds = AMPLE * self.plain_rate * self.plain_units(n_rows)
            return seconds < self.remaining(0)
        return self._n_plain(n_rows) >= WORTHWHILE * n_rows

    def _n_plain(self, n_rows: int) -> int:
        """Return how many of the last rows the forest itself can evaluate in time."""
        remaining = self.remaining(0)
        rate = STILL_AMPLE * self.plain_rate
        if rate * self.plain_units(n_rows) < remaining:
            return n_rows
        # The others should not be left at the start.
        seconds = self.start_seconds(n_rows) + self.answer_seconds(n_rows)
        seconds += self.step_seconds(STEPS_OF_OTHERS, n_rows)
        of_others = STILL_AMPLE * seconds / n_rows
        if rate <= of_others:  # then nothing better can be done with the time
            n_fitting = int(max(0.0, remaining / rate - self.plain_call))
            return min(n_fitting, n_rows) // BLOCK_UNIT * BLOCK_UNIT
        spare = remaining - rate * self.plain_call - of_others * n_rows
        n_fitting = int(max(0.0, spare) / (rate - of_others))
        return min(n_fitting, n_rows) // BLOCK_UNIT * BLOCK_UNIT

    def _evaluate_fitting(self, start: int, end: int) -> int:
        """Let the forest evaluate what it can in time; return the first row left."""
        while start < end:
            n_rows = self._n_plain(end - start)
            if n_rows == 0:
                break
            n_at_once = MAX_PLAIN_ROWS
            if not self.plain_work:
                # Not all at once, if that takes long: it may be slower than expected.
                units = PLAIN_SHARE * self.remaining(0) / self.plain_rate
                n_blocks = int(units - self.plain_call) // BLOCK_UNIT
                n_at_once = min(max(n_blocks * BLOCK_UNIT, MIN_PLAIN_ROWS), n_at_once)
            last = start + min(n_rows, n_at_once)
            self._evaluate_fully(start, last)
            start = last
        return start

    def _memory(self, n_rows: int) -> Memory:
        """Return memory for so many rows.

        Trees are always walked here: what a round takes can then be told from the one
        before, and few steps are quicker.
        """
        return self.engine.memory(n_rows, self.rows.dtype, can_bitslice=False)

    def _run_rounds(self, start: int, end: int) -> None:
        """Take all rows further and further, together, and predict them."""
        total = self.engine.n_steps
        n_rows = end - start
        size = min(self.engine.block_rows, n_rows)
        memory = self._memory(n_rows)
        blocks: list[Block] = []
        done = 0
        while done < total:
            remaining = self.remaining(n_rows)
            if not blocks:
                remaining -= self.start_seconds(n_rows)
            goal = total
            if AMPLE * self.step_seconds(total - done, n_rows) > remaining:
                # Not much further than they are, so that no row is left far behind.
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
                    blocks.append(self._block(first, last, memory, first - start))
                    remaining = self.remaining(last - start) / STILL_AMPLE
                    n_fitting = max(1, self.steps_within(remaining, last - first))
                self._advance(blocks[i], min(goal, blocks[i].n_steps + n_fitting))
            done = min((block.n_steps for block in blocks), default=0)
            if done < goal or len(blocks) * size < n_rows:
                break
        for block in blocks:
            self._answer(block)

    def _block(self, first: int, last: int, memory: Memory, at: int) -> Block:
        """Return rows in the initial state, from row `at` of the memory on."""
        begin = perf_counter()
        block = self.engine.block(self.rows, first, last, memory, at)
        self.start_rate = (perf_counter() - begin) / (last - first + BLOCK_CALL)
        return block

    def _advance(self, block: Block, goal: int) -> None:
        """Take a block to a step."""
        begin = perf_counter()
        units = self.units(goal - block.n_steps) * len(block.rows) + STEP_CALL
        self.engine.advance(block, goal)
        self.stepping_seconds += perf_counter() - begin
        self.stepping_work += units
        self.step_rate = self.stepping_seconds / self.stepping_work

    def _answer(self, block: Block) -> None:
        """Read off the predictions of a block."""
        begin = perf_counter()
        winner = self.winner[block.first : block.end]
        self.engine.winners(block, self.rows, winner)
        self.n_steps[block.first : block.end] = block.n_steps
        self.answer_rate = (perf_counter() - begin) / (len(winner) + BLOCK_CALL)

    def _evaluate_fully(self, first: int, last: int) -> None:
        """Take rows to the end by the forest's own evaluation."""
        begin = perf_counter()
        self.winner[first:last] = self.engine.forest_winners(self.rows[first:last])
        self.n_steps[first:last] = self.engine.n_steps
        # Few rows say little about many, and a single piece little about the others.
        if self.plain_rate == 0.0 or last - first >= BLOCK_UNIT:
            self.plain_seconds += perf_counter() - begin
            self.plain_work += self.plain_units(last - first)
            self.plain_rate = self.plain_seconds / self.plain_work


def rehearse(
    engine: StepEngine, rows: NDArray[np.floating] | None = None
) -> tuple[Rates, float]:
    """Return how long things take, found out on some rows.

    Rows of random thresholds go more different ways than rows of a data set do, so that
    most of these will rather be quicker. Nothing is known of a forest with very many
    columns.

    Parameters
    ----------
    engine : StepEngine
        The forest and its order.
    rows : ndarray of shape (n_rows, n_features), optional
        Rows to rehearse on.

    Returns
    -------
    rates : Rates
        Seconds per row, the shortest of several rehearsals.
    plain_call : float
        To call the forest's own evaluation takes as long as so many rows.
    """
    forest = engine.forest
    if forest.n_features > WIDEST_WARMED or engine.n_steps == 0:
        return Rates(), PLAIN_CALL
    if rows is None or len(rows) < FIRST_ROWS:
        n_rows = REHEARSED_ROWS if forest.width <= MANY_COLUMNS else BLOCK_UNIT
        rows = engine.typical_rows(n_rows)
    rows = rows[:REHEARSED_ROWS]
    n_rows = len(rows)
    answers = np.zeros((2, n_rows), dtype=np.int64)
    shortest = np.full(3, np.inf)
    seconds = np.full(2, np.inf)  # of all rows, and of one block
    for _ in range(REHEARSALS):
        run = _Run(engine, Rates(), np.inf, 0.0, rows, np.inf, *answers)
        run._time_first(0, n_rows)
        seen = run.step_rate, run.answer_rate, run.start_rate
        shortest = np.minimum(shortest, seen)
        for i, last in enumerate((n_rows, min(n_rows, BLOCK_UNIT))):
            begin = perf_counter()
            run._evaluate_fully(0, last)
            seconds[i] = min(seconds[i], perf_counter() - begin)
    of_all, of_block = seconds.tolist()
    plain_call = PLAIN_CALL
    n_more = padded(n_rows) - BLOCK_UNIT
    if n_more > 0 and of_all > of_block:
        plain_call = of_block * n_more / (of_all - of_block) - BLOCK_UNIT
        plain_call = min(max(0.0, plain_call), LONGEST_PLAIN_CALL)
    step, answer, start = shortest.tolist()
    plain = of_all / (padded(n_rows) + plain_call)
    return Rates(step, answer, plain, start), plain_call
