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
from spinney.runtime.conditions import CATEGORICAL, MISSING_LEFT, ZERO_IS_MISSING
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
def next_node(rows, start, missing, threshold, link, node, shift, mask):
    """Return the child of a node that a row goes to, a leaf again if it is at one.

    Plain comparisons only. The row begins at `start` in `rows`; `missing` tells whether
    any row has a NaN. Children are counted from the root.
    """
    one, two = u(1), u(2)
    word = link[two * node + one]
    x = rows[start + (word & mask)]
    child = (word >> shift) + u(x > threshold[two * node])
    if missing:
        child += u(x != x) & ~(word >> (shift - one)) & one
    return child


@kernel
def walk_levels(rows, stride, walk, root, n_levels, missing, active, n_active, node):
    """Take some rows `n_levels` down a tree, eight at a time.

    Eight independent walks hide one another's waiting for memory. `active` must be
    readable up to the next multiple of eight.
    """
    t, w = walk.threshold[u(2) * root :], walk.link[u(2) * root :]
    shift, mask = walk.child_shift, walk.column_mask
    for k in range(0, n_active, 8):
        r0, r1 = u(active[k]), u(active[k + 1])
        r2, r3 = u(active[k + 2]), u(active[k + 3])
        r4, r5 = u(active[k + 4]), u(active[k + 5])
        r6, r7 = u(active[k + 6]), u(active[k + 7])
        s0, s1, s2, s3 = r0 * stride, r1 * stride, r2 * stride, r3 * stride
        s4, s5, s6, s7 = r4 * stride, r5 * stride, r6 * stride, r7 * stride
        i0, i1, i2, i3 = u(node[r0]), u(node[r1]), u(node[r2]), u(node[r3])
        i4, i5, i6, i7 = u(node[r4]), u(node[r5]), u(node[r6]), u(node[r7])
        for _ in range(n_levels):
            i0 = next_node(rows, s0, missing, t, w, i0, shift, mask)
            i1 = next_node(rows, s1, missing, t, w, i1, shift, mask)
            i2 = next_node(rows, s2, missing, t, w, i2, shift, mask)
            i3 = next_node(rows, s3, missing, t, w, i3, shift, mask)
            i4 = next_node(rows, s4, missing, t, w, i4, shift, mask)
            i5 = next_node(rows, s5, missing, t, w, i5, shift, mask)
            i6 = next_node(rows, s6, missing, t, w, i6, shift, mask)
            i7 = next_node(rows, s7, missing, t, w, i7, shift, mask)
        node[r0], node[r1], node[r2], node[r3] = i0, i1, i2, i3
        node[r4], node[r5], node[r6], node[r7] = i4, i5, i6, i7


@kernel
def walk_tree(rows, stride, n_rows, walk, tree, missing, active, node, value_index):
    """Write the leaf value index at which each row ends; plain comparisons only."""
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
        value_index[r] = walk.value_index[two * (root + u(node[r]))]


@kernel
def walk_special(rows, stride, n_rows, walk, categories, tree, value_index):
    """Write the leaf value index at which each row ends; nodes of any kind."""
    one, two = u(1), u(2)
    root = walk.root[tree]
    threshold, links, value_indices = walk.threshold, walk.link, walk.value_index
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
                which = value_indices[two * node]
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
        value_index[r] = value_indices[two * node]
