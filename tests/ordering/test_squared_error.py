"""Orders by squared error, against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import InvalidArgumentError
from spinney.ordering.squared_error import greedy_mse, individual_mse


def slow_greedy(scores, target, aggregation, base):
    """Try every tree at every step; return the order and the errors along it."""
    n_trees = scores.shape[1]
    order, errors = [], []
    for _ in range(n_trees):
        found = {}
        for tree in range(n_trees):
            if tree not in order:
                part = scores[:, [*order, tree]]
                said = part.mean(axis=1) if aggregation == "mean" else part.sum(axis=1)
                found[tree] = np.mean((base + said - target) ** 2)
        best = min(found.values())
        # Equal errors may come out different in the last bit.
        order.append(next(t for t, e in found.items() if e <= best + 1e-12))
        errors.append(best)
    return order, errors


@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["sum", "mean"]), st.sampled_from([1, 3])
)
def test_orders_are_those_of_the_definition(seed, aggregation, n_outputs):
    rng = np.random.default_rng(seed)
    n_rows, n_trees = rng.integers(1, [12, 8])
    shape = (n_rows, n_trees) if n_outputs == 1 else (n_rows, n_trees, n_outputs)
    # Small whole numbers: products are exact, and so are ties.
    scores = rng.integers(-3, 4, size=shape).astype(float)
    target = rng.integers(-2, 3, size=shape[:1] + shape[2:]).astype(float)
    base = 1.0 if aggregation == "sum" else 0.0
    greedy = greedy_mse(scores, target, aggregation=aggregation, base=base)
    expected, _ = slow_greedy(scores, target, aggregation, base)
    assert greedy.tolist() == expected
    alone = [np.mean((scores[:, t] - target) ** 2) for t in range(n_trees)]
    order = individual_mse(scores, target, aggregation=aggregation)
    assert order.tolist() == sorted(range(n_trees), key=lambda t: (alone[t], t))


@pytest.mark.parametrize("order", [individual_mse, greedy_mse])
def test_bad_arguments_are_named(order):
    with pytest.raises(InvalidArgumentError, match="without the axis of the trees"):
        order(np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(InvalidArgumentError, match="finite"):
        order(np.array([[np.nan, 0.0]]), np.zeros(1))
    with pytest.raises(InvalidArgumentError, match="nothing to order by"):
        order(np.zeros((0, 2)), np.zeros(0))
    with pytest.raises(InvalidArgumentError, match="aggregation must be one of"):
        order(np.zeros((1, 2)), np.zeros(1), aggregation="median")
