"""Executes a step order: to a given step, or until the time is up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.anytime.sums import ClassSums, class_sums
from spinney.forest import Forest
from spinney.runtime.engine import in_threads, threads_for
from spinney.runtime.kernels import MIN_BLOCK_ROWS
from spinney.runtime.layout import Layout

# Rows that are stepped together: few enough to stay in a near cache. A large tree,
# which has to be fetched from a distant one, should serve more of them.
BLOCK_ROWS, BLOCK_ROWS_OF_LARGE_TREES = 4096, 16_384
LARGE_TREE = 4096  # nodes


class Stepper:
    """Steps through the trees of one forest in one order.

    Safe to use from several threads at once: what belongs to rows is made by the call.

    Parameters
    ----------
    forest : Forest
        A classifier with values at its inner nodes.
    order : ndarray of shape (n_steps,), dtype=int64
        Tree to step in; every tree as often as it is deep.
    """

    def __init__(self, forest: Forest, order: NDArray[np.int64]) -> None:
        self.forest = forest
        self.order = order
        self.sums: ClassSums = class_sums(forest)
        self.start = self.sums.at_roots()
        self._arguments: dict[Any, tuple[Any, ...]] = {}
        # How long things take here, in seconds per row, as far as known; see `Race`.
        self.rates = (0.0, 0.0, 0.0)

    # What is compiled or laid out stays behind in a pickle, and is made anew at once:
    # later, somebody may be waiting for an answer.
    def __reduce__(self) -> tuple[Any, ...]:
        return Stepper.made_ready, (self.forest, self.order)

    @classmethod
    def made_ready(cls, forest: Forest, order: NDArray[np.int64]) -> Stepper:
        """Return a stepper with all kernels compiled, or loaded.

        Parameters
        ----------
        forest, order
            As for the class.
        """
        stepper = cls(forest, order)
        dtypes: list[type[np.floating]] = [np.float32]
        if forest.input_dtype == "float64" or not forest.engine.is_narrow:
            dtypes.append(np.float64)
        for dtype in dtypes:
            some = np.zeros((MIN_BLOCK_ROWS, forest.n_features), dtype=dtype)
            rows = forest.engine.rows(some)
            stepper.winners_after(rows, min(1, stepper.n_steps), None)
            forest.engine.raw(rows)
            forest.engine.raw(rows[:1])
            row = stepper.block(rows, 0, 1)
            stepper.advance_row(row.rows[0], 0, 1, row.place[:, 0].copy(), row.sums[0])
        return stepper

    @property
    def block_rows(self) -> int:
        """Number of rows that are stepped together."""
        largest = int(np.diff(self.forest.tree_offsets).max())
        return BLOCK_ROWS if largest <= LARGE_TREE else BLOCK_ROWS_OF_LARGE_TREES

    @property
    def n_steps(self) -> int:
        """Number of steps from the initial to the final state."""
        return len(self.order)

    def arguments(self, dtype: type[np.floating]) -> tuple[Any, ...]:
        """Return what the kernels need beside the rows, made on first use."""
        if dtype not in self._arguments:
            layout = self.forest.engine.layout(dtype)
            walk, categories = layout.walk, layout.categories
            node_of = nodes_by_place(self.forest, layout)
            self._arguments[dtype] = (
                walk.threshold,
                walk.link,
                walk.payload,
                walk.kind,
                walk.is_special,
                walk.root,
                walk.child_shift,
                walk.column_mask,
                categories.offsets,
                categories.words,
                categories.rule,
                self.sums.table[node_of],
                self.sums.output,
            )
        return self._arguments[dtype]

    def remember(self, *rates: float) -> None:
        """Keep in mind how long things took, for the next time.

        What is quicker is believed at once, what is slower a little at a time: it may
        have been the machine that was busy.

        Parameters
        ----------
        *rates : float
            Seconds per row for three kinds of work; 0 if it was not done.
        """
        step, answer, plain = (
            min(seen, 1.2 * known) if known > 0.0 and seen > 0.0 else max(seen, known)
            for seen, known in zip(rates, self.rates, strict=True)
        )
        self.rates = (step, answer, plain)

    def levels(self, n_steps: int) -> NDArray[np.int64]:
        """Return how many steps each tree has taken after `n_steps` of the order."""
        return np.bincount(self.order[:n_steps], minlength=self.forest.n_trees)

    def memory(self, n_rows: int, dtype: np.dtype) -> Memory:
        """Return room for the states of so many rows."""
        n_columns = len(self.forest.engine.layout(dtype.type).columns)
        return Memory(
            np.empty((n_rows, n_columns + 1), dtype=dtype),
            np.empty(n_rows * self.forest.n_trees, dtype=np.uint32),
            np.empty((n_rows, self.sums.n_classes), dtype=np.int64),
        )

    def block(
        self,
        rows: NDArray[np.floating],
        first: int,
        end: int,
        memory: Memory | None = None,
        start: int = 0,
    ) -> Block:
        """Return a block of rows in the initial state.

        Parameters
        ----------
        rows : ndarray of shape (n_all_rows, n_features)
            Rows as the forest's engine makes them.
        first, end : int
            The rows of the block.
        memory : Memory, optional
            Where to put it; by default in memory of its own.
        start : int, default=0
            The first row in `memory` to use.
        """
        from spinney.anytime.step_kernels import load_rows

        n_rows, n_trees = end - first, self.forest.n_trees
        if memory is None:
            memory = self.memory(n_rows, rows.dtype)
        until = start + n_rows
        loaded, sums = memory.rows[start:until], memory.sums[start:until]
        place = memory.place[n_trees * start : n_trees * until].reshape(n_trees, n_rows)
        columns = self.forest.engine.layout(rows.dtype.type).columns
        missing = load_rows(rows, first, columns, loaded)
        place[:] = 0
        sums[:] = self.start
        return Block(first, loaded, bool(missing), place, sums)

    def advance(self, block: Block, n_steps: int) -> None:
        """Take a block of rows to the state after `n_steps` of the order."""
        from spinney.anytime.step_kernels import step_block

        step_block(  # type: ignore[call-arg]
            block.rows,
            block.missing,
            *self.arguments(block.rows.dtype.type),
            self.levels(block.n_steps),
            self.levels(n_steps),
            block.place,
            block.sums,
        )
        block.n_steps = n_steps

    def advance_row(
        self,
        row: NDArray[np.floating],
        first: int,
        end: int,
        place: NDArray[np.uint32],
        sums: NDArray[np.int64],
    ) -> None:
        """Take the steps `first` to `end` of the order for a single row.

        Parameters
        ----------
        row : ndarray of shape (n_columns + 1,)
            The row, as in a block.
        first, end : int
            Steps; beyond the last one there are none.
        place : ndarray of shape (n_trees,), dtype=uint32
            Where it is in each tree. Updated.
        sums : ndarray of shape (n_classes,), dtype=int64
            Its running sums. Updated.
        """
        from spinney.anytime.step_kernels import step_row

        arguments = self.arguments(row.dtype.type)
        end = min(end, self.n_steps)
        step_row(  # type: ignore[call-arg]
            row, *arguments, self.order, first, end, place, sums
        )

    def winners(
        self, block: Block, rows: NDArray[np.floating], winner: NDArray[np.int64]
    ) -> None:
        """Write the winning class of each row of a block.

        Rows that have come to the end of every tree get the forest's own answer: its
        rounded sums may break a tie that is one in whole numbers.
        """
        from spinney.anytime.step_kernels import find_winners

        is_close = np.empty(len(winner), dtype=bool)
        if not find_winners(block.sums, self.sums.slack, winner, is_close):
            return
        close = np.flatnonzero(is_close)
        complete = close[self._at_leaves(block, close)]
        if len(complete):
            raw = self.forest.engine.raw(rows[block.first + complete])
            winner[complete] = self.forest.winners(raw)

    def _at_leaves(self, block: Block, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of some rows of a block are at a leaf of every tree."""
        walk = self.forest.engine.layout(block.rows.dtype.type).walk
        at = walk.root[:, None] + block.place[:, rows]
        column = walk.link[2 * at + 1] & walk.column_mask
        return (column == block.rows.shape[1] - 1).all(axis=0)

    # ---------------------------------------------------------------- to a step

    def sums_after(
        self, rows: NDArray[np.floating], n_steps: int, n_jobs: int | None
    ) -> NDArray[np.int64]:
        """Return the sums of all rows after `n_steps` of the order.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Rows as the forest's engine makes them.
        n_steps : int
            Steps to take.
        n_jobs : int or None
            Number of threads; None means one, -1 all cores.
        """
        sums = np.empty((len(rows), self.sums.n_classes), dtype=np.int64)

        def evaluate(start: int, end: int) -> None:
            for block in self._stepped(rows, start, end, n_steps):
                sums[block.first : block.end] = block.sums

        in_threads(evaluate, len(rows), threads_for(len(rows), n_jobs))
        return sums

    def winners_after(
        self, rows: NDArray[np.floating], n_steps: int, n_jobs: int | None
    ) -> NDArray[np.int64]:
        """Return the winning class of all rows after `n_steps` of the order.

        Parameters
        ----------
        rows, n_steps, n_jobs
            As for `sums_after`.
        """
        winner = np.empty(len(rows), dtype=np.int64)

        def evaluate(start: int, end: int) -> None:
            for block in self._stepped(rows, start, end, n_steps):
                self.winners(block, rows, winner[block.first : block.end])

        in_threads(evaluate, len(rows), threads_for(len(rows), n_jobs))
        return winner

    def _stepped(
        self, rows: NDArray[np.floating], start: int, end: int, n_steps: int
    ) -> Iterator[Block]:
        """Yield the rows from `start` to `end` in blocks, `n_steps` taken."""
        block_rows = min(self.block_rows, end - start)
        memory = self.memory(block_rows, rows.dtype)
        for first in range(start, end, block_rows):
            block = self.block(rows, first, min(end, first + block_rows), memory)
            self.advance(block, n_steps)
            yield block


