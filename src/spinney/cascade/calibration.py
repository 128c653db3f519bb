"""Steps on the way to a fitted cascade: share out rows, plan looks, prove a bound."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.calibration.bounds import share_to_prove, split_rows
from spinney.cascade.fan import FanPolicy
from spinney.cascade.fan_engine import FanEngine
from spinney.errors import SpinneyWarning
from spinney.forest import Forest
from spinney.ordering import ExitPolicy, ScoreTable
from spinney.runtime import ExitRule
from spinney.runtime.early_exit import Policy, positive_from, scoring_forest
from spinney.runtime.planning import expected_time, plan_checks

Rows = NDArray[np.floating]

# How rows are shared out between order, thresholds and certification.
SHARES = (1.0, 2.0, 2.0)
# The same, where nothing is to be certified.
SHARES_WITHOUT_PROOF = (1.0, 1.0)
# Where rows are scarce, orders are found without one of so many parts of them, in turn.
N_FOLDS = 5


@dataclass(frozen=True)
class Parts:
    """Rows by what they are for.

    Parameters
    ----------
    to_order : ndarray or None
        Rows to choose the order on, if it needs any.
    labels : ndarray or None
        Their class indices, if they are known.
    to_fit : ndarray
        Rows to fit the rule to.
    to_prove : ndarray or None
        Rows to prove a bound on.
    share_to_prove : float
        Which share of all rows is usually kept for it.
    n_given : int
        How many rows there are in all.
    n_folds : int
        Above 1 if rows to order and to fit are the same: an order is then found so many
        times, each without another part of them.
    """

    to_order: Rows | None
    labels: NDArray[np.intp] | None
    to_fit: Rows
    to_prove: Rows | None
    share_to_prove: float
    n_given: int
    n_folds: int


def share_out(
    rows: Rows,
    codes: NDArray[np.intp] | None,
    given: Rows | None,
    *,
    to_order: bool,
    bound: float,
    confidence: float | None,
    limit: int,
    chance: np.random.RandomState,
) -> Parts:
    """Part rows into those to order, to fit and to prove with.

    Where they are too few for that, more of them are kept for the proof, and the others
    serve to order and to fit: orders are found on several parts of them and averaged,
    so that no row has much to say in the order that thresholds are fitted to it in.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        All rows.
    codes : ndarray of shape (n_rows,) or None
        Their class indices.
    given : ndarray or None
        Other rows to choose the order on.
    to_order : bool
        Whether the order needs rows.
    bound : float
        Bound on the disagreement.
    confidence : float or None
        With which it is to be proven, if it is.
    limit : int
        Most rows to order or to fit with; of more, a random part is taken.
    chance : RandomState
        Draws which row comes where.
    """
    to_prove = confidence is not None
    wanted = (to_order and given is None, True, to_prove)
    sizes = SHARES if to_prove else SHARES_WITHOUT_PROOF
    shares = [share for share, want in zip(sizes, wanted, strict=False) if want]
    usual = shares[-1] / sum(shares)
    n_folds = 1
    if confidence is not None:
        kept = share_to_prove(len(rows), usual, bound, confidence)
        if kept > usual:
            shares = [1.0 - kept, kept]
            n_folds = N_FOLDS if to_order and given is None else 1
    if len(rows) >= len(shares):
        numbers = list(split_rows(len(rows), shares, chance))
        if n_folds > 1:
            numbers.insert(0, numbers[0])
    else:
        # Too few to tell anything; whatever comes out is fitted to them.
        numbers = [np.arange(len(rows))] * len(shares)
        if to_prove:
            numbers[-1] = numbers[-1][:0]  # and nothing is proven on none

    def few(chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        if len(chosen) <= limit:
            return chosen
        return chosen[chance.permutation(len(chosen))[:limit]]

    ordering, labels = None, None
    if to_order and given is not None:
        ordering = given[few(np.arange(len(given)))]
    elif to_order:
        chosen = few(numbers.pop(0))
        ordering = rows[chosen]
        labels = codes[chosen] if codes is not None else None
    fitting = rows[few(numbers.pop(0))]
    proving = rows[numbers.pop(0)] if to_prove else None
    return Parts(ordering, labels, fitting, proving, usual, len(rows), n_folds)


def folds_to_order(
    parts: Parts,
) -> Iterator[tuple[Rows | None, NDArray[np.intp] | None]]:
    """Yield rows to choose an order on, and labels: all, or all but each fold.

    Parameters
    ----------
    parts : Parts
        Rows by what they are for.
    """
    rows, labels = parts.to_order, parts.labels
    if rows is None or parts.n_folds == 1:
        yield rows, labels
        return
    fold = np.arange(len(rows)) % parts.n_folds
    for left_out in range(parts.n_folds):
        used = fold != left_out
        yield rows[used], None if labels is None else labels[used]


def several_decisions(table: ScoreTable, classes: NDArray[Any]) -> bool:
    """Whether rows are decided in more than one way; warn if not.

    Parameters
    ----------
    table : ScoreTable
        Rows that a rule is to be fitted to.
    classes : ndarray
        Class labels.
    """
    if np.any(table.decisions != table.decisions[0]):
        return True
    only = classes[table.decisions[:1]].tolist()[0]  # a label, not NumPy's word for it
    msg = (
        f"The model decides for {only!r} on all "
        f"{table.n_rows:,} rows that thresholds are fitted to, so nothing can be "
        "learnt about when it does not, and all trees are asked. Pass more rows, among "
        "them some of every class."
    )
    warnings.warn(msg, SpinneyWarning, stacklevel=4)
    return False


def planned_checks(
    forest: Forest,
    policy: ExitPolicy | FanPolicy,
    table: ScoreTable,
    steps: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return those of the steps at which it pays to look.

    Parameters
    ----------
    forest : Forest
        The forest.
    policy : ExitPolicy or FanPolicy
        A policy that looks at all of the steps.
    table : ScoreTable
        Rows that tell when it decides them.
    steps : ndarray of int
        Numbers of trees after which a look is possible.
    """
    _, n_asked = policy.follow(table)
    undecided = np.mean(n_asked[:, None] > steps, axis=0)
    checks = plan_checks(forest.take(policy.order), steps, undecided)
    if len(checks) == 0 and len(steps):
        # All trees at once are as quick. Asking fewer is still what one is here for:
        # one look, where it spares most trees.
        asked = steps + undecided * (forest.n_trees - steps)
        checks = steps[[int(np.argmin(asked))]]
    return checks


