"""Least mean cost under one bound on the disagreement, for scores that add up.

A process visits check points ``0, 1, ..., n_checks - 1``. At each it has a number, the
partial sum of some scores, and may stop there with the prediction "negative" or
"positive", or go on. After the last check the full ensemble decides, at its full cost
and with no disagreement. The rule is a pair of thresholds per check: negative below
`lower`, positive above `upper`, go on between the two.

Given sample paths of the partial sums (rows in one fixed order, or rows in many random
orders) and the full decision of each, the thresholds are found that minimise the mean
cost while the mean disagreement, over the same paths, stays below a bound. For a price
of a disagreement this is done backwards: at the last check, every score bin is worth
what it costs to stop there, or what it costs on average to go on, whichever is less; at
the check before, going on is worth what the paths in a bin really cost under the
thresholds found for later checks, and so on. The stop regions are the two tails of a
check, and the best pair of cuts is found over all pairs. Since each path is followed to
its end, costs and disagreement are those of the thresholds on the paths as they are:
binning restricts where a threshold may lie, and nothing else. (For a process whose next
number depends on more than the present one, as that of a row whose identity is not
known to the rule, a recursion over bins alone would be off.)

The price is then searched by intersecting lines: the two current end rules, one below
the bound and one above, span a line in the plane of (disagreement, cost), and its slope
is the next price. What the best rule found leaves of the bound is then used up by
stopping in a few more bins; there is no chance in the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney.calibration.bounds import check_max_disagreement
from spinney.calibration.recursion_kernels import find_cuts, use_room
from spinney.errors import InvalidArgumentError

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_BINS = 2**15
# Edges come from this many paths at most: more would not place them better.
EDGE_SAMPLE = 50_000
# The first sweep weighs all paths at every check. The others weigh those that get there
# under the rule found so far, each of which can only lower the sum of costs; nearly all
# of that comes with the first of them.
N_SWEEPS = 2
MAX_ROUNDS = 60
# Two prices closer than this make no difference.
CLOSE_PRICES = 1.02


@dataclass(frozen=True)
class Paths:
    """Sample paths through the states of a process, ready for the recursion.

    Parameters
    ----------
    codes : ndarray of shape (n_checks, n_paths), dtype=uint16
        State of each path at each check, times two, plus one if stopping upwards there
        disagrees with the full ensemble. Stopping downwards disagrees if that does not.
    starts : ndarray of shape (n_groups + 1,), dtype=int64
        States ``starts[g]`` to ``starts[g + 1]``, without the last, form group ``g``;
        each group has cuts of its own, and within a group the states are in order.
    """

    codes: NDArray[np.uint16]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class Cuts:
    """Where to stop at each check, and what that does on the paths.

    Parameters
    ----------
    lower, upper : ndarray
        From `solve`: states, of shape (n_checks, n_groups), dtype=int64; paths stop
        downwards in states of a group below `lower`, upwards from `upper` on. As
        thresholds: numbers, of shape (n_checks,); paths stop downwards ("negative") if
        their number is below `lower`, upwards ("positive") if it is above `upper`;
        ``-inf`` and ``inf`` where that never happens, and ``lower <= upper``.
    mean_cost : float
        Mean cost of a path.
    disagreement : float
        Share of the paths whose prediction is not that of the full ensemble.
    """

    lower: NDArray[Any]
    upper: NDArray[Any]
    mean_cost: float
    disagreement: float


def solve(
    paths: Paths,
    costs: Numbers,
    bound: float,
    exits: str = "both",
    known: dict[float, Cuts] | None = None,
) -> Cuts:
    """Return the cuts with the least mean cost whose disagreement keeps a bound.

    Parameters
    ----------
    paths : Paths
        The sample paths.
    costs : ndarray of shape (n_checks + 1,)
        Cost of stopping at each check, and of going on to the end; not decreasing.
    bound : float
        Largest allowed share of the paths that disagree.
    exits : {"both", "negative", "positive"}, default="both"
        Which stops are allowed: both, only downwards, or only upwards.
    known : dict, optional
        The best cuts for some prices of a disagreement, on the same paths, from which
        the search sets out; those found on the way are added.
    """
    known = {} if known is None else known
    n_checks, n_paths = paths.codes.shape
    starts = paths.starts
    shape = (n_checks, len(starts) - 1)
    stop_at = np.empty(n_paths, dtype=np.int32)
    wrong = np.empty(n_paths, dtype=np.bool_)
    sample = (paths.codes, starts)
    allowed = (exits != "positive", exits != "negative")

    def measured(lower: NDArray[np.int64], upper: NDArray[np.int64]) -> Cuts:
        by_check = np.bincount(stop_at, minlength=n_checks + 1)
        disagreement = np.count_nonzero(wrong) / n_paths
        return Cuts(lower, upper, float(by_check @ costs / n_paths), disagreement)

    def best_at(price: float) -> Cuts:
        if price in known:
            return known[price]
        lower, upper = np.empty(shape, np.int64), np.empty(shape, np.int64)
        reach = np.full(n_paths, n_checks, dtype=np.int32)
        for _ in range(N_SWEEPS):
            outputs = (reach, lower, upper, stop_at, wrong)
            arguments: tuple[Any, ...] = (*sample, costs, price, *allowed, *outputs)
            find_cuts(*arguments)
            reach = stop_at.copy()
        known[price] = measured(lower, upper)
        return known[price]

    def filled(cuts: Cuts) -> Cuts:
        lower, upper = cuts.lower.copy(), cuts.upper.copy()
        room = (bound - cuts.disagreement) * n_paths
        outputs = (lower, upper, stop_at, wrong)
        arguments: tuple[Any, ...] = (*sample, costs, room, *allowed, *outputs)
        use_room(*arguments)
        found = measured(lower, upper)
        return found if found.disagreement <= bound else cuts

    # Nearly free, but not quite: where both predictions cost the same, the better one.
    wild_price = 1e-6 * float(costs[-1])
    wild = best_at(wild_price)
    if wild.disagreement <= bound:
        return wild
    # A single disagreement costs more than all that can be saved.
    safe_price = 2.0 * float(costs[-1] * n_paths)
    safe = best_at(safe_price)
    for price in sorted(known, reverse=True):
        if known[price].disagreement > bound:
            wild, wild_price = known[price], price
            break
        if known[price].mean_cost < safe.mean_cost:
            safe = known[price]
        safe_price = price
    for _ in range(MAX_ROUNDS):
        price = (safe.mean_cost - wild.mean_cost) / (
            wild.disagreement - safe.disagreement
        )
        if not wild_price < price < safe_price:
            # The recursion is not exact where the process has a memory: its prices may
            # disagree with the slope a little.
            price = float(np.sqrt(wild_price * safe_price))
        if not wild_price * CLOSE_PRICES < price < safe_price / CLOSE_PRICES:
            break
        found = best_at(price)
        if found.disagreement <= bound:
            if found.mean_cost < safe.mean_cost:
                safe = found
            safe_price = price
        else:
            wild, wild_price = found, price
    return filled(safe)


def bin_paths(
    sums: Iterable[ArrayLike],
    risky: Iterable[ArrayLike],
    n_paths: int,
    n_checks: int,
    n_bins: int,
) -> tuple[Paths, list[Numbers]]:
    """Return the paths in bins, and the borders of the bins of each check.

    Parameters
    ----------
    sums : iterable of n_checks arrays of shape (n_paths,)
        The numbers at each check.
    risky : iterable of n_checks arrays of shape (n_paths,)
        Whether stopping upwards disagrees.
    n_paths, n_checks : int
        How many paths and checks there are.
    n_bins
        As in `optimal_thresholds`.
    """
    codes = np.empty((n_checks, n_paths), dtype=np.uint16)
    borders = []
    checks = iter(sums)
    flags = iter(risky)
    for k in range(n_checks):
        values = np.asarray(next(checks, ()))
        if values.shape != (n_paths,):
            msg = (
                f"The sums at exit point {k} must have shape ({n_paths},), got "
                f"{values.shape}. Pass one array per exit point, with a number per "
                "path."
            )
            raise InvalidArgumentError(msg)
        if not np.isfinite(values).all():
            msg = (
                f"The sums at exit point {k} must be finite, got NaN or infinity. Look "
                "for such scores in the model's output."
            )
            raise InvalidArgumentError(msg)
        borders.append(_borders(values, n_bins))
        codes[k] = np.searchsorted(borders[-1], values, side="right")
        codes[k] *= 2
        codes[k] += np.asarray(next(flags), dtype=np.bool_)
    return Paths(codes, np.array([0, n_bins], dtype=np.int64)), borders


def _borders(values: NDArray[np.floating], n_bins: int) -> Numbers:
    """Return up to `n_bins` - 1 numbers, increasing, with as many paths between."""
    sample = values[:: -(-len(values) // EDGE_SAMPLE)].astype(np.float64)
    distinct, counts = np.unique(sample, return_counts=True)
    below = np.cumsum(counts[:-1])
    wanted = np.arange(1, n_bins) * (len(sample) / n_bins)
    chosen = np.unique(np.searchsorted(below, wanted))
    chosen = chosen[chosen < len(below)]
    # Halfway between two values, so that rounding errors of a sum do not matter where
    # scores are multiples of something.
    return 0.5 * distinct[chosen] + 0.5 * distinct[chosen + 1]


def _thresholds(cuts: Cuts, borders: list[Numbers]) -> Cuts:
    """Return cuts between bins as numbers."""
    lower, upper = np.empty(len(borders)), np.empty(len(borders))
    for k, inner in enumerate(borders):
        ends = np.concatenate(
            [[-np.inf], inner, np.full(MAX_BINS - len(inner), np.inf)]
        )
        low, high = cuts.lower[k, 0], cuts.upper[k, 0]
        # A number on a border belongs to the bin above it.
        lower[k] = ends[low]
        upper[k] = np.nextafter(ends[high], -np.inf) if high <= len(inner) else np.inf
        lower[k] = min(lower[k], upper[k])
    return Cuts(lower, upper, cuts.mean_cost, cuts.disagreement)


def optimal_thresholds(
    sums: Iterable[ArrayLike],
    positive: ArrayLike,
    costs: ArrayLike,
    max_disagreement: float,
    *,
    n_bins: int = 64,
    early_exit: str = "both",
) -> Cuts:
    """Return the thresholds with the least mean cost that keep a bound.

    Minimised is the mean, over all paths, of the cost at which a path stops. The bound
    is on the share of all paths that stop with a prediction other than `positive` says:
    it holds for these paths, and for others only as far as these stand for them.

    Parameters
    ----------
    sums : ndarray of shape (n_checks, n_paths), or iterable of n_checks arrays
        Partial sums of every path at every check, finite. They are taken check by
        check and kept in 2 bytes each: an iterable that makes them one by one saves
        memory.
    positive : array-like of shape (n_paths,), dtype=bool
        Decision of the full ensemble for each path.
    costs : array-like of shape (n_checks + 1,)
        Cost of stopping at each check, and last that of the full ensemble; not
        negative and not decreasing.
    max_disagreement : float
        Largest allowed share of the paths, in ``[0, 1)``. With 0 no path disagrees.
    n_bins : int, default=64
        Number of score bins per check, from 2 to 32,768. A threshold lies between two
        bins. Few bins hold back from fitting single paths, which helps if each row
        comes in one order only; with many orders of each row, more are better.
    early_exit : {"both", "negative", "positive"}, default="both"
        Which predictions may be given early.

    Returns
    -------
    thresholds : Cuts
        The thresholds, with mean cost and disagreement on these paths.

    Raises
    ------
    ValueError
        If there are no paths, or an argument is outside its range.

    Notes
    -----
    The thresholds are nearly, not always exactly, the best of those between the bins:
    each check is optimised given the others, and a rule without chance can seldom use
    up the bound.
    """
    best_at = threshold_solver(
        sums,
        positive,
        costs,
        n_bins=n_bins,
        early_exit=early_exit,
    )
    return best_at(max_disagreement)


def threshold_solver(
    sums: Iterable[ArrayLike],
    positive: ArrayLike,
    costs: ArrayLike,
    *,
    n_bins: int = 64,
    early_exit: str = "both",
) -> Callable[[float], Cuts]:
    """Return what finds `optimal_thresholds` for one bound after another.

    Paths are put into bins once, which takes about as long as one solution.

    Parameters
    ----------
    sums, positive, costs, n_bins, early_exit
        As in `optimal_thresholds`.

    Returns
    -------
    best_at : callable
        Takes `max_disagreement` and returns `Cuts`.
    """
    full = np.asarray(positive, dtype=np.bool_)
    prices = _checked_costs(costs, full.size, n_bins)
    n_checks = len(prices) - 1
    paths, borders = bin_paths(sums, repeat(~full), full.size, n_checks, n_bins)
    known: dict[float, Cuts] = {}

    def best_at(max_disagreement: float) -> Cuts:
        bound = check_max_disagreement(max_disagreement)
        found = solve(paths, prices, bound, early_exit, known)
        return _thresholds(found, borders)

    return best_at


def margin_solver(
    margins: Iterable[ArrayLike],
    disagrees: Iterable[ArrayLike],
    n_paths: int,
    costs: ArrayLike,
    *,
    n_bins: int = 64,
) -> Callable[[float], Numbers]:
    """Return what finds margins above which to stop with the class in front.

    Like `threshold_solver`, for several classes: at each check the class in front is
    the prediction if it leads by more than a margin. Whether that is the prediction of
    the full ensemble may change from check to check.

    Parameters
    ----------
    margins : ndarray of shape (n_checks, n_paths), or iterable of n_checks arrays
        Margin between the two best classes of every path at every check.
    disagrees : ndarray of shape (n_checks, n_paths), or iterable of n_checks arrays
        Whether the class in front is not the one that the full ensemble chooses.
    n_paths : int
        Number of paths.
    costs, n_bins
        As in `optimal_thresholds`.

    Returns
    -------
    best_at : callable
        Takes `max_disagreement` and returns the margins, of shape (n_checks,); ``inf``
        where no path stops.
    """
    prices = _checked_costs(costs, n_paths, n_bins)
    n_checks = len(prices) - 1
    paths, borders = bin_paths(margins, disagrees, n_paths, n_checks, n_bins)
    known: dict[float, Cuts] = {}

    def best_at(max_disagreement: float) -> Numbers:
        bound = check_max_disagreement(max_disagreement)
        found = solve(paths, prices, bound, "positive", known)
        return _thresholds(found, borders).upper

    return best_at


def follow_thresholds(
    sums: Iterable[ArrayLike],
    positive: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
) -> tuple[NDArray[np.int64], Flags]:
    """Follow paths to where thresholds stop them.

    Parameters
    ----------
    sums, positive
        As in `optimal_thresholds`.
    lower, upper : array-like of shape (n_checks,)
        The thresholds.

    Returns
    -------
    stop_at : ndarray of shape (n_paths,)
        Check at which each path stops, n_checks for the end: ``costs[stop_at]`` is
        what it costs.
    wrong : ndarray of shape (n_paths,), dtype=bool
        Whether its prediction is not that of the full ensemble.
    """
    full = np.asarray(positive, dtype=np.bool_)
    lows, highs = np.asarray(lower), np.asarray(upper)
    stop_at = np.full(full.shape, len(lows), dtype=np.int64)
    wrong = np.zeros(full.shape, dtype=np.bool_)
    active = np.arange(len(full))
    for k, (low, high, values) in enumerate(zip(lows, highs, sums, strict=False)):
        here = np.asarray(values)[active]
        negative, rising = here < low, here > high
        stop_at[active[negative | rising]] = k
        wrong[active[negative & full[active]]] = True
        wrong[active[rising & ~full[active]]] = True
        active = active[~(negative | rising)]
    return stop_at, wrong


def _checked_costs(costs: ArrayLike, n_paths: int, n_bins: int) -> Numbers:
    """Return costs as numbers, or raise."""
    if n_paths < 1:
        msg = "There must be at least one path, got none. Pass some calibration rows."
        raise InvalidArgumentError(msg)
    prices = np.asarray(costs, dtype=np.float64)
    rising = prices.ndim == 1 and prices.size and np.isfinite(prices).all()
    if not rising or prices[0] < 0.0 or (np.diff(prices) < 0.0).any():
        msg = (
            "costs must be numbers from 0 up that do not decrease, one per exit point "
            f"and last that of the full ensemble, got {costs!r}."
        )
        raise InvalidArgumentError(msg)
    if not 2 <= n_bins <= MAX_BINS:
        msg = f"n_bins must be from 2 to {MAX_BINS}, got {n_bins!r}."
        raise InvalidArgumentError(msg)
    return prices
