"""How one row goes down eight trees at once.

What counts is that all eight stay in registers: see `row_nodes` for how the nodes are
laid out for that. The same rules as in `walk_kernels` apply.
"""

from __future__ import annotations

import numpy as np

from spinney.runtime.kernel_cache import kernel

u = np.uint64

# Trees of at most this depth are walked down to the last level, whether or not the row
# has arrived; in deeper ones, who has arrived is found out after so many levels.
SHALLOW, LEVELS_AT_ONCE = 10, 4


@kernel
def walk_trees(row, threshold, link, root, first, end, slot_bits, max_depth, node):
    """Take one row down some trees, eight at once; write the nodes where it ends.

    One tree after another within a level: eight links at a time would not fit into
    registers. They are done when all of them look at the slot of the leaves, the last.

    Parameters
    ----------
    row : ndarray of shape (n_slots + 1,)
        As `load_slots` writes it.
    threshold : ndarray
        `link` as numbers: the threshold of a node is the first of its two words.
    link, root
        `RowArguments`.
    first, end : int
        The trees, from `first` to `end`.
    slot_bits, max_depth
        `RowArguments`.
    node : ndarray of shape (n_trees,), dtype=uint64
        Overwritten, with room for the next multiple of eight trees.
    """
    one, two = u(1), u(2)
    size = u(4) if link.itemsize > row.itemsize else two
    shift = u(slot_bits)
    mask = (one << shift) - one
    leaves = u(8 * (row.shape[0] - 1))
    last = end - 1
    for tree in range(first, end, 8):
        i0, i1 = root[tree], root[min(tree + 1, last)]
        i2, i3 = root[min(tree + 2, last)], root[min(tree + 3, last)]
        i4, i5 = root[min(tree + 4, last)], root[min(tree + 5, last)]
        i6, i7 = root[min(tree + 6, last)], root[min(tree + 7, last)]
        for _ in range(max_depth):
            slots = u(0)
            w = u(link[two * i0 + one])
            slots += w & mask
            i0 = (w >> shift) + u(not row[w & mask] <= threshold[size * i0])
            w = u(link[two * i1 + one])
            slots += w & mask
            i1 = (w >> shift) + u(not row[w & mask] <= threshold[size * i1])
            w = u(link[two * i2 + one])
            slots += w & mask
            i2 = (w >> shift) + u(not row[w & mask] <= threshold[size * i2])
            w = u(link[two * i3 + one])
            slots += w & mask
            i3 = (w >> shift) + u(not row[w & mask] <= threshold[size * i3])
            w = u(link[two * i4 + one])
            slots += w & mask
            i4 = (w >> shift) + u(not row[w & mask] <= threshold[size * i4])
            w = u(link[two * i5 + one])
            slots += w & mask
            i5 = (w >> shift) + u(not row[w & mask] <= threshold[size * i5])
            w = u(link[two * i6 + one])
            slots += w & mask
            i6 = (w >> shift) + u(not row[w & mask] <= threshold[size * i6])
            w = u(link[two * i7 + one])
            slots += w & mask
            i7 = (w >> shift) + u(not row[w & mask] <= threshold[size * i7])
            if slots == leaves:
                break
        k = u(tree - first)
        node[k], node[k + u(1)], node[k + u(2)], node[k + u(3)] = i0, i1, i2, i3
        node[k + u(4)], node[k + u(5)], node[k + u(6)], node[k + u(7)] = i4, i5, i6, i7


@kernel
def walk_all_trees(row, threshold, link, root, slot_bits, max_depth, node, under_way):
    """Take one row down all trees; write the nodes where it ends.

    Trees in which the row arrives early make room for others: in those of LightGBM it
    takes four steps on average, and one in eight of them takes twice as many.

    Parameters
    ----------
    row, threshold, link, root, slot_bits, max_depth
        As for `walk_trees`.
    node : ndarray of shape (n_trees + 1,), dtype=uint64
        Overwritten; the last entry is of no tree.
    under_way : ndarray of shape (n_trees + 7,), dtype=uint64
        Scratch: the trees in which the row has not arrived.
    """
    one, two = u(1), u(2)
    size = u(4) if link.itemsize > row.itemsize else two
    shift = u(slot_bits)
    mask = (one << shift) - one
    leaf = u(row.shape[0] - 1)
    levels = max_depth if max_depth <= SHALLOW else LEVELS_AT_ONCE
    n_trees = u(root.shape[0])
    for tree in range(n_trees):
        node[tree] = root[tree]
        under_way[tree] = tree
    node[n_trees] = root[n_trees - one]
    n_left = n_trees
    while n_left > 0:
        # Eight at a time, the last of them maybe of no tree.
        for k in range(n_left, (n_left + u(7)) & ~u(7)):
            under_way[k] = n_trees
        n_before, n_left = n_left, u(0)
        for first in range(u(0), n_before, u(8)):
            t0, t1 = under_way[first], under_way[first + u(1)]
            t2, t3 = under_way[first + u(2)], under_way[first + u(3)]
            t4, t5 = under_way[first + u(4)], under_way[first + u(5)]
            t6, t7 = under_way[first + u(6)], under_way[first + u(7)]
            i0, i1, i2, i3 = node[t0], node[t1], node[t2], node[t3]
            i4, i5, i6, i7 = node[t4], node[t5], node[t6], node[t7]
            for _ in range(levels):
                w = u(link[two * i0 + one])
                i0 = (w >> shift) + u(not row[w & mask] <= threshold[size * i0])
                w = u(link[two * i1 + one])
                i1 = (w >> shift) + u(not row[w & mask] <= threshold[size * i1])
                w = u(link[two * i2 + one])
                i2 = (w >> shift) + u(not row[w & mask] <= threshold[size * i2])
                w = u(link[two * i3 + one])
                i3 = (w >> shift) + u(not row[w & mask] <= threshold[size * i3])
                w = u(link[two * i4 + one])
                i4 = (w >> shift) + u(not row[w & mask] <= threshold[size * i4])
                w = u(link[two * i5 + one])
                i5 = (w >> shift) + u(not row[w & mask] <= threshold[size * i5])
                w = u(link[two * i6 + one])
                i6 = (w >> shift) + u(not row[w & mask] <= threshold[size * i6])
                w = u(link[two * i7 + one])
                i7 = (w >> shift) + u(not row[w & mask] <= threshold[size * i7])
            node[t0], node[t1], node[t2], node[t3] = i0, i1, i2, i3
            node[t4], node[t5], node[t6], node[t7] = i4, i5, i6, i7
            # Without branches, which would be mispredicted more often than not.
            under_way[n_left] = t0
            n_left += u((u(link[two * i0 + one]) & mask) != leaf)
            under_way[n_left] = t1
            n_left += u((u(link[two * i1 + one]) & mask) != leaf)
            under_way[n_left] = t2
            n_left += u((u(link[two * i2 + one]) & mask) != leaf)
            under_way[n_left] = t3
            n_left += u((u(link[two * i3 + one]) & mask) != leaf)
            under_way[n_left] = t4
            n_left += u((u(link[two * i4 + one]) & mask) != leaf)
            under_way[n_left] = t5
            n_left += u((u(link[two * i5 + one]) & mask) != leaf)
            under_way[n_left] = t6
            n_left += u((u(link[two * i6 + one]) & mask) != leaf)
            under_way[n_left] = t7
            n_left += u((u(link[two * i7 + one]) & mask) != leaf)
