"""Kernels that walk trees level by level and can be stopped after any step.

They walk the layout of the runtime (`spinney.runtime.layout`) with the kernels of
`spinney.runtime.walk_kernels`. A row's position in a tree is one number: its node,
counted from the root. The same rules apply as there: validated, C-contiguous arrays, no
fastmath (NaN must go where the node says) and unsigned indices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.conditions import CATEGORICAL
from spinney.runtime.kernel_cache import kernel
from spinney.runtime.layout import Categories, Walk
from spinney.runtime.walk_kernels import goes_right, next_node, walk_levels

u = np.uint64

Counts = NDArray[np.int64]
Positions = NDArray[np.uint32]

# So few levels are walked row by row: walking eight rows at a time is not faster there.
FEW_LEVELS = 2

# Levels walked by all rows before those that have reached a leaf are left out, and
# levels walked between looking for such rows.
FIRST_LEVELS = 12
MORE_LEVELS = 4


class StepTrees(NamedTuple):
    """All that the kernels need to know of a forest."""

    walk: Walk
    categories: Categories
    table: Counts  # what each node adds, relative to the root of its tree
    output: Counts  # per tree: the class that it adds to, or -1 for all

    def one_by_one(self) -> tuple[Any, ...]:
        """Return the arrays as `step_row` takes them."""
        return (*self.walk, *self.categories, self.table, self.output)


@kernel
def _walk_plain(
    rows: NDArray[Any],
    stride: Any,
    missing: bool,
    walk: Walk,
    tree: int,
    level: int,
    n_levels: int,
    everyone: Positions,
    active: Positions,
    node: Positions,
) -> None:
    """Take all rows some levels further down a tree of plain comparisons.

    Parameters
    ----------
    rows : ndarray of shape (n_rows * stride,)
        The rows, one after another.
    stride : uint64
        Length of a row.
    missing : bool
        Whether there may be a NaN among them.
    walk : Walk
        The trees.
    tree : int
        Which of them.
    level, n_levels : int
        Levels walked so far, and still to walk.
    everyone : ndarray of shape (n_rows + 8,), dtype=uint32
        The indices of all rows; the last one eight times more.
    active : scratch of the same shape and type
    node : ndarray of shape (n_rows,), dtype=uint32
        Where each row is. Updated.
    """
    one, two = u(1), u(2)
    root = walk.root[tree]
    shift, mask = walk.child_shift, walk.column_mask
    link = walk.link[two * root :]
    if n_levels <= FEW_LEVELS:
        threshold = walk.threshold[two * root :]
        for _ in range(n_levels):
            for r in range(u(node.shape[0])):
                i = u(node[r])
                node[r] = next_node(
                    rows, r * stride, missing, threshold, link, i, shift, mask
                )
        return
    n_active: int = node.shape[0]
    members = everyone
    # Rows reach a leaf early in deep trees, hardly ever in shallow ones.
    n_next = min(n_levels, max(0, FIRST_LEVELS - level))
    leaf_column = stride - one
    while True:
        if n_next > 0:
            walk_levels(
                rows, stride, walk, root, n_next, missing, members, n_active, node
            )
        n_levels -= n_next
        if n_levels == 0:
            return
        # Keep the rows that are not at a leaf, without a branch.
        kept = 0
        for k in range(n_active):
            r = members[k]
            active[kept] = r
            kept += int(u(link[two * u(node[r]) + one]) & mask != leaf_column)
        members, n_active = active, kept
        if n_active == 0:
            return
        for k in range(n_active, (n_active + 7) // 8 * 8):
            active[k] = active[n_active - 1]
        n_next = min(n_levels, MORE_LEVELS)


@kernel
def _walk_special(
    rows: NDArray[Any],
    stride: Any,
    walk: Walk,
    categories: Categories,
    tree: int,
    n_levels: int,
    node: Positions,
) -> None:
    """Take all rows some levels further down a tree with nodes of any kind."""
    one, two = u(1), u(2)
    root = walk.root[tree]
    threshold, links, value_indices = walk.threshold, walk.link, walk.value_index
    kinds, shift, mask = walk.kind, walk.child_shift, walk.column_mask
    offsets, words, rule = categories.offsets, categories.words, categories.rule
    leaf_column = stride - one
    for r in range(u(node.shape[0])):
        here: Any = root + u(node[r])
        for _ in range(n_levels):
            link = u(links[two * here + one])
            column = link & mask
            if column == leaf_column:
                break
            start, end = 0, 0
            if kinds[here] & CATEGORICAL != 0:
                which = value_indices[two * here]
                start, end = offsets[which], offsets[which + 1]
            right = goes_right(
                rows[r * stride + column],
                threshold[two * here],
                kinds[here],
                words,
                start,
                end,
                rule,
            )
            here = root + (link >> shift) + u(right)
        node[r] = here - root


@kernel
def step_block(
    rows: NDArray[Any],
    missing: bool,
    trees: StepTrees,
    before: Counts,
    after: Counts,
    is_bitsliced: NDArray[np.bool_],
    position: Positions,
    sums: Counts,
) -> None:
    """Take a block of rows from one state of the forest to a later one.

    No prediction is needed in between, so all steps of a tree are taken at once.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns + 1)
        As `load_rows` writes them.
    missing : bool
        Whether there may be a NaN among them.
    trees : StepTrees
        The forest.
    before, after : ndarray of shape (n_trees,)
        Steps taken in each tree, in the one state and in the other.
    is_bitsliced : ndarray of shape (n_trees,), dtype=bool
        Trees that are not stepped here; see `bitslice_kernels`.
    position : ndarray of shape (n_trees, n_rows), dtype=uint32
        Node of each row in each tree; anything in a tree without steps so far. Updated.
    sums : ndarray of shape (n_rows, n_classes)
        Running sums. Updated.
    """
    n_rows = rows.shape[0]
    stride = u(rows.shape[1])
    flat = rows.reshape(-1)
    walk, categories = trees.walk, trees.categories
    old = np.empty(n_rows, dtype=np.uint32)
    everyone = np.full(n_rows + 8, n_rows - 1, dtype=np.uint32)
    for r in range(n_rows):
        everyone[r] = r
    active = np.empty(n_rows + 8, dtype=np.uint32)
    for t in range(after.shape[0]):
        level, n_levels = before[t], after[t] - before[t]
        if n_levels <= 0 or is_bitsliced[t]:
            continue
        node = position[t]
        if level > 0:
            for r in range(node.shape[0]):
                old[r] = node[r]
        else:
            node[:] = 0
        if walk.is_special:
            _walk_special(flat, stride, walk, categories, t, n_levels, node)
        else:
            _walk_plain(
                flat,
                stride,
                missing,
                walk,
                t,
                level,
                n_levels,
                everyone,
                active,
                node,
            )
        table = trees.table[walk.root[t] :]
        if level > 0:
            _update(table, trees.output[t], old, node, sums)
        else:
            _add(table, trees.output[t], node, sums)


@kernel
def _add(table: Counts, output: int, new: Positions, sums: Counts) -> None:
    """Add what the nodes contribute of a tree that has taken its first steps."""
    n_rows, n_classes = sums.shape
    if output >= 0:
        for r in range(n_rows):
            sums[r, output] += table[new[r], 0]
    elif n_classes == 2:
        for r in range(n_rows):
            # All reads before the first write: the compiler cannot know that the
            # arrays do not overlap.
            first, second = table[u(new[r]), 0], table[u(new[r]), 1]
            sums[r, 0] += first
            sums[r, 1] += second
    else:
        for r in range(n_rows):
            for c in range(n_classes):
                sums[r, c] += table[u(new[r]), c]


@kernel
def _update(
    table: Counts, output: int, old: Positions, new: Positions, sums: Counts
) -> None:
    """Subtract what the old nodes contributed and add what the new ones contribute."""
    n_rows, n_classes = sums.shape
    if output >= 0:
        for r in range(n_rows):
            sums[r, output] += table[new[r], 0] - table[old[r], 0]
    elif n_classes == 2:
        for r in range(n_rows):
            a, b = u(old[r]), u(new[r])
            first = table[b, 0] - table[a, 0]
            second = table[b, 1] - table[a, 1]
            sums[r, 0] += first
            sums[r, 1] += second
    else:
        for r in range(n_rows):
            a, b = u(old[r]), u(new[r])
            if a != b:
                for c in range(n_classes):
                    sums[r, c] += table[b, c] - table[a, c]


@kernel
def step_row(
    row: NDArray[Any],
    threshold: NDArray[Any],
    link: NDArray[Any],
    value_index: NDArray[Any],
    kind: NDArray[np.uint8],
    root: NDArray[np.uint64],
    depth: Counts,
    child_shift: Any,
    column_mask: Any,
    is_special: bool,
    set_offsets: Counts,
    set_words: NDArray[np.uint32],
    rule: int,
    table: Counts,
    output: Counts,
    order: Counts,
    first: int,
    end: int,
    position: Positions,
    sums: Counts,
) -> None:
    """Take the steps `first` to `end` of an order for one row.

    Parameters
    ----------
    row : ndarray of shape (n_columns + 1,)
        A row as `load_rows` writes it.
    threshold, link, value_index, kind, root, depth, child_shift, column_mask
        `Walk`, field by field: to hand over a tuple of arrays takes longer than a step.
    is_special : bool
        The last field of it.
    set_offsets, set_words, rule
        `Categories`.
    table, output
        The rest of `StepTrees`.
    order : ndarray of shape (n_steps,)
        Tree to step in.
    first, end : int
        Steps to take.
    position : ndarray of shape (n_trees,), dtype=uint32
        Node of the row in each tree. Updated.
    sums : ndarray of shape (n_classes,)
        Running sums. Updated.
    """
    stride = u(row.shape[0])
    walk = Walk(
        threshold,
        link,
        value_index,
        kind,
        root,
        depth,
        child_shift,
        column_mask,
        is_special,
    )
    categories = Categories(set_offsets, set_words, rule)
    for k in range(first, end):
        t = order[k]
        old = root[t] + u(position[t])
        if is_special:
            _walk_special(row, stride, walk, categories, t, 1, position[t : t + 1])
        else:
            position[t] = next_node(
                row, u(0), True, threshold, link, old, child_shift, column_mask
            )
        new = root[t] + u(position[t])
        if new == old:
            continue
        if output[t] >= 0:
            sums[output[t]] += table[new, 0] - table[old, 0]
        else:
            for c in range(sums.shape[0]):
                sums[c] += table[new, c] - table[old, c]


@kernel
def find_winners(
    sums: Counts, slack: int, winner: Counts, is_close: NDArray[np.bool_]
) -> bool:
    """Write the class of the largest sum of each row, and whether it is a close call.

    Parameters
    ----------
    sums : ndarray of shape (n_rows, n_classes)
        Sums.
    slack : int
        A lead that is no larger than this is close.
    winner : ndarray of shape (n_rows,)
        Overwritten with class indices, the first of equals.
    is_close : ndarray of shape (n_rows,), dtype=bool
        Overwritten.

    Returns
    -------
    any_close : bool
        Whether any call is close.
    """
    any_close = False
    least = np.iinfo(np.int64).min // 2
    for r in range(sums.shape[0]):
        # Without branches: which class is ahead cannot be predicted.
        first, best, second = 0, sums[r, 0], least
        for c in range(1, sums.shape[1]):
            value = sums[r, c]
            second = max(second, min(best, value))
            first = c if value > best else first
            best = max(best, value)
        winner[r] = first
        is_close[r] = best - second <= slack
        any_close |= is_close[r]
    return any_close
