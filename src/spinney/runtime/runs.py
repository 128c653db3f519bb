"""The order of the splits of a tree: a few long runs of the same operation.

A set is only written if its rows are split again. If both children of a node are
leaves, its rows are *marked*. If they are leaves or nodes of two leaves, it and they
are *finished* in one go. If one is a leaf, the set *keeps* the rows of the other, and
else it is *split* in two. Sets that do not change any more can wait, so all that are
finished or marked come last: every change from one kind of operation to another costs
the processor a wrong guess.

If the code of the rows that go right changes in several bits, they are marked for all
but one of them: before the set changes, or, if it does not, at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.splits import Splits

# What is done to the set of rows at a node.
MARK, FINISH, KEEP, SPLIT = 0, 1, 2, 3

# Runs take turns: marking before a change, splitting, keeping. Their places in a turn.
_TURN = 3
_MARKING, _SPLITTING, _KEEPING = 0, 1, 2


class Runs(NamedTuple):
    """What to do to the sets of rows of each tree, in order."""

    offsets: NDArray[np.int64]  # per tree, and one more, into the next two
    kind: NDArray[np.int64]  # the kind of operation
    end: NDArray[np.int64]  # where the operations end
    # Per operation: the conditions of the node and, for `FINISH`, of its children; the
    # plane and the slot of the set; for `FINISH` the plane of the children, for `KEEP`
    # whether the rows that do not meet the condition are those to keep, for `SPLIT` the
    # slot of the new set.
    operations: NDArray[np.uint32]
    n_slots: int  # sets of rows that are kept at a time


def schedule_splits(
    splits: Splits,
    condition: NDArray[np.int64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    no_condition: int,
) -> Runs:
    """Put the splits of each tree into a few long runs of the same operation.

    Parameters
    ----------
    splits : Splits
        The splits.
    condition : ndarray of shape (n_splits,)
        The condition of each.
    left, right
        Children as in `Forest`.
    no_condition : int
        Number of a condition that no row meets.
    """
    n_splits, n_trees = len(splits.node), len(splits.offsets) - 1
    tree = np.repeat(np.arange(n_trees), np.diff(splits.offsets))
    split_of = np.full(len(left), -1, dtype=np.int64)
    split_of[splits.node] = np.arange(n_splits)
    below = split_of[np.array([left[splits.node], right[splits.node]])]
    kind = _kinds(splits, below)
    levels = _levels(below)

    split, what, bits, time = _steps(splits, kind, below, levels)
    order = np.lexsort([split, kind[split] == MARK, time, tree[split]])
    split, what, bits, time = split[order], what[order], bits[order], time[order]
    slot, new_slot = _slots(tree, split[what == SPLIT], kind, below, levels)

    # A step that marks rows for several bits is as many operations.
    n_bits = np.bitwise_count(bits)
    step = np.repeat(np.arange(len(split)), n_bits)
    plane = _planes(bits, n_bits)
    split, what, time = split[step], what[step], time[step]
    operations = np.zeros((len(step), 6), dtype=np.uint32)
    operations[:, 0] = condition[split]
    operations[:, 1:3] = no_condition
    operations[:, 3], operations[:, 4] = plane, slot[split]
    is_split, is_kept = what == SPLIT, what == KEEP
    operations[is_split, 5] = new_slot[split[is_split]]
    operations[is_kept, 5] = below[0, split[is_kept]] >= 0
    finished = np.flatnonzero(what == FINISH)
    for side in (0, 1):
        child = below[side, split[finished]]
        where, child = finished[child >= 0], child[child >= 0]
        operations[where, 1 + side] = condition[child]
        operations[where, 5] = splits.plane[child]

    is_first = np.ones(len(step), dtype=bool)
    is_first[1:] = (np.diff(tree[split]) != 0) | (np.diff(time) != 0)
    first = np.flatnonzero(is_first)
    n_runs = np.bincount(tree[split[first]], minlength=n_trees)
    return Runs(
        np.concatenate([[0], np.cumsum(n_runs)]),
        what[first],
        np.append(first, len(step))[1:],
        operations,
        int(new_slot.max(initial=0)) + 1,
    )


def _kinds(splits: Splits, below: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what is done to the set of each split; `below` has those of the children.

    Of a child that is a leaf there is none: -1.
    """
    plane, flips = splits.plane, splits.flips
    is_inner = below >= 0
    n_inner = is_inner.sum(axis=0)
    # Children that are inner nodes of two leaves, and change a single bit.
    is_last = is_inner & (n_inner[below] == 0) & (flips[below] == 0)
    # They are finished at once if they change the same plane, and the node another:
    # planes are read together, before any is written.
    other = is_last & (plane[below] != plane)
    agree = (plane[below[0]] == plane[below[1]]) | (n_inner < 2)
    finished = (other.sum(axis=0) == n_inner) & agree
    kind = np.where(n_inner == 2, SPLIT, KEEP)
    kind[finished] = FINISH
    kind[n_inner == 0] = MARK
    return kind


