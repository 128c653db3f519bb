"""Kernels that find the leaves of small trees for many rows at once, and step to them.

A small tree is a list of splits of sets of rows, one bit for each row
(`spinney.runtime.bitslicing.Bitsliced`). To split them down to the leaves takes hardly
longer than to walk one or two levels. So this is done when the first step of a tree is
due; from then on a row has the code of its leaf, and a step only looks up what the
nodes above that leaf add.

The same rules as in `step_kernels` apply.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.forest.nodes import ZERO_BAND
from spinney.runtime.bitslicing import (
    CATEGORICAL,
    MISSING_LEFT,
    ZERO_IS_MISSING,
    Bitsliced,
)
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.layout import Categories
from spinney.runtime.simd import (
    STRIDE,
    WORD,
    exceeding,
    exceeding_or_missing,
    split_rows,
)

u = np.uint64

Counts = NDArray[np.int64]
Places = NDArray[np.uint32]
Words = NDArray[np.uint64]

# Bits that change places when a square of 8 by 8 bits is turned over its diagonal.
SWAP_1 = u(0x00AA00AA00AA00AA)
SWAP_2 = u(0x0000CCCC0000CCCC)
SWAP_4 = u(0x00000000F0F0F0F0)


class LeafPaths(NamedTuple):
    """The nodes of all sliced trees, every one before those below it."""

    offsets: Counts  # per tree, and one more: where its nodes begin
    place: Counts  # of the node, among those of all trees
    level: Counts  # 0 for a root
    code: Counts  # of a leaf; -1 for an inner node


@kernel
def list_leaf_paths(
    link: NDArray[Any],
    roots: NDArray[np.uint64],
    shift: int,
    bitsliced: Bitsliced,
    offsets: Counts,
    place: Counts,
    level: Counts,
    code: Counts,
) -> None:
    """Write `LeafPaths`, in the order in which the splits of a tree are listed.

    Parameters
    ----------
    link, roots, shift
        Parts of `Walk`.
    bitsliced : Bitsliced
        The splits.
    offsets : ndarray of shape (n_trees + 1,)
        Where the nodes of each tree begin.
    place, level, code
        Overwritten; see `LeafPaths`.
    """
    stack = np.empty((place.shape[0] + 1, 3), dtype=np.int64)
    for tree in range(roots.shape[0]):
        if not bitsliced.is_bitsliced[tree]:
            continue
        root = np.int64(roots[tree])
        split = bitsliced.split_offsets[tree]
        i = offsets[tree]
        stack[0] = 0
        height = 1
        while height > 0:
            height -= 1
            at, depth, bits = stack[height]
            place[i], level[i], code[i] = root + at, depth, bits
            child = np.int64(u(link[2 * (root + at) + 1]) >> u(shift))
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
def choose_slices(
    before: Counts,
    after: Counts,
    costs: NDArray[np.float64],
    shared_costs: NDArray[np.float64],
    all_shared: float,
    level_cost: float,
    is_bitsliced: NDArray[np.bool_],
) -> tuple[int, int, int]:
    """Choose the trees to slice from now on; see `Slices.choose`.

    Parameters
    ----------
    before, after
        As for `step_block`.
    costs, shared_costs
        Parts of `Slices`.
    all_shared : float
        What it costs to ask all shared questions.
    level_cost : float
        What it costs to walk a level.
    is_bitsliced : ndarray of shape (n_trees,), dtype=bool
        Whether a tree is bitsliced. Updated.
    """
    # Shared questions are asked once for all trees that are sliced together.
    n_cheap = 0
    for t in range(after.shape[0]):
        is_due = after[t] > before[t] and not is_bitsliced[t]
        n_cheap += int(is_due and costs[t] <= level_cost * after[t])
    n_sliced, n_new, n_walked = 0, 0, 0
    for t in range(after.shape[0]):
        if after[t] == before[t]:
            continue
        if not is_bitsliced[t]:
            asking = min(shared_costs[t], all_shared / max(1, n_cheap))
            is_bitsliced[t] = costs[t] + asking <= level_cost * after[t]
            n_new += int(is_bitsliced[t])
        n_sliced += int(is_bitsliced[t])
        n_walked += int(not is_bitsliced[t])
    return n_sliced, n_new, n_walked


@kernel
def load_columns(rows: NDArray[Any], columns: NDArray[Any]) -> None:
    """Copy rows, column after column.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns + 1)
        As `step_kernels.load_rows` writes them.
    columns : ndarray of shape (n_columns, n_words * 64)
        Overwritten; what is beyond the last row is left as it is.
    """
    n_rows = rows.shape[0]
    n_columns = columns.shape[0]
    # A few columns at a time: a row is read in few pieces, a column written in long
    # ones.
    for start in range(0, n_columns, 8):
        end = min(start + 8, n_columns)
        for r in range(u(n_rows)):
            for c in range(u(start), u(end)):
                columns[c, r] = rows[r, c]


@kernel
def _goes_right(
    x: float,
    threshold: float,
    kind: int,
    words: NDArray[np.uint32],
    start: int,
    end: int,
    rule: int,
) -> bool:
    """Whether `x` goes right at a node of any kind, as in `step_kernels`."""
    if x != x or (kind & ZERO_IS_MISSING != 0 and abs(x) <= ZERO_BAND):
        return kind & MISSING_LEFT == 0
    if kind & CATEGORICAL == 0:
        return x > threshold
    if rule == 2 and x != np.floor(x):
        return True
    category = np.trunc(x) if rule == 0 else np.floor(x)
    if not (category >= 0 and category < 32.0 * (end - start)):
        return True
    code = np.int64(category)
    word = np.int64(words[start + (code >> 5)])
    return (word >> (code & 31)) & 1 == 0


@kernel
def _ask(
    column: NDArray[Any],
    threshold: Any,
    kind: int,
    which: int,
    categories: Categories,
    n_words: int,
    answers: Words,
    start: int,
) -> None:
    """Put one question to all rows; a bit per row says "goes right"."""
    if kind == MISSING_LEFT:
        for w in range(n_words):
            answers[u(start + w)] = exceeding(column, u(WORD * w), threshold)
    elif kind == 0:
        for w in range(n_words):
            answers[u(start + w)] = exceeding_or_missing(column, u(WORD * w), threshold)
    else:
        words, rule = categories.words, categories.rule
        begin, end = 0, 0
        if kind & CATEGORICAL != 0:
            begin, end = categories.offsets[which], categories.offsets[which + 1]
        for w in range(n_words):
            word = u(0)
            for r in range(WORD):
                x = column[WORD * w + r]
                right = _goes_right(x, threshold, kind, words, begin, end, rule)
                word |= u(right) << u(r)
            answers[u(start + w)] = word


@kernel
def _split_down(
    columns: NDArray[Any],
    n_words: int,
    tree: int,
    bitsliced: Bitsliced,
    categories: Categories,
    answers: Words,
    is_asked: NDArray[np.bool_],
    sets: Words,
    planes: Words,
) -> None:
    """Split all rows down to the leaves; plane `k` gets bit `k` of their codes.

    A question that other trees ask too is put to the rows once, when it is first
    needed; the answers to all others share the last place of `answers`.
    """
    n_shared = bitsliced.n_shared
    column, threshold = bitsliced.condition_column, bitsliced.condition_threshold
    kind, which = bitsliced.condition_kind, bitsliced.condition_set
    split_condition, split_slot = bitsliced.split_condition, bitsliced.split_slot
    split_plane, split_flips = bitsliced.split_plane, bitsliced.split_flips
    planes[:] = u(0)
    sets[:n_words] = ~u(0)
    for i in range(bitsliced.split_offsets[tree], bitsliced.split_offsets[tree + 1]):
        q = split_condition[i]
        answer = min(q, n_shared) * n_words
        if q >= n_shared or not is_asked[q]:
            _ask(
                columns[column[q]],
                threshold[q],
                kind[q],
                which[q],
                categories,
                n_words,
                answers,
                answer,
            )
            is_asked[min(q, n_shared)] = True
        old = u(split_slot[i] * n_words)
        new = old + u(n_words)
        plane = u(split_plane[i] * n_words)
        for w in range(u(0), u(n_words), u(STRIDE)):
            split_rows(  # type: ignore[call-arg]
                sets, old + w, new + w, planes, plane + w, answers, u(answer) + w
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
def _codes_of_planes(planes: Words, first: int, n_words: int, codes: Words) -> None:
    """Turn eight planes of one bit per row into one byte per row.

    Each step takes eight rows: a byte of each plane, as a square of 8 by 8 bits that is
    turned over its diagonal.
    """
    octets = planes.view(np.uint8)
    apart = 8 * n_words
    first *= 8
    p0 = octets[first : first + apart]
    p1 = octets[first + apart : first + 2 * apart]
    p2 = octets[first + 2 * apart : first + 3 * apart]
    p3 = octets[first + 3 * apart : first + 4 * apart]
    p4 = octets[first + 4 * apart : first + 5 * apart]
    p5 = octets[first + 5 * apart : first + 6 * apart]
    p6 = octets[first + 6 * apart : first + 7 * apart]
    p7 = octets[first + 7 * apart : first + 8 * apart]
    for j in range(apart):
        x = u(p0[j]) | u(p1[j]) << u(8) | u(p2[j]) << u(16) | u(p3[j]) << u(24)
        x |= u(p4[j]) << u(32) | u(p5[j]) << u(40)
        x |= u(p6[j]) << u(48) | u(p7[j]) << u(56)
        t = (x ^ (x >> u(7))) & SWAP_1
        x ^= t ^ (t << u(7))
        t = (x ^ (x >> u(14))) & SWAP_2
        x ^= t ^ (t << u(14))
        t = (x ^ (x >> u(28))) & SWAP_4
        codes[j] = x ^ t ^ (t << u(28))


@kernel
def _list_changes(
    paths: LeafPaths, tree: int, before: int, after: int, table: Counts, change: Counts
) -> None:
    """Write what some steps of a tree change in the sums, by the code of the leaf."""
    place, level, code = paths.place, paths.level, paths.code
    n_values = table.shape[1]
    old, new = 0, 0
    for i in range(paths.offsets[tree], paths.offsets[tree + 1]):
        # Nodes come before those below them: the last one of a level, or of a leaf
        # above it, is the one on the way to this leaf.
        if level[i] <= before:
            old = place[i]
        if level[i] <= after:
            new = place[i]
        if code[i] >= 0:
            for v in range(n_values):
                change[code[i] * n_values + v] = table[new, v] - table[old, v]


@kernel
def _add_changes(
    change: Counts, n_values: int, output: int, code: Places, sums: Counts
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
def step_sliced(
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
    answers: Words,
    code: Places,
    sums: Counts,
) -> None:
    """Take a block of rows some steps further in trees that are bitsliced.

    Parameters
    ----------
    columns : ndarray of shape (n_columns, n_words * 64)
        As `load_columns` writes them; `n_words` is a multiple of `STRIDE`.
    bitsliced, categories
        Parts of `Layout`.
    paths : LeafPaths
        The ways to the leaves.
    table, output, before, after
        As for `step_block`.
    is_bitsliced : ndarray of shape (n_trees,), dtype=bool
        Trees to step in; the others are left as they are.
    is_known : ndarray of shape (n_trees,), dtype=bool
        Whether the leaves of a tree are known. Updated.
    answers : scratch of shape at least ((n_shared + 1) * n_words,), dtype=uint64
    code : ndarray of shape (n_trees, n_rows), dtype=uint32
        The code of the leaf of each row, known or overwritten.
    sums : ndarray of shape (n_rows, n_classes)
        Running sums. Updated.
    """
    n_rows = sums.shape[0]
    n_values = table.shape[1]
    n_words = columns.shape[1] // WORD
    is_asked = np.zeros(bitsliced.n_shared + 1, dtype=np.bool_)
    sets = np.empty(bitsliced.n_slots * n_words, dtype=np.uint64)
    planes = np.empty(16 * n_words, dtype=np.uint64)
    codes = np.empty(8 * n_words, dtype=np.uint64)
    slots = codes.view(np.uint8)
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
                answers,
                is_asked,
                sets,
                planes[: n_words * (8 if n_planes <= 8 else 16)],
            )
            _codes_of_planes(planes, 0, n_words, codes)
            for r in range(n_rows):
                here[r] = slots[r]
            if n_planes > 8:
                _codes_of_planes(planes, 8 * n_words, n_words, codes)
                for r in range(n_rows):
                    here[r] |= np.uint32(slots[r]) << np.uint32(8)
        _list_changes(paths, tree, before[tree], after[tree], table, change)
        _add_changes(change, n_values, output[tree], here, sums)
