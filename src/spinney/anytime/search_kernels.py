"""Kernels that judge states of a forest and find the way through them.

Every kernel takes validated, C-contiguous arrays and checks nothing: validation is
the caller's task. All of them live in this one file because Numba's on-disk cache does
not notice a change in a function imported from another file.

A row is classified correctly if the sum of its own class exceeds the sums of all
classes before it and is not below those after it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.kernel_cache import kernel

Counts = NDArray[np.int64]
Nodes = NDArray[np.int32]


# ------------------------------------------------------------------ all states


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
    place = np.zeros(n_rivals + 1, dtype=np.int64)  # of the next row with so many
    before = 0
    for watched in range(n_planes, 0, -1):
        place[watched] = before
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
        k = place[n_watched[r]]
        place[n_watched[r]] += 1
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
        place = (first + i) % period
        chosen = -1
        value = np.int64(0)
        for t in range(n_trees):
            if digits[t] < n_levels[t] - 1:
                follower = place if t == 0 else place + stride[t]
                if chosen < 0 or best[follower] > value:
                    chosen, value = t, best[follower]
        best[place] = sign * counts[i] + value
        choices[i] = max(chosen, 0)
        t = n_trees - 1
        while t >= 0 and digits[t] == 0:
            digits[t] = n_levels[t] - 1
            t -= 1
        if t >= 0:
            digits[t] -= 1


# ------------------------------------------------------------------ one step at a time


@kernel
def _strongest_rival(sums: Counts, label: int) -> int:
    """Return the class with the largest sum among those other than `label`."""
    rival = 1 if label == 0 else 0
    for c in range(rival + 1, sums.shape[0]):
        if c != label and sums[c] > sums[rival]:
            rival = c
    return rival


@kernel
def _is_right(sums: Counts, change: Counts, label: int) -> bool:
    """Whether the row's own class wins once `change` is added to its sums."""
    own = sums[label] + change[label]
    n_ahead = 0
    for c in range(label):
        n_ahead += sums[c] + change[c] >= own
    for c in range(label + 1, sums.shape[0]):
        n_ahead += sums[c] + change[c] > own
    return n_ahead == 0


@kernel
def count_after_moves(
    first: int,
    end: int,
    trees: Counts,
    move: Nodes,
    change: Counts,
    swing: Counts,
    sums: Counts,
    labels: Counts,
    lead: Counts,
    counts: Counts,
) -> None:
    """Count the rows that are right after one more step in each of some trees.

    Parameters
    ----------
    first, end : int
        The rows to count.
    trees : ndarray of int
        Trees that can still move.
    move : ndarray of shape (n_trees, n_rows), dtype=int32
        What the next step of each tree changes, as a row of `change`; the last row
        means that nothing does.
    change : ndarray of shape (n_nodes + 1, n_classes)
        Changes of the sums.
    swing : ndarray of shape (n_nodes + 1,)
        With two classes: how much the second gains on the first. With more: how much
        any class can gain on any other.
    sums : ndarray of shape (n_rows, n_classes)
        Present sums.
    labels : ndarray of shape (n_rows,)
        The right classes.
    lead : ndarray of shape (n_rows,)
        By how much the row's own class is ahead of the next one.
    counts : ndarray of shape (n_trees,)
        Overwritten for the given trees.
    """
    if change.shape[1] == 2:
        ahead = sums[:, 1] - sums[:, 0]
        for t in trees:
            moves = move[t]
            count = 0
            for r in range(first, end):
                count += (ahead[r] + swing[moves[r]] > 0) == (labels[r] == 1)
            counts[t] = count
        return
    for t in trees:
        moves = move[t]
        count = 0
        for r in range(first, end):
            most = swing[moves[r]]
            # Few steps can turn the winner; only these rows need all classes.
            if lead[r] > most:
                count += 1
            elif lead[r] >= -most:
                count += _is_right(sums[r], change[moves[r]], labels[r])
        counts[t] = count


