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

from spinney.runtime.bitslicing import CATEGORICAL, LOOK_AHEAD, MISSING_LEFT
from spinney.runtime.building import FINISH, KEEP, MARK
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.simd import (
    STRIDE,
    codes_of_6_planes,
    codes_of_8_planes,
    codes_of_10_planes,
    codes_of_16_planes,
    copy_words,
    exceeding,
    exceeding_or_missing,
    fetch_words,
    finish_words,
    keep_words,
    mark_words,
    split_words,
)
from spinney.runtime.walk_kernels import goes_right

u = np.uint64

# Questions between fetching the place of their answers and writing them.
FETCH_AHEAD = 6


class Scratch(NamedTuple):
    """Memory for a block of rows, made by `make_scratch`."""

    words: int  # of a set, a plane or an answer
    answers: NDArray[np.uint64]  # to all questions, by slot
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
def make_scratch(n_questions, n_places, words):
    """Return memory for blocks of 64 times `words` rows."""
    answers = _aligned_words((n_questions + 1) * words)
    answers[n_questions * words :] = u(0)
    return Scratch(
        words,
        answers,
        _aligned_words(n_places * words),
        _aligned_words(16 * words),
        np.empty(64 * words, dtype=np.uint32),
        np.empty(n_questions + 1, dtype=np.uint32),
    )


@kernel
def _ask(values, first, threshold, kind, n_words, answers, start):
    """Compare a column of a block with a threshold; a bit per row says "goes right".

    The column begins at `first` in `values`; the words of answers are written to
    `answers` from `start`.
    """
    if kind == MISSING_LEFT:
        for w in range(n_words):
            word = exceeding(values, u(first + 64 * w), threshold)
            answers[u(start) + u(w)] = word
    else:
        for w in range(n_words):
            word = exceeding_or_missing(values, u(first + 64 * w), threshold)
            answers[u(start) + u(w)] = word


@kernel
def _ask_special(
    values, first, threshold, kind, which, categories, n_words, answers, start
):
    """Do the same for questions beyond a plain comparison."""
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
        answers[u(start) + u(w)] = word


@kernel
def ask_others(program, n_words, words, values, start, categories, first_word, answers):
    """Put the questions that are asked by themselves to some rows of a block.

    Their columns begin at `start` in `values`, their answers with the word
    `first_word` of each.
    """
    column, threshold = program.question_column, program.question_threshold
    kind, which = program.question_kind, program.question_set
    slot = program.question_slot
    for q in range(program.chain_offsets[-1], column.shape[0]):
        first, place = start[column[q]], slot[q] * words + first_word
        if kind[q] <= MISSING_LEFT:
            _ask(values, first, threshold[q], kind[q], n_words, answers, place)
        else:
            _ask_special(
                values,
                first,
                threshold[q],
                kind[q],
                which[q],
                categories,
                n_words,
                answers,
                place,
            )


@kernel
def _rank(values, first, n_rows, threshold, begin, end, rank):
    """Write where each value stands among ascending thresholds.

    Rows with the value `x` get the first place from `begin` up whose threshold is not
    below `x`, or `end`; those with NaN get `begin`. Every row halves the thresholds as
    often as any other, so there is no branch to mispredict.
    """
    for r in range(n_rows):
        rank[r] = begin
    n_left = end - begin
    while n_left > 0:
        half = (n_left + 1) >> 1
        for r in range(u(n_rows)):
            place = rank[r]
            below = threshold[u(place) + u(half - 1)] < values[u(first) + r]
            rank[r] = place + np.uint32(half) * np.uint32(below)
        n_left -= half


@kernel
def _ask_chain(
    values, first, n_rows, program, chain, n_words, words, rank, last_row, answers
):
    """Put all questions of a chain to a block of rows.

    A row's answer is yes up to its rank and no from there. So the answers to one
    question are copied to the next, less the rows that have their rank there.

    Parameters
    ----------
    rank : scratch of shape (n_rows,), dtype=uint32
    last_row : scratch of shape (n_questions + 1,), dtype=uint32
        Rows of the same rank are linked: here is the last one, counted from 1, and
        `rank` has the one before each, once it has told its rank.
    """
    begin, end = program.chain_offsets[chain], program.chain_offsets[chain + 1]
    kind, slot = program.question_kind, program.question_slot
    _rank(values, first, n_rows, program.question_threshold, begin, end, rank)
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
        answers[w] = ~u(0)
    for q in range(u(begin), u(end)):
        start = u(slot[q]) * u(words)
        coming = u(slot[min(q + u(FETCH_AHEAD), u(end - 1))]) * u(words)
        if start != before:
            for w in range(u(0), u(n_words), u(STRIDE)):
                fetch_words(answers, coming + w)
                copy_words(answers, before + w, start + w)
            before = start
        row = u(last_row[q])
        while row > u(0):
            row -= u(1)
            answers[start + (row >> u(6))] ^= u(1) << (row & u(63))
            row = u(rank[row])
    if any_nan:
        for q in range(u(begin), u(end)):
            if kind[q] != MISSING_LEFT:
                start = u(slot[q]) * u(words)
                for w in range(u(n_words)):
                    answers[start + w] |= is_nan[w]


