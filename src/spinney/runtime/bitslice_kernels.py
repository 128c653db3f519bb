"""Kernels that evaluate small trees by bitslicing, 64 rows to a word.

Every distinct comparison of the trees is made once for a whole block of rows and gives
a bit per row; a tree is then a few operations on such words for each of its splits, see
`bitslicing`. (Its kin is QuickScorer, Lucchese et al. 2015, whose words have a bit per
leaf instead of a bit per row.)

The same rules as in `walk_kernels` apply. In the innermost loops arrays come one by one
and offsets are counted by hand: a view of an array, or a field of a tuple of arrays,
costs more than a split.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.bitslicing import LOOK_AHEAD
from spinney.runtime.branch_free import number_if
from spinney.runtime.conditions import CATEGORICAL, MISSING_LEFT, NAN_BIT, NO_BIT
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.runs import FINISH, KEEP, MARK
from spinney.runtime.simd import (
    STRIDE,
    codes_of_6_planes,
    codes_of_8_planes,
    codes_of_10_planes,
    codes_of_16_planes,
    copy_vector,
    count_ones,
    exceeding,
    exceeding_or_missing,
    finish_rows,
    keep_rows,
    mark_rows,
    prefetch,
    split_rows,
    unite_planes,
)
from spinney.runtime.walk_kernels import goes_right

u = np.uint64

# Conditions between fetching the slot of their outcomes and writing them.
FETCH_AHEAD = 6


class Scratch(NamedTuple):
    """Memory for a block of rows, made by `make_scratch`."""

    words: int  # of a set, a plane or an outcome
    outcomes: NDArray[np.uint64]  # to all conditions, by slot
    sets: NDArray[np.uint64]
    planes: NDArray[np.uint64]
    rank: NDArray[np.uint32]
    last_row: NDArray[np.uint32]


@kernel
def _aligned_words(n):
    """Return an array of words that begins where a line of the cache does."""
    words = np.empty(n + 8, dtype=np.uint64)
    start = -(words.ctypes.data // 8) % 8
    return words[start : start + n]


@kernel
def make_scratch(n_conditions, n_slots, words):
    """Return memory for blocks of 64 times `words` rows."""
    outcomes = _aligned_words((n_conditions + 1) * words)
    outcomes[n_conditions * words :] = u(0)
    return Scratch(
        words,
        outcomes,
        _aligned_words(n_slots * words),
        _aligned_words(16 * words),
        np.empty(64 * words, dtype=np.uint32),
        np.empty(n_conditions + 1, dtype=np.uint32),
    )


@kernel
def compare(values, first, threshold, kind, n_words, outcomes, start):
    """Compare a column of a block with a threshold; a bit per row says "goes right".

    The column begins at `first` in `values`; the words of outcomes are written to
    `outcomes` from `start`.
    """
    if kind == MISSING_LEFT:
        for w in range(n_words):
            word = exceeding(values, u(first + 64 * w), threshold)
            outcomes[u(start) + u(w)] = word
    else:
        for w in range(n_words):
            word = exceeding_or_missing(values, u(first + 64 * w), threshold)
            outcomes[u(start) + u(w)] = word


@kernel
def compare_special(
    values, first, threshold, kind, which, categories, n_words, outcomes, start
):
    """Do the same for conditions beyond a plain comparison."""
    offsets, words, rule = categories.offsets, categories.words, categories.rule
    begin, end = 0, 0
    if kind & CATEGORICAL != 0:
        begin, end = offsets[which], offsets[which + 1]
    for w in range(n_words):
        word = u(0)
        for r in range(64):
            x = values[first + 64 * w + r]
            right = goes_right(x, threshold, kind, words, begin, end, rule)
            word |= u(right) << u(r)
        outcomes[u(start) + u(w)] = word


@kernel
def find_codes_of(values, first, n_rows, rule, code, planes):
    """Write the category of each row of a column; once for all tests of the column.

    Parameters
    ----------
    values, first
        The column begins at `first` in `values`.
    n_rows, rule : int
        Number of rows; what a number that is no integer means, as in `Categories`.
    code : ndarray of shape (n_rows,), dtype=int64
        Overwritten: the category, -1 for what is none, -2 for NaN.
    planes : ndarray of shape (64 * n_padded,), dtype=uint64
        Overwritten: for each category the rows that have it, as words, with `NO_BIT`
        for what is none or too large and `NAN_BIT` for NaN. `n_padded` is a multiple of
        `STRIDE`; words behind those of the rows become zero.

    Returns
    -------
    present : uint64
        A bit for each of these planes that has any rows.
    """
    planes[:] = u(0)
    size = u(planes.shape[0] // 64)
    present = u(0)
    for r in range(u(n_rows)):
        x = values[u(first) + r]
        category = np.trunc(x) if rule == 0 else np.floor(x)
        is_one = category >= 0 and category < 2147483648.0
        is_one = is_one and (rule != 2 or x == category)
        code[r] = np.int64(category) if is_one else (-2 if x != x else -1)
        bit = u(code[r]) if is_one and category < NO_BIT else u(NO_BIT)
        if x != x:
            bit = u(NAN_BIT)
        present |= u(1) << bit
        planes[bit * size + (r >> u(6))] |= u(1) << (r & u(63))
    return present


@kernel
def compare_categories(code, missing_left, sets, begin, end, n_words, outcomes, start):
    """Test the categories of a column; a bit per row says "goes right".

    Parameters
    ----------
    code
        Of `find_codes_of`.
    missing_left : bool
        Whether NaN goes left.
    sets, begin, end
        The set is `sets[begin:end]`, as words of 32 bits.
    n_words, outcomes, start
        As for `compare`.
    """
    n_codes = 32 * (end - begin)
    for w in range(n_words):
        word = u(0)
        for r in range(64):
            c = code[64 * w + r]
            goes = u(1)
            if c == -2:
                goes = u(not missing_left)
            elif c >= 0 and c < n_codes:
                goes = ~(u(sets[begin + (c >> 5)]) >> u(c & 31)) & u(1)
            word |= goes << u(r)
        outcomes[u(start) + u(w)] = word


@kernel
def _look_up(schedule, q, code, planes, present, n_words, target, categories, outcomes):
    """Look up the categories of a column in the set of a condition.

    A small set of categories is the union of their rows, or the rows outside the union
    of all others, whichever are fewer.
    """
    left = schedule.condition_members[q]
    if left & (u(1) << u(NO_BIT)) == u(0):
        size = u(planes.shape[0] // 64)
        chosen, flips = present & ~left, u(0)
        if count_ones(chosen) > count_ones(present & left):
            chosen, flips = present & left, ~u(0)
        for w in range(u(0), size, u(STRIDE)):
            unite_planes(planes, w, size, chosen, outcomes, u(target) + w, flips)
        return
    which = schedule.condition_set[q]
    compare_categories(
        code,
        schedule.condition_kind[q] & MISSING_LEFT != 0,
        categories.words,
        categories.offsets[which],
        categories.offsets[which + 1],
        n_words,
        outcomes,
        target,
    )


@kernel
def compare_others(
    schedule, n_words, words, values, start, categories, first_word, outcomes
):
    """Evaluate the conditions that are in no chain for some rows of a block.

    Their columns begin at `start` in `values`, their outcomes with the word
    `first_word` of each. If `categories` is None, all are plain comparisons.
    """
    column, threshold = schedule.condition_column, schedule.condition_threshold
    kind, slot = schedule.condition_kind, schedule.condition_slot
    if categories is not None:
        size = (n_words + STRIDE - 1) // STRIDE * STRIDE
        code = np.empty(64 * n_words, dtype=np.int64)
        planes = np.empty(64 * size, dtype=np.uint64)
        coded, present = -1, u(0)  # the column whose codes these are, and which it has
    for q in range(schedule.chain_offsets[-1], column.shape[0]):
        first, target = start[column[q]], slot[q] * words + first_word
        if kind[q] <= MISSING_LEFT:
            compare(values, first, threshold[q], kind[q], n_words, outcomes, target)
        elif categories is not None:
            is_test = kind[q] | MISSING_LEFT == CATEGORICAL | MISSING_LEFT
            if is_test and coded != column[q]:
                coded, rule = column[q], categories.rule
                present = find_codes_of(values, first, 64 * n_words, rule, code, planes)
            if is_test:
                _look_up(
                    schedule,
                    q,
                    code,
                    planes,
                    present,
                    n_words,
                    target,
                    categories,
                    outcomes,
                )
            else:
                compare_special(
                    values,
                    first,
                    threshold[q],
                    kind[q],
                    schedule.condition_set[q],
                    categories,
                    n_words,
                    outcomes,
                    target,
                )


@kernel
def _rank(values, first, n_rows, threshold, begin, end, rank):
    """Write where each value stands among ascending thresholds.

    Rows with the value `x` get the first index from `begin` up whose threshold is not
    below `x`, or `end`; those with NaN get `begin`. Every row halves the thresholds as
    often as any other, so there is no branch to mispredict.
    """
    for r in range(n_rows):
        rank[r] = begin
    n_left = end - begin
    while n_left > 0:
        half = (n_left + 1) >> 1
        for r in range(u(n_rows)):
            index = rank[r]
            below = threshold[u(index) + u(half - 1)] < values[u(first) + r]
            rank[r] = index + number_if(below, np.uint32(half))
        n_left -= half


@kernel
def _compare_chain(
    values, first, n_rows, schedule, chain, n_words, words, rank, last_row, outcomes
):
    """Evaluate all conditions of a chain for a block of rows.

    A row's outcome is yes up to its rank and no from there. So the outcomes of one
    condition are copied to the next, without the rows that have their rank there.

    Parameters
    ----------
    rank : scratch of shape (n_rows,), dtype=uint32
    last_row : scratch of shape (n_conditions + 1,), dtype=uint32
        Rows of the same rank are linked: this has the last one, counted from 1. After
        the rank of a row has been read, `rank` has the row before it.
    """
    begin, end = schedule.chain_offsets[chain], schedule.chain_offsets[chain + 1]
    kind, slot = schedule.condition_kind, schedule.condition_slot
    _rank(values, first, n_rows, schedule.condition_threshold, begin, end, rank)
    for q in range(u(begin), u(end + 1)):
        last_row[q] = 0
    is_nan = np.zeros(n_words, dtype=np.uint64)  # a bit per row
    any_nan = False
    for r in range(u(n_rows)):
        q = u(rank[r])
        rank[r] = last_row[q]
        last_row[q] = r + u(1)
        x = values[u(first) + r]
        any_nan |= x != x
        is_nan[r >> u(6)] |= u(x != x) << (r & u(63))
    before = u(slot[begin] * words)
    for w in range(before, before + u(n_words)):
        outcomes[w] = ~u(0)
    for q in range(u(begin), u(end)):
        start = u(slot[q]) * u(words)
        coming = u(slot[min(q + u(FETCH_AHEAD), u(end - 1))]) * u(words)
        if start != before:
            for w in range(u(0), u(n_words), u(STRIDE)):
                prefetch(outcomes, coming + w)
                copy_vector(outcomes, before + w, start + w)
            before = start
        row = u(last_row[q])
        while row > u(0):
            row -= u(1)
            outcomes[start + (row >> u(6))] ^= u(1) << (row & u(63))
            row = u(rank[row])
    if any_nan:
        for q in range(u(begin), u(end)):
            if kind[q] != MISSING_LEFT:
                start = u(slot[q]) * u(words)
                for w in range(u(n_words)):
                    outcomes[start + w] |= is_nan[w]


@kernel
def compare_chains(schedule, n_rows, values, start, scratch):
    """Evaluate the conditions in chains for a block of rows."""
    words, outcomes = scratch.words, scratch.outcomes
    rank, last_row = scratch.rank, scratch.last_row
    chain_column = schedule.chain_column
    n_words = (n_rows + 64 * STRIDE - 1) // (64 * STRIDE) * STRIDE
    for chain in range(chain_column.shape[0]):
        _compare_chain(
            values,
            start[chain_column[chain]],
            n_rows,
            schedule,
            chain,
            n_words,
            words,
            rank,
            last_row,
            outcomes,
        )


@kernel
def bitslice_tree(
    first_run,
    last_run,
    run_kind,
    run_end,
    operations,
    n_planes,
    n_words,
    words,
    outcomes,
    sets,
    planes,
):
    """Work out the code of the leaf of every row, bit by bit.

    Parameters
    ----------
    first_run, last_run : int
        The runs of the tree.
    run_kind, run_end, operations
        Of `Schedule`.
    n_planes : int
        Number of bits of a code.
    n_words : int
        Words in use.
    words : int
        Words that a set, a plane or the outcomes of a condition have room for.
    outcomes : ndarray of shape ((n_conditions + 1) * words,), dtype=uint64
        Of all conditions.
    sets : scratch of shape (n_slots * words,), dtype=uint64
    planes : ndarray of shape (16 * words,), dtype=uint64
        Overwritten: plane `k` has bit `k` of the code of every row.
    """
    size, n, stride = u(words), u(n_words), u(STRIDE)
    for k in range(8 if n_planes <= 8 else 16):
        for w in range(n_words):
            planes[k * words + w] = u(0)
    for w in range(n_words):
        sets[w] = ~u(0)
    begin = u(0) if first_run == 0 else u(run_end[first_run - 1])
    for run in range(first_run, last_run):
        end = u(run_end[run])
        if run_kind[run] == MARK:
            for i in range(begin, end):
                outcome = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                slot = u(operations[i, 4]) * size
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                for w in range(u(0), n, stride):
                    prefetch(outcomes, coming + w)
                    mark_rows(sets, slot + w, planes, plane + w, outcomes, outcome + w)
        elif run_kind[run] == FINISH:
            for i in range(begin, end):
                outcome = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                slot = u(operations[i, 4]) * size
                left = u(operations[i, 1]) * size
                right = u(operations[i, 2]) * size
                below = u(operations[i, 5]) * size
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                coming_left = u(operations[i + u(LOOK_AHEAD), 1]) * size
                coming_right = u(operations[i + u(LOOK_AHEAD), 2]) * size
                for w in range(u(0), n, stride):
                    prefetch(outcomes, coming + w)
                    prefetch(outcomes, coming_left + w)
                    prefetch(outcomes, coming_right + w)
                    finish_rows(
                        sets,
                        slot + w,
                        planes,
                        plane + w,
                        below + w,
                        outcomes,
                        outcome + w,
                        left + w,
                        right + w,
                    )
        elif run_kind[run] == KEEP:
            for i in range(begin, end):
                outcome = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                slot = u(operations[i, 4]) * size
                without = u(0) - u(operations[i, 5])
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                for w in range(u(0), n, stride):
                    prefetch(outcomes, coming + w)
                    keep_rows(
                        sets,
                        slot + w,
                        planes,
                        plane + w,
                        outcomes,
                        outcome + w,
                        without,
                    )
        else:
            for i in range(begin, end):
                outcome = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                slot = u(operations[i, 4]) * size
                new = u(operations[i, 5]) * size
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                for w in range(u(0), n, stride):
                    prefetch(outcomes, coming + w)
                    split_rows(
                        sets,
                        slot + w,
                        new + w,
                        planes,
                        plane + w,
                        outcomes,
                        outcome + w,
                    )
        begin = end


@kernel
def value_indices_of_planes(
    first, n_planes, n_words, words, planes, value_index, start
):
    """Write the leaf value index of every row, `first` plus its code."""
    size = u(words)
    for w in range(u(n_words)):
        at = u(start) + u(64) * w
        if n_planes <= 6:
            codes_of_6_planes(planes, w, size, value_index, at, first)
        elif n_planes <= 8:
            codes_of_8_planes(planes, w, size, value_index, at, first)
        elif n_planes <= 10:
            codes_of_10_planes(planes, w, size, value_index, at, first)
        else:
            codes_of_16_planes(planes, w, size, value_index, at, first)
