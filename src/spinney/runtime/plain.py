"""The plain engine: all trees of a forest in NumPy, without a compiler.

Rows go down the trees level by level, all rows of a block in several trees at once: a
level is a handful of NumPy calls, whatever the number of rows. As in `layout`, the two
children of a node lie next to each other and a leaf is its own left child, so rows
that have arrived stay where they are; in deep trees they are sorted out now and then.

The predictions are those of the compiled kernels to the last bit: the same comparisons,
and sums in the same order and type. It serves while kernels are not compiled and
wherever they cannot be, see `choice`; in tests it is the twin that the kernels are held
to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spinney.forest.nodes import ZERO_BAND
from spinney.runtime.thresholds import thresholds_for

if TYPE_CHECKING:
    from spinney.forest import Forest

# (row, tree) pairs that go down together: few enough that all that is known of them
# stays in the caches, many enough that a NumPy call is not felt.
PAIRS_PER_BLOCK = 49_152
# Of these, rows: their values have to stay in the caches, too.
ROWS_PER_BLOCK = 4_096
BYTES_PER_BLOCK = 1_048_576

# Levels before pairs that have arrived are sorted out, and again after that.
FIRST_LEVELS = 10
MORE_LEVELS = 4

# Up to so many rows, sums are taken over all trees of a block in one NumPy call.
FEW_ROWS = 64


class PlainTrees:
    """The trees of a forest, for the plain engine.

    Safe to use from several threads at once: nothing changes after it is made, and all
    scratch memory belongs to the call.

    Parameters
    ----------
    forest : Forest
        The forest.
    dtype : float32 or float64
        Type of the rows.

    Attributes
    ----------
    nodes : ndarray of shape (n_nodes,), dtype=int64
        The nodes of the forest in the order in which they lie here.
    """

    def __init__(self, forest: Forest, dtype: type[np.floating]) -> None:
        self._forest = forest
        self._root = forest.tree_offsets[:-1]
        is_inner = forest.feature >= 0
        inner = np.flatnonzero(is_inner)
        tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offsets))[inner]
        # The root comes first, then the children of each inner node, pair by pair.
        n_before: NDArray[np.int64] = np.cumsum(is_inner) - is_inner
        number: NDArray[np.int64] = n_before[inner] - n_before[self._root][tree]
        left = self._root[tree] + 1 + 2 * number
        slot = np.empty(forest.n_nodes, dtype=np.int64)
        slot[self._root] = self._root
        slot[forest.left[inner]] = left
        slot[forest.right[inner]] = left + 1
        where = slot[inner]
        self._child = np.arange(forest.n_nodes)
        self._child[where] = left
        self._threshold = np.full(forest.n_nodes, np.inf, dtype=dtype)
        self._threshold[where] = thresholds_for(forest.threshold[inner], dtype)
        self._column = np.zeros(forest.n_nodes, dtype=np.int64)
        self._column[where] = forest.feature[inner]
        self.nodes = np.empty(forest.n_nodes, dtype=np.int64)
        self.nodes[slot] = np.arange(forest.n_nodes)
        special = _special_nodes(forest)
        self._is_special = None if special is None else special[self.nodes]

    # ---------------------------------------------------------------- predictions

    def add(
        self,
        rows: NDArray[np.floating],
        table: NDArray[np.floating],
        total: NDArray[np.floating],
        first: int = 0,
        last: int | None = None,
    ) -> None:
        """Add what the trees from `first` to before `last` say, one after another.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Converted rows, of the type that this is for.
        table : ndarray of shape (n_nodes, n_values)
            What each of `nodes` adds.
        total : ndarray of shape (n_rows, n_outputs), dtype of `table`
            Added to.
        first, last : int
            Which trees; all of them by default.
        """
        output = self._forest.tree_output
        for part, trees, slots in self._slots(rows, first, last):
            sums = total[part]
            outputs = None if output is None else output[trees]
            if len(sums) <= FEW_ROWS:
                _add_at_once(table, slots, outputs, sums)
                continue
            for k, of_tree in enumerate(slots):
                if outputs is None:
                    sums += table.take(of_tree, axis=0)
                else:
                    sums[:, outputs[k]] += table[:, 0].take(of_tree)

    def find_leaves(
        self, rows: NDArray[np.floating], leaves: NDArray[np.int32]
    ) -> None:
        """Write the leaf at which each row ends in each tree, as node indices.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Converted rows, of the type that this is for.
        leaves : ndarray of shape (n_rows, n_trees), dtype=int32
            Overwritten.
        """
        for part, trees, slots in self._slots(rows, 0, None):
            leaves[part, trees] = self.nodes.take(slots).T

    # ---------------------------------------------------------------- going down

    def _slots(
        self, rows: NDArray[np.floating], first: int, last: int | None
    ) -> Iterator[tuple[slice, slice, NDArray[np.int64]]]:
        """Yield rows, trees, and the slots of the leaves, an array (trees, rows)."""
        last = self._forest.n_trees if last is None else last
        fitting = BYTES_PER_BLOCK // (rows.shape[1] * rows.itemsize)
        n_rows = min(max(fitting, FEW_ROWS), ROWS_PER_BLOCK)
        for start in range(0, len(rows), n_rows):
            part = slice(start, min(start + n_rows, len(rows)))
            block = np.ascontiguousarray(rows[part])
            is_odd = self._is_special is not None or bool(np.isnan(block).any())
            n_trees = max(1, PAIRS_PER_BLOCK // len(block))
            for tree in range(first, last, n_trees):
                trees = slice(tree, min(tree + n_trees, last))
                yield part, trees, self._go_down(block, is_odd, trees)

    def _go_down(
        self, rows: NDArray[np.floating], is_odd: bool, trees: slice
    ) -> NDArray[np.int64]:
        """Return the slots of the leaves of all rows in some trees."""
        roots = self._root[trees]
        n_rows, n_columns = rows.shape
        values = rows.reshape(-1)
        slots = np.repeat(roots, n_rows)
        begin = np.tile(np.arange(0, rows.size, n_columns), len(roots))
        depth = int(self._forest.depths[trees].max())
        # Trees that are hardly deeper than the first levels are walked in one go.
        level = depth if depth <= FIRST_LEVELS + MORE_LEVELS else FIRST_LEVELS
        self._walk(values, begin, slots, level, is_odd)
        going = None
        while level < depth:
            here = slots if going is None else slots[going]
            on_the_way = np.flatnonzero(self._child.take(here) != here)
            going = on_the_way if going is None else going[on_the_way]
            if len(going) == 0:
                break
            here = here[on_the_way]
            n_levels = min(MORE_LEVELS, depth - level)
            self._walk(values, begin[going], here, n_levels, is_odd)
            slots[going] = here
            level += n_levels
        return slots.reshape(len(roots), n_rows)

    def _walk(
        self,
        values: NDArray[np.floating],
        begin: NDArray[np.int64],
        slots: NDArray[np.int64],
        n_levels: int,
        is_odd: bool,
    ) -> None:
        """Take pairs of a row and a tree some levels down; overwrite their slots.

        `begin` tells where the row of each pair begins in `values`, `is_odd` whether
        there is anything but a comparison with a number.
        """
        where = np.empty(len(slots), dtype=np.int64)
        x = np.empty(len(slots), dtype=values.dtype)
        limit = np.empty(len(slots), dtype=values.dtype)
        goes_right = np.empty(len(slots), dtype=np.bool_)
        for _ in range(n_levels):
            # Clipping is quicker than looking for an index out of range; there is none.
            self._column.take(slots, out=where, mode="clip")
            where += begin
            values.take(where, out=x, mode="clip")
            self._threshold.take(slots, out=limit, mode="clip")
            np.greater(x, limit, out=goes_right)
            if is_odd:
                odd = x != x
                if self._is_special is not None:
                    odd |= self._is_special.take(slots)
                some = np.flatnonzero(odd)
                goes_right[some] = self._goes_right(x[some], slots[some])
            self._child.take(slots, out=where, mode="clip")
            np.add(where, goes_right, out=slots)

    def _goes_right(
        self, x: NDArray[np.floating], slots: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return whether values go right at nodes of any kind."""
        forest = self._forest
        node = self.nodes[slots]
        goes_right: NDArray[np.bool_] = x > self._threshold[slots]
        if forest.category_set is not None:
            sets = forest.category_set[node]
            known = np.flatnonzero((sets >= 0) & (x == x))
            goes_right[known] = ~_in_sets(forest, x[known], sets[known])
        missing = x != x
        if forest.zero_is_missing is not None:
            missing |= forest.zero_is_missing[node] & (np.abs(x) <= ZERO_BAND)
        goes_right = np.where(missing, ~forest.missing_left[node], goes_right)
        return goes_right & (forest.feature[node] >= 0)


