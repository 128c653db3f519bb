"""Kernels that find the leaves of small trees for many rows at once, and step to them.

A small tree is a list of splits of sets of rows, one bit for each row
(`spinney.runtime.bitslicing.Bitsliced`). To split them down to the leaves takes hardly
longer than to walk one or two levels. So this is done when the first step of a tree is
due; from then on a row has the code of its leaf, and a step only looks up what the
nodes above that leaf add.

The same rules as in `step_kernels` apply.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.bitslice_kernels import (
    compare,
    compare_special,
    value_indices_of_planes,
)
from spinney.runtime.bitslicing import Bitsliced
from spinney.runtime.conditions import MISSING_LEFT
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.layout import Categories, Walk
from spinney.runtime.loading import ALL_ROWS, find_windows, load_columns
from spinney.runtime.simd import (
    STRIDE,
    WORD,
    split_rows,
)

u = np.uint64

Counts = NDArray[np.int64]
Codes = NDArray[np.uint32]
Words = NDArray[np.uint64]


class LeafPaths(NamedTuple):
    """The nodes of all bitsliced trees, every one before those below it."""

    offsets: Counts  # per tree, and one more: where its nodes begin
    node: Counts  # among the nodes of all trees in the layout
    level: Counts  # 0 for a root
    code: Counts  # of a leaf; -1 for an inner node


@kernel
def list_leaf_paths(walk: Walk, bitsliced: Bitsliced, paths: LeafPaths) -> None:
    """Write `LeafPaths`, in the order in which the splits of a tree are listed.

    Parameters
    ----------
    walk : Walk
        The trees.
    bitsliced : Bitsliced
        Their splits.
    paths : LeafPaths
        Overwritten, all but the offsets.
    """
    link, shift = walk.link, walk.child_shift
    node, level, code = paths.node, paths.level, paths.code
    stack = np.empty((node.shape[0] + 1, 3), dtype=np.int64)
    for tree in range(walk.root.shape[0]):
        if not bitsliced.is_bitsliced[tree]:
            continue
        root = np.int64(walk.root[tree])
        split = bitsliced.split_offsets[tree]
        i = paths.offsets[tree]
        stack[0] = 0
        height = 1
        while height > 0:
            height -= 1
            at, depth, bits = stack[height]
            node[i], level[i], code[i] = root + at, depth, bits
            child = np.int64(u(link[2 * (root + at) + 1]) >> shift)
            if child != at:
                # Rows that go left keep their code; the others are split first.
                flips = (1 << bitsliced.split_plane[split]) | bitsliced.split_flips[
                    split
                ]
                split += 1
                code[i] = -1
                for k in range(2):
                    stack[height + k, 0] = child + k
                    stack[height + k, 1] = depth + 1
                    stack[height + k, 2] = bits ^ (flips * k)
                height += 2
            i += 1


@kernel
def choose_bitsliced(
    before: Counts,
    after: Counts,
    costs: NDArray[np.float64],
    shared_costs: NDArray[np.float64],
    all_shared: float,
    level_cost: float,
    is_bitsliced: NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Choose the trees to bitslice from now on; see `BitslicedTrees.choose`.

    Parameters
    ----------
    before, after
        As for `step_block`.
    costs, shared_costs
        Parts of `BitslicedTrees`.
    all_shared : float
        What it costs to compare all shared conditions.
    level_cost : float
        What it costs to walk a level.
    is_bitsliced : ndarray of shape (n_trees,), dtype=bool
        Whether a tree is bitsliced. Updated.
    """
    # Shared conditions are compared once for all trees that are bitsliced together.
    n_cheap = 0
    for t in range(after.shape[0]):
        is_due = after[t] > before[t] and not is_bitsliced[t]
        n_cheap += int(is_due and costs[t] <= level_cost * after[t])
    n_bitsliced, n_new, n_walked = 0, 0, 0
    for t in range(after.shape[0]):
        if after[t] == before[t]:
            continue
        if not is_bitsliced[t]:
            shared = min(shared_costs[t], all_shared / max(1, n_cheap))
            is_bitsliced[t] = costs[t] + shared <= level_cost * after[t]
            n_new += int(is_bitsliced[t])
        n_bitsliced += int(is_bitsliced[t])
        n_walked += int(not is_bitsliced[t])
    return n_bitsliced, n_new, n_walked