def _levels(below: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return all splits, those of the roots first, then those below them."""
    is_root = np.ones(below.shape[1], dtype=bool)
    is_root[below[below >= 0]] = False
    levels = []
    here = np.flatnonzero(is_root)
    while len(here):
        levels.append(here)
        here = below[:, here].ravel()
        here = here[here >= 0]
    return levels


def _steps(
    splits: Splits,
    kind: NDArray[np.int64],
    below: NDArray[np.int64],
    levels: list[NDArray[np.int64]],
) -> tuple[NDArray[np.int64], ...]:
    """Return splits, what is done to their sets, for which bits, and when."""
    changes = (kind == KEEP) | (kind == SPLIT)
    flips, own_bit = splits.flips, 1 << splits.plane
    # When a set is there, and when it is changed: each in the next run that does so.
    there, changed = np.zeros((2, len(kind)), dtype=np.int64)
    place = np.where(kind == SPLIT, _SPLITTING, _KEEPING)
    is_marked = changes & (flips > 0)
    for here in levels:
        marked = here[is_marked[here]]
        there[marked] = _next(there[marked], _MARKING)
        changed[here] = _next(there[here], place[here])
        for child in below[:, here]:
            there[child[child >= 0]] = changed[here[child >= 0]]
    is_finished = kind == FINISH
    # What is finished takes its children along.
    is_done = np.zeros(len(kind), dtype=bool)
    taken = below[:, is_finished]
    is_done[taken[taken >= 0]] = True
    at_end = int(changed.max(initial=0)) + 1
    marks_at_end = (is_finished & (flips > 0)) | ((kind == MARK) & ~is_done)
    parts = [
        (is_marked, MARK, flips, there),
        (changes, kind, own_bit, changed),
        (is_finished, FINISH, own_bit, at_end),
        (marks_at_end, MARK, flips | np.where(is_finished, 0, own_bit), at_end + 1),
    ]
    split = [np.flatnonzero(which) for which, *_ in parts]

    def of_all(values: tuple[Any, ...]) -> NDArray[np.int64]:
        per_part = [
            np.broadcast_to(value, len(kind))[chosen]
            for value, chosen in zip(values, split, strict=True)
        ]
        return np.concatenate(per_part)

    _, what, bits, time = zip(*parts, strict=True)
    return np.concatenate(split), of_all(what), of_all(bits), of_all(time)


def _next(time: NDArray[np.int64], place: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when there is a run at a place of the turn, now at the earliest."""
    return time + (place - time) % _TURN


def _slots(
    tree: NDArray[np.int64],
    divided: NDArray[np.int64],
    kind: NDArray[np.int64],
    below: NDArray[np.int64],
    levels: list[NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the slots of the sets, and of the new sets of those that are split.

    `divided` has the latter in the order in which that happens.
    """
    slot, new_slot = np.zeros((2, len(kind)), dtype=np.int64)
    before = np.searchsorted(tree[divided], tree[divided], side="left")
    new_slot[divided] = 1 + np.arange(len(divided)) - before
    for here in levels:
        to_left, to_right = below[:, here]
        slot[to_left[to_left >= 0]] = slot[here[to_left >= 0]]
        right_slot = np.where(kind[here] == SPLIT, new_slot[here], slot[here])
        slot[to_right[to_right >= 0]] = right_slot[to_right >= 0]
    return slot, new_slot


def _planes(bits: NDArray[np.int64], n_bits: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the bits that are set, number after number, the lowest first."""
    plane = np.empty(int(n_bits.sum()), dtype=np.int64)
    begin = np.concatenate([[0], np.cumsum(n_bits, dtype=np.int64)])[:-1]
    for bit in range(int(bits.max(initial=0)).bit_length()):
        has = (bits >> bit) & 1 == 1
        lower = np.bitwise_count(bits[has] & ((1 << bit) - 1))
        plane[begin[has] + lower] = bit
    return plane
