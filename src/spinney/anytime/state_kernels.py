"""Kernels that count the right rows in all states of a forest and find the best order.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task.

A row is classified correctly if the sum of its own class exceeds the sums of all
classes before it and is not below those after it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

Counts = NDArray[np.int64]


@kernel
def _add(first: Counts, second: Counts, total: Counts) -> None:
    """Write ``first + second`` to `total`."""
    for i in range(first.shape[0]):
        total[i] = first[i] + second[i]


@kernel
def _count_ahead(first: Counts, second: Counts, ends: Counts, worst: Counts) -> int:
    """Return how many rows have only positive numbers in ``first + second``.

    Parameters
    ----------
    first, second : ndarray
        The first number of every row, then the second of those that have one, and so
        on.
    ends : ndarray
        Where the first, second, ... numbers end.
    worst : ndarray of shape (n_rows,)
        Scratch.
    """
    count = 0
    start = ends[0]
    if ends.shape[0] == 1 or ends[1] == start:
        for r in range(start):
            count += first[r] + second[r] > 0
        return count
    for r in range(start):
        worst[r] = first[r] + second[r]
    for j in range(1, ends.shape[0]):
        a, b = first[start : ends[j]], second[start : ends[j]]
        for r in range(a.shape[0]):
            worst[r] = min(worst[r], a[r] + b[r])
        start = ends[j]
    for r in range(ends[0]):
        count += worst[r] > 0
    return count


@kernel
def count_box(
    base: Counts,
    margins: Counts,
    least: Counts,
    most: Counts,
    n_levels: Counts,
    digits: Counts,
    counts: Counts,
) -> None:
    """Count the correctly classified rows in all states that begin alike.

    Parameters
    ----------
    base : ndarray of shape (n_rivals, n_rows)
        By how much each row's own class is ahead of every other class before any
        tree, plus one where a tie is enough.
    margins : ndarray of shape (n_trees, max_levels, n_rivals, n_rows)
        By how much a tree puts it further ahead at each level.
    least, most : ndarray of shape (n_rivals, n_rows)
        Bounds on what the trees that are left free can add together.
    n_levels : ndarray of shape (n_trees,)
        Levels of each tree, the root included.
    digits : ndarray of shape (n_fixed,)
        Steps taken in the first trees.
    counts : ndarray of shape (product of the levels of the free trees,)
        Overwritten, in lexicographic order of the steps in the free trees.
    """
    n_trees = n_levels.shape[0]
    n_rivals, n_rows = base.shape
    n_fixed = digits.shape[0]
    n_free = n_trees - n_fixed
    start = base.copy()
    for t in range(n_fixed):
        for c in range(n_rivals):
            _add(start[c], margins[t, digits[t], c], start[c])

    # Most rows are settled by the fixed trees: right, or wrong, in the whole box. Of
    # the others only the rivals that can get ahead have to be watched.
    n_watched = np.zeros(n_rows, dtype=np.int64)
    n_with = np.zeros(n_rivals + 1, dtype=np.int64)  # open rows by watched rivals
    always = 0
    for r in range(n_rows):
        watched, behind = 0, False
        for c in range(n_rivals):
            watched += start[c, r] + least[c, r] <= 0
            behind |= start[c, r] + most[c, r] <= 0
        if watched == 0:
            always += 1
        elif not behind:
            n_watched[r] = watched
            n_with[watched] += 1
    # Rows with many watched rivals first: then the j-th numbers of all rows that have
    # so many lie in a row.
    n_open = n_with.sum()
    n_planes = 0
    for watched in range(n_rivals + 1):
        if n_with[watched] > 0:
            n_planes = watched
    ends = np.zeros(max(1, n_planes), dtype=np.int64)
    slot = np.zeros(n_rivals + 1, dtype=np.int64)  # of the next row with so many
    before = 0
    for watched in range(n_planes, 0, -1):
        slot[watched] = before
        before += n_with[watched]
        ends[watched - 1] = before
    for j in range(1, n_planes):
        ends[j] += ends[j - 1]
    size = ends[-1]
    row_of = np.empty(size, dtype=np.int64)
    rival_of = np.empty(size, dtype=np.int64)
    for r in range(n_rows):
        if n_watched[r] == 0:
            continue
        k = slot[n_watched[r]]
        slot[n_watched[r]] += 1
        j = 0
        for c in range(n_rivals):
            if start[c, r] + least[c, r] <= 0:
                at = k if j == 0 else ends[j - 1] + k
                row_of[at], rival_of[at] = r, c
                j += 1

    # sums[j]: the watched numbers with the first j of the free trees added.
    sums = np.empty((n_free, size), dtype=np.int64)
    adds = np.empty((n_free, margins.shape[1], size), dtype=np.int64)
    worst = np.empty(n_open, dtype=np.int64)
    for i in range(size):
        sums[0, i] = start[rival_of[i], row_of[i]]
    for j in range(n_free):
        for level in range(n_levels[n_fixed + j]):
            whole, part = margins[n_fixed + j, level], adds[j, level]
            for i in range(size):
                part[i] = whole[rival_of[i], row_of[i]]

    steps = np.zeros(n_free, dtype=np.int64)
    last = n_free - 1
    for j in range(1, n_free):
        _add(sums[j - 1], adds[j - 1, 0], sums[j])
    for state in range(counts.shape[0]):
        counts[state] = always + _count_ahead(
            sums[last], adds[last, steps[last]], ends, worst
        )
        # The next state in lexicographic order, and the sums that change with it.
        j = last
        while j >= 0 and steps[j] == n_levels[n_fixed + j] - 1:
            steps[j] = 0
            j -= 1
        if j >= 0:
            steps[j] += 1
            for i in range(j + 1, n_free):
                _add(sums[i - 1], adds[i - 1, steps[i - 1]], sums[i])


@kernel
def choose_steps(
    counts: Counts,
    first: int,
    n_levels: Counts,
    sign: int,
    best: Counts,
    choices: NDArray[np.uint8],
) -> None:
    """Find the best next step in some states, from the last of them to the first.

    A state is numbered by its steps as digits, those of the first tree the highest. The
    states that can follow have higher numbers, by at most the number of states with the
    same steps in the first tree: so much of `best` is enough.

    Parameters
    ----------
    counts : ndarray of shape (n_states,)
        Correctly classified rows in the states from number `first` on.
    first : int
        Number of the first of these states.
    n_levels : ndarray of shape (n_trees,)
        Levels of each tree, the root included.
    sign : {1, -1}
        1 to find the largest sum of counts, -1 for the smallest.
    best : ndarray of shape (number of states with equal steps in the first tree,)
        The best sum from a state to the end, times `sign`, by the number of the state
        modulo its size. Updated.
    choices : ndarray of shape (n_states,), dtype=uint8
        Overwritten with the tree to take the next step in; the first of equals.
    """
    n_trees = n_levels.shape[0]
    period = best.shape[0]
    digits = np.empty(n_trees, dtype=np.int64)
    stride = np.empty(n_trees, dtype=np.int64)
    number = first + counts.shape[0] - 1
    size = 1
    for t in range(n_trees - 1, -1, -1):
        stride[t] = size
        digits[t] = (number // size) % n_levels[t]
        size *= n_levels[t]
    for i in range(counts.shape[0] - 1, -1, -1):
        slot = (first + i) % period
        chosen = -1
        value = np.int64(0)
        for t in range(n_trees):
            if digits[t] < n_levels[t] - 1:
                follower = slot if t == 0 else slot + stride[t]
                if chosen < 0 or best[follower] > value:
                    chosen, value = t, best[follower]
        best[slot] = sign * counts[i] + value
        choices[i] = max(chosen, 0)
        t = n_trees - 1
        while t >= 0 and digits[t] == 0:
            digits[t] = n_levels[t] - 1
            t -= 1
        if t >= 0:
            digits[t] -= 1