@cache
def _windows_of_all(n_columns: int) -> tuple[NDArray[Any], ...]:
    """Return all columns, and the windows that cover them."""
    used = np.arange(n_columns)
    return used, *find_windows(used, n_columns + 1)


def transpose_rows(rows: NDArray[Any], columns: NDArray[Any]) -> None:
    """Copy a block of rows, column after column.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns + 1)
        As `load_rows` writes them.
    columns : ndarray of shape (n_columns + 1, n_words * 64)
        Overwritten. What is beyond the last row, and the last column, is of no meaning.
    """
    used, begins, members = _windows_of_all(len(columns) - 1)
    load_columns(
        rows,
        ALL_ROWS,
        0,
        len(rows),
        used,
        begins,
        members,
        np.arange(len(columns)) * columns.shape[1],
        columns.reshape(-1),
        np.empty(members.size, dtype=np.uint64),
    )


@kernel
def _split_down(
    columns: NDArray[Any],
    n_words: int,
    tree: int,
    bitsliced: Bitsliced,
    categories: Categories,
    outcomes: Words,
    is_compared: NDArray[np.bool_],
    sets: Words,
    planes: Words,
) -> None:
    """Split all rows down to the leaves; plane `k` gets bit `k` of their codes.

    A condition that other trees share is compared once, when it is first needed; the
    outcomes of all others use the last slot of `outcomes`.
    """
    n_shared = bitsliced.n_shared
    column, threshold = bitsliced.condition_column, bitsliced.condition_threshold
    kind, which = bitsliced.condition_kind, bitsliced.condition_set
    split_condition, split_slot = bitsliced.split_condition, bitsliced.split_slot
    split_plane, split_flips = bitsliced.split_plane, bitsliced.split_flips
    values, width = columns.reshape(-1), columns.shape[1]
    planes[:] = u(0)
    sets[:n_words] = ~u(0)
    for i in range(bitsliced.split_offsets[tree], bitsliced.split_offsets[tree + 1]):
        q = split_condition[i]
        outcome = min(q, n_shared) * n_words
        if q >= n_shared or not is_compared[q]:
            first = column[q] * width
            if kind[q] <= MISSING_LEFT:
                compare(
                    values, first, threshold[q], kind[q], n_words, outcomes, outcome
                )
            else:
                compare_special(
                    values,
                    first,
                    threshold[q],
                    kind[q],
                    which[q],
                    categories,
                    n_words,
                    outcomes,
                    outcome,
                )
            is_compared[min(q, n_shared)] = True
        old = u(split_slot[i] * n_words)
        new = old + u(n_words)
        plane = u(split_plane[i] * n_words)
        for w in range(u(0), u(n_words), u(STRIDE)):
            split_rows(
                sets, old + w, new + w, planes, plane + w, outcomes, u(outcome) + w
            )
        flips = split_flips[i]
        k = 0
        while flips:  # seldom: no code was free that differs in one bit only
            if flips & 1:
                for w in range(u(n_words)):
                    planes[u(k * n_words) + w] ^= sets[new + w]
            flips >>= 1
            k += 1


