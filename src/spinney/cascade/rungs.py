"""Rules of a cascade, the most conservative first, for risk control."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.calibration.ladder import LEVELS_OF_RULES, rungs
from spinney.cascade.dropping import (
    class_paths,
    drops_classes,
    left_by_dropping,
    planned_paths,
)
from spinney.cascade.fan import fit_fan, widened_bins
from spinney.cascade.optimal import optimal_at
from spinney.cascade.paths import N_ORDERS, Paths, paths_of
from spinney.cascade.thresholds import thresholds_at
from spinney.ordering import ScoreTable
from spinney.runtime.exit_kinds import DROPPING
from spinney.runtime.exit_rule import ExitRule

Order = NDArray[np.int64]
Points = NDArray[np.int64]
# Chooses among exit points by the share of the rows that go on after each.
Plan = Callable[[Points, NDArray[np.float64]], Points]

RULES = ("thresholds", "fan", "optimal")

# Candidates are so many, and by the curves their risks are spread evenly, in
# logarithms, between these parts of the bound. The curves may be off by a good deal.
N_RUNGS = 80
LEAST_RISK, LARGEST_RISK = 1e-3, 4.0
# Curves are off most where nothing was seen, far out: below the least risk so many
# more candidates go down to the least boldness. Were the first of all to fail, nothing
# would be left but exits that cannot be wrong.
N_CAUTIOUS_RUNGS = 20
# Boldness is searched between these numbers: the tolerance of thresholds, or the
# inverse of the price of a wrong prediction.
LEAST_BOLDNESS, MOST_BOLDNESS = 1e-14, 0.5
N_BISECTIONS = 30


@dataclass(frozen=True, eq=False)
class RuleFamily:
    """The rules of one kind for an order, one for every boldness.

    Parameters
    ----------
    rule : {"thresholds", "fan", "optimal"}
        The kind. Thresholds drop classes where each tree adds to one of several.
    early_exit : {"both", "negative", "positive"}
        Which predictions may be given early.
    costs : array-like of shape (n_trees,) or None
        Cost of each tree.
    is_random : bool
        Whether the order was drawn at random: rules are then fitted to many orders.
    """

    rule: str
    early_exit: str
    costs: ArrayLike | None
    is_random: bool

    def ladder(
        self,
        table: ScoreTable,
        order: Order,
        bound: float,
        points: Points,
        rng: np.random.RandomState,
        plan: Plan | None = None,
    ) -> list[Callable[[], ExitRule]]:
        """Return what makes rules, from the most conservative to the most aggressive.

        Parameters
        ----------
        table : ScoreTable
            Rows to fit to.
        order : ndarray of shape (n_trees,)
            Trees in the order in which they are evaluated.
        bound : float
            Bound on the disagreement, above 0.
        points : ndarray of int
            Exit points.
        rng : RandomState
            Draws the orders that thresholds for random orders are fitted to.
        plan : callable, optional
            Chooses among the exit points.
        """
        if len(points) == 0:
            return []
        if self.rule == "fan":
            return self._by_bins(table, order, bound, points, plan)
        if self.rule == "thresholds" and drops_classes(table):
            return self._by_dropping(table, order, bound, points, plan)
        orders = [order]
        if self.is_random:
            orders += [rng.permutation(table.n_trees) for _ in range(N_ORDERS - 1)]
        paths = paths_of(
            table, orders, points, costs=self.costs, early_exit=self.early_exit
        )
        if plan is not None:
            rough = self._at(paths, self._boldness(paths, bound))
            left_at, _, _ = paths.follow(*rough)
            paths = paths.take_points(plan(points, paths.undecided(left_at)))
        least = self._boldness(paths, LEAST_RISK * bound)
        most = self._boldness(paths, LARGEST_RISK * bound)

        def rule_at(boldness: float) -> ExitRule:
            return table.rule_of(order, paths.points, *self._at(paths, boldness))

        return [partial(rule_at, boldness) for boldness in _spread(least, most)]

    def _at(
        self, paths: Paths, boldness: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the thresholds of a boldness."""
        if self.rule == "optimal":
            return optimal_at(paths, 1.0 / boldness)
        return thresholds_at(paths, boldness)

    def _boldness(self, paths: Paths, risk: float) -> float:
        """Return how aggressive to be for a mean risk, by the curves."""
        low, high = math.log(LEAST_BOLDNESS), math.log(MOST_BOLDNESS)
        for _ in range(N_BISECTIONS):
            middle = 0.5 * (low + high)
            _, expected, _ = paths.follow(*self._at(paths, math.exp(middle)))
            low, high = (low, middle) if expected > risk else (middle, high)
        return math.exp(low)

    def _by_dropping(
        self,
        table: ScoreTable,
        order: Order,
        bound: float,
        points: Points,
        plan: Plan | None,
    ) -> list[Callable[[], ExitRule]]:
        """Return what makes rules that drop classes; boldness is the tolerance."""
        paths = class_paths(table, order, points, self.costs)
        if plan is not None:
            paths = planned_paths(paths, bound, plan)
        ends = np.array([LEAST_RISK, LARGEST_RISK]) * bound
        least, most = paths.tolerances(ends).tolist()
        return [partial(paths.rule_at, boldness) for boldness in _spread(least, most)]

    def _by_bins(
        self,
        table: ScoreTable,
        order: Order,
        bound: float,
        points: Points,
        plan: Plan | None,
    ) -> list[Callable[[], ExitRule]]:
        """Return what makes rules by bins, at levels and widened."""

        def fit(level: float) -> ExitRule:
            return fit_fan(
                table, order, level, exit_points=points, early_exit=self.early_exit
            )

        if plan is not None:
            points = plan(points, undecided(table, fit(bound)))
        return rungs(fit, bound, LEVELS_OF_RULES, widened_bins)


def _spread(least: float, most: float) -> list[float]:
    """Return how aggressive all candidates are: between two, and below."""
    cautious = np.geomspace(LEAST_BOLDNESS, least, N_CAUTIOUS_RUNGS + 1)[:-1]
    every = np.append(cautious, np.geomspace(least, most, N_RUNGS))
    return np.unique(every).tolist()


def undecided(table: ScoreTable, rule: ExitRule) -> NDArray[np.float64]:
    """Return the share of rows that go on after each exit point of a rule.

    Parameters
    ----------
    table : ScoreTable
        The rows.
    rule : ExitRule
        The rule. If it drops classes, what counts is the share of the trees of the
        next stage.
    """
    if rule.kind == DROPPING:
        return left_by_dropping(table, rule)
    _, n_evaluated = table.follow(rule)
    return np.mean(n_evaluated[:, None] > rule.exit_points, axis=0)


def boldest_on_rows(
    makers: list[Callable[[], ExitRule]], table: ScoreTable, level: float
) -> ExitRule | None:
    """Return the most aggressive rule that keeps a level on a table, if any.

    It says nothing about other rows.

    Parameters
    ----------
    makers : list of callables
        Make rules, the most conservative first.
    table : ScoreTable
        The rows.
    level : float
        Bound on the disagreement.
    """
    kept = None
    for make in makers:
        rule = make()
        decisions, _ = table.follow(rule)
        if np.mean(decisions != table.decisions) > level:
            break
        kept = rule
    return kept