@kernel
def find_leads(sums: Counts, labels: Counts, lead: Counts) -> None:
    """Write by how much each row's own class is ahead of the strongest other one."""
    for r in range(labels.shape[0]):
        label = labels[r]
        lead[r] = sums[r, label] - sums[r, _strongest_rival(sums[r], label)]


@kernel
def _next_node(node: int, leaf: int, left: Nodes, right: Nodes, boundary: Nodes) -> int:
    """Return the child of `node` on the way to the leaf of this number."""
    return left[node] if leaf < boundary[node] else right[node]


@kernel
def move_tree(
    backward: bool,
    level: int,
    left: Nodes,
    right: Nodes,
    boundary: Nodes,
    parent: Nodes,
    levels: Nodes,
    leaf: Nodes,
    change: Counts,
    labels: Counts,
    node: Nodes,
    move: Nodes,
    sums: Counts,
    lead: Counts,
) -> None:
    """Take one step in one tree for all rows, and find out about the one after it.

    Parameters
    ----------
    backward : bool
        Whether steps lead up to the root.
    level : int
        Steps between the root and where the tree is after this step.
    left, right, boundary, parent, levels
        Parts of `Paths`.
    leaf : ndarray of shape (n_rows,), dtype=int32
        Number of the leaf at which each row ends in this tree.
    change, labels
        As for `count_after_moves`.
    node : ndarray of shape (n_rows,), dtype=int32
        Where each row is in the tree. Updated.
    move : ndarray of shape (n_rows,), dtype=int32
        What this step changes; overwritten by what the next one does.
    sums, lead
        As for `count_after_moves`. Updated.
    """
    nothing = change.shape[0] - 1
    for r in range(node.shape[0]):
        if move[r] != nothing:
            for c in range(sums.shape[1]):
                sums[r, c] += change[move[r], c]
            here = node[r]
            if backward:
                here = parent[here]
            else:
                here = _next_node(here, leaf[r], left, right, boundary)
            node[r] = here
        here = node[r]
        if backward:
            # A row that has come to a leaf early waits there until the tree is back.
            move[r] = here if levels[here] == level and level > 0 else nothing
        else:
            after = _next_node(here, leaf[r], left, right, boundary)
            move[r] = nothing if after == here else after
    find_leads(sums, labels, lead)


@kernel
def count_along(
    order: Counts,
    left: Nodes,
    right: Nodes,
    boundary: Nodes,
    leaf: Nodes,
    first: int,
    change: Counts,
    labels: Counts,
    node: Nodes,
    sums: Counts,
    counts: Counts,
) -> None:
    """Count the rows that are right in every state along an order.

    Parameters
    ----------
    order : ndarray of shape (n_steps,)
        Tree to step in.
    left, right, boundary
        Parts of `Paths`.
    leaf : ndarray of shape (n_trees, n_all_rows), dtype=int32
        Number of the leaf at which each row ends in each tree.
    first : int
        The first of the rows to count.
    change : ndarray of shape (n_nodes, n_classes)
        What a step to each node changes.
    labels : ndarray of shape (n_rows,)
        The right classes.
    node : ndarray of shape (n_trees, n_rows), dtype=int32
        Where each row is in each tree; the roots. Updated.
    sums : ndarray of shape (n_rows, n_classes)
        Sums at the roots. Updated.
    counts : ndarray of shape (n_steps + 1,)
        Added to.
    """
    n_rows = labels.shape[0]
    none = np.zeros(sums.shape[1], dtype=np.int64)
    is_right = np.empty(n_rows, dtype=np.bool_)
    count = 0
    for r in range(n_rows):
        is_right[r] = _is_right(sums[r], none, labels[r])
        count += is_right[r]
    counts[0] += count
    for k in range(order.shape[0]):
        t = order[k]
        for r in range(n_rows):
            here = node[t, r]
            after = _next_node(here, leaf[t, first + r], left, right, boundary)
            if after == here:
                continue
            node[t, r] = after
            for c in range(sums.shape[1]):
                sums[r, c] += change[after, c]
            right_now = _is_right(sums[r], none, labels[r])
            count += int(right_now) - int(is_right[r])
            is_right[r] = right_now
        counts[k + 1] += count
