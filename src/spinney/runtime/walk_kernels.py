"""Kernels that walk rows down a tree, from the root to a leaf.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.

No fastmath anywhere: it would let the compiler drop the tests for NaN, and missing
values would be sent the wrong way without any error. Indices are unsigned throughout,
which spares the test for negative ones; Numba makes a float of a mixed sum of signed
and unsigned integers, hence the many ``u(...)``.
"""

from __future__ import annotations

import numpy as np

from spinney.forest.nodes import ZERO_BAND
from spinney.runtime.bitslicing import CATEGORICAL, MISSING_LEFT, ZERO_IS_MISSING
from spinney.runtime.kernel_cache import kernel

u = np.uint64

# Levels walked before rows that have arrived are sorted out, and again after that.
FIRST_LEVELS = 12
MORE_LEVELS = 6


@kernel
def in_set(x, words, start, end, rule):
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
def goes_right(x, threshold, kind, words, start, end, rule):
    """Whether `x` goes right at a node of any kind."""
    if x != x or (kind & ZERO_IS_MISSING != 0 and abs(x) <= ZERO_BAND):
        return kind & MISSING_LEFT == 0
    if kind & CATEGORICAL != 0:
        return not in_set(x, words, start, end, rule)
    return x > threshold


@kernel
def walk_levels(rows, stride, walk, root, n_levels, missing, active, n_active, node):
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
def walk_tree(rows, stride, n_rows, walk, tree, missing, active, node, payload):
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
        walk_levels(rows, stride, walk, root, n_levels, missing, active, n_active, node)
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
def walk_special(rows, stride, n_rows, walk, categories, tree, payload):
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
            right = goes_right(
                rows[first + column],
                threshold[two * node],
                kinds[node],
                words,
                start,
                end,
                rule,
            )
            node = root + (link >> shift) + u(right)
            link = links[two * node + one]
            column = link & mask
        payload[r] = payloads[two * node]
