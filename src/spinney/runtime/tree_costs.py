"""What evaluating trees costs, by a model: to choose their form and the exit points.

Constants were measured, so the same forest gets the same layout and the same exit
points everywhere, whatever a machine is busy with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spinney.runtime.bit_vectors import HAS_BITS
from spinney.runtime.conditions import (
    MISSING_LEFT,
    category_sets,
    distinct_conditions,
    node_kinds,
    small_trees,
)

if TYPE_CHECKING:
    from spinney.forest import Forest

# Measured costs in nanoseconds per row, to choose between the two forms: one condition
# that is compared by itself, a chain and a halving of it, a condition in it, one split
# and one tree of the bitsliced form; one level of the walk.
COST_CONDITION, COST_CHAIN, COST_HALVING, COST_CHAINED = 0.055, 2.0, 0.6, 0.009
COST_SPLIT, COST_BITSLICED_TREE, COST_LEVEL = 0.006, 0.6, 1.05
if not HAS_BITS:
    # Estimated from the instructions for NEON, whose vectors are four times as short as
    # those of the processor that was measured, and which gathers number by number. So
    # trees of some hundred leaves are walked there.
    COST_CONDITION, COST_CHAINED, COST_SPLIT = 0.22, 0.036, 0.024
    COST_HALVING, COST_BITSLICED_TREE = 1.2, 1.8


def bitslicing_pays(
    forest: Forest,
    small: NDArray[np.bool_],
    condition_column: NDArray[np.int64],
    condition_kind: NDArray[np.uint8],
    n_splits: int,
) -> bool:
    """Return whether small trees take less time bitsliced than walked.

    Parameters
    ----------
    forest : Forest
        The forest.
    small : ndarray of shape (n_trees,), dtype=bool
        Which trees.
    condition_column, condition_kind
        Per distinct condition of these trees: its column and its flags.
    n_splits : int
        Number of their inner nodes.
    """
    is_plain = condition_kind <= MISSING_LEFT
    cost_bitsliced = (
        COST_CONDITION * np.count_nonzero(~is_plain)
        + _cost_of_conditions(np.bincount(condition_column[is_plain])).sum()
        + COST_SPLIT * n_splits
        + COST_BITSLICED_TREE * np.count_nonzero(small)
    )
    return bool(cost_bitsliced < COST_LEVEL * float(forest.depths[small].sum()))


def chain_pays(n: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return whether so many conditions on one column take less time as a chain."""
    return _cost_of_chain(n) < COST_CONDITION * n


class _Work(NamedTuple):
    """What trees take to evaluate, apart from conditions that they share."""

    mixed: NDArray[np.float64]  # per tree: bitsliced if it is small, else walked
    walked: NDArray[np.floating]  # per tree
    tree: NDArray[np.int64]  # these two: per inner node of a small tree
    condition: NDArray[np.int64]
    column: NDArray[np.int64]  # per condition; -1 for those beyond a plain comparison


def _work_of_trees(forest: Forest) -> _Work:
    small = small_trees(forest)
    kind = node_kinds(forest)
    nodes, number, n_conditions = distinct_conditions(
        forest, small, forest.threshold, category_sets(forest), kind
    )
    tree = np.searchsorted(forest.tree_offsets, nodes, side="right") - 1
    column = np.empty(n_conditions, dtype=np.int64)
    column[number] = np.where(kind[nodes] > MISSING_LEFT, -1, forest.feature[nodes])
    splitting = COST_SPLIT * np.bincount(tree, minlength=forest.n_trees)
    walked = COST_LEVEL * forest.depths
    mixed = np.where(small, splitting + COST_BITSLICED_TREE, walked)
    return _Work(mixed, walked, tree, number, column)


def costs_of_first_trees(forest: Forest) -> NDArray[np.float64]:
    """Return the time that the first 0, 1, ..., all trees take, were they alone.

    In nanoseconds per row, by the model that chooses the form of the trees.
    """
    work = _work_of_trees(forest)
    first = np.full(len(work.column), forest.n_trees)
    np.minimum.at(first, work.condition, work.tree)
    comparing = np.zeros(forest.n_trees)
    for column, part in _by_column(work.column):
        n_compared = np.cumsum(np.bincount(first[part], minlength=forest.n_trees))
        comparing += _cost_of_comparing(column, n_compared)
    costs = np.minimum(np.cumsum(work.mixed) + comparing, np.cumsum(work.walked))
    return np.concatenate([[0.0], costs])


def mean_costs_of_trees(forest: Forest) -> NDArray[np.float64]:
    """Return the time that 0, 1, ..., all trees drawn at random take, on average.

    As `costs_of_first_trees`, but the same whichever trees are drawn. The cost of
    comparing is that of the mean number of conditions.
    """
    n_trees = forest.n_trees
    work = _work_of_trees(forest)
    pairs = np.unique(work.condition * n_trees + work.tree)
    n_having = np.bincount(pairs // n_trees, minlength=len(work.column))
    comparing = np.zeros(n_trees + 1)
    for column, part in _by_column(work.column):
        distinct, times = np.unique(n_having[part], return_counts=True)
        n_compared = times @ shares_met(n_trees, distinct)
        comparing += _cost_of_comparing(column, n_compared)
    n_drawn = np.arange(n_trees + 1)
    mixed = n_drawn * work.mixed.mean() + comparing
    return np.minimum(mixed, n_drawn * work.walked.mean())


def shares_met(n_trees: int, n_having: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return how likely trees drawn at random have something that some trees have.

    Parameters
    ----------
    n_trees : int
        Number of trees.
    n_having : ndarray of shape (n_things,), dtype=int
        How many of them have each thing.

    Returns
    -------
    shares : ndarray of shape (n_things, n_trees + 1)
        Probability that at least one of 0, 1, ..., all trees has it.
    """
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(n_trees + 1) + 1.0)
    without = n_trees - n_having[:, None]
    drawn = np.arange(n_trees + 1)
    # Of the ways to draw trees, those that draw only from trees without it.
    log_share = (
        log_factorial[without]
        - log_factorial[np.maximum(without - drawn, 0)]
        - log_factorial[-1]
        + log_factorial[n_trees - drawn]
    )
    return np.where(drawn > without, 1.0, -np.expm1(np.minimum(log_share, 0.0)))


def _by_column(
    column: NDArray[np.int64],
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield columns, and the indices of the conditions on each."""
    order = np.argsort(column, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(column[order])) + 1):
        if len(part):
            yield int(column[part[0]]), part


def _cost_of_comparing(column: int, n: NDArray[Any]) -> NDArray[np.float64]:
    """Return what so many conditions on a column cost; each alone if it is -1."""
    return _cost_of_conditions(n) if column >= 0 else COST_CONDITION * n


def _cost_of_conditions(n: NDArray[Any]) -> NDArray[np.float64]:
    """Return what so many conditions on one column cost, by the cheaper way."""
    return np.minimum(COST_CONDITION * n, _cost_of_chain(n))


def _cost_of_chain(n: NDArray[Any]) -> NDArray[np.float64]:
    halvings = np.log2(np.maximum(n, 1))
    return COST_CHAIN + COST_HALVING * halvings + COST_CHAINED * n
