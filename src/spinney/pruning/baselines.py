"""Simpler ways to prune, for comparison."""

from __future__ import annotations

from spinney.pruning.frontier import Chain, find_chain
from spinney.pruning.mincut import solve_mincut
from spinney.pruning.problem import PruningProblem


def individual_chain(problem: PruningProblem) -> Chain:
    """Prune each tree as if it were alone: the paper's baseline.

    A row pays for a feature once in every tree that uses it. Breakpoints are ratios
    of gain to that price; what the forests cost in truth, with features shared, is
    measured afterwards (`spinney.pruning.pruned.measure`).

    Parameters
    ----------
    problem : PruningProblem
        The problem.

    Returns
    -------
    chain : Chain
        Solutions, each tree the best possible at a common trade-off.
    """
    return find_chain(problem.splits(sharing="tree"), solve_mincut)


def cost_complexity_chain(problem: PruningProblem) -> Chain:
    """Prune by the number of leaves: Breiman et al.'s cost-complexity pruning.

    Parameters
    ----------
    problem : PruningProblem
        The problem. Its costs play no part.

    Returns
    -------
    chain : Chain
        Solutions; their price is the number of splits.
    """
    return find_chain(problem.splits(sharing="none"), solve_mincut)
