"""Cascades of any scorers that add up: functions, services, models of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from spinney.base.parameters import check_choice, check_costs
from spinney.calibration.bounds import check_confidence, check_max_disagreement
from spinney.calibration.ladder import boldest_kept, warn_of_certain_exits
from spinney.calibration.limits import limits_for
from spinney.calibration.promise import Promise
from spinney.calibration.row_splits import SHARES, split_by_use
from spinney.cascade.orders import check_order_name, find_order, is_named
from spinney.cascade.rungs import RULES, RuleFamily
from spinney.errors import InvalidArgumentError
from spinney.forest.frames import rows_at
from spinney.ordering import ScoreTable
from spinney.runtime.early_exit import EarlyExitEngine
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.order_checks import check_exit_points

Scorer = Callable[[Any], ArrayLike]


@dataclass(frozen=True, eq=False)
class Cascade:
    """Scorers to be called one after another, until the sum of their scores decides.

    Made by `fit_cascade`.

    Parameters
    ----------
    rule : ExitRule
        The order, and when a row is decided.
    base : ndarray of shape (n_outputs,)
        Score before any scorer.
    beta : float
        With two classes: the score from which a row is positive.
    promise : Promise
        What is promised about new rows.
    """

    rule: ExitRule
    base: NDArray[np.float64]
    beta: float
    promise: Promise

    def decide(
        self, scorers: Sequence[Scorer], X: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Decide rows, calling each scorer for undecided rows only.

        Parameters
        ----------
        scorers : sequence of callables
            In the order of the columns of the scores that the cascade was fitted to.
            Each takes some rows of `X` and returns one score per row, or one per row
            and class.
        X : array-like or data frame
            Rows, whatever the scorers take.

        Returns
        -------
        decisions : ndarray of shape (n_rows,)
            With two classes 1 for positive and 0 for negative, else class indices.
        n_evaluated : ndarray of shape (n_rows,)
            Scorers called for each row.
        """
        if len(scorers) != self.rule.n_trees:
            msg = (
                f"The cascade was fitted to {self.rule.n_trees} scorers, got "
                f"{len(scorers)}. Pass all of them, in their original order."
            )
            raise InvalidArgumentError(msg)
        called = _CalledScorers(scorers, self.base, self.beta)
        decisions, n_evaluated = EarlyExitEngine(called, self.rule).evaluate(X)
        return decisions.astype(np.int64), n_evaluated.astype(np.int64)


class _CalledScorers:
    """Scorers as the engine calls them."""

    def __init__(
        self, scorers: Sequence[Scorer], base: NDArray[np.float64], beta: float
    ) -> None:
        self.scorers = scorers
        self.base = base
        self.beta = beta
        self.n_voters = len(scorers)
        self.classes = np.arange(max(2, len(base)))

    def start(self, n_rows: int) -> NDArray[np.float64]:
        return np.tile(self.base, (n_rows, 1))

    def take(self, rows: Any, index: NDArray[np.int64]) -> Any:
        return rows_at(rows, index)

    def contribution(self, voting: str, voter: int, rows: Any) -> NDArray[np.float64]:
        shape = (_num_samples(rows), len(self.base))
        said = np.asarray(self.scorers[voter](rows), np.float64)
        if said.shape not in (shape[:1], shape):
            msg = (
                f"Scorer {voter} must return one score for each of the {shape[0]} rows "
                f"it was given{' and each class' if shape[1] > 1 else ''}, got shape "
                f"{said.shape}."
            )
            raise InvalidArgumentError(msg)
        return said.reshape(shape)

    def decide(
        self, voting: str, rows: Any, totals: NDArray[np.float64]
    ) -> NDArray[np.intp]:
        if totals.shape[1] == 1:
            return (totals[:, 0] >= self.beta).astype(np.intp)
        return totals.argmax(axis=1)