@kernel
def _list_changes(
    paths: LeafPaths, tree: int, before: int, after: int, table: Counts, change: Counts
) -> None:
    """Write what some steps of a tree change in the sums, by the code of the leaf."""
    node, level, code = paths.node, paths.level, paths.code
    n_values = table.shape[1]
    old, new = 0, 0
    for i in range(paths.offsets[tree], paths.offsets[tree + 1]):
        # Nodes come before those below them: the last one of a level, or of a leaf
        # above it, is the one on the way to this leaf.
        if level[i] <= before:
            old = node[i]
        if level[i] <= after:
            new = node[i]
        if code[i] >= 0:
            for v in range(n_values):
                change[code[i] * n_values + v] = table[new, v] - table[old, v]


@kernel
def _add_changes(
    change: Counts, n_values: int, output: int, code: Codes, sums: Counts
) -> None:
    """Add what a step changes to the sums of all rows."""
    n_rows = code.shape[0]
    if n_values == 1:
        c = max(0, output)
        for r in range(u(n_rows)):
            sums[r, u(c)] += change[u(code[r])]
    elif n_values == 2:
        for r in range(u(n_rows)):
            # All reads before the first write: the compiler cannot know that the
            # arrays do not overlap.
            i = u(2) * u(code[r])
            first, second = change[i], change[i + u(1)]
            sums[r, u(0)] += first
            sums[r, u(1)] += second
    else:
        for r in range(u(n_rows)):
            i = u(n_values) * u(code[r])
            for v in range(u(n_values)):
                sums[r, v] += change[i + v]


@kernel
def step_bitsliced(
    columns: NDArray[Any],
    bitsliced: Bitsliced,
    categories: Categories,
    paths: LeafPaths,
    table: Counts,
    output: Counts,
    before: Counts,
    after: Counts,
    is_bitsliced: NDArray[np.bool_],
    is_known: NDArray[np.bool_],
    outcomes: Words,
    code: Codes,
    sums: Counts,
) -> None:
    """Take a block of rows some steps further in trees that are bitsliced.

    Parameters
    ----------
    columns : ndarray of shape (n_columns + 1, n_words * 64)
        As `transpose_rows` writes them; `n_words` is a multiple of `STRIDE`.
    bitsliced, categories
        Parts of `Layout`.
    paths : LeafPaths
        The nodes above each leaf.
    table, output
        Parts of `StepTrees`.
    before, after
        As for `step_block`.
    is_bitsliced : ndarray of shape (n_trees,), dtype=bool
        Trees to step in; the others are left as they are.
    is_known : ndarray of shape (n_trees,), dtype=bool
        Whether the leaves of a tree are known. Updated.
    outcomes : scratch of shape at least ((n_shared + 1) * n_words,), dtype=uint64
    code : ndarray of shape (n_trees, n_rows), dtype=uint32
        The code of the leaf of each row, known or overwritten.
    sums : ndarray of shape (n_rows, n_classes)
        Running sums. Updated.
    """
    n_rows = sums.shape[0]
    n_values = table.shape[1]
    n_words = columns.shape[1] // WORD
    is_compared = np.zeros(bitsliced.n_shared + 1, dtype=np.bool_)
    sets = np.empty(bitsliced.n_slots * n_words, dtype=np.uint64)
    planes = np.empty(16 * n_words, dtype=np.uint64)
    padded = np.empty(WORD * n_words, dtype=np.uint32)
    change = np.empty(n_values << bitsliced.n_planes.max(), dtype=np.int64)
    for tree in range(after.shape[0]):
        if not is_bitsliced[tree] or after[tree] == before[tree]:
            continue
        here = code[tree]
        if not is_known[tree]:
            is_known[tree] = True
            n_planes = bitsliced.n_planes[tree]
            _split_down(
                columns,
                n_words,
                tree,
                bitsliced,
                categories,
                outcomes,
                is_compared,
                sets,
                planes[: n_words * (8 if n_planes <= 8 else 16)],
            )
            value_indices_of_planes(0, n_planes, n_words, n_words, planes, padded, 0)
            for r in range(n_rows):
                here[r] = padded[r]
        _list_changes(paths, tree, before[tree], after[tree], table, change)
        _add_changes(change, n_values, output[tree], here, sums)