class Memory(NamedTuple):
    """Room for the states of rows, in one piece: many small ones take long to get."""

    rows: NDArray[np.floating]
    place: NDArray[np.uint32]
    sums: NDArray[np.int64]


@dataclass(eq=False)
class Block:
    """Some rows on their way through the forest.

    Parameters
    ----------
    first : int
        The first of them among all rows.
    rows : ndarray of shape (n_rows, n_columns + 1)
        The columns in use.
    missing : bool
        Whether there may be a NaN among them.
    place : ndarray of shape (n_trees, n_rows), dtype=uint32
        Where each row is in each tree.
    sums : ndarray of shape (n_rows, n_classes), dtype=int64
        Running sums.
    n_steps : int, default=0
        Steps taken.
    """

    first: int
    rows: NDArray[np.floating]
    missing: bool
    place: NDArray[np.uint32]
    sums: NDArray[np.int64]
    n_steps: int = field(default=0)

    @property
    def end(self) -> int:
        """One after the last of the rows."""
        return self.first + len(self.rows)


def nodes_by_place(forest: Forest, layout: Layout) -> NDArray[np.int64]:
    """Return the node that lies at each place of a layout.

    A place that is left empty has node 0.
    """
    walk = layout.walk
    node_of = np.zeros(len(walk.link) // 2, dtype=np.int64)
    node = forest.tree_offsets[:-1]
    place = walk.root.astype(np.int64)
    root = place
    while node.size:
        node_of[place] = node
        inner = forest.feature[node] >= 0
        node, place, root = node[inner], place[inner], root[inner]
        link = walk.link[2 * place + 1].astype(np.int64)
        child = root + (link >> int(walk.child_shift))
        node = np.concatenate([forest.left[node], forest.right[node]]).astype(np.int64)
        place = np.concatenate([child, child + 1])
        root = np.concatenate([root, root])
    return node_of
