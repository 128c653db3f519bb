"""Orders through a table that has the number of right rows in every state.

A table has one axis per tree and one entry per number of steps taken in it, the root
included: ``table[1, 0, 2]`` is the number of rows that are classified correctly after
one step in the first tree, none in the second and two in the third.
"""

from __future__ import annotations

import math

import numpy as np

from anytime.states_reference import states_of
from spinney.anytime.state_kernels import choose_steps
from spinney.anytime.states import StateCounter, box_of, follow


def table_of_states(data):
    """The correctly classified rows in every state, counted by the library."""
    depth = data.paths.depth
    trees = np.flatnonzero(depth > 0)
    n_levels = depth[trees] + 1
    shape = tuple((depth + 1).tolist())
    if len(trees) == 0:
        is_right = data.sums.at_roots().argmax() == data.labels
        return np.full(shape, is_right.sum(), dtype=np.int64)
    n_free, box = box_of(n_levels)
    counter = StateCounter(data, trees, n_free)
    table = np.empty(math.prod(n_levels.tolist()), dtype=np.int64)
    for first in range(0, len(table), box):
        counter.box(first, table[first : first + box])
    return table.reshape(shape)


def best_order(table, worst=False):
    """The order with the largest or smallest sum, found by the library."""
    counts = np.ascontiguousarray(table, dtype=np.int64)
    n_levels = np.array(counts.shape, dtype=np.int64)
    best = np.zeros(counts.size // counts.shape[0], dtype=np.int64)
    choices = np.empty(counts.size, dtype=np.uint8)
    choose_steps(counts.ravel(), 0, n_levels, -1 if worst else 1, best, choices)
    return follow(choices, n_levels)


def greedy_order(table, backward=False):
    """The order that takes the best single step each time, or takes it back.

    Among equally good steps that of the first tree is taken (backward: taken back).
    """
    ends = np.array(table.shape) - 1
    state = ends.copy() if backward else np.zeros_like(ends)
    goal = np.zeros_like(ends) if backward else ends
    change = -1 if backward else 1
    order = []
    while (state != goal).any():
        best_tree, best_count = -1, -1
        for tree in np.flatnonzero(state != goal):
            state[tree] += change
            count = int(table[tuple(state)])
            state[tree] -= change
            if count > best_count:
                best_tree, best_count = int(tree), count
        state[best_tree] += change
        order.append(best_tree)
    return np.array(order[::change], dtype=np.int64)


def sum_along(table, order):
    """The sum of a table over the states of an order, both ends included."""
    return sum(int(table[state]) for state in states_of(order, table.ndim))
