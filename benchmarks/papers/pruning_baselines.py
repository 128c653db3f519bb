"""Simpler ways to prune a forest, to compare with pruning its trees together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spinney.pruning.chain import Chain, find_chain
from spinney.pruning.kernels import count_errors
from spinney.pruning.mincut import solve_mincut
from spinney.pruning.problem import NO_FLAGS, PruningProblem, Splits


def individual_chain(problem: PruningProblem, splits: Splits) -> Chain:
    """Prune each tree as if it were alone: the paper's baseline.

    A row pays for a feature once in every tree that uses it. Breakpoints are ratios
    of gain to that price; what the forests cost in truth, with features shared, is
    measured afterwards (`spinney.pruning.pruned.measure`).

    Parameters
    ----------
    problem : PruningProblem
        The problem.
    splits : Splits
        Its splits.

    Returns
    -------
    chain : Chain
        Solutions, each tree the best possible at a common trade-off.
    """
    n_nodes = problem.forest.n_nodes
    passing = count_errors(  # no class is right: each row counts at every node it meets
        problem.leaves,
        problem.codes,
        problem.weights,
        NO_FLAGS,
        problem.parent,
        np.full(n_nodes, -1, dtype=np.int32),
    )
    price = problem.purchases.price[problem.item] * passing
    price[~problem.is_first] = 0
    return find_chain(_priced(splits, price[splits.node]), solve_mincut)


def cost_complexity_chain(splits: Splits) -> Chain:
    """Prune by the number of leaves: Breiman et al.'s cost-complexity pruning.

    Parameters
    ----------
    splits : Splits
        The splits. What they cost plays no part.

    Returns
    -------
    chain : Chain
        Solutions; their price is the number of splits.
    """
    return find_chain(_priced(splits, np.ones_like(splits.price)), solve_mincut)


def _priced(splits: Splits, price: np.ndarray) -> Splits:
    """Return the splits with prices of their own, and nothing that they share."""
    return replace(
        splits,
        price=price,
        group_price=np.empty(0, dtype=np.int64),
        group_offsets=np.zeros(1, dtype=np.int64),
        group_splits=np.empty(0, dtype=np.int32),
    )
