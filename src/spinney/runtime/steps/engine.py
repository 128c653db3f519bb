"""Executes a step order: takes rows to any state of a forest, and predicts there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.runtime.batch_kernels import BLOCK_UNIT, MIN_BLOCK_ROWS, find_codes
from spinney.runtime.choice import kernels_at_once
from spinney.runtime.kernel_arrays import read_only
from spinney.runtime.layout import Layout
from spinney.runtime.leaf_masks import MAX_ROWS
from spinney.runtime.loading import ALL_ROWS, load_rows
from spinney.runtime.sharing import in_threads, threads_for
from spinney.runtime.simd import WORD
from spinney.runtime.steps.bitslice_kernels import step_bitsliced, transpose_rows
from spinney.runtime.steps.bitslices import BitslicedTrees
from spinney.runtime.steps.blocks import Block, Memory
from spinney.runtime.steps.step_kernels import (
    StepTrees,
    find_winners,
    step_block,
    step_row,
)
from spinney.runtime.steps.sums import ClassSums, class_sums

# Rows that are stepped together: few enough to stay in a near cache. A large tree,
# which has to be fetched from a distant one, should serve more of them, and so should
# a tree that is bitsliced.
BLOCK_ROWS, BLOCK_ROWS_OF_LARGE_TREES, BLOCK_ROWS_OF_BITSLICES = 4096, 16_384, 16_384
LARGE_TREE = 4096  # nodes
# Forests with more columns than this are not tried out on rows before their first use.
WIDEST_WARMED = 2**16


class StepEngine:
    """Steps through the trees of one forest in one order.

    All methods take rows as the forest's engine makes them. Safe to use from several
    threads at once: what belongs to rows is made by the call.

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
        self.class_sums: ClassSums = class_sums(forest)
        self.initial_sums = self.class_sums.at_roots()
        self._trees: dict[Any, StepTrees] = {}
        self._row_arguments: dict[Any, tuple[Any, ...]] = {}
        self._bitsliced: dict[Any, BitslicedTrees | None] = {}

    # What is compiled or laid out stays behind in a pickle, and is made anew at once:
    # later, somebody may be waiting for a result.
    def __reduce__(self) -> tuple[Any, ...]:
        return StepEngine.warmed_up, (self.forest, self.order)

    @classmethod
    def warmed_up(cls, forest: Forest, order: NDArray[np.int64]) -> StepEngine:
        """Return an engine with all kernels compiled, or loaded.

        Parameters
        ----------
        forest, order
            As for the class.
        """
        engine = cls(forest, order)
        if forest.n_features > WIDEST_WARMED:  # a file may claim any number of columns
            return engine
        dtypes: list[type[np.floating]] = [np.float32]
        if forest.input_dtype == "float64" or not forest.engine.is_narrow:
            dtypes.append(np.float64)
        for dtype in dtypes:
            rows = engine.blank_rows(BLOCK_UNIT, dtype)
            winner = np.empty(len(rows), dtype=np.int64)
            for can_bitslice in (False, True):
                memory = engine.memory(len(rows), rows.dtype, can_bitslice)
                block = engine.block(rows, 0, len(rows), memory)
                engine.advance(block, engine.n_steps)
                engine.winners(block, rows, winner)
            row = rows[:1]
            with kernels_at_once():
                for n_rows in (len(rows), MAX_ROWS, 1):  # each by other kernels
                    engine.forest_winners(rows[:n_rows])
            block = engine.block(row, 0, 1)
            at_roots = np.zeros(forest.n_trees, dtype=np.uint32)
            engine.advance_row(block.rows[0], 0, 1, at_roots, block.sums[0])
        return engine

    def blank_rows(self, n_rows: int, dtype: type[np.floating]) -> NDArray[np.floating]:
        """Return rows of zeros, to try things out.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        dtype : float32 or float64
            Type of the values before the forest's engine makes rows of them.
        """
        some = np.zeros((n_rows, self.forest.width), dtype=dtype)
        # Encoded rows are there already; others may have to be converted.
        if self.forest.encoder is not None:
            return read_only(some)
        return self.forest.engine.rows(some)

    def typical_rows(self, n_rows: int) -> NDArray[np.floating]:
        """Return rows of random thresholds, which go many ways through the trees.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        """
        forest = self.forest
        dtype = np.float32 if forest.engine.is_narrow else np.float64
        inner = np.flatnonzero((forest.feature >= 0) & np.isfinite(forest.threshold))
        inner = inner[np.argsort(forest.feature[inner], kind="stable")]
        columns, first, count = np.unique(
            forest.feature[inner], return_index=True, return_counts=True
        )
        some = np.zeros((n_rows, forest.width), dtype=dtype)
        share = np.random.default_rng(0).random((n_rows, len(columns)))
        drawn = inner[first + (share * count).astype(np.int64)]
        with np.errstate(over="ignore"):
            some[:, columns] = forest.threshold[drawn]
        if forest.encoder is not None:
            return read_only(some)
        return forest.engine.rows(some)

    @property
    def block_rows(self) -> int:
        """Number of rows that are stepped together if trees are walked."""
        is_large = self._largest_tree > LARGE_TREE
        return BLOCK_ROWS_OF_LARGE_TREES if is_large else BLOCK_ROWS

    # A plan for a deadline needs it a dozen times.
    @cached_property
    def _largest_tree(self) -> int:
        return int(np.diff(self.forest.tree_offsets).max())

    @property
    def n_steps(self) -> int:
        """Number of steps from the initial to the final state."""
        return len(self.order)

    def trees(self, dtype: type[np.floating]) -> StepTrees:
        """Return the trees as they are walked for rows of `dtype`, made on first use.

        Parameters
        ----------
        dtype : float32 or float64
            Type of the rows.
        """
        if dtype not in self._trees:
            layout = self.forest.engine.layout(dtype)
            # Relative to the roots, where all rows begin.
            offsets = self.forest.tree_offsets
            table = self.class_sums.table
            table = table - np.repeat(table[offsets[:-1]], np.diff(offsets), axis=0)
            self._trees[dtype] = StepTrees(
                layout.walk,
                layout.categories,
                table[node_at_index(self.forest, layout)],
                self.class_sums.output,
            )
        return self._trees[dtype]

    def bitsliced(self, dtype: type[np.floating]) -> BitslicedTrees | None:
        """Return the small trees in the form of splits, made on first use.

        None if plain evaluation walks all trees, too.

        Parameters
        ----------
        dtype : float32 or float64
            Type of the rows.
        """
        if dtype not in self._bitsliced:
            layout = self.forest.engine.layout(dtype)
            self._bitsliced[dtype] = (
                BitslicedTrees.of_layout(layout)
                if layout.bitsliced.is_bitsliced.any()
                else None
            )
        return self._bitsliced[dtype]

    # ---------------------------------------------------------------- some rows

    def memory(self, n_rows: int, dtype: np.dtype, can_bitslice: bool = True) -> Memory:
        """Return memory for the states of so many rows.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        dtype : dtype
            Their type.
        can_bitslice : bool, default=True
            Whether trees may be bitsliced, if that may pay.
        """
        n_columns = len(self.forest.engine.layout(dtype.type).columns) + 1
        trees = self.bitsliced(dtype.type)
        n_padded = n_outcomes = 0
        if can_bitslice and trees is not None and n_rows >= MIN_BLOCK_ROWS:
            n_padded = padded(n_rows)
            n_outcomes = n_padded // WORD * (trees.splits.n_shared + 1)
        return Memory(
            np.empty((n_rows, n_columns), dtype=dtype),
            np.empty(n_padded * n_columns, dtype=dtype),
            np.empty(n_outcomes, dtype=np.uint64),
            np.empty(n_rows * self.forest.n_trees, dtype=np.uint32),
            np.empty((n_rows, self.class_sums.n_classes), dtype=np.int64),
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
            Rows.
        first, end : int
            The rows of the block.
        memory : Memory, optional
            Where to put it; by default in memory of its own.
        start : int, default=0
            The first row in `memory` to use, if it is not for bitslicing.
        """
        n_rows, n_trees = end - first, self.forest.n_trees
        if memory is None:
            memory = self.memory(n_rows, rows.dtype)
        until = start + n_rows
        loaded, sums = memory.rows[start:until], memory.sums[start:until]
        position = memory.position[n_trees * start : n_trees * until]
        position = position.reshape(n_trees, n_rows)
        used = self.forest.engine.layout(rows.dtype.type).columns
        missing = load_rows(rows, ALL_ROWS, first, n_rows, used, loaded.reshape(-1))
        columns = None
        if memory.columns.size:
            n_padded, n_columns = padded(n_rows), loaded.shape[1]
            columns = memory.columns[: n_columns * n_padded].reshape(-1, n_padded)
        sums[:] = self.initial_sums
        return Block(
            first,
            loaded,
            bool(missing),
            columns,
            memory.outcomes,
            position,
            sums,
            np.zeros(n_trees, dtype=np.int64),
            np.zeros(n_trees, dtype=bool),
            np.zeros(n_trees, dtype=bool),
        )

    def advance(self, block: Block, n_steps: int) -> None:
        """Take a block of rows to the state after `n_steps` of the order.

        Parameters
        ----------
        block : Block
            The rows. Updated.
        n_steps : int
            Number of steps in all, no fewer than it has taken.
        """
        trees = self.trees(block.rows.dtype.type)
        steps = self.order[block.n_steps : n_steps]
        before = block.levels
        after = before + np.bincount(steps, minlength=len(before))
        n_walked = len(steps)
        if block.columns is not None:
            n_walked = self._advance_bitsliced(block, trees, after)
        if n_walked:
            step_block(
                block.rows,
                block.missing,
                trees,
                before,
                after,
                block.is_bitsliced,
                block.position,
                block.sums,
            )
        block.levels = after
        block.n_steps = n_steps

    def _advance_bitsliced(
        self, block: Block, trees: StepTrees, after: NDArray[np.int64]
    ) -> int:
        """Take the steps in trees that are bitsliced; return how many are walked."""
        assert block.columns is not None
        dtype, before = block.rows.dtype.type, block.levels
        bitsliced = self.bitsliced(dtype)
        assert bitsliced is not None
        # Bitslicing takes as long for few rows as for the next multiple of a unit.
        in_use = len(block.rows) / block.columns.shape[1]
        n_bitsliced, n_new, n_walked = bitsliced.choose(
            before, after, in_use, block.is_bitsliced
        )
        if n_new and not block.is_transposed:
            transpose_rows(block.rows, block.columns)
            block.is_transposed = True
        # All conditions are compared at once if most trees are about to be bitsliced.
        if 2 * n_new > len(block.is_known):
            is_new = block.is_bitsliced & ~block.is_known & (after > before)
            forms = self.forest.engine.layout(dtype).forms
            n_rows = len(block.rows)
            find_codes(block.columns, n_rows, forms, is_new, block.position)
            block.is_known |= is_new
        if n_bitsliced:
            step_bitsliced(
                block.columns,
                bitsliced.splits,
                bitsliced.categories,
                bitsliced.paths,
                trees.table,
                trees.output,
                before,
                after,
                block.is_bitsliced,
                block.is_known,
                block.outcomes,
                block.position,
                block.sums,
            )
        return n_walked

    def advance_row(
        self,
        row: NDArray[np.floating],
        first: int,
        end: int,
        position: NDArray[np.uint32],
        sums: NDArray[np.int64],
    ) -> None:
        """Take the steps `first` to `end` of the order for a single row.

        Parameters
        ----------
        row : ndarray of shape (n_columns + 1,)
            The row, as in a block.
        first, end : int
            Steps; beyond the last one there are none.
        position : ndarray of shape (n_trees,), dtype=uint32
            Its node in each tree. Updated.
        sums : ndarray of shape (n_classes,), dtype=int64
            Its running sums. Updated.
        """
        dtype = row.dtype.type
        if dtype not in self._row_arguments:
            self._row_arguments[dtype] = self.trees(dtype).one_by_one()
        arguments = self._row_arguments[dtype]
        end = min(end, self.n_steps)
        step_row(row, *arguments, self.order, first, end, position, sums)

    def winners(
        self, block: Block, rows: NDArray[np.floating], winner: NDArray[np.int64]
    ) -> None:
        """Write the winning class of each row of a block.

        Rows that have reached a leaf of every tree get the forest's own prediction: its
        rounded sums may break a tie that is one in whole numbers.

        Parameters
        ----------
        block : Block
            The rows in some state.
        rows : ndarray of shape (n_all_rows, n_features)
            All rows, which the block is a part of.
        winner : ndarray of shape (n_rows,), dtype=int64
            Overwritten with class indices.
        """
        is_close = np.empty(len(winner), dtype=bool)
        if not find_winners(block.sums, self.class_sums.slack, winner, is_close):
            return
        close = np.flatnonzero(is_close)
        complete = close[self.is_at_leaves(block, close)]
        if len(complete):
            winner[complete] = self.forest_winners(rows[block.first + complete])

    def is_at_leaves(self, block: Block, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of some rows of a block are at a leaf of every tree.

        Parameters
        ----------
        block : Block
            Rows in some state.
        rows : ndarray of int
            Some of them, counted from the first of the block.
        """
        if block.n_steps == self.n_steps:
            return np.ones(len(rows), dtype=bool)
        if ((block.levels == 0) & (self.forest.depths > 0)).any():
            return np.zeros(len(rows), dtype=bool)
        dtype = block.rows.dtype.type
        walk, bitsliced = self.trees(dtype).walk, self.bitsliced(dtype)
        walked = ~block.is_bitsliced & (block.levels > 0)
        node = walk.root[walked, None] + block.position[np.ix_(walked, rows)]
        column = walk.link[2 * node + 1] & walk.column_mask
        at_leaves = (column == block.rows.shape[1] - 1).all(axis=0)
        if bitsliced is not None:
            code = block.position[np.ix_(block.is_bitsliced, rows)]
            first = bitsliced.splits.first_code[block.is_bitsliced, None]
            level = bitsliced.leaf_level[first + code]
            at_leaves &= (level <= block.levels[block.is_bitsliced, None]).all(axis=0)
        return at_leaves

    def is_row_at_leaves(
        self, row: NDArray[np.floating], position: NDArray[np.uint32]
    ) -> bool:
        """Return whether a single row is at a leaf of every tree.

        Parameters
        ----------
        row, position
            As for `advance_row`.
        """
        walk = self.trees(row.dtype.type).walk
        column = walk.link[2 * (walk.root + position) + 1] & walk.column_mask
        return bool((column == len(row) - 1).all())

    # ---------------------------------------------------------------- all rows

    def sums_after(
        self, rows: NDArray[np.floating], n_steps: int, n_jobs: int | None
    ) -> NDArray[np.int64]:
        """Return the sums of all rows after `n_steps` of the order.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Rows.
        n_steps : int
            Steps to take.
        n_jobs : int or None
            Number of threads; None means one, -1 all cores.
        """
        sums = np.empty((len(rows), self.class_sums.n_classes), dtype=np.int64)

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

    def forest_winners(
        self, rows: NDArray[np.floating], n_jobs: int | None = None
    ) -> NDArray[np.integer]:
        """Return the winning class of all rows by the forest's own evaluation.

        Parameters
        ----------
        rows, n_jobs
            As for `sums_after`.
        """
        return self.forest.winners(self.forest.engine.raw(rows, n_jobs))

    def forest_probabilities(
        self, rows: NDArray[np.floating], n_jobs: int | None = None
    ) -> NDArray[np.floating]:
        """Return the class probabilities by the forest's own evaluation.

        Parameters
        ----------
        rows, n_jobs
            As for `sums_after`.
        """
        raw = self.forest.engine.raw(rows, n_jobs)
        return self.class_sums.probabilities_of_raw(raw)

    def _stepped(
        self, rows: NDArray[np.floating], start: int, end: int, n_steps: int
    ) -> Iterator[Block]:
        """Yield the rows from `start` to `end` in blocks, `n_steps` taken."""
        block_rows = self.block_rows
        if self.bitsliced(rows.dtype.type) is not None:
            block_rows = BLOCK_ROWS_OF_BITSLICES
        block_rows = min(block_rows, end - start)
        memory = self.memory(block_rows, rows.dtype)
        for first in range(start, end, block_rows):
            block = self.block(rows, first, min(end, first + block_rows), memory)
            self.advance(block, n_steps)
            yield block


def padded(n_rows: int) -> int:
    """Return the next multiple of the rows that are bitsliced in one step."""
    return -(-n_rows // BLOCK_UNIT) * BLOCK_UNIT


def node_at_index(forest: Forest, layout: Layout) -> NDArray[np.int64]:
    """Return the node of the forest that each index of a layout holds.

    An index that is left empty has node 0.
    """
    walk = layout.walk
    node_of = np.zeros(len(walk.link) // 2, dtype=np.int64)
    node = forest.tree_offsets[:-1]
    index = walk.root.astype(np.int64)
    root = index
    while node.size:
        node_of[index] = node
        inner = forest.feature[node] >= 0
        node, index, root = node[inner], index[inner], root[inner]
        link = walk.link[2 * index + 1].astype(np.int64)
        child = root + (link >> int(walk.child_shift))
        node = np.concatenate([forest.left[node], forest.right[node]]).astype(np.int64)
        index = np.concatenate([child, child + 1])
        root = np.concatenate([root, root])
    return node_of
