"""Early stopping for any number of classes, voters in random order.

With many classes there are too many states for the exact theory, in `full_counts`. The
rules here look at the two classes in front only: at the votes of the leader and of the
runner-up, or, where scores are added up, at the margin between the two, see
`moved_thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_min_votes
from spinney.calibration.bounds import check_max_disagreement
from spinney.calibration.fitted_rule import FittedRule
from spinney.errors import InvalidArgumentError
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.order_checks import check_exit_points
from spinney.sequential.moved_thresholds import Beyond, MovedThresholds
from spinney.sequential.soft import (
    N_BINS,
    check_n_orders,
    check_score_range,
    check_scores,
    natural_order,
    random_word,
    rounding_room,
    smoothed,
    target_below,
)


@dataclass(frozen=True, eq=False)
class Walk:
    """Rows walked through in random orders: what is seen at the exit points.

    Parameters
    ----------
    lead : ndarray of shape (n_exit_points, n_paths)
        How far the class in front is ahead, in units in which a margin changes little.
    wrong : ndarray of shape (n_exit_points, n_paths), dtype=bool
        Whether it is not the one that the full ensemble chooses.
    certain : ndarray of shape (n_exit_points, n_paths), dtype=bool, or None
        Whether the path stops there in any case, since the rest cannot change that.
    """

    lead: NDArray[np.float32]
    wrong: NDArray[np.bool_]
    certain: NDArray[np.bool_] | None = None


def lead_solver(
    counts: ArrayLike,
    *,
    exit_points: ArrayLike | None = None,
    min_votes: int = 1,
    order: ArrayLike | None = None,
    n_orders: int | None = None,
    random_state: Any = None,
) -> Callable[[float], FittedRule]:
    """Return what finds rules with few votes for a vote among several classes.

    At each exit point the class in front wins if the next one has few enough votes,
    how many depends on the votes of the class in front.

    Parameters
    ----------
    counts : array-like of shape (n_rows, n_classes)
        Votes for each class in the full vote on the calibration rows, at least two
        classes; the same number of voters in every row. For two classes
        `spinney.optimal_strategy` has an exact theory, and for few classes or voters
        `spinney.sequential.few_classes`.
    exit_points : array-like of int, optional
        Numbers of votes after which a row may exit, increasing, below the number of
        voters; None for all.
    min_votes : int, default=1
        Votes to be cast in any case; exit points before that are left out.
    order : array-like of shape (n_voters,), optional
        The order that the rules are for, drawn at random; None for the natural one.
    n_orders : int, optional
        Random orders in which each calibration row is walked through; None for 50, or
        more if there are few rows.
    random_state : int, Generator or None, default=None
        Draws the orders.

    Returns
    -------
    best_at : callable
        Takes `max_disagreement`, the largest allowed mean disagreement with the full
        vote, in ``[0, 1)``, and returns a `FittedRule`, measured in orders other than
        those that it was fitted on. With 0 a vote stops only if the rest cannot change
        the result. Of classes with equally many votes the first one leads.

    Raises
    ------
    ValueError
        If there are no rows, or an argument is outside its range.

    Notes
    -----
    The bound is on the mean disagreement over the calibration rows and the random
    orders; it was measured in fresh orders, and kept with some room. About other rows
    it is an estimate. A tie goes to the first class.
    """
    table, n_voters = _check_counts(counts)
    min_votes = check_min_votes(min_votes, n_voters)
    steps = np.arange(min_votes, n_voters)
    if exit_points is not None:
        steps = check_exit_points(exit_points, n_voters, least=0)
    steps = steps[steps >= min_votes].astype(np.int64)
    sequence = natural_order(order, n_voters)
    n_orders = check_n_orders(n_orders, len(table))
    rng = np.random.default_rng(random_state)
    certain = _certain_limits(n_voters, steps)
    # Fewer voters left can change less.
    spread = np.sqrt(1.0 - steps / n_voters)
    walk = _walk_votes(table, steps, spread, n_orders, rng)
    fresh = _walk_votes(table, steps, spread, n_orders, rng)
    moved = None
    if len(steps):
        moved = _moved_margins(walk, fresh, steps, n_voters, 1.0)

    def best_at(max_disagreement: float) -> FittedRule:
        bound = check_max_disagreement(max_disagreement)
        target = target_below(bound, len(table) * n_orders)
        if target == 0.0 or moved is None:
            assert fresh.certain is not None
            rule = ExitRule.by_lead(sequence, steps, certain)
            return FittedRule(rule, *_stopped(fresh.certain, steps, n_voters))
        found = moved.at(target, target)
        lead = spread * (found.thresholds + found.by)
        limits = np.maximum(certain, _limits(lead, n_voters))
        rule = ExitRule.by_lead(sequence, steps, limits)
        return FittedRule(rule, found.trees, found.disagreement, found.undecided)

    return best_at


def _moved_margins(
    walk: Walk,
    fresh: Walk,
    exit_points: NDArray[np.int64],
    n_trees: int,
    unit: float,
) -> MovedThresholds[NDArray[np.float64]]:
    """Return margins to be moved, one for each exit point.

    Parameters
    ----------
    walk, fresh : Walk
        Where margins are fitted, and where they are measured.
    exit_points : ndarray of shape (n_exit_points,)
        Exit points, at least one.
    n_trees : int
        Number of trees.
    unit : float
        A small move.
    """
    from spinney.calibration.recursion import margin_solver as solver_of

    costs = np.append(exit_points, n_trees).astype(np.float64)
    n_paths = walk.lead.shape[1]
    solve = solver_of(walk.lead, walk.wrong, n_paths, costs, n_bins=N_BINS)
    least = np.nextafter(walk.lead.min(axis=1), -np.inf, dtype=np.float32)

    def fit(level: float) -> NDArray[np.float64]:
        # Where all paths stop, a margin just below all leads can still be moved.
        return smoothed(np.maximum(solve(level), least), exit_points, n_trees)

    def beyond(margins: NDArray[np.float64]) -> Beyond:
        for k, margin in enumerate(margins.astype(np.float32)):
            excess = fresh.lead[k] - margin
            if fresh.certain is not None:
                excess[fresh.certain[k]] = np.inf
            yield excess, fresh.wrong[k]

    return MovedThresholds(fit, beyond, costs, unit)


def _stopped(
    stops: NDArray[np.bool_], exit_points: NDArray[np.int64], n_trees: int
) -> tuple[float, float, NDArray[np.float64]]:
    """Return trees, disagreement and shares that go on, of exits that are certain."""
    undecided = 1.0 - np.logical_or.accumulate(stops, axis=0).mean(axis=1)
    costs = np.append(exit_points, n_trees)
    return float(costs[0] + undecided @ np.diff(costs)), 0.0, undecided


def _walk_votes(
    counts: NDArray[np.int64],
    exit_points: NDArray[np.int64],
    spread: NDArray[np.float64],
    n_orders: int,
    rng: np.random.Generator,
) -> Walk:
    """Walk through rows in random orders.

    The lead is divided by its standard deviation if the votes for the two classes were
    drawn like coins: what a state is worth depends on little else.

    Returns
    -------
    walk : Walk
        Leads in these units.
    """
    from spinney.sequential.walk_kernels import walk_votes

    shape = (len(exit_points), len(counts), n_orders)
    leaders = np.empty(shape, dtype=np.int32)
    runners = np.empty(shape, dtype=np.int32)
    wrong = np.empty(shape, dtype=np.bool_)
    walk_votes(counts, exit_points, random_word(rng), leaders, runners, wrong)
    flat = (len(exit_points), len(counts) * n_orders)
    lead = np.empty(flat, dtype=np.float32)
    certain = np.empty(flat, dtype=np.bool_)
    left = counts[0].sum() - exit_points
    for k, (leader, runner) in enumerate(zip(leaders, runners, strict=True)):
        relative = (leader - runner) / np.sqrt(np.maximum(leader + runner, 1))
        lead[k] = relative.ravel() / spread[k]
        certain[k] = (leader - runner > left[k]).ravel()
    return Walk(lead, wrong.reshape(flat), certain)


def _limits(lead: NDArray[np.float64], n_voters: int) -> NDArray[np.int32]:
    """Return the most votes of a runner-up that is as far behind as `lead`.

    Parameters
    ----------
    lead : ndarray of shape (n_exit_points,)
        By how much the leader has to be ahead, over the root of the votes of both.
    n_voters : int
        Number of voters.

    Returns
    -------
    limits : ndarray of shape (n_exit_points, n_voters + 1), dtype=int32
        For every number of votes of the leader; -1 if there is none.
    """
    # With s = leader + runner-up and d = leader - runner-up, d = lead * sqrt(s) and
    # s = 2 * leader - d: a quadratic equation for d.
    leader = np.arange(n_voters + 1)
    lead = np.clip(lead, -1.0, n_voters)[:, None]
    behind = 0.5 * lead * (np.sqrt(lead**2 + 8.0 * leader) - lead)
    limits = np.ceil(leader - behind) - 1.0
    return np.clip(limits, -1, leader).astype(np.int32)


def _certain_limits(n_voters: int, exit_points: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the limits up to which no rest of the votes can change the result."""
    left = n_voters - exit_points[:, None]
    limits = np.arange(n_voters + 1) - left - 1
    return np.maximum(limits, -1).astype(np.int32)


