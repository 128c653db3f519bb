"""Kernels that evaluate all trees of a forest, tree by tree over blocks of rows.

A tree fetched from a distant cache serves all rows of a block, which stay in a near
one. Small trees are bitsliced (`bitslice_kernels`), all others walked (`walk_kernels`);
either way the outcome is a leaf value index per row, whose values are then added.

The same rules as in `walk_kernels` apply. `row_indices` selects rows of `X`; if it is
empty, all rows of `X` are evaluated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.bitslice_kernels import (
    bitslice_tree,
    compare_chains,
    compare_others,
    make_scratch,
    value_indices_of_planes,
)
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.loading import load_columns, load_rows
from spinney.runtime.simd import STRIDE, add_four_pairs, prefetch
from spinney.runtime.walk_kernels import walk_special, walk_tree

u = np.uint64

# Rows per block: enough that a tree fetched from a distant cache serves many rows, few
# enough that the rows themselves stay in a near one.
BLOCK_ROWS = 16_384
BLOCK_BYTES = 2_097_152
OUTCOME_BYTES = 10_485_760

# Rows whose outcomes are split in one step.
BLOCK_UNIT = 64 * STRIDE

# Numbers between two columns: were they a power of two apart, all of them would have to
# share a few lines of the caches.
APART = 16

# Fewer rows are better taken one by one through eight trees at a time.
MIN_BLOCK_ROWS = 48


@kernel
def _add(table, value_index, start, n_rows, output, total):
    """Add the values of one tree, to a single output or to all of them."""
    n_values = table.shape[1]
    at = u(start)
    if output >= 0:
        for r in range(u(n_rows)):
            total[r, output] += table[u(value_index[at + r]), 0]
    elif n_values == 1:
        for r in range(u(n_rows)):
            total[r, 0] += table[u(value_index[at + r]), 0]
    else:
        for r in range(n_rows):
            row = table[value_index[start + r]]
            for v in range(n_values):
                total[r, v] += row[v]


@kernel
def _add_four(table, value_index, block, n_rows, total):
    """Add the values of four trees, one or two for each leaf value index, in order.

    Each sum is read and written once for all four.
    """
    sums, entries = total.reshape(-1), table.reshape(-1)
    size = u(block)
    if table.shape[1] == 1:
        for r in range(u(n_rows)):
            first = sums[r] + entries[u(value_index[r])]
            second = first + entries[u(value_index[size + r])]
            third = second + entries[u(value_index[u(2) * size + r])]
            sums[r] = third + entries[u(value_index[u(3) * size + r])]
    else:
        for r in range(u(n_rows)):
            add_four_pairs(
                sums,
                u(2) * r,
                entries,
                u(2) * u(value_index[r]),
                u(2) * u(value_index[size + r]),
                u(2) * u(value_index[u(2) * size + r]),
                u(2) * u(value_index[u(3) * size + r]),
            )


class Columns(NamedTuple):
    """Room for the columns of a block of rows, made by `_make_columns`.

    Columns of chains are kept for all rows of a block, others for a few at a time: they
    are compared at once, while they are in the nearest caches.
    """

    values: NDArray[Any]
    start: NDArray[np.int64]  # of each column in `values`, and of those not in use
    here: NDArray[np.int64]  # the same for some rows of the block
    is_chained: NDArray[np.bool_]
    targets: NDArray[np.uint64]  # scratch


@kernel
def _make_columns(X, schedule, n_columns, block):
    """Return room for the columns of `block` rows."""
    start = np.empty(n_columns + 1, dtype=np.int64)
    here = np.empty(n_columns + 1, dtype=np.int64)
    is_chained = np.empty(n_columns + 1, dtype=np.bool_)
    for column in range(n_columns + 1):
        is_chained[column] = False
    for chain in range(schedule.chain_column.shape[0]):
        is_chained[schedule.chain_column[chain]] = True
    room = 0
    for column in range(n_columns + 1):
        start[column] = room
        room += (block if is_chained[column] else BLOCK_UNIT) + APART
    n_targets = schedule.window_members.size
    return Columns(
        np.empty(room if block > 0 else 0, dtype=X.dtype),
        start,
        here,
        is_chained,
        np.empty(n_targets, dtype=np.uint64),
    )


@kernel
def _compare_block(
    X, row_indices, first, n_rows, used, schedule, categories, columns, scratch
):
    """Evaluate all conditions of the bitsliced trees for a block of rows."""
    values, start, here = columns.values, columns.start, columns.here
    words, outcomes = scratch.words, scratch.outcomes
    for part in range(0, n_rows, BLOCK_UNIT):
        n_part = min(BLOCK_UNIT, n_rows - part)
        for column in range(start.shape[0]):
            here[column] = start[column] + part * columns.is_chained[column]
        load_columns(
            X,
            row_indices,
            first + part,
            n_part,
            used,
            schedule.window_begin,
            schedule.window_members,
            here,
            values,
            columns.targets,
        )
        n_words = (n_part + 63) // 64
        first_word = part // 64
        compare_others(
            schedule, n_words, words, values, here, categories, first_word, outcomes
        )
    compare_chains(schedule, n_rows, values, start, scratch)


@kernel
def _fetch(array, begin, end, step):
    """Fetch a part of an array, one cache line of `step` entries after another."""
    for k in range(u(begin), u(end), u(step)):
        prefetch(array, k)


@kernel
def _evaluate(
    X,
    row_indices,
    used,
    walk,
    schedule,
    categories,
    block,
    table,
    tree_output,
    total,
    value_indices,
):
    """Evaluate all trees for some rows, tree by tree over blocks of rows.

    Either `total` (n_rows, n_outputs) has the values of the trees added to it, in the
    order of the trees, or `value_indices` (n_rows, n_trees) is overwritten; the other
    one has no rows.

    `used`, `walk`, `schedule` and `categories` are `Forms`. If one of them is None,
    code below an `if` that tests this first is not compiled. Trees that cannot be
    walked are bitsliced however few rows there are.
    """
    n_rows = max(total.shape[0], value_indices.shape[0])
    n_columns = used.shape[0]
    n_trees = max(tree_output.shape[0], value_indices.shape[1])
    # Blocks of the same size, rather than full ones and a small last one.
    n_blocks = max(1, (n_rows + block - 1) // block)
    block = (n_rows + n_blocks - 1) // n_blocks
    block = max(1, (block + BLOCK_UNIT - 1) // BLOCK_UNIT) * BLOCK_UNIT
    bitslicing, walking = False, True
    if schedule is not None:
        # One by one: in the loop over trees the fields of a tuple would cost too much.
        run_offsets, run_kind = schedule.run_offsets, schedule.run_kind
        run_end, operations = schedule.run_end, schedule.operations
        is_bitsliced, n_planes = schedule.is_bitsliced, schedule.n_planes
        first_code, first_value = schedule.first_code, schedule.first_value
        is_listed, leaf_of_code = schedule.is_listed, schedule.leaf_of_code
        n_conditions = schedule.condition_slot.shape[0]
        bitslicing, walking = True, False
        if walk is not None:
            bitslicing = n_conditions > 0 and n_rows >= MIN_BLOCK_ROWS
            walking = not bitslicing or not is_bitsliced.all()
        bitsliced_rows = block if bitslicing else 0
        columns = _make_columns(X, schedule, n_columns, bitsliced_rows)
        scratch = make_scratch(n_conditions, schedule.n_slots, bitsliced_rows // 64)
        words, outcomes, sets = scratch.words, scratch.outcomes, scratch.sets
        planes = scratch.planes
    stride = u(n_columns + 1)
    rows = np.empty(block * (n_columns + 1) if walking else 0, dtype=X.dtype)
    active = np.empty(block + 8, dtype=np.uint32)
    node = np.empty(block + 8, dtype=np.uint32)
    value_index = np.empty(4 * block, dtype=np.int32)
    adding = value_indices.shape[0] == 0
    by_four = adding and table.shape[1] <= 2 and table.shape[1] == total.shape[1]
    entries = table.reshape(-1)
    for first in range(0, n_rows, block):
        n = min(block, n_rows - first)
        n_words = (n + BLOCK_UNIT - 1) // BLOCK_UNIT * STRIDE
        missing = False
        if walk is not None and walking:
            missing = load_rows(X, row_indices, first, n, used, rows)
        if schedule is not None and bitslicing:
            _compare_block(
                X, row_indices, first, n, used, schedule, categories, columns, scratch
            )
        for tree in range(n_trees):
            begin = tree % 4 * block
            if schedule is not None and bitslicing and is_bitsliced[tree]:
                code, leaf = first_code[tree], first_value[tree]
                if is_listed[tree] and adding:
                    # Wanted when the tree has been bitsliced.
                    n_values = table.shape[1]
                    last = first_value[tree + 1]
                    _fetch(leaf_of_code, code, code + (1 << n_planes[tree]), 32)
                    _fetch(entries, leaf * n_values, last * n_values, 8)
                bitslice_tree(
                    run_offsets[tree],
                    run_offsets[tree + 1],
                    run_kind,
                    run_end,
                    operations,
                    n_planes[tree],
                    n_words,
                    words,
                    outcomes,
                    sets,
                    planes,
                )
                value_indices_of_planes(
                    0 if is_listed[tree] else leaf,
                    n_planes[tree],
                    (n + 63) // 64,
                    words,
                    planes,
                    value_index,
                    begin,
                )
                if is_listed[tree]:
                    for r in range(u(begin), u(begin + n)):
                        value_index[r] = (
                            leaf + leaf_of_code[u(code) + u(value_index[r])]
                        )
            elif walk is not None and categories is not None and walk.is_special:
                ends = value_index[begin : begin + n]
                walk_special(rows, stride, n, walk, categories, tree, ends)
            elif walk is not None:
                ends = value_index[begin : begin + n]
                walk_tree(rows, stride, n, walk, tree, missing, active, node, ends)
            if not adding:
                for r in range(n):
                    value_indices[first + r, tree] = value_index[begin + r]
            elif by_four and tree % 4 == 3:
                _add_four(table, value_index, block, n, total[first : first + n])
            elif not by_four or tree >= n_trees // 4 * 4:
                output = tree_output[tree]
                _add(table, value_index, begin, n, output, total[first : first + n])


@kernel
def add_trees(X, row_indices, forms, block, table, tree_output, total):
    """Add what each tree contributes to the raw scores.

    Parameters
    ----------
    X : ndarray of shape (n_all_rows, n_features), float32 or float64
        Rows, of the type that `forms` is for.
    row_indices : ndarray of shape (n_rows,) or (0,), dtype=int64
        Which of them to evaluate; if there are none, all.
    forms : Forms
        The forest.
    block : int
        Rows per block, a multiple of `BLOCK_UNIT`.
    table : ndarray of shape (n_leaf_values, n_values)
        What each leaf value index adds.
    tree_output : ndarray of shape (n_trees,), dtype=int64
        The output that a tree adds its only value to, or -1 for all outputs.
    total : ndarray of shape (n_rows, n_outputs), dtype of `table`
        Added to, one tree after another.
    """
    value_indices = np.empty((0, 0), dtype=np.int32)
    _evaluate(
        X,
        row_indices,
        forms.columns,
        forms.walk,
        forms.schedule,
        forms.categories,
        block,
        table,
        tree_output,
        total,
        value_indices,
    )


@kernel
def find_leaf_values(X, forms, block, value_indices):
    """Write the leaf value index at which each row ends in each tree.

    Parameters
    ----------
    X, forms, block
        As for `add_trees`.
    value_indices : ndarray of shape (n_rows, n_trees), dtype=int32
        Overwritten.
    """
    table = np.empty((0, 1), dtype=np.float64)
    none = np.empty(0, dtype=np.int64)
    _evaluate(
        X,
        none,
        forms.columns,
        forms.walk,
        forms.schedule,
        forms.categories,
        block,
        table,
        none,
        table,
        value_indices,
    )


@kernel
def find_codes(columns, n_rows, forms, is_wanted, codes):
    """Write the code of the leaf of each row in some of the trees that are bitsliced.

    Parameters
    ----------
    columns : ndarray of shape (n_columns, n_padded), dtype of the rows
        A block of rows, column after column; `n_padded` is a multiple of `BLOCK_UNIT`.
    n_rows : int
        How many of them there are.
    forms : Forms
        The forest.
    is_wanted : ndarray of shape (n_trees,), dtype=bool
        Which trees.
    codes : ndarray of shape (n_trees, n_rows), dtype=uint32
        Overwritten for these trees.
    """
    schedule = forms.schedule
    n_conditions = schedule.condition_slot.shape[0]
    scratch = make_scratch(n_conditions, schedule.n_slots, columns.shape[1] // 64)
    words, outcomes, sets = scratch.words, scratch.outcomes, scratch.sets
    planes, n_planes = scratch.planes, schedule.n_planes
    run_offsets, run_kind = schedule.run_offsets, schedule.run_kind
    run_end, operations = schedule.run_end, schedule.operations
    code = np.empty(64 * words, dtype=np.int32)
    values = columns.reshape(-1)
    start = np.arange(columns.shape[0]) * columns.shape[1]
    n_used = (n_rows + 63) // 64  # the rest of the words belong to no row
    n_words = (n_rows + BLOCK_UNIT - 1) // BLOCK_UNIT * STRIDE
    compare_others(
        schedule, n_used, words, values, start, forms.categories, 0, outcomes
    )
    compare_chains(schedule, n_rows, values, start, scratch)
    for tree in range(is_wanted.shape[0]):
        if not is_wanted[tree]:
            continue
        bitslice_tree(
            run_offsets[tree],
            run_offsets[tree + 1],
            run_kind,
            run_end,
            operations,
            n_planes[tree],
            n_words,
            words,
            outcomes,
            sets,
            planes,
        )
        value_indices_of_planes(0, n_planes[tree], n_used, words, planes, code, 0)
        for r in range(u(n_rows)):
            codes[tree, r] = code[r]