@kernel
def ask_chains(program, n_rows, values, start, scratch):
    """Put the questions in chains to a block of rows."""
    words, answers = scratch.words, scratch.answers
    rank, last_row = scratch.rank, scratch.last_row
    chain_column = program.chain_column
    n_words = (n_rows + 64 * STRIDE - 1) // (64 * STRIDE) * STRIDE
    for chain in range(chain_column.shape[0]):
        _ask_chain(
            values,
            start[chain_column[chain]],
            n_rows,
            program,
            chain,
            n_words,
            words,
            rank,
            last_row,
            answers,
        )


@kernel
def slice_tree(
    first_run,
    last_run,
    run_kind,
    run_end,
    operations,
    n_planes,
    n_words,
    words,
    answers,
    sets,
    planes,
):
    """Work out the code of the leaf of every row, bit by bit.

    Parameters
    ----------
    first_run, last_run : int
        The runs of the tree.
    run_kind, run_end, operations
        Of `Program`.
    n_planes : int
        Number of bits of a code.
    words : int
        Words of a set, a plane or an answer; `n_words` of them are in use.
    answers : ndarray of shape ((n_questions + 1) * words,), dtype=uint64
        To all questions.
    sets : scratch of shape (n_places * words,), dtype=uint64
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
                answer = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                place = u(operations[i, 4]) * size
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                for w in range(u(0), n, stride):
                    fetch_words(answers, coming + w)
                    mark_words(sets, place + w, planes, plane + w, answers, answer + w)
        elif run_kind[run] == FINISH:
            for i in range(begin, end):
                answer = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                place = u(operations[i, 4]) * size
                left = u(operations[i, 1]) * size
                right = u(operations[i, 2]) * size
                below = u(operations[i, 5]) * size
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                coming_left = u(operations[i + u(LOOK_AHEAD), 1]) * size
                coming_right = u(operations[i + u(LOOK_AHEAD), 2]) * size
                for w in range(u(0), n, stride):
                    fetch_words(answers, coming + w)
                    fetch_words(answers, coming_left + w)
                    fetch_words(answers, coming_right + w)
                    finish_words(
                        sets,
                        place + w,
                        planes,
                        plane + w,
                        below + w,
                        answers,
                        answer + w,
                        left + w,
                        right + w,
                    )
        elif run_kind[run] == KEEP:
            for i in range(begin, end):
                answer = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                place = u(operations[i, 4]) * size
                without = u(0) - u(operations[i, 5])
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                for w in range(u(0), n, stride):
                    fetch_words(answers, coming + w)
                    keep_words(
                        sets,
                        place + w,
                        planes,
                        plane + w,
                        answers,
                        answer + w,
                        without,
                    )
        else:
            for i in range(begin, end):
                answer = u(operations[i, 0]) * size
                plane = u(operations[i, 3]) * size
                place = u(operations[i, 4]) * size
                new = u(operations[i, 5]) * size
                coming = u(operations[i + u(LOOK_AHEAD), 0]) * size
                for w in range(u(0), n, stride):
                    fetch_words(answers, coming + w)
                    split_words(
                        sets,
                        place + w,
                        new + w,
                        planes,
                        plane + w,
                        answers,
                        answer + w,
                    )
        begin = end


@kernel
def payloads_of_planes(first, n_planes, n_words, words, planes, payload, start):
    """Write the payload of every row, `first` plus its code, from `start` on."""
    size = u(words)
    for w in range(u(n_words)):
        at = u(start) + u(64) * w
        if n_planes <= 6:
            codes_of_6_planes(planes, w, size, payload, at, first)
        elif n_planes <= 8:
            codes_of_8_planes(planes, w, size, payload, at, first)
        elif n_planes <= 10:
            codes_of_10_planes(planes, w, size, payload, at, first)
        else:
            codes_of_16_planes(planes, w, size, payload, at, first)
