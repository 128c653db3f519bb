"""Early stopping for trees whose scores are added up, in random order.

The state is the number of trees evaluated and the sum of their scores. How a row's
partial sums behave under a random order is known exactly: draws without replacement
from its scores. So every calibration row is walked through in many orders, which is
what keeps the thresholds from fitting a lucky one, and the backward recursion of
`spinney.calibration.recursion` finds the thresholds with the fewest trees on all these
paths.

Single thresholds still follow single rows a little. Measured in standard deviations of
a partial sum, good thresholds change slowly on the way, so they are averaged over
neighbouring exit points; then all are moved outwards together until the bound holds in
fresh orders. That costs no trees at equal disagreement on new rows, and the
disagreement there comes down to what the calibration rows say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.base.parameters import check_count
from spinney.calibration.bounds import check_max_disagreement
from spinney.calibration.fitted_rule import FittedRule
from spinney.errors import InvalidArgumentError
from spinney.runtime.exit_rule import ExitRule
from spinney.runtime.order_checks import check_exit_points, check_order
from spinney.sequential.moved_thresholds import Beyond, MovedThresholds

if TYPE_CHECKING:
    from spinney.calibration.recursion import Cuts

Numbers = NDArray[np.float64]

# Orders of each row, and paths in all, at least.
N_ORDERS, N_PATHS = 50, 100_000
N_BINS = 2048
# Exit points are neighbours if their odds, trees evaluated to trees left, differ by a
# factor of about 1.25.
NEIGHBOURHOOD = 0.22
# Aimed at a little less than the bound: what fitting takes from the calibration rows
# in spite of all this was 0 to 5 % where it was measured.
AIM = 0.95


def soft_strategy(
    scores: ArrayLike,
    max_disagreement: float,
    *,
    exit_points: ArrayLike,
    beta: float = 0.0,
    positive: ArrayLike | None = None,
    score_range: tuple[ArrayLike, ArrayLike] | None = None,
    order: ArrayLike | None = None,
    start: float = 0.0,
    n_orders: int | None = None,
    random_state: Any = None,
) -> FittedRule:
    """Return thresholds with which the fewest trees are evaluated on average.

    Parameters
    ----------
    scores : array-like of shape (n_rows, n_trees)
        Score of every tree for the calibration rows, finite; the full ensemble says
        "positive" if their sum is above `beta`.
    max_disagreement : float
        Largest allowed mean disagreement with the full ensemble, in ``[0, 1)``. With 0
        a row stops only if the trees left cannot change its result, which
        `score_range` tells; without it, never.
    exit_points : array-like of shape (n_exit_points,)
        Numbers of trees after which a row may exit, increasing, from 1 to
        ``n_trees - 1``. May be empty.
    beta : float, default=0.0
        What the sum of all scores has to exceed. A tie is negative.
    positive : array-like of shape (n_rows,), dtype=bool, optional
        Decision of the full ensemble, where rounding makes it differ from what the
        scores say.
    score_range : tuple of two array-likes of shape (n_trees,), optional
        Least and largest score that each tree can give.
    order : array-like of shape (n_trees,), optional
        The order that the rule is for, drawn at random; None for the natural one.
    start : float, default=0.0
        What sums begin with where the rule is used; thresholds are moved by it.
    n_orders : int, optional
        Random orders in which each calibration row is walked through; None for 50, or
        more if there are few rows.
    random_state : int, Generator or None, default=None
        Draws the orders.

    Returns
    -------
    fitted : FittedRule
        The thresholds. How many trees are evaluated and how many rows disagree is
        measured on the calibration rows, in orders other than those that the
        thresholds were fitted on.

    Raises
    ------
    ValueError
        If there are no rows, or an argument is outside its range.

    Notes
    -----
    The bound is on the mean disagreement over the calibration rows and the random
    orders. It was measured in fresh orders, so what it says about the order holds; what
    it says about other rows is an estimate, as good as the calibration rows stand for
    them. An order that depends on the scores breaks it.
    """
    best_at = soft_solver(
        scores,
        exit_points=exit_points,
        beta=beta,
        positive=positive,
        score_range=score_range,
        order=order,
        start=start,
        n_orders=n_orders,
        random_state=random_state,
    )
    return best_at(max_disagreement)


def soft_solver(
    scores: ArrayLike,
    *,
    exit_points: ArrayLike,
    beta: float = 0.0,
    positive: ArrayLike | None = None,
    score_range: tuple[ArrayLike, ArrayLike] | None = None,
    order: ArrayLike | None = None,
    start: float = 0.0,
    n_orders: int | None = None,
    random_state: Any = None,
) -> Callable[[float], FittedRule]:
    """Return what finds a `soft_strategy` for one bound after another.

    Rows are walked through once, in the same orders for all bounds, which takes longer
    than to find thresholds for one of them.

    Parameters
    ----------
    scores, exit_points, beta, positive, score_range, order, start, n_orders
        As in `soft_strategy`.
    random_state
        As in `soft_strategy`.

    Returns
    -------
    best_at : callable
        Takes `max_disagreement` and returns a `FittedRule`.
    """
    table = check_scores(scores, 2)
    n_rows, n_trees = table.shape
    steps = check_exit_points(exit_points, n_trees)
    sequence = natural_order(order, n_trees)
    n_orders = check_n_orders(n_orders, n_rows)
    if positive is None:
        full = table.sum(axis=1, dtype=np.float64) > beta
    else:
        full = np.asarray(positive, dtype=np.bool_)
        if full.shape != (n_rows,):
            msg = f"positive must have shape ({n_rows},), got {full.shape}."
            raise InvalidArgumentError(msg)
    rng = np.random.default_rng(random_state)
    first = _Walk(table, steps, full, n_orders, rng)
    # Deviation of a partial sum under random order, up to that of the scores.
    spread = np.sqrt(steps * (n_trees - steps) / n_trees)
    middle = beta * steps / n_trees

    @cache
    def solver() -> Callable[[float], Cuts]:
        from spinney.calibration.recursion import threshold_solver

        return threshold_solver(first.sums, first.full, first.costs, n_bins=N_BINS)

    @cache
    def extremes() -> tuple[Numbers, Numbers]:
        least, most = first.sums.min(axis=1), first.sums.max(axis=1)
        return np.nextafter(least, -np.inf), np.nextafter(most, np.inf)

    def fit(level: float) -> tuple[Numbers, Numbers]:
        found = solver()(level)
        # Where all paths stop, thresholds just beyond them all can still be moved.
        least, most = extremes()
        lower, upper = np.minimum(found.lower, most), np.maximum(found.upper, least)
        low = smoothed((lower - middle) / spread, steps, n_trees)
        return low, smoothed((upper - middle) / spread, steps, n_trees)

    @cache
    def moved() -> MovedThresholds[tuple[Numbers, Numbers]]:
        fresh = _Walk(table, steps, full, n_orders, rng)

        def beyond(thresholds: tuple[Numbers, Numbers]) -> Beyond:
            places = zip(fresh.sums, middle, spread, *thresholds, strict=True)
            for sums, centre, scale, low, high in places:
                here = (sums - np.float32(centre)) / np.float32(scale)
                below, above = np.float32(low) - here, here - np.float32(high)
                yield np.maximum(below, above), (above > below) != fresh.full

        return MovedThresholds(
            fit, beyond, first.costs, float(table.std(axis=1).mean())
        )

    def best_at(max_disagreement: float) -> FittedRule:
        bound = check_max_disagreement(max_disagreement)
        n_paths = n_rows * n_orders
        if not len(steps) or bound == 0.0:
            lower, upper = certain_thresholds(n_trees, steps, beta, score_range)
            rule = ExitRule.between(sequence, steps, start + lower, start + upper)
            return FittedRule(rule, *first.measure(lower, upper))
        found = moved().at(target_below(bound, n_paths), 1.0 / n_paths)
        low, high = found.thresholds
        lower, upper = low - found.by, high + found.by
        # Moved inwards beyond one another, they meet halfway.
        crossed = lower > upper
        lower[crossed] = upper[crossed] = 0.5 * (lower[crossed] + upper[crossed])
        lower, upper = middle + spread * lower, middle + spread * upper
        rule = ExitRule.between(sequence, steps, start + lower, start + upper)
        return FittedRule(rule, found.trees, found.disagreement, found.undecided)

    return best_at


def target_below(bound: float, n_paths: int) -> float:
    """Return the disagreement to aim at on the paths, to be below the bound at large.

    Parameters
    ----------
    bound : float
        The bound.
    n_paths : int
        Number of paths on which the disagreement is measured.
    """
    # One standard deviation of what is measured, if that is more.
    room = max((1.0 - AIM) * bound, float(np.sqrt(bound / n_paths)))
    return max(bound - room, 0.0)


class _Walk:
    """Rows walked through in random orders."""

    def __init__(
        self,
        scores: NDArray[np.float32],
        exit_points: NDArray[np.int64],
        positive: NDArray[np.bool_],
        n_orders: int,
        random_state: Any,
    ) -> None:
        from spinney.sequential.walk_kernels import walk_scores

        n_rows, n_trees = scores.shape
        n_paths = n_rows * n_orders
        self.costs = np.append(exit_points, n_trees).astype(np.float64)
        self.full = np.repeat(positive, n_orders)
        shape = (len(exit_points), n_rows, n_orders)
        sums = np.empty(shape, dtype=np.float32)
        state = random_word(np.random.default_rng(random_state))
        walk_scores(scores, exit_points, state, sums)
        self.sums = sums.reshape(len(exit_points), n_paths)

    def measure(self, lower: Numbers, upper: Numbers) -> tuple[float, float, Numbers]:
        """Return expected trees, disagreement and shares of undecided rows."""
        from spinney.calibration.recursion import follow_thresholds

        stop_at, wrong = follow_thresholds(self.sums, self.full, lower, upper)
        n_paths = len(self.full)
        by_point = np.bincount(stop_at, minlength=len(self.costs))
        return (
            float(by_point @ self.costs / n_paths),
            float(wrong.sum() / n_paths),
            1.0 - np.cumsum(by_point[:-1]) / n_paths,
        )


def random_word(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return a state for the generator of the kernels."""
    return rng.integers(1, 2**63, size=1).astype(np.uint64)