def _special_nodes(forest: Forest) -> NDArray[np.bool_] | None:
    """Return which nodes are more than a comparison with a number; None if none is."""
    special = np.zeros(forest.n_nodes, dtype=np.bool_)
    if forest.zero_is_missing is not None:
        special |= forest.zero_is_missing
    if forest.category_set is not None:
        special |= forest.category_set >= 0
    special &= forest.feature >= 0
    return special if special.any() else None


def _in_sets(
    forest: Forest, x: NDArray[np.floating], sets: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return whether numbers, none of them NaN, are in sets of categories."""
    assert forest.category_offsets is not None
    assert forest.category_words is not None
    number = x.astype(np.float64)
    whole = np.trunc(number) if forest.category_rule == "truncate" else np.floor(number)
    start = forest.category_offsets[sets]
    n_categories = 32 * (forest.category_offsets[sets + 1] - start)
    is_known = (whole >= 0) & (whole < n_categories)
    if forest.category_rule == "exact":
        is_known &= whole == number
    code = np.where(is_known, whole, 0).astype(np.int64)
    found = np.zeros(len(x), dtype=np.bool_)
    some = np.flatnonzero(is_known)
    words = forest.category_words[start[some] + (code[some] >> 5)].astype(np.int64)
    found[some] = (words >> (code[some] & 31)) & 1 == 1
    return found


def _add_at_once(
    table: NDArray[np.floating],
    slots: NDArray[np.int64],
    output: NDArray[np.int32] | None,
    sums: NDArray[np.floating],
) -> None:
    """Add the values of several trees to the sums of a few rows, in order.

    `accumulate` adds one after the other; `sum` would add in pairs.
    """
    if output is None:
        added = np.concatenate([sums[None], table.take(slots, axis=0)])
        sums[:] = np.add.accumulate(added, axis=0)[-1]
        return
    values = table[:, 0]
    for which in np.unique(output):
        added = np.concatenate([sums[None, :, which], values[slots[output == which]]])
        sums[:, which] = np.add.accumulate(added, axis=0)[-1]
