"""Orders through tables of states: the paper's example, brute force, greed."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from anytime.states_reference import all_orders, states_of
from anytime.tables import best_order, greedy_order, sum_along

# Correctly classified rows, of 8, in the states of three trees of depth two: by level,
# and lexicographically within a level.
PAPER = "4 | 4 7 6 | 6 7 7 6 7 7 | 7 7 8 7 7 7 7 | 7 7 7 8 7 7 | 7 8 7 | 8"


def paper_table():
    table = np.zeros((3, 3, 3), dtype=np.int64)
    by_level = [[] for _ in range(7)]
    for state in itertools.product(range(3), repeat=3):
        by_level[sum(state)].append(state)
    for states, counts in zip(by_level, PAPER.split("|"), strict=True):
        for state, count in zip(sorted(states), counts.split(), strict=True):
            table[state] = int(count)
    return table


tables = hnp.arrays(
    np.int64,
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3),
    elements=st.integers(0, 6),
)


def test_papers_example_is_solved_as_in_the_paper():
    table = paper_table()
    optimal = best_order(table)
    assert sum_along(table, optimal) == 48  # of 56, that is 6/7
    assert sum_along(table, best_order(table, worst=True)) == 43
    forward = greedy_order(table)
    assert forward[0] == 1
    assert sum_along(table, forward) == 47
    backward = greedy_order(table, backward=True)
    assert backward[-1] == 1
    assert sum_along(table, backward) == 46


def test_papers_example_backward_with_ties_to_the_last_tree():
    # The same with the trees in reverse: what was the last tree is now the first.
    table = np.ascontiguousarray(paper_table().transpose(2, 1, 0))
    assert sum_along(table, greedy_order(table, backward=True)) == 48


@given(tables, st.booleans())
def test_best_order_is_the_best_of_all_orders(table, worst):
    sums = {
        order: sum_along(table, order)
        for order in all_orders(np.array(table.shape) - 1)
    }
    best = min(sums.values()) if worst else max(sums.values())
    order = tuple(best_order(table, worst=worst).tolist())
    assert sums[order] == best
    # Of equally good orders the one that prefers the first trees.
    assert order == min(found for found, value in sums.items() if value == best)


@given(tables, st.booleans())
def test_greedy_order_takes_the_best_single_step(table, backward):
    order = greedy_order(table, backward=backward)
    states = list(states_of(order, table.ndim))
    change = -1 if backward else 1
    ends = np.array(table.shape) - 1
    for before, after in itertools.pairwise(states[::change]):
        choices = []
        for tree in range(table.ndim):
            other = list(before)
            other[tree] += change
            if 0 <= other[tree] <= ends[tree]:
                choices.append((-int(table[tuple(other)]), tree))
        chosen = int(np.flatnonzero(np.array(before) != after)[0])
        assert chosen == min(choices)[1]
