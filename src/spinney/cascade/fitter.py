"""Order, exit points and rules of a cascade, from its settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.calibration.fitted_rule import FittedRule
from spinney.cascade.certain import certain_rule
from spinney.cascade.dropping import can_drop_classes
from spinney.cascade.exit_points import paying_exit_points, spread_by_rounds
from spinney.cascade.orders import NEED_ROWS, find_order, is_named
from spinney.cascade.rungs import RuleFamily, boldest_on_rows, undecided
from spinney.cascade.tables import table_of
from spinney.errors import SpinneyWarning
from spinney.forest import Forest
from spinney.ordering import ScoreTable
from spinney.runtime.exit_rule import ExitRule

Points = NDArray[np.int64]

# Where classes are dropped, exit points cost a batch what they gain it over a wide
# range, and single rows only gain. So a batch may take this much longer than it must,
# by the model of its time, where fewer trees are evaluated.
MORE_TIME = 0.1


@dataclass(frozen=True, eq=False)
class RuleFitter:
    """Fits cascades of one forest by the same settings.

    Parameters
    ----------
    forest : Forest
        A classifier.
    order, rule, early_exit
        As in `CascadeClassifier`.
    costs : array-like of shape (n_trees,) or None
        Cost of each tree.
    n_jobs : int or None
        Number of threads.
    """

    forest: Forest
    order: Any
    rule: str
    early_exit: str
    costs: ArrayLike | None
    n_jobs: int | None

    @property
    def drops_classes(self) -> bool:
        """Whether rules drop classes, as each tree adds to one of several."""
        return self.rule == "thresholds" and can_drop_classes(self.forest)

    def find_order(
        self,
        rows: NDArray[np.floating],
        codes: NDArray[np.intp] | None,
        bound: float,
        rng: np.random.RandomState,
        show: Callable[[float], None],
    ) -> NDArray[np.int64]:
        """Return the order of the trees.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_features)
            Converted rows to find it on.
        codes : ndarray of shape (n_rows,) or None
            Their class indices, if they are known.
        bound : float
            Bound on the disagreement.
        rng : RandomState
            Draws random orders.
        show : callable
            Is given the share of the work that is done.
        """
        n_trees = self.forest.n_trees
        if self.drops_classes and is_named(self.order, ("qwyc",)):
            # Boosting puts what matters most first, and rounds stay together.
            show(1.0)
            return np.arange(n_trees)
        table = None
        if is_named(self.order, NEED_ROWS):
            table = table_of(self.forest, rows, self.n_jobs)

        def on_step(placed: int, _: int) -> None:
            show(placed / n_trees)

        found = find_order(
            self.order,
            n_trees,
            table=table,
            labels=codes,
            averages=self.forest.aggregation == "mean",
            max_disagreement=bound,
            costs=self.costs,
            early_exit=self.early_exit,
            rng=rng,
            on_step=on_step,
        )
        show(1.0)
        return found

    def has_several_decisions(self, table: ScoreTable) -> bool:
        """Whether rows are decided in more than one way; warn if not.

        Parameters
        ----------
        table : ScoreTable
            Rows that a rule is to be fitted to.
        """
        decisions = table.decisions
        if np.any(decisions != decisions[0]):
            return True
        classes = self.forest.classes_
        assert classes is not None
        only = classes[decisions[:1]].tolist()[0]  # a label, not NumPy's word for it
        msg = (
            f"The model predicts {only!r} for all {table.n_rows:,} rows that "
            "thresholds are fitted to, so rows exit only where the remaining trees "
            "cannot change the prediction. Pass more rows, including some of every "
            "class."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=3)
        return False

    def certain(self, table: ScoreTable, order: NDArray[np.int64]) -> ExitRule:
        """Return the rule whose predictions are those of the forest, on any row.

        Parameters
        ----------
        table : ScoreTable
            Rows that tell where exits pay.
        order : ndarray of shape (n_trees,)
            Trees in the order in which they are evaluated.
        """
        every = spread_by_rounds(self.forest, order)
        rule = certain_rule(self.forest, order, every, self.early_exit)
        if len(rule.exit_points) == 0:
            return rule
        points = self._paying(order, every, undecided(table, rule))
        return certain_rule(self.forest, order, points, self.early_exit)

    def ladder(
        self,
        table: ScoreTable,
        order: NDArray[np.int64],
        bound: float,
        rng: np.random.RandomState,
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
        rng : RandomState
            Draws the orders that thresholds for random orders are fitted to.
        """
        is_random = is_named(self.order, ("random",))
        family = RuleFamily(self.rule, self.early_exit, self.costs, is_random)
        every = spread_by_rounds(self.forest, order)
        return family.ladder(
            table, order, bound, every, rng, partial(self._paying, order)
        )

    def fit_to_rows(
        self,
        table: ScoreTable,
        order: NDArray[np.int64],
        level: float,
        rng: np.random.RandomState,
    ) -> ExitRule:
        """Return the most aggressive rule that keeps a level on the rows given.

        It says nothing about other rows.

        Parameters
        ----------
        table, order
            As in `ladder`.
        level : float
            Bound on the disagreement.
        rng
            As in `ladder`.
        """
        makers = self.ladder(table, order, level, rng) if level > 0.0 else []
        kept = boldest_on_rows(makers, table, level)
        return self.certain(table, order) if kept is None else kept

    def _paying(
        self, order: NDArray[np.int64], every: Points, left: NDArray[np.float64]
    ) -> Points:
        """Return those of the exit points that pay; all, if trees have costs."""
        if self.costs is not None:
            return every
        fixed = None if is_named(self.order, ("random",)) else order
        slack = MORE_TIME if self.drops_classes else 0.0
        return paying_exit_points(self.forest, every, left, fixed, slack)


def measured(rule: ExitRule, table: ScoreTable) -> FittedRule:
    """Return a rule with what it does on rows.

    Parameters
    ----------
    rule : ExitRule
        The rule.
    table : ScoreTable
        The rows.
    """
    decisions, n_evaluated = table.follow(rule)
    return FittedRule(
        rule,
        float(n_evaluated.mean()),
        float(np.mean(decisions != table.decisions)),
        np.mean(n_evaluated[:, None] > rule.exit_points, axis=0),
    )
