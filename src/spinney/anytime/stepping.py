"""Executes a step order: to a given step, or until the time is up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.anytime.blocks import Block, Memory
from spinney.anytime.slices import Slices
from spinney.anytime.sums import ClassSums, class_sums
from spinney.forest import Forest
from spinney.runtime.batch_kernels import BLOCK_UNIT, MIN_BLOCK_ROWS, find_codes
from spinney.runtime.engine import in_threads, threads_for
from spinney.runtime.layout import Layout
from spinney.runtime.simd import WORD

# Rows that are stepped together: few enough to stay in a near cache. A large tree,
# which has to be fetched from a distant one, should serve more of them, and so should
# a tree that is bitsliced.
BLOCK_ROWS, BLOCK_ROWS_OF_LARGE_TREES, BLOCK_ROWS_OF_SLICES = 4096, 16_384, 16_384
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
        self._slices: dict[Any, Slices | None] = {}
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
            some = np.zeros((BLOCK_UNIT, forest.n_features), dtype=dtype)
            rows = forest.engine.rows(some)
            winner = np.empty(len(rows), dtype=np.int64)
            for can_slice in (False, True):
                memory = stepper.memory(len(rows), rows.dtype, can_slice)
                block = stepper.block(rows, 0, len(rows), memory)
                stepper.advance(block, stepper.n_steps)
                stepper.winners(block, rows, winner)
            forest.engine.raw(rows)
            row = rows[:1]
            forest.engine.raw(row)
            block = stepper.block(row, 0, 1)
            stepper.advance_row(
                block.rows[0], 0, 1, block.place[:, 0].copy(), block.sums[0]
            )
        return stepper

    @property
    def block_rows(self) -> int:
        """Number of rows that are stepped together if trees are walked."""
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
            # Relative to the roots, where all rows begin.
            offsets = self.forest.tree_offsets
            table = self.sums.table
            table = table - np.repeat(table[offsets[:-1]], np.diff(offsets), axis=0)
            self._arguments[dtype] = (
                walk.threshold,
                walk.link,
                walk.value_index,
                walk.kind,
                walk.is_special,
                walk.root,
                walk.child_shift,
                walk.column_mask,
                categories.offsets,
                categories.words,
                categories.rule,
                table[node_of],
                self.sums.output,
            )
        return self._arguments[dtype]

    def slices(self, dtype: type[np.floating]) -> Slices | None:
        """Return the small trees in the form of splits, made on first use.

        None if the forest itself is walked, too.
        """
        if dtype not in self._slices:
            layout = self.forest.engine.layout(dtype)
            self._slices[dtype] = (
                Slices.of_layout(layout)
                if layout.bitsliced.is_bitsliced.any()
                else None
            )
        return self._slices[dtype]

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

    def memory(self, n_rows: int, dtype: np.dtype, can_slice: bool = True) -> Memory:
        """Return room for the states of so many rows.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        dtype : dtype
            Their type.
        can_slice : bool, default=True
            Whether to have room for slicing trees, if that may pay.
        """
        n_columns = len(self.forest.engine.layout(dtype.type).columns)
        slices = self.slices(dtype.type)
        n_padded = n_answers = 0
        if can_slice and slices is not None and n_rows >= MIN_BLOCK_ROWS:
            n_padded = -(-n_rows // BLOCK_UNIT) * BLOCK_UNIT
            n_answers = n_padded // WORD * (slices.bitsliced.n_shared + 1)
        return Memory(
            np.empty((n_rows, n_columns + 1), dtype=dtype),
            np.empty(n_padded * n_columns, dtype=dtype),
            np.empty(n_answers, dtype=np.uint64),
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
            The first row in `memory` to use, if there is no room for slicing.
        """
        from spinney.anytime.step_kernels import load_rows

        n_rows, n_trees = end - first, self.forest.n_trees
        if memory is None:
            memory = self.memory(n_rows, rows.dtype)
        until = start + n_rows
        loaded, sums = memory.rows[start:until], memory.sums[start:until]
        place = memory.place[n_trees * start : n_trees * until].reshape(n_trees, n_rows)
        used = self.forest.engine.layout(rows.dtype.type).columns
        missing = load_rows(rows, first, used, loaded)
        columns = None
        if memory.columns.size:
            n_padded = -(-n_rows // BLOCK_UNIT) * BLOCK_UNIT
            columns = memory.columns[: len(used) * n_padded].reshape(-1, n_padded)
        else:
            # Fetched from the system now: all steps then take as long as the first.
            place[:] = 0
        sums[:] = self.start
        levels = np.zeros(n_trees, dtype=np.int64)
        return Block(
            first,
            loaded,
            bool(missing),
            columns,
            memory.answers,
            place,
            sums,
            levels,
            np.zeros(n_trees, dtype=bool),
            np.zeros(n_trees, dtype=bool),
        )

    def advance(self, block: Block, n_steps: int) -> None:
        """Take a block of rows to the state after `n_steps` of the order."""
        from spinney.anytime.slice_kernels import load_columns, step_sliced
        from spinney.anytime.step_kernels import step_block

        arguments = self.arguments(block.rows.dtype.type)
        steps = self.order[block.n_steps : n_steps]
        before = block.levels
        after = before + np.bincount(steps, minlength=self.forest.n_trees)
        n_walked = len(steps)
        slices = self.slices(block.rows.dtype.type)
        if slices is not None and block.columns is not None:
            # Slicing takes as long for few rows as for the next multiple of a unit.
            in_use = len(block.rows) / block.columns.shape[1]
            n_sliced, n_new, n_walked = slices.choose(
                before, after, in_use, block.is_bitsliced
            )
            if n_new and not block.is_turned:
                load_columns(block.rows, block.columns)
                block.is_turned = True
            # All questions are asked at once if most trees are about to be bitsliced.
            if 2 * n_new > len(block.is_known):
                is_new = block.is_bitsliced & ~block.is_known & (after > before)
                layout = self.forest.engine.layout(block.rows.dtype.type)
                find_codes(
                    block.columns, len(block.rows), layout.forms, is_new, block.place
                )
                block.is_known |= is_new
            if n_sliced:
                step_sliced(
                    block.columns,
                    slices.bitsliced,
                    slices.categories,
                    slices.paths,
                    *arguments[-2:],
                    before,
                    after,
                    block.is_bitsliced,
                    block.is_known,
                    block.answers,
                    block.place,
                    block.sums,
                )
        if n_walked:
            step_block(
                block.rows,
                block.missing,
                *arguments,
                before,
                after,
                block.is_bitsliced,
                block.place,
                block.sums,
            )
        block.levels = after
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
        step_row(row, *arguments, self.order, first, end, place, sums)

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
        if block.n_steps == self.n_steps:
            return np.ones(len(rows), dtype=bool)
        if ((block.levels == 0) & (self.forest.depths > 0)).any():
            return np.zeros(len(rows), dtype=bool)
        dtype = block.rows.dtype.type
        walk, slices = self.forest.engine.layout(dtype).walk, self.slices(dtype)
        walked = ~block.is_bitsliced & (block.levels > 0)
        at = walk.root[walked, None] + block.place[np.ix_(walked, rows)]
        column = walk.link[2 * at + 1] & walk.column_mask
        arrived = (column == block.rows.shape[1] - 1).all(axis=0)
        if slices is not None:
            code = block.place[np.ix_(block.is_bitsliced, rows)]
            first = slices.bitsliced.first_code[block.is_bitsliced, None]
            level = slices.leaf_level[first + code]
            arrived &= (level <= block.levels[block.is_bitsliced, None]).all(axis=0)
        return arrived

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
        block_rows = self.block_rows
        if self.slices(rows.dtype.type) is not None:
            block_rows = BLOCK_ROWS_OF_SLICES
        block_rows = min(block_rows, end - start)
        memory = self.memory(block_rows, rows.dtype)
        for first in range(start, end, block_rows):
            block = self.block(rows, first, min(end, first + block_rows), memory)
            self.advance(block, n_steps)
            yield block


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
