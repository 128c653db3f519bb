"""Order, exit points and thresholds of a cascade, as its settings ask for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.calibration.fitted_rule import FittedRule
from spinney.calibration.ladder import LEVELS_OF_THRESHOLDS, rungs
from spinney.calibration.row_splits import RowParts
from spinney.cascade.exit_points import (
    paying_exit_points,
    quickest_plan,
    spread_exit_points,
)
from spinney.cascade.fitting import (
    NEED_ROWS,
    averaged_order,
    find_order,
    fit_rule,
    is_named,
    widened,
)
from spinney.cascade.tables import table_of
from spinney.errors import SpinneyWarning
from spinney.forest import Forest
from spinney.ordering import ScoreTable
from spinney.runtime.exit_rule import ExitRule


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

    def find_order(
        self,
        parts: RowParts,
        rows: NDArray[np.floating],
        codes: NDArray[np.intp] | None,
        bound: float,
        rng: np.random.RandomState,
        show: Callable[[float], None],
    ) -> NDArray[np.int64]:
        """Return the order of the trees, found on the rows that are for it.

        Parameters
        ----------
        parts : RowParts
            What rows are for. If none are to order on, all of them are.
        rows : ndarray of shape (n_rows, n_features)
            Converted rows.
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
        needs_rows = is_named(self.order, NEED_ROWS)
        orders: list[NDArray[np.int64]] = []

        def on_step(placed: int, _: int) -> None:
            show((len(orders) + placed / n_trees) / parts.n_folds)

        for index in parts.folds_to_order():
            table, labels = None, None
            if needs_rows:
                some = slice(None) if index is None else index
                table = table_of(self.forest, rows[some], self.n_jobs)
                labels = None if codes is None else codes[some]
            found = find_order(
                self.order,
                n_trees,
                table=table,
                labels=labels,
                averages=self.forest.aggregation == "mean",
                max_disagreement=bound,
                costs=self.costs,
                early_exit=self.early_exit,
                rng=rng,
                on_step=on_step,
            )
            orders.append(found)
        show(1.0)
        return averaged_order(orders)

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
            f"The model decides for {only!r} on all {table.n_rows:,} rows that "
            "thresholds are fitted to, so nothing can be learnt about when it does "
            "not, and all trees are evaluated. Pass more rows, among them some of "
            "every class."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=5)
        return False

    def planned(
        self,
        table: ScoreTable,
        order: NDArray[np.int64],
        bound: float,
        rng: np.random.RandomState,
    ) -> Callable[[float], ExitRule]:
        """Return what fits the rule to a level, its exit points planned for a bound.

        Parameters
        ----------
        table : ScoreTable
            Rows to fit to.
        order : ndarray of shape (n_trees,)
            Trees in the order in which they are evaluated.
        bound : float
            Bound on the disagreement.
        rng : RandomState
            Draws the orders that thresholds for random orders are fitted to.
        """
        is_random = is_named(self.order, ("random",))
        fit = partial(
            fit_rule,
            table=table,
            order=order,
            costs=self.costs,
            early_exit=self.early_exit,
            is_random=is_random,
            # The same orders for all candidates.
            random_state=int(rng.randint(2**31 - 1)),
        )

        def fit_to(
            level: float, points: NDArray[np.int64], rule: str = self.rule
        ) -> ExitRule:
            return fit(rule, max_disagreement=level, exit_points=points)

        points = all_points = spread_exit_points(self.forest.n_trees)
        if self.costs is None:
            rough = [fit_to(bound, all_points)]
            if self.rule == "optimal":
                # It spreads what is allowed over all exit points. Thresholds that
                # spend it at once come nearer to what a few exit points can do.
                rough.append(fit_to(bound, all_points, "thresholds"))
            plans = [
                paying_exit_points(self.forest, rule, table, all_points, is_random)
                for rule in rough
            ]
            fit_bound = partial(fit_to, bound)
            points = quickest_plan(self.forest, plans, fit_bound, table, is_random)
        return partial(fit_to, points=points)


def cautious_to_bold(
    fit: Callable[[float], ExitRule], table: ScoreTable, bound: float
) -> list[Callable[[], ExitRule]]:
    """Return what makes the candidates among which the boldest proven is taken.

    Parameters
    ----------
    fit : callable
        Fits the rule to a level.
    table : ScoreTable
        Rows that tell how far the most cautious ones are widened.
    bound : float
        Bound on the disagreement.
    """

    def widen(rule: ExitRule, deviations: float) -> ExitRule:
        return widened(rule, table, deviations)

    return rungs(fit, bound, LEVELS_OF_THRESHOLDS, widen)


def measured(rule: ExitRule, table: ScoreTable) -> FittedRule:
    """Return a rule with what it does on the rows it was fitted to.

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
