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

from spinney.forest.nodes import ZERO_BAND
from spinney.runtime.bitslicing import (
    CATEGORICAL,
    LOOK_AHEAD,
    MISSING_LEFT,
    ZERO_IS_MISSING,
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

# Levels walked before rows that have arrived are sorted out, and again after that.
FIRST_LEVELS = 12
MORE_LEVELS = 6


@kernel
def _in_set(x, words, start, end, rule):
    """Whether the number `x`, not NaN, is a member of a set of categories.

    The set is `words[start:end]`; `rule` is that of `Categories`. Plain arrays and
    numbers: to hand over a tuple of arrays would cost more than the look-up.
    """
    if rule == 2 and x != np.floor(x):
        return False
    # Truncation only differs from rounding down between -1 and 0.
    category = np.trunc(x) if rule == 0 else np.floor(x)
    if not (category >= 0 and category < 32.0 * (end - start)):
        return False
    code = np.int64(category)
    word = np.int64(words[start + (code >> 5)])
    return (word >> (code & 31)) & 1 == 1


@kernel
def _goes_right(x, threshold, kind, words, start, end, rule):
    """Whether `x` goes right at a node of any kind."""
    if x != x or (kind & ZERO_IS_MISSING != 0 and abs(x) <= ZERO_BAND):
        return kind & MISSING_LEFT == 0
    if kind & CATEGORICAL != 0:
        return not _in_set(x, words, start, end, rule)
    return x > threshold


@kernel
def _walk_levels(rows, stride, walk, root, n_levels, missing, active, n_active, node):
    """Take some rows `n_levels` down a tree, eight at a time.

    Eight independent walks hide one another's waiting for memory. `active` must be
    readable up to the next multiple of eight.
    """
    one, two = u(1), u(2)
    threshold = walk.threshold[two * root :]
    link = walk.link[two * root :]
    shift, mask = walk.child_shift, walk.column_mask
    missing_bit = shift - one
    for k in range(0, n_active, 8):
        r0, r1 = u(active[k]), u(active[k + 1])
        r2, r3 = u(active[k + 2]), u(active[k + 3])
        r4, r5 = u(active[k + 4]), u(active[k + 5])
        r6, r7 = u(active[k + 6]), u(active[k + 7])
        s0, s1, s2, s3 = r0 * stride, r1 * stride, r2 * stride, r3 * stride
        s4, s5, s6, s7 = r4 * stride, r5 * stride, r6 * stride, r7 * stride
        i0, i1, i2, i3 = u(node[r0]), u(node[r1]), u(node[r2]), u(node[r3])
        i4, i5, i6, i7 = u(node[r4]), u(node[r5]), u(node[r6]), u(node[r7])
        if not missing:
            for _ in range(n_levels):
                w0, w1 = link[two * i0 + one], link[two * i1 + one]
                w2, w3 = link[two * i2 + one], link[two * i3 + one]
                w4, w5 = link[two * i4 + one], link[two * i5 + one]
                w6, w7 = link[two * i6 + one], link[two * i7 + one]
                i0 = (w0 >> shift) + u(rows[s0 + (w0 & mask)] > threshold[two * i0])
                i1 = (w1 >> shift) + u(rows[s1 + (w1 & mask)] > threshold[two * i1])
                i2 = (w2 >> shift) + u(rows[s2 + (w2 & mask)] > threshold[two * i2])
                i3 = (w3 >> shift) + u(rows[s3 + (w3 & mask)] > threshold[two * i3])
                i4 = (w4 >> shift) + u(rows[s4 + (w4 & mask)] > threshold[two * i4])
                i5 = (w5 >> shift) + u(rows[s5 + (w5 & mask)] > threshold[two * i5])
                i6 = (w6 >> shift) + u(rows[s6 + (w6 & mask)] > threshold[two * i6])
                i7 = (w7 >> shift) + u(rows[s7 + (w7 & mask)] > threshold[two * i7])
        else:
            for _ in range(n_levels):
                w0, w1 = link[two * i0 + one], link[two * i1 + one]
                w2, w3 = link[two * i2 + one], link[two * i3 + one]
                w4, w5 = link[two * i4 + one], link[two * i5 + one]
                w6, w7 = link[two * i6 + one], link[two * i7 + one]
                x0, x1 = rows[s0 + (w0 & mask)], rows[s1 + (w1 & mask)]
                x2, x3 = rows[s2 + (w2 & mask)], rows[s3 + (w3 & mask)]
                x4, x5 = rows[s4 + (w4 & mask)], rows[s5 + (w5 & mask)]
                x6, x7 = rows[s6 + (w6 & mask)], rows[s7 + (w7 & mask)]
                m0, m1 = ~(w0 >> missing_bit) & one, ~(w1 >> missing_bit) & one
                m2, m3 = ~(w2 >> missing_bit) & one, ~(w3 >> missing_bit) & one
                m4, m5 = ~(w4 >> missing_bit) & one, ~(w5 >> missing_bit) & one
                m6, m7 = ~(w6 >> missing_bit) & one, ~(w7 >> missing_bit) & one
                m0, m1 = m0 & u(x0 != x0), m1 & u(x1 != x1)
                m2, m3 = m2 & u(x2 != x2), m3 & u(x3 != x3)
                m4, m5 = m4 & u(x4 != x4), m5 & u(x5 != x5)
                m6, m7 = m6 & u(x6 != x6), m7 & u(x7 != x7)
                i0 = (w0 >> shift) + (m0 | u(x0 > threshold[two * i0]))
                i1 = (w1 >> shift) + (m1 | u(x1 > threshold[two * i1]))
                i2 = (w2 >> shift) + (m2 | u(x2 > threshold[two * i2]))
                i3 = (w3 >> shift) + (m3 | u(x3 > threshold[two * i3]))
                i4 = (w4 >> shift) + (m4 | u(x4 > threshold[two * i4]))
                i5 = (w5 >> shift) + (m5 | u(x5 > threshold[two * i5]))
                i6 = (w6 >> shift) + (m6 | u(x6 > threshold[two * i6]))
                i7 = (w7 >> shift) + (m7 | u(x7 > threshold[two * i7]))
        node[r0], node[r1], node[r2], node[r3] = i0, i1, i2, i3
        node[r4], node[r5], node[r6], node[r7] = i4, i5, i6, i7


@kernel
def _walk_tree(rows, stride, n_rows, walk, tree, missing, active, node, payload):
    """Write the payload at which each row ends in a tree of plain comparisons."""
    two = u(2)
    root = walk.root[tree]
    depth = walk.depth[tree]
    link = walk.link[two * root :]
    leaf_column = stride - u(1)
    for r in range(n_rows):
        active[r] = r
        node[r] = 0
    n_active = n_rows
    # Trees that are hardly deeper than the first stage are walked in one go.
    n_levels = depth if depth <= FIRST_LEVELS + 2 else FIRST_LEVELS
    level = 0
    while True:
        for k in range(n_active, (n_active + 7) // 8 * 8):
            active[k] = active[n_active - 1]
        _walk_levels(
            rows, stride, walk, root, n_levels, missing, active, n_active, node
        )
        level += n_levels
        if level >= depth:
            break
        # Keep the rows that have not arrived, without a branch.
        kept = 0
        for k in range(n_active):
            r = active[k]
            active[kept] = r
            column = link[two * u(node[r]) + u(1)] & walk.column_mask
            kept += np.int64(column != leaf_column)
        n_active = kept
        if n_active == 0:
            break
        n_levels = min(MORE_LEVELS, depth - level)
    for r in range(n_rows):
        payload[r] = walk.payload[two * (root + u(node[r]))]


@kernel
def _walk_special(rows, stride, n_rows, walk, categories, tree, payload):
    """Write the payload at which each row ends in a tree with nodes of any kind."""
    one, two = u(1), u(2)
    root = walk.root[tree]
    threshold, links, payloads = walk.threshold, walk.link, walk.payload
    kinds, shift, mask = walk.kind, walk.child_shift, walk.column_mask
    offsets, words, rule = categories.offsets, categories.words, categories.rule
    leaf_column = stride - one
    for r in range(n_rows):
        first = u(r) * stride
        node = root
        link = links[two * node + one]
        column = link & mask
        while column != leaf_column:
            start, end = 0, 0
            if kinds[node] & CATEGORICAL != 0:
                which = payloads[two * node]
                start, end = offsets[which], offsets[which + 1]
            goes_right = _goes_right(
                rows[first + column],
                threshold[two * node],
                kinds[node],
                words,
                start,
                end,
                rule,
            )
            node = root + (link >> shift) + u(goes_right)
            link = links[two * node + one]
            column = link & mask
        payload[r] = payloads[two * node]


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
            right = _goes_right(x, threshold, kind, words, begin, end, rule)
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
                _walk_special(rows, stride, n, walk, categories, tree, ends)
            else:
                ends = payload[begin : begin + n]
                _walk_tree(rows, stride, n, walk, tree, missing, active, node, ends)
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
