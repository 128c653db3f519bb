"""Classes that can hardly win any more: when to leave out their trees.

In gradient boosting with several classes each tree adds to the score of one class. Most
rows are soon a matter between two of them, and trees of the others are evaluated for
nothing. So at an exit point each class that is far behind the one in front is dropped
for good, and a row is done when a single class is left.

A row is predicted wrongly only if the class that would win in the end is dropped. How
likely that is, a curve tells: of the lead of the class in front, at an exit point, for
a pair of classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from spinney.base.parameters import check_costs
from spinney.calibration.posterior import logistic_curve
from spinney.forest import Forest
from spinney.ordering import ScoreTable
from spinney.runtime.exit_rule import ExitRule

Numbers = NDArray[np.float64]
Points = NDArray[np.int64]

# There is a bound for each pair of classes and each exit point; with more classes than
# this there would be too many.
MOST_CLASSES = 100
# Curves do not get better with more rows, nor what is planned with them.
MOST_ROWS, MOST_TO_PLAN = 10_000, 2_000
# A pair has a curve of its own if so many rows have turned round. If not, the curve of
# all pairs is moved by what was seen, as if so many more had behaved like the others.
OWN_CURVE, LIKE_OTHERS = 20, 2.0
# Tolerances that the risks of the ladder are interpolated between.
TOLERANCES = np.geomspace(1e-10, 0.5, 15)


def can_drop_classes(forest: Forest) -> bool:
    """Whether each tree of a forest adds to one of several classes.

    Parameters
    ----------
    forest : Forest
        A classifier.
    """
    return forest.tree_output is not None and 2 < forest.n_outputs <= MOST_CLASSES


def drops_classes(table: ScoreTable) -> bool:
    """Whether classes can be dropped: each tree adds to one of several.

    Parameters
    ----------
    table : ScoreTable
        Scores of the trees.
    """
    return (
        not table.is_binary
        and bool((table.tree_output >= 0).all())
        and len(table.base) <= MOST_CLASSES
    )


@dataclass(frozen=True, eq=False)
class ClassPaths:
    """Sums of rows at exit points, and how likely a class behind wins in the end.

    Parameters
    ----------
    order : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    tree_class : ndarray of shape (n_trees,)
        The class that each tree adds to.
    points : ndarray of shape (n_points,)
        The exit points.
    costs : ndarray of shape (n_points + 1, n_classes)
        Cost of the trees of each class up to each of them, and to the end.
    sums : ndarray of shape (n_points, n_rows, n_classes)
        Partial scores.
    decisions : ndarray of shape (n_rows,)
        Decisions of all trees.
    intercept, slope : ndarray of shape (n_points, n_classes, n_classes)
        Curves: if the first class is in front with a lead over the second, the second
        does not win with probability ``expit(intercept + slope * lead)``.
    """

    order: NDArray[np.int64]
    tree_class: NDArray[np.int64]
    points: Points
    costs: Numbers
    sums: Numbers
    decisions: NDArray[np.int64]
    intercept: Numbers
    slope: Numbers

    def leads_at(self, tolerance: float) -> Numbers:
        """Return the leads beyond which dropping risks at most a tolerance.

        Parameters
        ----------
        tolerance : float
            Risk that a class which is dropped would have won, above 0 and below 1.

        Returns
        -------
        leads : ndarray of shape (n_points, n_classes, n_classes)
            As in `ExitRule.dropping`; ``inf`` where a curve tells nothing.
        """
        rising = self.slope > 0.0
        slope = np.where(rising, self.slope, 1.0)
        odds = float(logit(tolerance))
        return np.where(rising, (-odds - self.intercept) / slope, np.inf)

    def rule_at(self, tolerance: float) -> ExitRule:
        """Return the rule of a tolerance."""
        leads = self.leads_at(tolerance)
        return ExitRule.dropping(self.order, self.points, leads, self.tree_class)

    def follow(self, leads: Numbers) -> tuple[float, Numbers]:
        """Return what dropping classes risks, and what is left after each exit point.

        Parameters
        ----------
        leads : ndarray of shape (n_points, n_classes, n_classes)
            When classes are dropped.

        Returns
        -------
        risk : float
            Mean risk of a prediction, by the curves.
        left : ndarray of shape (n_points,)
            Part of the cost of each stage that is still to be paid.
        """
        n_points, n_rows, n_classes = self.sums.shape
        active = np.arange(n_rows)
        alive = np.ones((n_rows, n_classes), dtype=np.bool_)
        risk = 0.0
        left = np.zeros(n_points)
        for k in range(n_points):
            rows = np.arange(len(active))
            here = np.where(alive, self.sums[k, active], -np.inf)
            leader = here.argmax(axis=1)
            ahead = here[rows, leader][:, None] - here
            behind = alive & (ahead > leads[k][leader])
            behind[rows, leader] = False
            at = np.nonzero(behind)
            pair = (k, leader[at[0]], at[1])
            odds = self.intercept[pair] + self.slope[pair] * ahead[at]
            risk += float(expit(-odds).sum())
            alive &= ~behind
            goes_on = alive.sum(axis=1) > 1
            active, alive = active[goes_on], alive[goes_on]
            to_pay = self.costs[k + 1] - self.costs[k]
            left[k] = float(alive.sum(axis=0) @ to_pay / (n_rows * to_pay.sum()))
        return risk / n_rows, left

    def some_rows(self, most: int) -> ClassPaths:
        """Return the same with some of the rows only, spread over all of them."""
        n_rows = len(self.decisions)
        if n_rows <= most:
            return self
        some = np.arange(most) * n_rows // most
        return ClassPaths(
            self.order,
            self.tree_class,
            self.points,
            self.costs,
            self.sums[:, some],
            self.decisions[some],
            self.intercept,
            self.slope,
        )

    def take_points(self, points: Points) -> ClassPaths:
        """Return the same with some of the exit points only."""
        kept = np.searchsorted(self.points, points)
        return ClassPaths(
            self.order,
            self.tree_class,
            self.points[kept],
            self.costs[np.append(kept, len(self.points))],
            self.sums[kept],
            self.decisions,
            self.intercept[kept],
            self.slope[kept],
        )

    def tolerances(self, risks: NDArray[np.float64]) -> Numbers:
        """Return tolerances with these mean risks of predictions, by the curves.

        Parameters
        ----------
        risks : ndarray of shape (n_risks,)
            The risks.
        """
        some = self.some_rows(MOST_TO_PLAN)
        found = np.array([some.follow(some.leads_at(t))[0] for t in TOLERANCES])
        least = np.finfo(np.float64).tiny
        rising = np.maximum.accumulate(np.maximum(found, least))
        # Where nothing is dropped yet, the most aggressive tolerance of the same risk.
        last = np.append(np.diff(rising) > 0.0, True)
        return np.exp(
            np.interp(np.log(risks), np.log(rising[last]), np.log(TOLERANCES[last]))
        )


def class_paths(
    table: ScoreTable,
    order: NDArray[np.int64],
    points: Points,
    costs: ArrayLike | None = None,
) -> ClassPaths:
    """Return the rows of a table on their way, with a curve for each pair of classes.

    Parameters
    ----------
    table : ScoreTable
        Rows to fit to, for which `drops_classes` holds; of very many, a part is taken.
    order : ndarray of shape (n_trees,)
        Trees in the order in which they are evaluated.
    points : ndarray of int
        Exit points.
    costs : array-like of shape (n_trees,), optional
        Cost of each tree; 1 each by default.
    """
    if table.n_rows > MOST_ROWS:
        table = table.take_rows(np.arange(MOST_ROWS) * table.n_rows // MOST_ROWS)
    n_classes = len(table.base)
    sums = np.empty((len(points), table.n_rows, n_classes))
    intercept = np.empty((len(points), n_classes, n_classes))
    slope = np.empty_like(intercept)
    partial = table.start()
    step = 0
    for k, end in enumerate(points.tolist()):
        for tree in order[step:end].tolist():
            table.add_tree(tree, partial)
        step = end
        sums[k] = partial
        intercept[k], slope[k] = _curves(partial, table.decisions)
    each = check_costs(costs, table.n_trees)
    of_class = table.tree_output[order][:, None] == np.arange(n_classes)
    so_far = np.cumsum(of_class * each[order][:, None], axis=0)
    return ClassPaths(
        order,
        table.tree_output,
        points,
        so_far[np.append(points, table.n_trees) - 1],
        sums,
        table.decisions,
        intercept,
        slope,
    )


def _curves(sums: Numbers, decisions: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """Return curves for all pairs of classes at one exit point."""
    n_rows, n_classes = sums.shape
    leader = sums.argmax(axis=1)
    lead = sums[np.arange(n_rows), leader][:, None] - sums
    behind = leader[:, None] != np.arange(n_classes)
    loses = decisions[:, None] != np.arange(n_classes)
    intercept, slope = logistic_curve(lead[behind], loses[behind])
    intercepts = np.full(n_classes * n_classes, intercept)
    slopes = np.full(n_classes * n_classes, slope)
    pair = (leader[:, None] * n_classes + np.arange(n_classes))[behind]
    risk = expit(-(intercept + slope * lead[behind]))
    expected = np.bincount(pair, risk, n_classes * n_classes)
    seen = np.bincount(pair, ~loses[behind], n_classes * n_classes)
    intercepts -= np.log((seen + LIKE_OTHERS) / (expected + LIKE_OTHERS))
    for number in np.flatnonzero(seen >= OWN_CURVE).tolist():
        ahead, after = divmod(number, n_classes)
        here = leader == ahead
        own = logistic_curve(lead[here, after], loses[here, after])
        if own[1] > 0.0:
            intercepts[number], slopes[number] = own
    shape = (n_classes, n_classes)
    return intercepts.reshape(shape), slopes.reshape(shape)


def planned_paths(
    paths: ClassPaths, bound: float, plan: Callable[[Points, Numbers], Points]
) -> ClassPaths:
    """Return paths with those exit points that a plan chooses.

    Parameters
    ----------
    paths : ClassPaths
        Rows on their way, with all exit points.
    bound : float
        Bound on the disagreement.
    plan : callable
        Chooses among exit points by what is left after each.
    """
    tolerance = paths.tolerances(np.array([bound]))[0]
    some = paths.some_rows(MOST_TO_PLAN)
    _, left = some.follow(some.leads_at(tolerance))
    return paths.take_points(plan(paths.points, left))


def left_by_dropping(table: ScoreTable, rule: ExitRule) -> Numbers:
    """Return which part of the trees after each exit point rows still need.

    Parameters
    ----------
    table : ScoreTable
        The rows.
    rule : ExitRule
        A rule that drops classes.
    """
    assert rule.leads is not None
    some = table.take_rows(np.arange(min(table.n_rows, MOST_TO_PLAN)))
    return class_paths(some, rule.order, rule.exit_points).follow(rule.leads)[1]
