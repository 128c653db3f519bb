"""Thresholds along a fixed order, each step spending what is left of the budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_rows
from spinney.calibration.bounds import check_max_disagreement
from spinney.ordering import ScoreTable
from spinney.ordering.qwyc import (
    allowed_errors,
    exit_mode,
    lower_threshold,
    upper_threshold,
)
from spinney.ordering.score_table import margins
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.order_checks import check_exit_points, check_order

Numbers = NDArray[np.float64]


def fit_thresholds(
    table: ScoreTable,
    order: ArrayLike,
    max_disagreement: float,
    *,
    early_exit: str = "both",
    budget_split: str = "joint",
    restrict_to_beta: bool = False,
    exit_points: ArrayLike | None = None,
) -> ExitRule:
    """Find thresholds for an order that is given, one step after another.

    Each step decides as many rows as it can within what is left of the budget.

    Parameters
    ----------
    table : ScoreTable
        Scores of rows to fit on; better not those that the order was chosen on.
    order : array-like of shape (n_trees,)
        Trees in the order in which they are evaluated.
    max_disagreement : float
        Share of these rows that may be decided differently from the full ensemble, in
        ``[0, 1)``.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which decisions may be taken early. With several classes only ``"both"``.
    budget_split : {"joint", "negative_first"}, default="joint"
        How a step divides the budget between its two thresholds: so that most rows are
        decided, or the lower one first.
    restrict_to_beta : bool, default=False
        Keep the lower threshold at or below `table.beta` and the upper one at or
        above.
    exit_points : array-like of int, optional
        Numbers of trees after which rows may exit; by default after every tree.

    Returns
    -------
    rule : ExitRule
        The order and its thresholds. On the rows of `table` at most
        ``floor(max_disagreement * n_rows)`` decisions differ from the full ones.
    """
    bound = check_max_disagreement(max_disagreement)
    sequence = check_order(order, table.n_trees)
    mode = exit_mode(early_exit, budget_split, table)
    points = check_exit_points(exit_points, table.n_trees)
    check_rows(table.n_rows)
    budget = allowed_errors(bound, table.n_rows)
    limits = (np.inf, np.inf)
    if restrict_to_beta and table.is_binary:
        limits = (table.beta, -table.beta)
    lower = np.full(len(points), -np.inf)
    upper = np.full(len(points), np.inf)
    rows = np.arange(table.n_rows)
    partial = table.start()
    step = 0
    for k, end in enumerate(points.tolist()):
        for tree in sequence[step:end].tolist():
            table.add_tree(tree, partial, rows)
        step = end
        full = table.decisions[rows]
        if table.is_binary:
            low_cut, high_cut = _cuts(partial, full == 1, limits, budget, mode)
            lower[k] = lower_threshold(partial, low_cut, limits[0])
            upper[k] = upper_threshold(partial, high_cut, limits[1], lower[k])
            says = (partial > upper[k]).astype(np.int64)
            stops = (partial < lower[k]) | (partial > upper[k])
        else:
            says, lead = margins(partial)
            _, high_cut = _cuts(lead, says == full, limits, budget, mode)
            upper[k] = upper_threshold(lead, high_cut, np.inf, -np.inf)
            stops = lead > upper[k]
        budget -= int(np.count_nonzero(says[stops] != full[stops]))
        rows, partial = rows[~stops], partial[~stops]
        if len(rows) == 0:
            break
    return table.rule_of(sequence, points, lower, upper)


def _cuts(
    value: Numbers,
    positive: NDArray[np.bool_],
    limits: tuple[float, float],
    budget: int,
    mode: int,
) -> tuple[float, float]:
    """Return the cuts of one step, see `best_exit`."""
    from spinney.ordering.exit_kernels import best_exit

    _, _, low_cut, high_cut = best_exit(
        value[positive],
        -value[~positive],
        *limits,
        budget,
        mode,
        False,
        np.empty(budget + 1),
        np.empty(budget + 1),
        np.empty(budget + 1, dtype=np.int64),
        np.empty(budget + 1, dtype=np.int64),
    )
    return low_cut, high_cut