def margin_solver(
    scores: ArrayLike,
    *,
    exit_points: ArrayLike,
    winners: ArrayLike | None = None,
    score_range: tuple[ArrayLike, ArrayLike] | None = None,
    order: ArrayLike | None = None,
    n_orders: int | None = None,
    random_state: Any = None,
) -> Callable[[float], FittedRule]:
    """Return what finds margins with which few trees are evaluated on average.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees, n_classes)
        Score of every tree for every class on the calibration rows, finite, of at
        least two classes; the full ensemble chooses the class with the largest sum,
        the first of several.
    exit_points
        As in `spinney.sequential.soft.soft_solver`.
    winners : array-like of shape (n_rows,), dtype=int, optional
        Class that the full ensemble chooses, where rounding makes it differ from what
        the scores say.
    score_range : tuple of two array-likes of shape (n_trees,), optional
        Least and largest score that each tree can give to any class.
    order, n_orders, random_state
        As in `spinney.sequential.soft.soft_solver`.

    Returns
    -------
    best_at : callable
        Takes `max_disagreement`, the largest allowed mean disagreement with the full
        ensemble, in ``[0, 1)``, and returns a `FittedRule`: a margin for each exit
        point. With 0 a row stops only if the trees
        left cannot change its result, which `score_range` tells; without it, never.

    Raises
    ------
    ValueError
        If there are no rows, or an argument is outside its range.

    Notes
    -----
    The bound means what it means for `spinney.sequential.soft.soft_solver`.
    """
    table = check_scores(scores, 3)
    n_rows, n_trees, n_classes = table.shape
    steps = check_exit_points(exit_points, n_trees)
    if n_classes < 2:
        msg = f"scores must be of at least two classes, got {n_classes}."
        raise InvalidArgumentError(msg)
    if winners is None:
        chosen = table.sum(axis=1, dtype=np.float64).argmax(axis=1).astype(np.int64)
    else:
        chosen = np.asarray(winners, dtype=np.int64)
        if chosen.shape != (n_rows,):
            msg = f"winners must have shape ({n_rows},), got {chosen.shape}."
            raise InvalidArgumentError(msg)
    n_orders = check_n_orders(n_orders, n_rows)
    rng = np.random.default_rng(random_state)
    sequence = natural_order(order, n_trees)
    spread = np.sqrt(steps * (n_trees - steps) / n_trees)
    fresh = _walk_margins(table, chosen, steps, spread, n_orders, rng)
    moved = None
    if len(steps):
        walk = _walk_margins(table, chosen, steps, spread, n_orders, rng)
        unit = float(table.std(axis=1).mean())
        moved = _moved_margins(walk, fresh, steps, n_trees, unit)

    def best_at(max_disagreement: float) -> FittedRule:
        bound = check_max_disagreement(max_disagreement)
        target = target_below(bound, n_rows * n_orders)
        if target == 0.0 or moved is None:
            margin = _certain_margins(n_trees, steps, score_range)
            ahead = fresh.lead * spread[:, None] > margin[:, None]
            rule = ExitRule.by_margin(sequence, steps, margin)
            return FittedRule(rule, *_stopped(ahead, steps, n_trees))
        found = moved.at(target, target)
        margin = spread * (found.thresholds + found.by)
        rule = ExitRule.by_margin(sequence, steps, margin)
        return FittedRule(rule, found.trees, found.disagreement, found.undecided)

    return best_at


