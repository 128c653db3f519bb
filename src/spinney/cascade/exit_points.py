"""Where rows may leave a cascade: after those trees where it pays to let them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from spinney.forest import Forest
from spinney.ordering import ScoreTable
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.planning import expected_time, plan_exit_points

Points = NDArray[np.int64]

# Each possible exit point is at least so much further than the one before: a finer
# choice gains nothing on new rows, and every exit point is one more to be wrong at.
RATIO = 1.1


def spread_exit_points(n_trees: int) -> Points:
    """Return numbers of trees, each a tenth more than the one before.

    Parameters
    ----------
    n_trees : int
        Number of trees; the exit points end before it.
    """
    points = []
    point = 1
    while point < n_trees:
        points.append(point)
        point = max(point + 1, round(point * RATIO))
    return np.array(points, dtype=np.int64)


def paying_exit_points(
    forest: Forest,
    rule: ExitRule,
    table: ScoreTable,
    points: Points,
    is_random: bool = False,
) -> Points:
    """Return those of the exit points of a rule that pay.

    Parameters
    ----------
    forest : Forest
        The forest.
    rule : ExitRule
        A rule with all of them.
    table : ScoreTable
        Rows that tell when it decides them.
    points : ndarray of int
        The exit points to choose from.
    is_random : bool, default=False
        Whether the order was drawn at random; which trees come first then counts for
        nothing.
    """
    undecided = _undecided(table, rule, points)
    order = None if is_random else rule.order
    planned = plan_exit_points(forest, points, undecided, order)
    if len(planned) == 0 and len(points):
        # All trees at once are as quick. Evaluating fewer is still what one is here
        # for: one exit point, where it spares most trees.
        evaluated = points + undecided * (forest.n_trees - points)
        planned = points[[int(np.argmin(evaluated))]]
    return planned


def quickest_plan(
    forest: Forest,
    plans: list[Points],
    fit: Callable[[Points], ExitRule],
    table: ScoreTable,
    is_random: bool = False,
) -> Points:
    """Return the exit points with which a rule is expected to take the least time.

    Parameters
    ----------
    forest : Forest
        The forest.
    plans : list of ndarray of int
        One or several choices of exit points.
    fit : callable
        Fits the rule to a plan.
    table : ScoreTable
        Rows that tell when it decides them.
    is_random : bool, default=False
        As in `paying_exit_points`.
    """
    if len(plans) == 1:
        return plans[0]

    def time_of(points: Points) -> float:
        rule = fit(points)
        undecided = _undecided(table, rule, points)
        order = None if is_random else rule.order
        return expected_time(forest, points, undecided, order)

    return min(plans, key=time_of)


def _undecided(
    table: ScoreTable, rule: ExitRule, points: Points
) -> NDArray[np.float64]:
    """Return the share of the rows that are still undecided after each exit point."""
    _, n_evaluated = table.follow(rule)
    return np.mean(n_evaluated[:, None] > points, axis=0)
