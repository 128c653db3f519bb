"""Category splits of single rows as plain comparisons, by way of wider rows.

The kernels for single rows know plain comparisons only, which is what makes them quick.
So every distinct test of a category (a column, a set, where missing values go) becomes
a column of its own, which is 0 if the row goes left and 1 if it goes right. A row gets
these columns by copying one line of a table for each of its categories: to look up a
thousand tests takes about a microsecond. For batches this would be too much to copy;
there the tests are bitsliced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.forest.locks import ForkSafeLock
from spinney.runtime.kernel_arrays import own_copy, read_only
from spinney.runtime.kernel_cache import kernel

if TYPE_CHECKING:
    from spinney.forest import Forest
    from spinney.runtime.engine import Engine
    from spinney.runtime.leaf_masks import MaskArguments

u = np.uint64

# Larger tables are slower than what they replace, and take memory.
MAX_TABLE_BYTES = 2**25

RULES = {"truncate": 0, "floor": 1, "exact": 2}


@kernel
def line_of(x, n_codes, rule):  # type: ignore[no-untyped-def]
    """Return the line of a table for a category: there are two more than codes."""
    category = np.trunc(x) if rule == 0 else np.floor(x)
    if x != x:
        return n_codes + 1
    if category >= 0 and category < n_codes and (rule != 2 or x == category):
        return np.int64(category)
    return n_codes


@kernel(keeps_lock=True)
def widen_row(row, kept, tests, table, rule, wide):  # type: ignore[no-untyped-def]
    """Write a row with the outcomes of all tests of its categories behind it.

    Parameters
    ----------
    row : ndarray of shape (n_features,)
        The row.
    kept : ndarray of shape (n_kept,), dtype=int64
        The columns that are compared as numbers, which come first.
    tests : ndarray of shape (n_columns, 4), dtype=int64
        For each column with categories: which it is; how many codes it has in the
        table, which are followed by a line for all other numbers and one for NaN; how
        many tests; where its lines begin.
    table : ndarray, dtype of `row`
        The lines of all columns, one after another.
    rule : int
        What a number that is no integer means, as in `Categories`.
    wide : ndarray of shape (n_kept + n_tests,), dtype of `row`
        Overwritten.
    """
    to = u(kept.shape[0])
    for c in range(to):
        wide[c] = row[u(kept[c])]
    for k in range(u(tests.shape[0])):
        line = line_of(row[u(tests[k, u(0)])], tests[k, u(1)], rule)
        width = u(tests[k, u(2)])
        begin = u(tests[k, u(3)]) + u(line) * width
        for v in range(width):
            wide[to + v] = table[begin + v]
        to += width


@kernel(keeps_lock=True)
def widen_rows(X, kept, tests, table, rule, wide):  # type: ignore[no-untyped-def]
    """Write several rows as `widen_row` does.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows.
    kept, tests, table, rule
        As for `widen_row`.
    wide : ndarray of shape (n_rows, n_kept + n_tests), dtype of `X`
        Overwritten.
    """
    for i in range(X.shape[0]):
        widen_row(X[i], kept, tests, table, rule, wide[i])


class CategoryMaskArguments(NamedTuple):
    """What the kernel for a few rows needs to know of a forest that tests categories.

    The first three are as for `widen_row`; the outcomes in `goes_right` have all bits
    set or none. The others are `MaskArguments`, for the columns of a row.
    """

    tests: NDArray[np.int64]
    goes_right: NDArray[np.int8]
    rule: int
    columns: NDArray[np.int64]
    condition_column: NDArray[np.int64]
    condition_threshold: NDArray[np.floating]
    condition_kind: NDArray[np.uint8]
    node_offsets: NDArray[np.int64]
    node_condition: NDArray[np.uint32]
    node_mask: NDArray[np.uint64]
    first_leaf: NDArray[np.int64]
    table: NDArray[np.floating]
    tree_output: NDArray[np.int64]


class Widened:
    """A forest of plain comparisons that takes wider rows, and what widens them.

    Parameters
    ----------
    forest : Forest
        With tests of categories, none of which takes zero for missing.
    """

    def __init__(self, forest: Forest) -> None:
        nodes, test_of_node, first = _tests(forest)
        column = forest.feature[nodes[first]].astype(np.int64)
        # Tests of one column stand together.
        order = np.argsort(column, kind="stable")
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        self._nodes = nodes[first][order]
        columns, widths = np.unique(column, return_counts=True)
        assert forest.category_set is not None
        assert forest.category_offsets is not None
        n_words = np.diff(forest.category_offsets)[forest.category_set[nodes]]
        largest = np.zeros(forest.n_features, dtype=np.int64)
        np.maximum.at(largest, forest.feature[nodes], n_words)
        n_codes = 32 * largest[columns]
        sizes = (n_codes + 2) * widths
        self.table_size = int(sizes.sum())
        begins = np.cumsum(sizes) - sizes
        self._tests = own_copy(np.column_stack([columns, n_codes, widths, begins]))
        self._rule = RULES[forest.category_rule]
        self._forest = forest
        is_number = forest.feature >= 0
        is_number[nodes] = False
        self._kept = np.unique(forest.feature[is_number]).astype(np.int64)
        self.n_tests = len(order)
        self._n_wide = len(self._kept) + self.n_tests
        self._test_of_node = (nodes, number[test_of_node])
        self._tables: dict[np.dtype, NDArray[Any]] = {}
        self._lock = ForkSafeLock()
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine of the forest that takes wider rows, made on first use."""
        from spinney.runtime.engine import Engine

        with self._lock:
            if self._engine is None:
                self._engine = Engine(self._plain_forest())
            return self._engine

    def _plain_forest(self) -> Forest:
        forest = self._forest
        nodes, tests = self._test_of_node
        feature, threshold = forest.feature.copy(), forest.threshold.copy()
        is_split = feature >= 0
        feature[is_split] = np.searchsorted(self._kept, feature[is_split])
        feature[nodes] = len(self._kept) + tests
        threshold[nodes] = 0.5
        return forest.replace(
            feature=feature,
            threshold=threshold,
            n_features=self._n_wide,
            category_set=None,
            category_offsets=None,
            category_words=None,
            categories=None,
            feature_names=None,
        )

    def rows(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return wider rows.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Converted rows.
        """
        wide = np.empty((len(rows), self._n_wide), dtype=rows.dtype)
        table = self._table(rows.dtype)
        widen_rows(read_only(rows), self._kept, self._tests, table, self._rule, wide)
        return wide

    def mask_arguments(self, found: MaskArguments) -> CategoryMaskArguments:
        """Return the masks of the forest for rows that are not widened.

        Parameters
        ----------
        found : MaskArguments
            Those for rows that are.
        """
        n_kept = len(self._kept)
        column = found.columns[found.condition_column]
        is_test = column >= n_kept
        numbers = ~is_test
        n_numbers = int(np.count_nonzero(numbers))
        # Comparisons come first, then the tests, as they stand in the tables.
        number = np.where(is_test, n_numbers + column - n_kept, np.cumsum(numbers) - 1)
        plain = found._replace(
            columns=self._kept[found.columns[found.columns < n_kept]],
            condition_column=found.condition_column[numbers],
            condition_threshold=found.condition_threshold[numbers],
            condition_kind=found.condition_kind[numbers],
            node_condition=number[found.node_condition].astype(np.uint32),
        )
        goes_right = -self._table(np.dtype(np.int8))  # all bits or none
        return CategoryMaskArguments(self._tests, goes_right, self._rule, *plain)

    def row(self, row: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return a single row, wider.

        Parameters
        ----------
        row : ndarray of shape (n_features,)
            Contiguous and writable, as a kernel takes it.
        """
        wide = np.empty(self._n_wide, row.dtype)
        table = self._table(row.dtype)
        widen_row(row, self._kept, self._tests, table, self._rule, wide)
        return wide

    def _table(self, dtype: np.dtype) -> NDArray[Any]:
        found = self._tables.get(dtype)
        return self._make_table(dtype) if found is None else found

    def _make_table(self, dtype: np.dtype) -> NDArray[Any]:
        """Return the outcomes of the tests for all categories, in the type of rows."""
        forest, parts = self._forest, []
        assert forest.category_offsets is not None
        assert forest.category_words is not None
        start = 0
        for _, n_codes, width, _ in self._tests.tolist():
            lines = np.ones((n_codes + 2, width), dtype=dtype)
            nodes = self._nodes[start : start + width]
            start += width
            for v, node in enumerate(nodes):
                which = forest.category_set[node]  # type: ignore[index]
                begin, end = forest.category_offsets[which : which + 2]
                words = forest.category_words[begin:end]
                bits = np.arange(32, dtype=np.uint32)
                member = (words[:, None] >> bits & np.uint32(1)).astype(bool).ravel()
                lines[: len(member), v][member] = 0
                lines[-1, v] = not forest.missing_left[node]
            parts.append(lines.ravel())
        with self._lock:
            return self._tables.setdefault(dtype, np.concatenate(parts))


def widened(forest: Forest) -> Widened | None:
    """Return a forest for wider rows, None if it is not needed or would not pay.

    Parameters
    ----------
    forest : Forest
        Any forest.
    """
    if forest.category_set is None or not (forest.category_set >= 0).any():
        return None
    if forest.zero_is_missing is not None and forest.zero_is_missing.any():
        return None
    made = Widened(forest)
    return made if made.table_size * 8 <= MAX_TABLE_BYTES else None


def _tests(
    forest: Forest,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the nodes that test categories, their tests, and a node for each test."""
    assert forest.category_set is not None
    assert forest.category_offsets is not None
    assert forest.category_words is not None
    nodes = np.flatnonzero(forest.category_set >= 0)
    offsets, words = forest.category_offsets, forest.category_words
    number: dict[tuple[int, bool, bytes], int] = {}
    test_of_node = np.empty(len(nodes), dtype=np.int64)
    first: list[int] = []
    for index, node in enumerate(nodes.tolist()):
        which = forest.category_set[node]
        content = words[offsets[which] : offsets[which + 1]].tobytes().rstrip(b"\0")
        key = int(forest.feature[node]), bool(forest.missing_left[node]), content
        test = number.setdefault(key, len(number))
        if test == len(first):
            first.append(index)
        test_of_node[index] = test
    return nodes, test_of_node, np.array(first, dtype=np.int64)