def smoothed(
    thresholds: Numbers, exit_points: NDArray[np.int64], n_trees: int
) -> Numbers:
    """Return thresholds averaged over neighbouring exit points.

    Parameters
    ----------
    thresholds : ndarray of shape (n_exit_points,)
        In units in which they change little. Those at infinity stay there.
    exit_points : ndarray of shape (n_exit_points,)
        Numbers of trees evaluated.
    n_trees : int
        Number of trees.
    """
    odds = np.log((exit_points + 0.5) / (n_trees - exit_points))
    result = thresholds.copy()
    finite = np.isfinite(thresholds)
    distance = (odds[finite, None] - odds[finite]) / NEIGHBOURHOOD
    share = np.exp(-0.5 * distance**2)
    result[finite] = share @ thresholds[finite] / share.sum(axis=1)
    return result


def certain_thresholds(
    n_trees: int,
    exit_points: NDArray[np.int64],
    beta: float,
    score_range: tuple[ArrayLike, ArrayLike] | None,
) -> tuple[Numbers, Numbers]:
    """Return thresholds beyond which the trees left cannot change the result.

    Parameters
    ----------
    n_trees : int
        Number of trees.
    exit_points : ndarray of shape (n_exit_points,)
        Numbers of trees after which a row may exit.
    beta : float
        What the sum of all scores has to exceed.
    score_range : tuple of two array-likes of shape (n_trees,), or None
        Least and largest score of each tree; None if they are not known.
    """
    if score_range is None:
        return np.full(len(exit_points), -np.inf), np.full(len(exit_points), np.inf)
    least, most = check_score_range(score_range, n_trees)
    # Which trees are left is not known: the worst case is that of the most extreme.
    left = n_trees - exit_points
    falls = np.append(0.0, np.cumsum(np.sort(least)))[left]
    rises = np.append(0.0, np.cumsum(np.sort(most)[::-1]))[left]
    room = rounding_room(least, most) + abs(beta) * 2.0**-50
    return beta - rises - room, beta - falls + room