def fit_cascade(
    scores: ArrayLike,
    max_disagreement: float = 5e-3,
    *,
    beta: float = 0.0,
    base: ArrayLike = 0.0,
    order: str | ArrayLike = "qwyc",
    rule: str = "thresholds",
    early_exit: str = "both",
    costs: ArrayLike | None = None,
    y: ArrayLike | None = None,
    exit_points: ArrayLike | None = None,
    confidence: float | None = None,
    random_state: Any = None,
) -> Cascade:
    """Fit a cascade to the scores of any scorers that add up.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_scorers) or (n_rows, n_scorers, n_classes)
        Score of each scorer for each of the rows to fit on.
    max_disagreement : float, default=5e-3
        Share of new rows that may be decided differently from all scorers together, on
        average, in ``[0, 1)``. With 0 all scorers are called, because the
        range of their scores is not known.
    beta : float, default=0.0
        With two classes: a row is positive if the sum of its scores is at least this.
    base : float or array-like of shape (n_classes,), default=0.0
        Score before any scorer.
    order, rule, early_exit
        As in `spinney.CascadeClassifier`.
    costs : array-like of shape (n_scorers,), optional
        Cost of each scorer, positive; 1 each by default.
    y : array-like of shape (n_rows,), optional
        True classes as 0, 1, ..., for orders by squared error.
    exit_points : array-like of int, optional
        Numbers of scorers after which a row may be decided; by default after each.
    confidence : float, optional
        If given, the bound holds for new rows with this probability.
    random_state : int, RandomState instance or None, default=None
        Draws which half of the rows order and thresholds are fitted to (the other half
        determines how aggressive they may be), and random orders.

    Returns
    -------
    cascade : Cascade
        To be used with ``cascade.decide(scorers, X)``.

    Examples
    --------
    >>> import numpy as np
    >>> from spinney.cascade import fit_cascade
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> scorers = [lambda X, k=k: X[:, k] * (3.0, 0.1, 1.0)[k] for k in range(3)]
    >>> scores = np.column_stack([scorer(X) for scorer in scorers])
    >>> cascade = fit_cascade(scores, 0.01, random_state=0)
    >>> decisions, n_evaluated = cascade.decide(scorers, rng.normal(size=(1000, 3)))
    >>> bool(n_evaluated.mean() < 2)
    True
    """
    bound = check_max_disagreement(max_disagreement)
    check_order_name(order)
    check_choice("rule", rule, RULES)
    if confidence is not None:
        confidence = check_confidence(confidence)
    rng = check_random_state(random_state)
    table = ScoreTable.of_scores(scores, beta=beta, base=base)
    check_costs(costs, table.n_trees)
    points = check_exit_points(exit_points, table.n_trees)
    limits = limits_for(bound, False, np.arange(max(2, len(table.base))), confidence)
    parts = split_by_use(table.n_rows, SHARES, limits.n_to_prove, rng)
    to_fit, fresh = table.take_rows(parts.fit), table.take_rows(parts.prove)
    sequence = find_order(
        order,
        table.n_trees,
        table=to_fit,
        labels=None if y is None else np.asarray(y)[parts.fit],
        max_disagreement=bound,
        costs=costs,
        early_exit=early_exit,
        rng=rng,
    )
    family = RuleFamily(rule, early_exit, costs, is_named(order, ("random",)))
    kept = None
    if bound > 0.0 and len(parts.prove):
        makers = family.ladder(to_fit, sequence, bound, points, rng)
        kept = boldest_kept(
            (make() for make in makers),
            lambda candidate: fresh.follow(candidate)[0],
            fresh.decisions,
            limits,
        )
    if kept is not None:
        return Cascade(kept[0], table.base, table.beta, kept[1])
    if bound > 0.0:
        warn_of_certain_exits(
            limits,
            fresh.decisions,
            parts.given,
            share=SHARES["prove"],
            fallback="all scorers are called",
            stacklevel=2,
        )
    never = ExitRule.never(sequence, len(table.base))
    return Cascade(never, table.base, table.beta, Promise("never", bound))
