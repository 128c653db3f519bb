"""The engine that evaluates all trees of a forest.

It lays the forest out on first use, once for each type of rows, keeps the tables of
leaf values, and hands rows to the kernels: many in blocks, shared out among threads; a
few by masks over the leaves of small trees (`leaf_masks`), or row by row, which is
quicker for them; a single one through a `RowPredictor`, where the call itself costs as
much as the trees. Until there are kernels the plain engine
does the same (`choice`, `plain`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.forest.blocks import DENSE_BYTES, BlockedRows
from spinney.forest.categories import with_codes
from spinney.forest.frame_kinds import Frame
from spinney.forest.frame_rows import FrameRows
from spinney.forest.frames import frame_of
from spinney.forest.links import CLOSE
from spinney.forest.locks import ForkSafeLock
from spinney.forest.rows import as_rows, check_shape, is_plain_array
from spinney.forest.sparse import as_sparse_rows, is_sparse
from spinney.runtime.batch_kernels import (
    BLOCK_BYTES,
    BLOCK_ROWS,
    BLOCK_UNIT,
    MIN_BLOCK_ROWS,
    OUTCOME_BYTES,
    add_trees,
    find_leaf_values,
)
from spinney.runtime.category_mask_kernels import score_masked_categories
from spinney.runtime.choice import (
    COMPILE_SECONDS,
    Kernels,
    are_ready,
    either,
    may_go_on,
    step_seconds,
)
from spinney.runtime.encoding import RowEncoder
from spinney.runtime.kernel_arrays import read_only
from spinney.runtime.layout import (
    Forms,
    Layout,
    are_all_walked,
    expected_kind,
    fits_32_bits,
    lay_out,
)
from spinney.runtime.leaf_masks import MAX_ROWS, least_rows, mask_leaves
from spinney.runtime.loading import ALL_ROWS
from spinney.runtime.mask_kernels import score_masked_rows
from spinney.runtime.plain import PlainTrees
from spinney.runtime.row_kernels import class_of_row, score_rows
from spinney.runtime.row_nodes import RowArguments, row_arguments
from spinney.runtime.row_predictors import (
    Arguments,
    EncodingPredictor,
    NumberPredictor,
    Prepared,
    ProbabilityPredictor,
    RowPredictor,
)
from spinney.runtime.sharing import in_slices, in_threads, threads_for
from spinney.runtime.softmax_kernel import softmax_row
from spinney.runtime.widening import Widened, widened

if TYPE_CHECKING:
    from spinney.forest import Forest

# The softmax of one row; and the kernels for one row: it is compiled with any of them.
SOFTMAX = Kernels("softmax of a row", "float32", "float32")
FOR_ONE_ROW = "few rows", "scores of single rows", "probabilities of single rows"

# Converted rows, as `Engine.rows` returns them.
Rows = NDArray[np.floating] | BlockedRows


class Engine:
    """Evaluates one forest, with compiled kernels or the plain engine.

    Safe to use from several threads at once: layouts are made under a lock and never
    change, and all scratch memory belongs to the call. The kernels release Python's
    global lock.

    Parameters
    ----------
    forest : Forest
        The forest.
    """

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._lock = ForkSafeLock()
        self._layouts: dict[tuple[type, bool], Layout] = {}
        self._tables: dict[type, NDArray[np.floating]] = {}
        self._row_arguments: dict[type, RowArguments | None] = {}
        self._masks: dict[type, tuple[Any, ...]] = {}
        self._plain: dict[type, tuple[PlainTrees, NDArray[np.floating]]] = {}
        self._kernels: dict[tuple[str, np.dtype], Kernels] = {}
        # For rows of each type, once a kernel has predicted some: its arguments; and,
        # for a single row, what widens it.
        self._quick: dict[np.dtype, tuple[Callable[..., Any] | None, Any]] = {}
        self._quick_masks: dict[np.dtype, tuple[Any, ...]] = {}
        self._n_levels = int(forest.depths.sum())
        self._widened: Widened | None = None
        self._is_widened = False
        self._encoding: RowEncoder | None = None
        output = forest.tree_output
        self.tree_output: NDArray[np.int64] = (
            np.full(forest.n_trees, -1, dtype=np.int64)
            if output is None
            else output.astype(np.int64)
        )
        per_output = (
            np.full(forest.n_outputs, forest.n_trees)
            if output is None
            else np.maximum(np.bincount(output, minlength=forest.n_outputs), 1)
        )
        self._input_dtype = np.dtype(forest.input_dtype)
        self.sum_dtype = np.dtype(forest.sum_dtype)
        self.trees_per_output = per_output.astype(self.sum_dtype)
        self.is_narrow = fits_32_bits(forest)
        # Types of arrays that go to a kernel as they are.
        self._taken: frozenset[np.dtype] = frozenset(
            {np.dtype(np.float32), self._input_dtype}
            if self.is_narrow
            and forest.encoder is None
            and forest.missing_value is None
            else ()
        )
        # What comes before the trees, what their sum is divided by, what comes after.
        self._ends = np.zeros((3, forest.n_outputs), dtype=self.sum_dtype)
        self._ends[2 if forest.base_added == "last" else 0] = forest.base_score
        self._ends[1] = 1 if forest.aggregation == "sum" else self.trees_per_output

    # ---------------------------------------------------------------- preparation

    def rows(self, X: ArrayLike) -> Any:
        """Return `X` converted: as all else here and the kernels take it.

        This is done once, by the public method that a caller has called. Sparse rows
        stay sparse; whatever evaluates them makes them dense a block at a time. Those
        of a large batch with category values are encoded a block at a time, too.
        """
        forest = self.forest
        if type(X) is np.ndarray and X.dtype in self._taken:
            # The common case, which a call for a single row feels.
            flags = X.flags
            shape = X.shape
            if (
                len(shape) == 2
                and shape[1] == forest.n_features
                and flags.c_contiguous
                and flags.aligned
            ):
                return read_only(X)
        frame = None if type(X) is np.ndarray else frame_of(X)
        if frame is not None:
            frame = frame.in_order_of(forest.feature_names)
            frame.check_names_of(forest.feature_names)
            return self._rows_of_frame(frame)
        if forest.encoder is not None:
            return self.encoding.rows(X)
        if is_sparse(X):
            dtype = self._input_dtype if self.is_narrow else np.dtype(np.float64)
            absent = np.nan if forest.absent == "missing" else 0.0
            return as_sparse_rows(
                X, forest.n_features, dtype, absent, forest.missing_value
            )
        return read_only(self._dense(X))

    def _rows_of_frame(self, frame: Frame) -> Any:
        """Return the rows of a data frame, converted; a large one block by block."""
        forest = self.forest
        if forest.encoder is not None:
            return self.encoding.rows(frame)
        check_shape((frame.n_rows, len(frame.names)), forest.n_features)
        is_small = frame.n_rows * forest.n_features * 8 <= DENSE_BYTES
        if is_small or (
            frame.is_one_block
            and frame.array().dtype in (np.float32, self._input_dtype)
        ):
            return read_only(self._dense(frame))
        return FrameRows(frame, self._dense)

    def _dense(self, X: Any) -> NDArray[np.floating]:
        """Return rows of an array or a data frame as an array for kernels."""
        forest = self.forest
        if forest.categories is not None and not is_plain_array(X):
            X = with_codes(X, forest)
        rows = as_rows(X, forest.n_features, self._input_dtype, forest.rounded_rows)
        if not self.is_narrow:
            rows = rows.astype(np.float64, copy=False)
        if forest.missing_value is not None:
            rows = np.where(rows == rows.dtype.type(forest.missing_value), np.nan, rows)
        return rows

    @property
    def encoding(self) -> RowEncoder:
        """What encodes rows with category values, made on first use."""
        with self._lock:
            if self._encoding is None:
                dtype = np.dtype(np.float32 if self.is_narrow else np.float64)
                self._encoding = RowEncoder(self.forest, dtype)
            return self._encoding

    def layout(self, dtype: type[np.floating], share_leaves: bool = True) -> Layout:
        """Return the layout for rows of `dtype`, made on first use."""
        key = (dtype, share_leaves)
        with self._lock:
            if key not in self._layouts:
                self._layouts[key] = lay_out(self.forest, dtype, share_leaves)
            return self._layouts[key]

    def table(self, layout: Layout, dtype: type[np.floating]) -> NDArray[np.floating]:
        """Return what each leaf value index of the layout for `dtype` adds."""
        with self._lock:
            if dtype not in self._tables:
                self._tables[dtype] = self._added(layout.value_node)
            return self._tables[dtype]

    def _added(self, nodes: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return what nodes add to the sums."""
        values = self.forest.value[nodes]
        if self.forest.aggregation == "vote":
            winner = values.argmax(axis=1)
            values = np.zeros_like(values)
            values[np.arange(len(values)), winner] = 1.0
        return np.ascontiguousarray(values, dtype=self.sum_dtype)

    def plain_trees(
        self, dtype: type[np.floating]
    ) -> tuple[PlainTrees, NDArray[np.floating]]:
        """Return the trees for the plain engine, and what each of their nodes adds."""
        with self._lock:
            if dtype not in self._plain:
                trees = PlainTrees(self.forest, dtype)
                self._plain[dtype] = trees, self._added(trees.nodes)
            return self._plain[dtype]

    def kernels(self, what: str, dtype: np.dtype) -> Kernels:
        """Return which kernels do something with rows of `dtype`."""
        found = self._kernels.get((what, dtype))
        if found is None:  # the names of types take microseconds
            found = Kernels(what, dtype.name, self.sum_dtype.name)
            self._kernels[what, dtype] = found
        return found

    def named(self, what: str) -> str:
        """Return what kernels are called of which there are two, by size of trees."""
        return f"{what}, walked" if self._are_all_walked else what

    def named_by_kind(self, what: str) -> str:
        """Return what kernels are called that have only the parts that trees need."""
        return f"{what}, {self._kind}"

    def plain_seconds(self, n_rows: int) -> float:
        """Return about how long the plain engine takes for so many rows."""
        return step_seconds(n_rows, self._n_levels)

    @property
    def widened(self) -> Widened | None:
        """The same trees for wider rows, if single rows need that; see `widening`."""
        with self._lock:
            if not self._is_widened:
                found = widened(self.forest)
                if found is not None and not found.engine.is_narrow:
                    found = None
                self._widened, self._is_widened = found, True
            return self._widened

    def row_arguments(self, dtype: type[np.floating]) -> RowArguments | None:
        """Return what the kernels for single rows need, made on first use.

        None if nodes beyond a plain comparison, or links wider than usual, leave only
        the way of the batches, which knows them all.
        """
        if dtype not in self._row_arguments:
            layout = self.layout(dtype)
            self._row_arguments[dtype] = (
                None
                if layout.walk.is_special or not self.is_narrow
                else row_arguments(
                    layout, dtype, self.table(layout, dtype), self.tree_output
                )
            )
        return self._row_arguments[dtype]

    @cached_property
    def _kind(self) -> str:
        """The kind of kernels that batches of these trees need."""
        return expected_kind(self.forest)

    @cached_property
    def _are_all_walked(self) -> bool:
        """Whether trees are so large that nothing is compiled for small ones."""
        return are_all_walked(self.forest)

    @property
    def _masking(self) -> Callable[..., None]:
        """The kernel for a few rows of small trees."""
        return score_masked_rows if self.widened is None else score_masked_categories

    @cached_property
    def _least_masked(self) -> int:
        """From how many rows on masks over leaves are quicker than walking."""
        wide = self.widened
        if wide is None:
            return least_rows(self.forest)
        return least_rows(wide.engine.forest, wide.n_tests)

    def _mask_arguments(self, dtype: type[np.floating]) -> tuple[Any, ...]:
        """Return what the kernel for a few rows of small trees needs."""
        wide = self.widened
        with self._lock:
            if dtype not in self._masks:
                forest = self.forest if wide is None else wide.engine.forest
                made = mask_leaves(forest, dtype, self._added, self.tree_output)
                self._masks[dtype] = made if wide is None else wide.mask_arguments(made)
            return self._masks[dtype]

    # ---------------------------------------------------------------- predictions

    def raw_of(self, X: Any, n_jobs: int | None = None) -> NDArray[np.floating]:
        """Return the raw scores of rows as a caller has passed them.

        The same as ``raw(rows(X), n_jobs)``, but a single row, or a few, that are
        already what the kernels take go straight to them: the way there takes as long
        as all trees.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Not converted yet.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores.

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
            As from `raw`.
        """
        if type(X) is np.ndarray and X.ndim == 2 and n_jobs != 0:
            n_rows, n_columns = X.shape
            widen = None
            if n_rows == 1:
                score = score_rows
                widen, arguments = self._quick.get(X.dtype, (None, None))
            elif n_rows <= MAX_ROWS and n_rows >= self._least_masked:
                score, arguments = self._masking, self._quick_masks.get(X.dtype)
            else:
                arguments = None
            if (
                arguments is not None
                and n_columns == self.forest.n_features
                and X.flags.carray
                and may_go_on()
            ):
                rows = X.view() if widen is None else widen(X)
                # To write: see `kernel_arrays`. By name it takes twice as long.
                rows.setflags(False)  # type: ignore[call-arg]
                total = np.empty((n_rows, self.forest.n_outputs), self.sum_dtype)
                score(rows, *arguments, total)
                return total
        return self.raw(self.rows(X), n_jobs)

    def raw(self, rows: Rows, n_jobs: int | None = None) -> NDArray[np.floating]:
        """Return the raw scores, base score included.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Rows as `rows` returns them, or some of them.
        n_jobs : int or None, default=None
            Number of threads; None means one, -1 all cores.

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
            In the type in which the original library adds up the trees.
        """
        if isinstance(rows, BlockedRows):
            return rows.by_block(lambda block: self.raw(block, n_jobs))
        rows = read_only(rows)
        n_threads = threads_for(len(rows), n_jobs)
        n_rows = len(rows)
        if 1 < n_rows <= MAX_ROWS and n_rows >= self._least_masked:
            what = "few rows of small trees"
            if self.widened is not None:
                what = f"{what} with categories"
            kernels = self.kernels(what, rows.dtype)
            compiled = self._masked_raw
        elif n_rows < MIN_BLOCK_ROWS:
            kernels = self.kernels("few rows", rows.dtype)
            compiled = self._compiled_raw
        else:
            kernels = self.kernels(self.named_by_kind("batches"), rows.dtype)
            compiled = self._compiled_raw
        if are_ready(kernels):
            return compiled(rows, n_threads)
        return either(
            kernels,
            self.plain_seconds(n_rows),
            lambda: compiled(rows, n_threads),
            lambda: self._plain_raw(rows, n_threads),
        )

    def _masked_raw(
        self, rows: NDArray[np.floating], n_threads: int
    ) -> NDArray[np.floating]:
        """Return the raw scores of a few rows, by masks over leaves."""
        arguments = self._mask_arguments(rows.dtype.type)
        total = np.empty((len(rows), self.forest.n_outputs), self.sum_dtype)
        self._masking(rows, *arguments, self._ends, total)
        if rows.dtype in self._taken:
            self._quick_masks[rows.dtype] = (*arguments, self._ends)
        return total

    def _compiled_raw(
        self, rows: NDArray[np.floating], n_threads: int
    ) -> NDArray[np.floating]:
        """Return the raw scores, by kernels."""
        if len(rows) < MIN_BLOCK_ROWS:
            arguments, widen = self.row_arguments(rows.dtype.type), None
            if arguments is None and self.widened is not None:
                arguments = self.widened.engine.row_arguments(rows.dtype.type)
                widen = self.widened.rows
            if arguments is not None:
                total = np.empty((len(rows), self.forest.n_outputs), self.sum_dtype)
                some = rows if widen is None else read_only(widen(rows))
                score_rows(some, *arguments, self._ends, total)
                if rows.dtype in self._taken:
                    self._quick[rows.dtype] = widen, (*arguments, self._ends)
                return total
        layout = self.layout(rows.dtype.type)
        forms = _forms_for(layout, len(rows))
        table = self.table(layout, rows.dtype.type)
        block = rows_per_block(layout, rows)
        total = np.tile(self._ends[0], (len(rows), 1))

        def evaluate(start: int, end: int) -> None:
            add_trees(
                rows[start:end],
                ALL_ROWS,
                forms,
                block,
                table,
                self.tree_output,
                total[start:end],
            )

        in_threads(in_slices(evaluate, self.forest.n_trees), len(rows), n_threads)
        return self._ended(total)

    def _plain_raw(
        self, rows: NDArray[np.floating], n_threads: int
    ) -> NDArray[np.floating]:
        """Return the raw scores, by the plain engine."""
        trees, table = self.plain_trees(rows.dtype.type)
        total = np.tile(self._ends[0], (len(rows), 1))

        def evaluate(start: int, end: int) -> None:
            trees.add(rows[start:end], table, total[start:end])

        in_threads(in_slices(evaluate, self.forest.n_trees), len(rows), n_threads)
        return self._ended(total)

    def _ended(self, total: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return sums of all trees as raw scores."""
        if self.forest.aggregation != "sum":
            total /= self.trees_per_output
        if self.forest.base_added == "last":
            total += self._ends[2]
        return total

    def _value_indices(
        self, rows: Rows, n_jobs: int | None, share_leaves: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return an index for every row in every tree, and the node it stands for."""
        n_threads = threads_for(len(rows), n_jobs)
        dtype = rows.dtype.type

        def compiled() -> tuple[NDArray[np.int32], NDArray[np.int64]]:
            layout = self.layout(dtype, share_leaves)
            forms = _forms_for(layout, len(rows))
            block = rows_per_block(layout, np.empty(0, dtype=dtype))

            def find(some: NDArray[Any], found: NDArray[Any]) -> None:
                find_leaf_values(some, forms, block, found)

            return self._found(rows, find, n_threads), layout.value_node

        def plain() -> tuple[NDArray[np.int32], NDArray[np.int64]]:
            trees, _ = self.plain_trees(dtype)
            nodes = np.arange(self.forest.n_nodes)
            return self._found(rows, trees.find_leaves, n_threads), nodes

        seconds = self.plain_seconds(len(rows))
        kernels = self.kernels(self.named_by_kind("leaves"), rows.dtype)
        return either(kernels, seconds, compiled, plain)

    def _found(
        self, rows: Rows, find: Callable[..., None], n_threads: int
    ) -> NDArray[np.int32]:
        """Return what `find` writes about every row and every tree."""
        if isinstance(rows, BlockedRows):
            return rows.by_block(lambda block: self._found(block, find, n_threads))
        found = np.empty((len(rows), self.forest.n_trees), dtype=np.int32)
        shown = read_only(rows)

        def evaluate(start: int, end: int) -> None:
            find(shown[start:end], found[start:end])

        in_threads(in_slices(evaluate, self.forest.n_trees), len(rows), n_threads)
        return found

    def leaves(self, rows: Rows, n_jobs: int | None = None) -> NDArray[np.int32]:
        """Return the leaf at which each row ends in each tree, as node indices."""
        value_indices, node = self._value_indices(rows, n_jobs, share_leaves=False)
        return node.astype(np.int32)[value_indices]

    def votes(self, rows: Rows, n_jobs: int | None = None) -> NDArray[np.integer]:
        """Return the class index that each tree votes for."""
        value_indices, node = self._value_indices(rows, n_jobs, share_leaves=True)
        winner = self.forest.value[node].argmax(axis=1)
        dtype = np.uint8 if self.forest.n_outputs <= 256 else np.int32
        return winner.astype(dtype)[value_indices]

    def scores(
        self, rows: Rows, n_jobs: int | None = None, only_own: bool = False
    ) -> NDArray[np.float64]:
        """Return what each tree adds to the raw scores.

        Where a tree adds to one of several, `only_own` leaves out the zeros for others.
        """
        forest = self.forest
        value_indices, node = self._value_indices(rows, n_jobs, share_leaves=True)
        values = forest.value[node]
        if forest.n_outputs == 1 or (only_own and forest.tree_output is not None):
            return values[:, 0][value_indices]
        if forest.tree_output is None:
            return values[value_indices]
        scores = np.zeros((*value_indices.shape, forest.n_outputs))
        trees = np.arange(forest.n_trees)
        scores[:, trees, forest.tree_output] = values[:, 0][value_indices]
        return scores

    def predictor(self) -> RowPredictor | NumberPredictor | EncodingPredictor:
        """Return a thin callable that predicts one row at a time."""
        forest = self.forest
        if forest.encoder is not None:
            encoding = self.encoding
            return EncodingPredictor(encoding.row, encoding.plain.engine.predictor())
        if forest.classes is None:
            return NumberPredictor(*self._score_predicting())
        margin = 0.0
        if forest.decides_by == "probability":
            # Logistic curves can be equal at any distance, once they reach one.
            margin = CLOSE if forest.link == "softmax" else np.inf
        # In the type of the sum, as `Forest.winners` compares.
        decision = float(self.sum_dtype.type(forest.effective_threshold)), margin

        def prepare() -> Prepared:
            by_row, widen = self.arguments_of_single_rows()
            arguments = {
                dtype: (*of_rows, self._ends, *decision)
                for dtype, of_rows in by_row.items()
            }
            return arguments, widen

        kernels = self.kernels("single rows", self._input_dtype)
        return RowPredictor(
            forest, class_of_row, kernels, prepare, lambda X: forest.predict(X)[0]
        )

    def softmax_of_row(self, raw: NDArray[np.floating]) -> NDArray[np.floating] | None:
        """Return the softmax of the float32 scores of one row, by a kernel.

        Parameters
        ----------
        raw : ndarray of shape (1, n_outputs)
            Raw scores.

        Returns
        -------
        shares : ndarray of shape (1, n_outputs) or None
            Bit by bit as from `spinney.forest.links.softmax`, which is to be called if
            this is None: the kernel is not there, not for such scores, or not sure.
        """
        if raw.dtype != np.float32:
            return None
        shares = np.empty(raw.shape, dtype=np.float32)
        if are_ready(SOFTMAX):
            return shares if softmax_row(raw, shares) else None
        serving = any(
            are_ready(self.kernels(what, self._input_dtype)) for what in FOR_ONE_ROW
        )
        is_sure = either(
            SOFTMAX,
            COMPILE_SECONDS if serving else 0.0,
            lambda: softmax_row(raw, shares),
            lambda: False,
        )
        return shares if is_sure else None

    def probability_predictor(self) -> ProbabilityPredictor | EncodingPredictor:
        """Return a thin callable that returns the probabilities of one row."""
        if self.forest.encoder is not None:
            encoding = self.encoding
            predict = encoding.plain.engine.probability_predictor()
            return EncodingPredictor(encoding.row, predict)
        return ProbabilityPredictor(*self._score_predicting())

    def _score_predicting(self) -> tuple[Any, ...]:
        """Return what predictors of scores are made of."""

        def prepare() -> Prepared:
            by_row, widen = self.arguments_of_single_rows()
            arguments: Arguments = {
                dtype: (*of_rows, self._ends) for dtype, of_rows in by_row.items()
            }
            return arguments, widen

        kernels = self.kernels("scores of single rows", self._input_dtype)
        return self.forest, self.sum_dtype, score_rows, kernels, prepare

    def arguments_of_single_rows(
        self,
    ) -> tuple[dict[np.dtype, RowArguments], Callable[..., Any] | None]:
        """Return what kernels for single rows need, and what widens rows for them.

        Returns
        -------
        arguments : dict
            For each type of rows; empty if only the way of the batches is open.
        widen : callable or None
            To be called with a row first.
        """
        dtypes = self.dtypes_of_single_rows()
        found = {np.dtype(dtype): self.row_arguments(dtype) for dtype in dtypes}
        wide = None
        if dtypes and None in found.values():
            wide = self.widened
            if wide is not None:
                found = {
                    np.dtype(dtype): wide.engine.row_arguments(dtype)
                    for dtype in dtypes
                }
        known = {dtype: each for dtype, each in found.items() if each is not None}
        return known, None if wide is None else wide.row

    def dtypes_of_single_rows(self) -> list[type[np.floating]]:
        """Return the types of rows for which a thin predictor is made."""
        if self.forest.missing_value is not None:
            return []  # rows have to be changed first
        if self.forest.input_dtype == "float64":
            return [np.float32, np.float64]
        return [np.float32]


def _forms_for(layout: Layout, n_rows: int) -> Forms:
    """Return what the kernels need for so many rows: bitslicing takes many."""
    return layout.forms if n_rows >= MIN_BLOCK_ROWS else layout.walked_forms


def rows_per_block(layout: Layout, rows: NDArray[np.floating]) -> int:
    """Return how many rows of this width are evaluated tree by tree at a time."""
    n_kept = len(layout.schedule.chain_column)
    if not layout.schedule.is_bitsliced.all():
        n_kept += len(layout.columns) + 1
    fitting = min(
        BLOCK_ROWS,
        BLOCK_BYTES // (max(1, n_kept) * rows.itemsize),
        OUTCOME_BYTES * 8 // (len(layout.schedule.condition_slot) + 1),
    )
    return max(BLOCK_UNIT, fitting // BLOCK_UNIT * BLOCK_UNIT)
