"""Quit when you can: order and thresholds, chosen together, one step after another."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_choice, check_costs, check_rows
from spinney.calibration.bounds import check_max_disagreement
from spinney.ordering.score_table import ScoreTable, margins
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.order_checks import check_exit_points
from spinney.runtime.score_bins import EARLY_EXITS

BUDGET_SPLITS = ("joint", "negative_first")
LARGEST = float(np.finfo(np.float64).max)

Progress = Callable[[int, int], None]
Numbers = NDArray[np.float64]


def qwyc(
    table: ScoreTable,
    max_disagreement: float,
    *,
    costs: ArrayLike | None = None,
    early_exit: str = "both",
    budget_split: str = "joint",
    restrict_to_beta: bool = False,
    exit_points: ArrayLike | None = None,
    on_step: Progress | None = None,
) -> ExitRule:
    """Choose an order of trees and the thresholds along it, greedily.

    Each step takes the tree with the least cost per row that it decides: its cost times
    the number of undecided rows, divided by how many of them it settles within what is
    left of the budget. Rows that are settled leave the game.

    Parameters
    ----------
    table : ScoreTable
        Scores of rows to fit on.
    max_disagreement : float
        Share of these rows that may be decided differently from the full ensemble, in
        ``[0, 1)``.
    costs : array-like of shape (n_trees,), optional
        Positive cost of each tree; 1 each by default.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which decisions may be taken early. With several classes only ``"both"``.
    budget_split : {"joint", "negative_first"}, default="joint"
        How a step divides what is left of the budget between the two thresholds: so
        that most rows are decided, or the lower one first.
    restrict_to_beta : bool, default=False
        Keep the lower threshold at or below `table.beta` and the upper one at or
        above.
    exit_points : array-like of int, optional
        Numbers of trees after which rows may exit; by default after every tree.
        Between them, trees are chosen as if they could decide, but none does.
    on_step : callable, optional
        Called after each step with the number of trees placed and of rows undecided.

    Returns
    -------
    rule : ExitRule
        The order and its thresholds. On the rows of `table` at most
        ``floor(max_disagreement * n_rows)`` decisions differ from the full ones.

    Notes
    -----
    Thresholds lie half-way between two scores that occur; equal scores cannot be
    separated. A threshold that decides no row is infinite. If no tree decides any row,
    the next in the current order is taken; once all rows are decided, the remaining
    order is unchanged. The bound holds for the rows of `table`; on new rows it may be
    exceeded, because order and thresholds are fitted to the same rows.

    The algorithm is that of [1]_; the time is proportional to the number of trees
    squared times the mean share of undecided rows.

    References
    ----------
    .. [1] S. Wang, M. Gupta and S. You, "Quit When You Can: Efficient Evaluation of
       Ensembles with Ordering Optimization", 2018.
    """
    from spinney.ordering import kernels

    bound = check_max_disagreement(max_disagreement)
    costs = check_costs(costs, table.n_trees)
    mode = exit_mode(early_exit, budget_split, table)
    points = check_exit_points(exit_points, table.n_trees)
    may_leave = set(points.tolist())
    check_rows(table.n_rows)
    budget = allowed_errors(bound, table.n_rows)
    order = np.arange(table.n_trees)
    lower = np.full(table.n_trees, -np.inf)
    upper = np.full(table.n_trees, np.inf)
    # Rows that are positive in full come first; the kernel wants them so.
    rows = np.argsort(table.decisions != 1, kind="stable")
    full = table.decisions[rows]
    scores = np.ascontiguousarray(table.scores[:, rows])
    partial = table.start()
    limits = (table.beta, -table.beta) if restrict_to_beta else (np.inf, np.inf)
    kept = np.empty(0, dtype=np.int64)
    for step in range(1, table.n_trees):
        if table.is_binary:
            n_positive = int(np.count_nonzero(full))
            chosen, low_cut, high_cut = kernels.choose_tree(
                scores,
                order[step - 1 :],
                costs,
                kept,
                partial,
                n_positive,
                *limits,
                budget,
                mode,
            )
        else:
            chosen, high_cut = kernels.choose_tree_by_margin(
                scores,
                table.tree_output,
                order[step - 1 :],
                costs,
                kept,
                partial,
                full,
                budget,
            )
        chosen += step - 1
        order[step - 1], order[chosen] = order[chosen], order[step - 1]
        tree = order[step - 1]
        n_rows = len(full)
        if table.tree_output[tree] >= 0:
            partial[:, table.tree_output[tree]] += scores[tree, :n_rows, 0]
        else:
            partial = partial + scores[tree, :n_rows]
        kept = np.empty(0, dtype=np.int64)
        if step in may_leave:
            if table.is_binary:
                value = partial
                lower[step] = lower_threshold(value, low_cut, limits[0])
                upper[step] = upper_threshold(value, high_cut, limits[1], lower[step])
                says = (value > upper[step]).astype(np.int64)
                stops = (value < lower[step]) | (value > upper[step])
            else:
                says, value = margins(partial)
                upper[step] = upper_threshold(value, high_cut, np.inf, -np.inf)
                stops = value > upper[step]
            budget -= int(np.count_nonzero(says[stops] != full[stops]))
            if stops.any():
                kept = np.flatnonzero(~stops)
                full, partial = full[kept], partial[kept]
        if on_step is not None:
            on_step(step, len(full))
        if len(full) == 0:
            break
    return table.rule_of(order, points, lower[points], upper[points])


def allowed_errors(max_disagreement: float, n_rows: int) -> int:
    """Return how many of the rows may be decided differently.

    The product is rounded down, but not for the error of floats: 0.29 of 100 rows are
    29 rows.
    """
    return math.floor(max_disagreement * n_rows * (1.0 + 1e-12))


def exit_mode(early_exit: str, budget_split: str, table: ScoreTable) -> int:
    """Return how the kernels call a choice of exits, or raise."""
    from spinney.errors import InvalidArgumentError
    from spinney.ordering import exit_kernels as modes

    check_choice("early_exit", early_exit, EARLY_EXITS)
    check_choice("budget_split", budget_split, BUDGET_SPLITS)
    if not table.is_binary and early_exit != "both":
        msg = (
            f"early_exit must be 'both' with more than two classes, got {early_exit!r}."
            " Only of two classes one is the negative."
        )
        raise InvalidArgumentError(msg)
    if not table.is_binary:
        return modes.POSITIVE_ONLY  # the lead of the best class is large enough
    if early_exit == "both":
        both = {"joint": modes.JOINT, "negative_first": modes.NEGATIVE_FIRST}
        return both[budget_split]
    return modes.NEGATIVE_ONLY if early_exit == "negative" else modes.POSITIVE_ONLY


def lower_threshold(value: Numbers, cut: float, limit: float) -> float:
    """Return the lower threshold that decides exactly the scores below a cut."""
    below = value[value < cut]
    if len(below) == 0:
        return -np.inf
    largest = float(below.max())
    beyond = value[value >= cut]
    if len(beyond) == 0:
        # There is no next score to lie half-way to: unseen scores are not decided.
        return min(float(np.nextafter(largest, np.inf)), limit)
    smallest = float(beyond.min())
    # The infinities have a middle too, if they are taken for very large numbers.
    middle = 0.5 * max(largest, -LARGEST) + 0.5 * min(smallest, LARGEST)
    # Neighbouring floats have none.
    return min(middle if middle > largest else smallest, limit)


def upper_threshold(value: Numbers, cut: float, limit: float, lower: float) -> float:
    """Return the upper threshold that decides the scores whose negation is below a cut.

    It is never below `lower`, even where no float lies between two scores.
    """
    return max(-lower_threshold(-value, cut, limit), lower)
