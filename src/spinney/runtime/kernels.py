"""Kernels that evaluate all trees of a forest, tree by tree over blocks of rows.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task. Numba's cache on disk does not notice a change in a function that is
imported from another file: after one, remove all of it, as ``make test`` does.

No fastmath anywhere: it would let the compiler drop the tests for NaN, and missing
values would be sent the wrong way without any error. Indices are unsigned throughout,
which spares the test for negative ones; Numba makes a float of a mixed sum of signed
and unsigned integers, hence the many ``u(...)``.
"""

from __future__ import annotations

import numpy as np

from spinney.runtime.bitslicing import (
    CATEGORICAL,
    LOOK_AHEAD,
    MISSING_LEFT,
)
from spinney.runtime.building import FINISH, KEEP, MARK
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.loading import find_windows, load_columns, load_rows
from spinney.runtime.simd import (
    STRIDE,
    add_four_pairs,
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
from spinney.runtime.walk_kernels import goes_right, walk_special, walk_tree

u = np.uint64

# Rows per block: enough that a tree fetched from a distant cache serves many rows, few
# enough that the rows themselves stay in a near one.
BLOCK_ROWS = 16_384
BLOCK_BYTES = 2_097_152
ANSWER_BYTES = 10_485_760

# Questions between fetching the place of their answers and writing them.
FETCH_AHEAD = 6

# Rows whose answers are split in one step.
BLOCK_UNIT = 64 * STRIDE

# Numbers between two columns: were they a power of two apart, all of them would have to
# share a few lines of the caches.
APART = 16

# Fewer rows are better taken one by one through eight trees at a time.
MIN_BLOCK_ROWS = 48


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
def _aligned_words(n):
    """Return an array of words that begins where a line of the cache does."""
    words = np.empty(n + 8, dtype=np.uint64)
    start = -(words.ctypes.data // 8) % 8
    return words[start : start + n]


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
def _ask_chains(
    program, n_rows, n_words, words, values, start, rank, last_row, answers
):
    """Put the questions in chains to a block of rows."""
    for chain in range(program.chain_column.shape[0]):
        _ask_chain(
            values,
            start[program.chain_column[chain]],
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
def _ask_others(
    program, n_words, words, values, start, categories, first_word, answers
):
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
def _slice_tree(
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
        Of `Program`. Arrays one by one, and offsets counted by hand: a view of an
        array, or a field of a tuple of arrays, costs more than a split.
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
def _payloads_of_planes(first, n_planes, n_words, words, planes, payload, start):
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


@kernel
def _add(table, payload, start, n_rows, output, total):
    """Add the values of one tree, to a single output or to all of them."""
    n_values = table.shape[1]
    at = u(start)
    if output >= 0:
        for r in range(u(n_rows)):
            total[r, output] += table[u(payload[at + r]), 0]
    elif n_values == 1:
        for r in range(u(n_rows)):
            total[r, 0] += table[u(payload[at + r]), 0]
    else:
        for r in range(n_rows):
            row = table[payload[start + r]]
            for v in range(n_values):
                total[r, v] += row[v]


@kernel
def _add_four(table, payload, block, n_rows, total):
    """Add the values of four trees, one or two for each payload, in their order.

    Each sum is read and written once for all four.
    """
    sums, entries = total.reshape(-1), table.reshape(-1)
    size = u(block)
    if table.shape[1] == 1:
        for r in range(u(n_rows)):
            first = sums[r] + entries[u(payload[r])]
            second = first + entries[u(payload[size + r])]
            third = second + entries[u(payload[u(2) * size + r])]
            sums[r] = third + entries[u(payload[u(3) * size + r])]
    else:
        for r in range(u(n_rows)):
            add_four_pairs(
                sums,
                u(2) * r,
                entries,
                u(2) * u(payload[r]),
                u(2) * u(payload[size + r]),
                u(2) * u(payload[u(2) * size + r]),
                u(2) * u(payload[u(3) * size + r]),
            )


@kernel
def _evaluate(X, places, forms, block, table, tree_output, total, payloads):
    """Ask all trees about some rows, tree by tree over blocks of rows.

    `places` tells which rows of `X`, all if it is empty. Either `total` (n_rows,
    n_outputs) has the values of the trees added to it, in the order of the trees, or
    `payloads` (n_rows, n_trees) is overwritten; the other one has no rows.
    """
    walk, program, categories = forms.walk, forms.program, forms.categories
    run_offsets, run_kind, run_end = (
        program.run_offsets,
        program.run_kind,
        program.run_end,
    )
    operations = program.operations
    is_sliced, n_planes = program.is_sliced, program.n_planes
    first_code, first_payload = program.first_code, program.first_payload
    is_listed, leaf_of_code = program.is_listed, program.leaf_of_code
    n_rows = max(total.shape[0], payloads.shape[0])
    n_columns = forms.columns.shape[0]
    n_trees = walk.depth.shape[0]
    stride = u(n_columns + 1)
    # Blocks of the same size, rather than full ones and a small last one.
    n_blocks = max(1, (n_rows + block - 1) // block)
    block = (n_rows + n_blocks - 1) // n_blocks
    block = max(1, (block + BLOCK_UNIT - 1) // BLOCK_UNIT) * BLOCK_UNIT
    n_questions = program.question_slot.shape[0]
    slicing = n_questions > 0 and n_rows >= MIN_BLOCK_ROWS
    words = block // 64 if slicing else 0
    walking = not slicing or not is_sliced.all()
    rows = np.empty(block * (n_columns + 1) if walking else 0, dtype=X.dtype)
    active = np.empty(block + 8, dtype=np.uint32)
    node = np.empty(block + 8, dtype=np.uint32)
    payload = np.empty(4 * block, dtype=np.int32)
    # Columns of chains are kept for all rows of a block, others for a few at a time:
    # they are compared at once, and never leave the nearest caches.
    start = np.full(n_columns + 1, -1, dtype=np.int64)
    room = 0
    for column in program.chain_column:
        start[column] = room
        room += block + APART
    is_chained = start >= 0
    for column in range(n_columns + 1):
        if not is_chained[column]:
            start[column] = room
            room += BLOCK_UNIT + APART
    values = np.empty(room if slicing else 0, dtype=X.dtype)
    begins, members = find_windows(forms.columns, X.shape[1])
    targets = np.empty(members.size, dtype=np.uint64)
    answers = _aligned_words((n_questions + 1) * words)
    answers[n_questions * words :] = u(0)
    sets = _aligned_words(program.n_places * words)
    rank = np.empty(64 * words, dtype=np.uint32)
    last_row = np.empty(n_questions + 1, dtype=np.uint32)
    planes = _aligned_words(16 * words)
    adding = payloads.shape[0] == 0
    by_four = adding and table.shape[1] <= 2 and table.shape[1] == total.shape[1]
    entries = table.reshape(-1)
    for first in range(0, n_rows, block):
        n = min(block, n_rows - first)
        missing = False
        if walking:
            missing = load_rows(X, places, first, n, forms.columns, rows)
        n_words = (n + BLOCK_UNIT - 1) // BLOCK_UNIT * STRIDE
        if slicing:
            for part in range(0, n, BLOCK_UNIT):
                n_part = min(BLOCK_UNIT, n - part)
                here = start + part * is_chained
                load_columns(
                    X,
                    places,
                    first + part,
                    n_part,
                    forms.columns,
                    begins,
                    members,
                    here,
                    values,
                    targets,
                )
                _ask_others(
                    program,
                    (n_part + 63) // 64,
                    words,
                    values,
                    here,
                    categories,
                    part // 64,
                    answers,
                )
            _ask_chains(
                program, n, n_words, words, values, start, rank, last_row, answers
            )
        for tree in range(n_trees):
            begin = tree % 4 * block
            if slicing and is_sliced[tree]:
                if is_listed[tree] and adding:
                    # Wanted when the tree has been sliced.
                    size = u(1) << u(n_planes[tree])
                    for k in range(u(0), size, u(32)):
                        fetch_words(leaf_of_code, u(first_code[tree]) + k)
                    width = u(table.shape[1])
                    first_entry = u(first_payload[tree]) * width
                    end = u(first_payload[tree + 1]) * width
                    for k in range(first_entry, end, u(8)):
                        fetch_words(entries, k)
                _slice_tree(
                    run_offsets[tree],
                    run_offsets[tree + 1],
                    run_kind,
                    run_end,
                    operations,
                    n_planes[tree],
                    n_words,
                    words,
                    answers,
                    sets,
                    planes,
                )
                _payloads_of_planes(
                    0 if is_listed[tree] else first_payload[tree],
                    n_planes[tree],
                    (n + 63) // 64,
                    words,
                    planes,
                    payload,
                    begin,
                )
                if is_listed[tree]:
                    code, leaf = u(first_code[tree]), first_payload[tree]
                    for r in range(u(begin), u(begin + n)):
                        payload[r] = leaf + leaf_of_code[code + u(payload[r])]
            elif walk.is_special:
                ends = payload[begin : begin + n]
                walk_special(rows, stride, n, walk, categories, tree, ends)
            else:
                ends = payload[begin : begin + n]
                walk_tree(rows, stride, n, walk, tree, missing, active, node, ends)
            if not adding:
                for r in range(n):
                    payloads[first + r, tree] = payload[begin + r]
            elif by_four and tree % 4 == 3:
                _add_four(table, payload, block, n, total[first : first + n])
            elif not by_four or tree >= n_trees // 4 * 4:
                _add(
                    table,
                    payload,
                    begin,
                    n,
                    tree_output[tree],
                    total[first : first + n],
                )


@kernel
def add_trees(X, places, forms, block, table, tree_output, total):
    """Add what each tree says to the raw scores.

    Parameters
    ----------
    X : ndarray of shape (n_all_rows, n_features), float32 or float64
        Rows, of the type that `forms` is for.
    places : ndarray of shape (n_rows,) or (0,), dtype=int64
        Which of them to ask about; if there are none, all.
    forms : Forms
        The forest.
    block : int
        Rows per block, a multiple of `BLOCK_UNIT`.
    table : ndarray of shape (n_payloads, n_values)
        What each payload adds.
    tree_output : ndarray of shape (n_trees,), dtype=int64
        The output that a tree adds its only value to, or -1 for all outputs.
    total : ndarray of shape (n_rows, n_outputs), dtype of `table`
        Added to, one tree after another.
    """
    payloads = np.empty((0, 0), dtype=np.int32)
    _evaluate(X, places, forms, block, table, tree_output, total, payloads)


@kernel
def find_payloads(X, forms, block, payloads):
    """Write the payload of the leaf at which each row ends in each tree.

    Parameters
    ----------
    X, forms, block
        As for `add_trees`.
    payloads : ndarray of shape (n_rows, n_trees), dtype=int32
        Overwritten.
    """
    table = np.empty((0, 1), dtype=np.float64)
    none = np.empty(0, dtype=np.int64)
    _evaluate(X, none, forms, block, table, none, table, payloads)


@kernel
def find_codes(columns, n_rows, forms, is_wanted, codes):
    """Write the code of the leaf of each row in some of the trees that are sliced.

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
    program = forms.program
    run_offsets, run_kind = program.run_offsets, program.run_kind
    run_end, operations = program.run_end, program.operations
    all_planes = program.n_planes
    words = columns.shape[1] // 64
    n_words = (n_rows + BLOCK_UNIT - 1) // BLOCK_UNIT * STRIDE
    n_questions = program.question_slot.shape[0]
    answers = _aligned_words((n_questions + 1) * words)
    answers[n_questions * words :] = u(0)
    sets = _aligned_words(program.n_places * words)
    planes = _aligned_words(16 * words)
    rank = np.empty(64 * words, dtype=np.uint32)
    last_row = np.empty(n_questions + 1, dtype=np.uint32)
    code = np.empty(64 * words, dtype=np.int32)
    values = columns.reshape(-1)
    start = np.arange(columns.shape[0]) * columns.shape[1]
    n_used = (n_rows + 63) // 64  # the rest of the words belong to no row
    _ask_others(program, n_used, words, values, start, forms.categories, 0, answers)
    _ask_chains(program, n_rows, n_words, words, values, start, rank, last_row, answers)
    for tree in range(is_wanted.shape[0]):
        if not is_wanted[tree]:
            continue
        n_planes = all_planes[tree]
        _slice_tree(
            run_offsets[tree],
            run_offsets[tree + 1],
            run_kind,
            run_end,
            operations,
            n_planes,
            n_words,
            words,
            answers,
            sets,
            planes,
        )
        _payloads_of_planes(0, n_planes, (n_rows + 63) // 64, words, planes, code, 0)
        for r in range(u(n_rows)):
            codes[tree, r] = code[r]