def _walk_margins(
    scores: NDArray[np.float32],
    winners: NDArray[np.int64],
    exit_points: NDArray[np.int64],
    spread: NDArray[np.float64],
    n_orders: int,
    rng: np.random.Generator,
) -> Walk:
    """Walk through rows in random orders, with margins over their spread."""
    from spinney.sequential.walk_kernels import walk_margins

    shape = (len(exit_points), len(scores), n_orders)
    margins = np.empty(shape, dtype=np.float32)
    wrong = np.empty(shape, dtype=np.bool_)
    walk_margins(scores, winners, exit_points, random_word(rng), margins, wrong)
    margins /= spread[:, None, None].astype(np.float32)
    flat = (len(exit_points), len(scores) * n_orders)
    return Walk(margins.reshape(flat), wrong.reshape(flat))


def _certain_margins(
    n_trees: int,
    exit_points: NDArray[np.int64],
    score_range: tuple[ArrayLike, ArrayLike] | None,
) -> NDArray[np.float64]:
    """Return the margins that no rest of the trees can make up for."""
    if score_range is None:
        return np.full(len(exit_points), np.inf)
    least, most = check_score_range(score_range, n_trees)
    # In the worst case the trees left are those that can tell two classes most apart.
    swings = np.sort(most - least)[::-1]
    swings = np.append(0.0, np.cumsum(swings))
    return swings[n_trees - exit_points] + rounding_room(least, most)


def _check_counts(counts: ArrayLike) -> tuple[NDArray[np.int64], int]:
    """Return the counts as the kernels want them and the number of voters, or raise."""
    given = np.asarray(counts)
    if given.ndim != 2 or not given.shape[0] or given.shape[1] < 2:
        msg = (
            "counts must have one row per calibration row and one column per class, at "
            f"least one row and two columns, got shape {given.shape}."
        )
        raise InvalidArgumentError(msg)
    table = np.ascontiguousarray(given, dtype=np.int64)
    if not np.array_equal(table, given) or (table < 0).any():
        msg = "counts must be numbers of votes: integers, not negative."
        raise InvalidArgumentError(msg)
    n_voters = table.sum(axis=1)
    if n_voters[0] < 1 or (n_voters != n_voters[0]).any():
        msg = (
            "counts must be of the same number of voters in every row, at least one, "
            f"got from {n_voters.min()} to {n_voters.max()}."
        )
        raise InvalidArgumentError(msg)
    return table, int(n_voters[0])
