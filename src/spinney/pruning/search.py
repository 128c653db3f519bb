"""From a pruning problem to the pruned forest for a trade-off or a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.pruning.chain import Solver, find_chain
from spinney.pruning.completion import fill_budget
from spinney.pruning.dantzig_wolfe import solve_dantzig_wolfe
from spinney.pruning.frontier import Frontier, FrontierPoint
from spinney.pruning.linear import solve_lp
from spinney.pruning.mincut import solve_mincut
from spinney.pruning.problem import PruningProblem
from spinney.pruning.pruned import (
    frontier_table,
    kept_until,
    measured_point,
    prune_forest,
)


@dataclass(frozen=True)
class Found:
    """A pruned forest, and the frontier it was chosen from.

    Parameters
    ----------
    forest : Forest
        The pruned forest.
    point : FrontierPoint
        Its cost and error.
    gap : float
        By how much the mean error of a tree could be lower within the budget.
    frontier : Frontier
        All supported solutions.
    until : ndarray of shape (n_nodes,), dtype=int32
        The last point of the frontier at which each node is a split; -1 for none.
    """

    forest: Forest
    point: FrontierPoint
    gap: float
    frontier: Frontier
    until: NDArray[np.int32]


def solver_for(name: str, n_jobs: int | None) -> Solver:
    """Return the function that finds the best splits at a trade-off.

    Parameters
    ----------
    name : {"mincut", "lp", "dantzig_wolfe"}
        What `FeatureCostPruner` calls it.
    n_jobs : int or None
        Number of jobs for the decomposition; the others take one.
    """
    if name == "dantzig_wolfe":
        return partial(solve_dantzig_wolfe, n_jobs=n_jobs)
    return solve_lp if name == "lp" else solve_mincut


def prune(
    problem: PruningProblem,
    solve: Solver,
    *,
    trade_off: float | None,
    budget: float | None,
    complete: bool,
    progress: Callable[[float], None],
) -> Found:
    """Find the frontier, and the forest for a trade-off or a budget.

    Parameters
    ----------
    problem : PruningProblem
        The problem.
    solve : callable
        Finds the best splits at a trade-off.
    trade_off, budget : float or None
        Exactly one of them.
    complete : bool
        Whether to fill up a budget beyond the supported solutions.
    progress : callable
        Called with the share of the work that is done.
    """
    forest = problem.forest
    splits = problem.splits()
    progress(0.0)
    chain = find_chain(splits, solve, progress=lambda share: progress(0.99 * share))
    until = kept_until(chain, forest.n_nodes)
    frontier = frontier_table(problem, chain, until)
    if budget is None:
        assert trade_off is not None  # the caller has checked
        index = frontier.index_for_trade_off(float(trade_off))
    else:
        index = frontier.index_for_budget(float(budget))
    kept = until >= index
    point, gap = frontier[index], 0.0
    if budget is not None and complete:
        limit = Fraction(float(budget)) * problem.weight / problem.purchases.unit
        # As a float, a cost just above the budget may be equal to it.
        price = chain.prices[len(chain.steps) - index]
        filled = fill_budget(splits, chain, max(math.floor(limit), price))
        if filled.gain > chain.gains[len(chain.steps) - index]:
            kept = np.zeros(forest.n_nodes, dtype=np.bool_)
            kept[filled.node] = True
            point = measured_point(problem, kept, point.trade_off)
        gap = (filled.bound - filled.gain) / problem.tree_weight
    progress(1.0)
    return Found(prune_forest(forest, kept), point, gap, frontier, until)
