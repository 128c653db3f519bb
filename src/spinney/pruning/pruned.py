"""From a chain of solutions to pruned forests and a table of their costs and errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from spinney.forest import ARRAYS_PER_NODE, LEAF, Forest
from spinney.pruning.chain import Chain
from spinney.pruning.frontier import Frontier, FrontierPoint
from spinney.pruning.measure_kernels import measure_points
from spinney.pruning.problem import PruningProblem


@dataclass(frozen=True)
class Measured:
    """Costs and errors of nested pruned forests on some rows.

    Parameters
    ----------
    cost : ndarray of shape (n_points,)
        Mean feature cost of a row.
    error : ndarray of shape (n_points,)
        Mean error of a tree.
    ensemble_error : ndarray of shape (n_points,)
        Error of the forest.
    """

    cost: NDArray[np.float64]
    error: NDArray[np.float64]
    ensemble_error: NDArray[np.float64]


def prune_forest(forest: Forest, kept: NDArray[np.bool_]) -> Forest:
    """Return the forest with all splits that are not kept made leaves.

    Parameters
    ----------
    forest : Forest
        The full forest.
    kept : ndarray of shape (n_nodes,), dtype=bool
        Splits to keep. Splits below one that is not kept are removed with it.

    Returns
    -------
    pruned : Forest
        Nodes keep their order and their values.
    """
    stays = np.zeros(forest.n_nodes, dtype=np.bool_)
    level = forest.tree_offsets[:-1]
    while level.size:
        stays[level] = True
        level = level[kept[level] & (forest.feature[level] != LEAF)]
        level = np.concatenate([forest.left[level], forest.right[level]])
    is_split = stays & kept & (forest.feature != LEAF)
    new_index = np.cumsum(stays) - 1
    changes = {
        name: getattr(forest, name)[stays]
        for name in ARRAYS_PER_NODE
        if getattr(forest, name) is not None
    }
    split = is_split[stays]
    for child in ("left", "right"):
        changes[child] = np.where(split, new_index[changes[child]], LEAF)
    changes["feature"] = np.where(split, changes["feature"], LEAF)
    if forest.category_set is not None:
        changes["category_set"] = np.where(split, changes["category_set"], -1)
    before = np.concatenate([[0], np.cumsum(stays)])
    return forest.replace(tree_offsets=before[forest.tree_offsets], **changes)


def kept_until(chain: Chain, n_nodes: int) -> NDArray[np.int32]:
    """Return up to which point of the frontier each node is kept as a split.

    Points are numbered from the largest forest, 0, to the smallest; -1 marks nodes
    that are leaves, or gone, at all of them.
    """
    until = np.full(n_nodes, -1, dtype=np.int32)
    n_points = len(chain.steps) + 1
    until[chain.base] = n_points - 1
    for number, step in enumerate(chain.steps):
        until[step.node] = n_points - 2 - number
    return until


def measure(
    problem: PruningProblem, until: NDArray[np.int32], n_points: int
) -> Measured:
    """Measure pruned forests on the rows of a problem.

    Parameters
    ----------
    problem : PruningProblem
        Rows, and what they cost. It may have other rows than those that the forests
        were pruned with.
    until : ndarray of shape (n_nodes,), dtype=int32
        As `kept_until` returns it.
    n_points : int
        Number of forests.
    """
    forest = problem.forest
    table = forest.value
    if forest.aggregation == "vote":
        table = np.zeros_like(table)
        table[np.arange(len(table)), problem.prediction] = 1.0
    sums = np.zeros((3, n_points + 1), dtype=np.int64)
    weight = measure_points(
        problem.leaves,
        problem.codes,
        problem.weights,
        problem.counted,
        problem.parent,
        problem.item,
        problem.purchases.price,
        problem.prediction,
        table.astype(forest.sum_dtype),
        until,
        n_points,
        *sums,
    )
    unit = float(problem.purchases.unit)
    return Measured(
        cost=sums[2, :-1] / problem.weight * unit,
        error=sums[0, :-1] / problem.tree_weight,
        ensemble_error=sums[1, :-1] / max(weight, 1),
    )


def frontier_table(
    problem: PruningProblem, chain: Chain, until: NDArray[np.int32]
) -> Frontier:
    """Return the table of a chain, measured on the rows it was found with.

    Parameters
    ----------
    problem : PruningProblem
        The problem.
    chain : Chain
        Its solutions.
    until : ndarray of shape (n_nodes,), dtype=int32
        As `kept_until` returns it.
    """
    n_points = len(chain.steps) + 1
    ratios = [Fraction(0), *(step.ratio for step in reversed(chain.steps))]
    breakpoints = tuple(problem.trade_off(ratio) for ratio in ratios)
    measured = measure(problem, until, n_points)
    n_splits = np.bincount(until[until >= 0], minlength=n_points)
    # A split kept up to some point is one at all points before it, too.
    n_splits = np.cumsum(n_splits[::-1])[::-1]
    return Frontier(
        trade_off=rounded_up(breakpoints),
        cost=measured.cost,
        error=measured.error,
        ensemble_error=measured.ensemble_error,
        n_nodes=2 * n_splits + problem.forest.n_trees,
        breakpoints=breakpoints,
    )


def measured_point(
    problem: PruningProblem, kept: NDArray[np.bool_], trade_off: float
) -> FrontierPoint:
    """Return the cost and error of a single pruned forest on the rows of a problem."""
    until = kept.astype(np.int32) - 1
    measured = measure(problem, until, 1)
    return FrontierPoint(
        trade_off,
        float(measured.cost[0]),
        float(measured.error[0]),
        float(measured.ensemble_error[0]),
        2 * int(kept.sum()) + problem.forest.n_trees,
    )


def rounded_up(fractions: Sequence[Fraction]) -> NDArray[np.float64]:
    """Return the smallest floats that are not below some fractions."""
    floats = [
        float(exact)
        if Fraction(float(exact)) >= exact
        else math.nextafter(float(exact), math.inf)
        for exact in fractions
    ]
    return np.array(floats, dtype=np.float64)