def quickest_plan(
    forest: Forest,
    plans: list[NDArray[np.int64]],
    fit: Callable[[NDArray[np.int64]], ExitPolicy | FanPolicy],
    table: ScoreTable,
) -> NDArray[np.int64]:
    """Return the looks with which a rule is expected to take the least time.

    Parameters
    ----------
    forest : Forest
        The forest.
    plans : list of ndarray of int
        Numbers of trees after which to look, one or several plans.
    fit : callable
        Fits the rule to a plan.
    table : ScoreTable
        Rows that tell when it decides them.
    """
    if len(plans) == 1:
        return plans[0]

    def time_of(checks: NDArray[np.int64]) -> float:
        policy = fit(checks)
        _, n_asked = policy.follow(table)
        undecided = np.mean(n_asked[:, None] > checks, axis=0)
        return expected_time(forest.take(policy.order), checks, undecided)

    return min(plans, key=time_of)


def engine_of(
    forest: Forest,
    policy: ExitPolicy | FanPolicy,
    last: Policy | FanEngine | None = None,
) -> Policy | FanEngine:
    """Return the runtime for a policy.

    Parameters
    ----------
    forest : Forest
        The forest.
    policy : ExitPolicy or FanPolicy
        How it is to be asked.
    last : Policy or FanEngine, optional
        The runtime for another policy of the same forest, to share work with.
    """
    if isinstance(policy, FanPolicy):
        return FanEngine(forest, policy)
    if policy.margin is not None:
        rule = ExitRule.by_margin(policy.check_steps, policy.margin)
    else:
        assert policy.lower is not None
        assert policy.upper is not None
        rule = ExitRule.between(policy.check_steps, policy.lower, policy.upper)
    if isinstance(last, Policy) and np.array_equal(last.order, policy.order):
        return last.with_rule(rule)
    return Policy(forest, "scores", policy.order, rule)


def score_range(forest: Forest) -> tuple[float, float]:
    """Return the smallest and the largest score that all trees can give.

    Parameters
    ----------
    forest : Forest
        A classifier. With two classes the border between them counts as zero.
    """
    scoring = scoring_forest(forest, "scores")
    leaves = scoring.feature < 0
    least = np.where(leaves, scoring.value.min(axis=1), np.inf)
    most = np.where(leaves, scoring.value.max(axis=1), -np.inf)
    starts = scoring.tree_offsets[:-1]
    border = positive_from(forest, "scores") if scoring.n_outputs == 1 else 0.0
    low = np.minimum.reduceat(least, starts).sum() + scoring.base_score.min()
    high = np.maximum.reduceat(most, starts).sum() + scoring.base_score.max()
    return float(low - border), float(high - border)
