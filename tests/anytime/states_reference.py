"""Slow, obvious twins of the searches for an order: row by row, in fractions."""

from __future__ import annotations

import itertools

import reference
from runtime.steps.steps_reference import state_sums, winner_of


def states_of(order, n_trees):
    """Steps taken in each tree, in every state along an order."""
    state = [0] * n_trees
    yield tuple(state)
    for tree in order:
        state[tree] += 1
        yield tuple(state)


def all_orders(depths):
    """Every order that steps through trees of these depths."""
    steps = [tree for tree, depth in enumerate(depths) for _ in range(depth)]
    return set(itertools.permutations(steps))


def right_rows(forest, X, labels, state):
    """How many rows are classified correctly in a state."""
    X = reference.rounded_rows(forest, X)
    return sum(
        winner_of(forest, state_sums(forest, row, state))[0] == label
        for row, label in zip(X, labels, strict=True)
    )
