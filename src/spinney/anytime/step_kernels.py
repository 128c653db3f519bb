"""Kernels that step through trees and can be left after any step.

They walk the layout of the runtime (`spinney.runtime.layout`): a place holds a
threshold and a link, the two children of a node lie side by side, and a leaf is its own
left child. Where a row is in a tree is one number, its place counted from the root.

The same rules as in the runtime apply: validated, C-contiguous arrays, no fastmath
(NaN must go where the node says), unsigned indices, and one file for kernels that call
one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.forest.nodes import ZERO_BAND
from spinney.runtime.bitslicing import CATEGORICAL, MISSING_LEFT, ZERO_IS_MISSING
from spinney.runtime.kernel_cache import kernel

u = np.uint64

Counts = NDArray[np.int64]
Places = NDArray[np.uint32]

# Levels walked by all rows before those that have come to a leaf are left out, and
# levels between one look for such rows and the next.
DENSE_LEVELS = 12
SPARSE_LEVELS = 4


@kernel
def load_rows(X: NDArray[Any], first: int, columns: Counts, rows: NDArray[Any]) -> bool:
    """Copy the columns in use of some rows; tell whether there is a NaN among them.

    Parameters
    ----------
    X : ndarray of shape (n_all_rows, n_features)
        Rows.
    first : int
        The first row to copy.
    columns : ndarray of shape (n_columns,)
        The columns in use.
    rows : ndarray of shape (n_rows, n_columns + 1)
        Overwritten. The last column, which leaves look at, is minus infinity.
    """
    n_columns = columns.shape[0]
    any_nan = False
    for r in range(rows.shape[0]):
        for c in range(n_columns):
            x = X[first + r, columns[c]]
            rows[r, c] = x
            any_nan |= x != x
        rows[r, n_columns] = -np.inf
    return any_nan


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
    """Whether `x` goes right at a node of any kind."""
    if x != x or (kind & ZERO_IS_MISSING != 0 and abs(x) <= ZERO_BAND):
        return kind & MISSING_LEFT == 0
    if kind & CATEGORICAL == 0:
        return x > threshold
    # Categories are members of `words[start:end]`; see `Forest.category_rule`.
    if rule == 2 and x != np.floor(x):
        return True
    category = np.trunc(x) if rule == 0 else np.floor(x)
    if not (category >= 0 and category < 32.0 * (end - start)):
        return True
    code = np.int64(category)
    word = np.int64(words[start + (code >> 5)])
    return (word >> (code & 31)) & 1 == 0


@kernel
def _step_special(
    row: NDArray[Any],
    root: Any,
    place: Any,
    threshold: NDArray[Any],
    link: NDArray[Any],
    payload: NDArray[Any],
    kinds: NDArray[np.uint8],
    shift: int,
    mask: int,
    offsets: Counts,
    words: NDArray[np.uint32],
    rule: int,
) -> Any:
    """Return the place after one step from an inner node of any kind."""
    at = root + place
    start, end = 0, 0
    if kinds[at] & CATEGORICAL != 0:
        which = payload[u(2) * at]
        start, end = offsets[which], offsets[which + 1]
    word = u(link[u(2) * at + u(1)])
    right = _goes_right(
        row[word & mask], threshold[u(2) * at], kinds[at], words, start, end, rule
    )
    return (word >> shift) + u(right)


@kernel
def _walk_dense(
    rows: NDArray[Any],
    missing: bool,
    threshold: NDArray[Any],
    link: NDArray[Any],
    shift: int,
    mask: int,
    n_levels: int,
    place: Places,
) -> None:
    """Take all rows some levels down a tree of plain comparisons, eight at a time.

    Eight independent walks hide one another's waiting for memory. `threshold` and
    `link` begin at the root of the tree.
    """
    one, two = u(1), u(2)
    n_rows = place.shape[0]
    stride = u(rows.shape[1])
    flat = rows.reshape(rows.shape[0] * rows.shape[1])
    missing_bit = shift - one
    n_eights = n_rows // 8 * 8 if n_levels > 1 and not missing else 0
    for k in range(0, n_eights, 8):
        s0 = u(k) * stride
        s1, s2, s3 = s0 + stride, s0 + two * stride, s0 + u(3) * stride
        s4, s5, s6 = s0 + u(4) * stride, s0 + u(5) * stride, s0 + u(6) * stride
        s7 = s0 + u(7) * stride
        i0, i1, i2, i3 = u(place[k]), u(place[k + 1]), u(place[k + 2]), u(place[k + 3])
        i4, i5, i6 = u(place[k + 4]), u(place[k + 5]), u(place[k + 6])
        i7 = u(place[k + 7])
        for _ in range(n_levels):
            w0, w1 = u(link[two * i0 + one]), u(link[two * i1 + one])
            w2, w3 = u(link[two * i2 + one]), u(link[two * i3 + one])
            w4, w5 = u(link[two * i4 + one]), u(link[two * i5 + one])
            w6, w7 = u(link[two * i6 + one]), u(link[two * i7 + one])
            i0 = (w0 >> shift) + u(flat[s0 + (w0 & mask)] > threshold[two * i0])
            i1 = (w1 >> shift) + u(flat[s1 + (w1 & mask)] > threshold[two * i1])
            i2 = (w2 >> shift) + u(flat[s2 + (w2 & mask)] > threshold[two * i2])
            i3 = (w3 >> shift) + u(flat[s3 + (w3 & mask)] > threshold[two * i3])
            i4 = (w4 >> shift) + u(flat[s4 + (w4 & mask)] > threshold[two * i4])
            i5 = (w5 >> shift) + u(flat[s5 + (w5 & mask)] > threshold[two * i5])
            i6 = (w6 >> shift) + u(flat[s6 + (w6 & mask)] > threshold[two * i6])
            i7 = (w7 >> shift) + u(flat[s7 + (w7 & mask)] > threshold[two * i7])
        place[k], place[k + 1], place[k + 2], place[k + 3] = i0, i1, i2, i3
        place[k + 4], place[k + 5], place[k + 6], place[k + 7] = i4, i5, i6, i7
    # One level, the last rows, and rows with missing values: level by level.
    for _ in range(n_levels):
        for r in range(n_eights, n_rows):
            i = u(place[r])
            w = u(link[two * i + one])
            x = flat[u(r) * stride + (w & mask)]
            right = u(x > threshold[two * i])
            if missing:
                right |= u(x != x) & ~(w >> missing_bit) & one
            place[r] = (w >> shift) + right


@kernel
def _walk_sparse(
    rows: NDArray[Any],
    threshold: NDArray[Any],
    link: NDArray[Any],
    shift: int,
    mask: int,
    n_levels: int,
    active: Places,
    place: Places,
) -> None:
    """Take the rows that are not at a leaf yet some levels down a tree."""
    one, two = u(1), u(2)
    leaf_column = u(rows.shape[1] - 1)
    missing_bit = shift - one
    n_active: int = place.shape[0]
    for r in range(n_active):
        active[r] = r
    level = 0
    while level < n_levels:
        kept = 0
        for k in range(n_active):
            r = active[k]
            active[kept] = r
            column = u(link[two * u(place[r]) + one]) & mask
            kept += int(column != leaf_column)
        n_active = kept
        if n_active == 0:
            return
        for _ in range(min(SPARSE_LEVELS, n_levels - level)):
            for k in range(n_active):
                r = active[k]
                i = u(place[r])
                w = u(link[two * i + one])
                x = rows[r, w & mask]
                right = u(x > threshold[two * i])
                right |= u(x != x) & ~(w >> missing_bit) & one
                place[r] = (w >> shift) + right
        level += SPARSE_LEVELS


@kernel
def _walk_special(
    rows: NDArray[Any],
    root: int,
    threshold: NDArray[Any],
    link: NDArray[Any],
    payload: NDArray[Any],
    kinds: NDArray[np.uint8],
    shift: int,
    mask: int,
    offsets: Counts,
    words: NDArray[np.uint32],
    rule: int,
    n_levels: int,
    place: Places,
) -> None:
    """Take all rows some levels down a tree with nodes of any kind."""
    leaf_column = u(rows.shape[1] - 1)
    for r in range(place.shape[0]):
        here: Any = u(place[r])
        for _ in range(n_levels):
            if u(link[u(2) * (root + here) + u(1)]) & mask == leaf_column:
                break
            here = _step_special(
                rows[r],
                root,
                here,
                threshold,
                link,
                payload,
                kinds,
                shift,
                mask,
                offsets,
                words,
                rule,
            )
        place[r] = here


@kernel
def step_block(
    rows: NDArray[Any],
    missing: bool,
    threshold: NDArray[Any],
    link: NDArray[Any],
    payload: NDArray[Any],
    kinds: NDArray[np.uint8],
    is_special: bool,
    roots: NDArray[np.uint64],
    shift: int,
    mask: int,
    offsets: Counts,
    words: NDArray[np.uint32],
    rule: int,
    table: Counts,
    output: Counts,
    before: Counts,
    after: Counts,
    is_bitsliced: NDArray[np.bool_],
    place: Places,
    sums: Counts,
) -> None:
    """Take a block of rows from one state of the forest to a later one.

    In between nobody asks, so all steps of a tree are taken at once.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns + 1)
        As `load_rows` writes them.
    missing : bool
        Whether there may be a NaN among them.
    threshold, link, payload, kinds, is_special, roots, shift, mask
        Parts of `Walk`.
    offsets, words, rule
        Parts of `Categories`.
    table : ndarray of shape (n_places, n_values)
        What each node adds, relative to the root of its tree.
    output : ndarray of shape (n_trees,)
        The class that a tree adds to, or -1 for all.
    before, after : ndarray of shape (n_trees,)
        Steps taken in each tree, in the one state and in the other.
    is_bitsliced : ndarray of shape (n_trees,), dtype=bool
        Trees to leave as they are; see `slice_kernels`.
    place : ndarray of shape (n_trees, n_rows), dtype=uint32
        Where each row is in each tree; anything in a tree without steps so far.
        Updated.
    sums : ndarray of shape (n_rows, n_classes)
        Running sums. Updated.
    """
    n_rows = rows.shape[0]
    old = np.empty(n_rows, dtype=np.uint32)
    active = np.empty(n_rows, dtype=np.uint32)
    for t in range(roots.shape[0]):
        n_levels = after[t] - before[t]
        if n_levels <= 0 or is_bitsliced[t]:
            continue
        root = roots[t]
        here = place[t]
        if before[t] > 0:
            old[:] = here
        else:
            here[:] = 0
        if is_special:
            _walk_special(
                rows,
                root,
                threshold,
                link,
                payload,
                kinds,
                shift,
                mask,
                offsets,
                words,
                rule,
                n_levels,
                here,
            )
        else:
            # Rows come to a leaf early in deep trees, hardly ever in shallow ones.
            dense = min(n_levels, max(0, DENSE_LEVELS - before[t]))
            from_root = threshold[u(2) * root :], link[u(2) * root :]
            _walk_dense(rows, missing, *from_root, shift, mask, dense, here)
            if n_levels > dense:
                more = n_levels - dense
                _walk_sparse(rows, *from_root, shift, mask, more, active, here)
        if before[t] > 0:
            _update(table[root:], output[t], old, here, sums)
        else:
            _add(table[root:], output[t], here, sums)


@kernel
def _add(table: Counts, output: int, new: Places, sums: Counts) -> None:
    """Add what the first places after the root do."""
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
def _update(table: Counts, output: int, old: Places, new: Places, sums: Counts) -> None:
    """Take back what the old places have added and add what the new ones do."""
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
    payload: NDArray[Any],
    kinds: NDArray[np.uint8],
    is_special: bool,
    roots: NDArray[np.uint64],
    shift: int,
    mask: int,
    offsets: Counts,
    words: NDArray[np.uint32],
    rule: int,
    table: Counts,
    output: Counts,
    order: Counts,
    first: int,
    end: int,
    place: Places,
    sums: Counts,
) -> None:
    """Take the steps `first` to `end` of an order for one row.

    Parameters
    ----------
    row : ndarray of shape (n_columns + 1,)
        A row as `load_rows` writes it.
    threshold, link, payload, kinds, is_special, roots, shift, mask
        Parts of `Walk`.
    offsets, words, rule
        Parts of `Categories`.
    table, output
        As for `step_block`.
    order : ndarray of shape (n_steps,)
        Tree to step in.
    first, end : int
        Steps to take.
    place : ndarray of shape (n_trees,), dtype=uint32
        Where the row is in each tree. Updated.
    sums : ndarray of shape (n_classes,)
        Running sums. Updated.
    """
    one, two = u(1), u(2)
    leaf_column = u(row.shape[0] - 1)
    missing_bit = shift - one
    for k in range(first, end):
        t = order[k]
        root = roots[t]
        old = u(place[t])
        at = root + old
        word = u(link[two * at + one])
        if word & mask == leaf_column:
            continue
        new: Any = old
        if is_special:
            new = _step_special(
                row,
                root,
                old,
                threshold,
                link,
                payload,
                kinds,
                shift,
                mask,
                offsets,
                words,
                rule,
            )
        else:
            x = row[word & mask]
            right = u(x > threshold[two * at])
            right |= u(x != x) & ~(word >> missing_bit) & one
            new = (word >> shift) + right
        place[t] = new
        if output[t] >= 0:
            sums[output[t]] += table[root + new, 0] - table[at, 0]
        else:
            for c in range(sums.shape[0]):
                sums[c] += table[root + new, c] - table[at, c]


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
        # Without branches: which class is ahead is anyone's guess.
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