def rounding_room(least: Numbers, most: Numbers) -> float:
    """Return more than sums of such scores can differ by rounding."""
    largest = np.maximum(np.abs(least), np.abs(most)).sum()
    return float(largest) * len(least) * 2.0**-50


def check_score_range(
    score_range: tuple[ArrayLike, ArrayLike], n_trees: int
) -> tuple[Numbers, Numbers]:
    """Return the least and the largest score of each tree, or raise."""
    least, most = (np.asarray(end, dtype=np.float64) for end in score_range)
    for end in (least, most):
        if end.shape != (n_trees,) or not np.isfinite(end).all():
            msg = f"score_range must be two arrays of {n_trees} finite numbers each."
            raise InvalidArgumentError(msg)
    if (least > most).any():
        msg = "score_range must be the least scores first and then the largest."
        raise InvalidArgumentError(msg)
    return least, most


def natural_order(order: ArrayLike | None, n_trees: int) -> NDArray[np.int64]:
    """Return an order of trees, the natural one if none is given, or raise."""
    return np.arange(n_trees) if order is None else check_order(order, n_trees)


def check_n_orders(n_orders: Any, n_rows: int) -> int:
    """Return the number of orders as an int, or raise."""
    if n_orders is None:
        return max(N_ORDERS, -(-N_PATHS // n_rows))
    return check_count("n_orders", n_orders, 1)


def check_scores(scores: ArrayLike, n_axes: int) -> NDArray[np.float32]:
    """Return scores as the kernels want them, or raise."""
    table = np.asarray(scores)
    if table.ndim != n_axes or not all(table.shape):
        axes = ("calibration row", "tree", "class")[:n_axes]
        msg = (
            f"scores must have {n_axes} axes, one number per {', '.join(axes)}, at "
            f"least one of each, got shape {table.shape}."
        )
        raise InvalidArgumentError(msg)
    if not np.isfinite(table).all():
        msg = "scores must be finite, got NaN or infinity."
        raise InvalidArgumentError(msg)
    return np.ascontiguousarray(table, dtype=np.float32)
