"""Thresholds along an order with the least mean cost: the budget spent where it pays.

The greedy thresholds spend the whole budget at the first steps that can use it. Here
it is spread over all steps by a backward recursion, see
`spinney.calibration.recursion`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_costs, check_rows
from spinney.calibration.bounds import check_max_disagreement
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import exit_mode
from spinney.ordering.score_table import margins
from spinney.runtime.exit_rule import ExitRule, check_exit_points, check_order

# Few bins keep thresholds from following single rows; with many orders of each row
# there is little to follow, and finer ones gain a little.
N_BINS = 32
N_BINS_OF_MANY_ORDERS = 128
N_ORDERS = 50
LEAST_ORDERS = 10
MAX_PATHS = 400_000
# How often the bound is aimed at anew if the order in use breaks it.
MAX_ROUNDS = 8


def fit_optimal(
    table: ScoreTable,
    order: ArrayLike,
    max_disagreement: float,
    *,
    costs: ArrayLike | None = None,
    early_exit: str = "both",
    exit_points: ArrayLike | None = None,
    n_bins: int = N_BINS,
) -> ExitRule:
    """Find the thresholds with the least mean cost for an order that is given.

    Parameters
    ----------
    table : ScoreTable
        Scores of rows to fit on, finite; better not those that the order was chosen
        on.
    order : array-like of shape (n_trees,)
        Trees in the order in which they are evaluated.
    max_disagreement : float
        Share of these rows that may be decided differently from the full ensemble, in
        ``[0, 1)``.
    costs : array-like of shape (n_trees,), optional
        Positive cost of each tree; 1 each by default.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which decisions may be taken early. With several classes only ``"both"``.
    exit_points : array-like of int, optional
        Numbers of trees after which rows may leave; by default after every tree.
    n_bins : int, default=32
        Number of score bins per step; thresholds lie between them.

    Returns
    -------
    rule : ExitRule
        The order and its thresholds. On the rows of `table` at most
        `max_disagreement` of the decisions differ from the full ones.
    """
    sequence = check_order(order, table.n_trees)
    return _fit(
        table,
        [sequence],
        max_disagreement,
        costs=costs,
        early_exit=early_exit,
        exit_points=exit_points,
        n_bins=n_bins,
    )


def fit_optimal_for_random_orders(
    table: ScoreTable,
    order: ArrayLike,
    max_disagreement: float,
    *,
    costs: ArrayLike | None = None,
    early_exit: str = "both",
    exit_points: ArrayLike | None = None,
    n_bins: int = N_BINS_OF_MANY_ORDERS,
    n_orders: int | None = None,
    random_state: Any = None,
) -> ExitRule:
    """Find thresholds with the least mean cost over many random orders.

    Every row takes part in many orders, so the thresholds cannot follow the accidents
    of one, and hold nearly as well for new rows.

    Parameters
    ----------
    table : ScoreTable
        Scores of rows to fit on, finite.
    order : array-like of shape (n_trees,)
        The order that is going to be used, drawn at random.
    max_disagreement, costs, early_exit, exit_points, n_bins
        As in `fit_optimal`.
    n_orders : int, optional
        Number of orders; 50 by default, fewer if there are many rows.
    random_state : int, RandomState instance or None, default=None
        Draws the other orders.

    Returns
    -------
    rule : ExitRule
        The order, and thresholds for all orders. On the rows of `table` at most
        `max_disagreement` of the decisions differ from the full ones, on average over
        the orders and in `order` itself.
    """
    from sklearn.utils import check_random_state

    bound = check_max_disagreement(max_disagreement)
    check_rows(table.n_rows)
    rng = check_random_state(random_state)
    if n_orders is None:
        n_orders = min(N_ORDERS, max(LEAST_ORDERS, MAX_PATHS // table.n_rows))
    orders = [check_order(order, table.n_trees)]
    orders += [rng.permutation(table.n_trees) for _ in range(n_orders - 1)]
    target = bound
    for _ in range(MAX_ROUNDS):
        rule = _fit(
            table,
            orders,
            target,
            costs=costs,
            early_exit=early_exit,
            exit_points=exit_points,
            n_bins=n_bins,
        )
        decisions, _ = table.follow(rule)
        disagreement = float(np.mean(decisions != table.decisions))
        if disagreement <= bound:
            return rule
        # Orders differ, and the one in use is worse than the average.
        target *= 0.8 * bound / disagreement
    return ExitRule.never(orders[0], len(table.base))


def _fit(
    table: ScoreTable,
    orders: Sequence[NDArray[np.int64]],
    max_disagreement: float,
    *,
    costs: ArrayLike | None,
    early_exit: str,
    exit_points: ArrayLike | None,
    n_bins: int,
) -> ExitRule:
    """Fit thresholds to all orders together, and return them with the first order."""
    from spinney.calibration.recursion import optimal_margins, optimal_thresholds

    bound = check_max_disagreement(max_disagreement)
    each = check_costs(costs, table.n_trees)
    exit_mode(early_exit, "joint", table)  # raises if there is no such mode
    points = check_exit_points(exit_points, table.n_trees)
    check_rows(table.n_rows)
    # What it costs to leave at each exit point, on average over the orders.
    sums = np.mean([np.cumsum(each[order]) for order in orders], axis=0)
    prices = np.concatenate([sums[points - 1], sums[-1:]])
    if table.is_binary:
        found = optimal_thresholds(
            _paths(table, orders, points),
            np.tile(table.decisions == 1, len(orders)),
            prices,
            bound,
            n_bins=n_bins,
            early_exit=early_exit,
        )
    else:
        leads, wrong = _leads(table, orders, points)
        found = optimal_margins(
            leads, wrong, table.n_rows * len(orders), prices, bound, n_bins=n_bins
        )
    return table.rule_of(orders[0], points, found.lower, found.upper)


def _paths(
    table: ScoreTable,
    orders: Sequence[NDArray[np.int64]],
    points: NDArray[np.int64],
) -> Iterator[NDArray[np.float64]]:
    """Yield the partial scores of all rows in all orders, exit point by exit point."""
    partial = [table.start() for _ in orders]
    step = 0
    for end in points.tolist():
        for order, sums in zip(orders, partial, strict=True):
            for tree in order[step:end].tolist():
                table.add_tree(tree, sums)
        step = end
        yield np.concatenate(partial)


def _leads(
    table: ScoreTable,
    orders: Sequence[NDArray[np.int64]],
    points: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the lead of the class in front, and whether it is the wrong one."""
    shape = (len(points), table.n_rows * len(orders))
    leads, wrong = np.empty(shape), np.empty(shape, dtype=np.bool_)
    full = np.tile(table.decisions, len(orders))
    for k, partial in enumerate(_paths(table, orders, points)):
        winner, leads[k] = margins(partial)
        wrong[k] = winner != full
    return leads, wrong
