"""Least votes under a bound on the disagreement for every number of positive voters.

Both problems here are linear programs over all mixtures of stop rules: too many to
write down, but only a few rules and a few numbers of positive voters matter. So a
small program, the master, knows the rules met so far and the constraints that were
violated so far. Its dual prices tell what a vote and a disagreement are worth for each
number of positive voters; the backward recursion finds the best rule at these prices,
which joins the master. The cost of that best rule also bounds the optimum from below,
and the search ends when the two meet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spinney.sequential.evaluation import Evaluated, cheapest_rule, evaluate
from spinney.sequential.master import Master
from spinney.sequential.minimean import Progress, Solution, solve_minimean
from spinney.sequential.proof import rounding_error

# Of the billionth that is promised, part is left to adjustments.
RELATIVE_GAP = 2e-10
SECOND_STAGE_GAP = 1e-7
# Mean votes that one vote more in the worst case is worth in the second stage of
# minimax. If that is too cheap, the worst case grows by more than the room that it has,
# relatively, and the next price is tried.
PENALTIES = (1e7, 1e8)
SECOND_STAGE_ROOM = 7e-10
MAX_ROUNDS = 2000


def _generate(
    master: Master,
    start: NDArray[np.float64],
    bound: float,
    may_stop: NDArray[np.bool_],
    gap: float,
    on_round: Progress | None,
) -> Solution:
    """Add rules and constraints to `master` until it is optimal.

    Parameters
    ----------
    master : Master
        The program to start from.
    start : ndarray of shape (n_columns,)
        A mixture that keeps all bounds, to fall back on.
    bound, may_stop, on_round
        As in `spinney.sequential.minimean.solve_minimean`.
    gap : float
        Relative gap that will do.
    """
    n_voters = len(master.votes) - 1
    symmetric = n_voters % 2 == 1 and (
        master.mean is None or np.array_equal(master.mean, master.mean[::-1])
    )
    error = rounding_error(n_voters)
    best, best_bound = start, -np.inf
    for _ in range(MAX_ROUNDS):
        solved = master.solve()
        if solved is None:
            break
        weights, time_prices, wrong_prices = solved
        if master.mean is None:
            # The prices of votes are a distribution, up to the tolerance of HiGHS.
            total = time_prices.sum()
            time_prices, wrong_prices = time_prices / total, wrong_prices / total
            time_weights = time_prices
        else:
            time_weights = time_prices + master.mean
        least, rule = cheapest_rule(time_weights, wrong_prices, may_stop)
        at_least = least * (1.0 - error) - bound * float(wrong_prices.sum())
        if master.limit is not None:
            at_least -= master.limit * float(time_prices.sum())
        best_bound = max(best_bound, at_least)
        value = master.value(master.votes @ weights)
        left = (value - best_bound) / max(value, 1e-300)
        if on_round is not None:
            on_round(left)
        complete = not master.add_violated(weights)
        if complete:
            best = weights
            if left <= gap:
                break
        is_new = master.add(evaluate(rule))
        if symmetric:
            # Where positive and negative are alike, prices need not be told apart, but
            # HiGHS does: the mirror image is as good and ends that in few rounds.
            is_new |= master.add(evaluate(rule.mirrored()))
        if not is_new and complete:
            break  # as far as floats can tell, this is the optimum
    best = np.append(best, np.zeros(len(master.columns) - len(best)))
    return Solution(master.columns, master.adjusted(best), best_bound)


def _first_columns(
    time_weights: NDArray[np.float64],
    bound: float,
    target: float,
    may_stop: NDArray[np.bool_],
    safe: Evaluated,
) -> list[Evaluated]:
    """Return the rules that a search with one constraint meets.

    The constraint is the mean disagreement at the two closest results, which are the
    hardest to tell apart: the rules are close to those needed, and few rounds follow.
    """
    found: list[Evaluated] = []
    closest = _closest_results(len(time_weights) - 1)
    solve_minimean(time_weights, closest, bound, target, may_stop, safe, found=found)
    return found


def _closest_results(n_voters: int) -> NDArray[np.float64]:
    weights = np.zeros(n_voters + 1)
    weights[n_voters // 2 : n_voters // 2 + 2] = 0.5
    return weights


def solve_minimixed(
    mean: NDArray[np.float64],
    bound: float,
    target: float,
    may_stop: NDArray[np.bool_],
    safe: Evaluated,
    on_round: Progress | None = None,
) -> Solution:
    """Minimise the mean votes under a bound on the worst-case disagreement.

    Parameters
    ----------
    mean : ndarray of shape (n_voters + 1,)
        Distribution of the number of positive voters.
    bound, target, may_stop, safe, on_round
        As in `spinney.sequential.minimean.solve_minimean`.
    """
    half = (len(mean) - 1) // 2
    columns = _first_columns(mean, bound, target, may_stop, safe)
    master = Master(columns, target, [half, half + 1], mean=mean)
    start = _first_only(len(columns))
    return _generate(master, start, bound, may_stop, RELATIVE_GAP, on_round)


def solve_minimax(
    mean: NDArray[np.float64],
    bound: float,
    target: float,
    may_stop: NDArray[np.bool_],
    safe: Evaluated,
    on_round: Progress | None = None,
) -> Solution:
    """Minimise the worst-case votes under a bound on the worst-case disagreement.

    Many mixtures are optimal; among them one with the least mean votes is returned.
    The corners and weights are those of the second stage, the lower bound is that of
    the first.

    Parameters
    ----------
    mean : ndarray of shape (n_voters + 1,)
        Distribution of the number of positive voters, for the second stage.
    bound, target, may_stop, safe, on_round
        As in `spinney.sequential.minimean.solve_minimean`.
    """
    n_voters = len(mean) - 1
    closest = _closest_results(n_voters)
    middle = [n_voters // 2, n_voters // 2 + 1]
    columns = _first_columns(closest, bound, target, may_stop, safe)
    first = Master(columns, target, middle, middle)
    start = _first_only(len(columns))
    best = _generate(first, start, bound, may_stop, RELATIVE_GAP, on_round)
    limit = float((first.votes @ best.weights).max())
    error = 1.0 + rounding_error(n_voters)
    for penalty in PENALTIES:
        second = Master(
            best.corners,
            target,
            first.wrong_rows,
            first.time_rows,
            mean=mean,
            limit=limit,
            penalty=penalty,
        )
        found = _generate(
            second, best.weights, bound, may_stop, SECOND_STAGE_GAP, on_round
        )
        worst = float((second.votes @ found.weights).max())
        wrong = float((second.wrong @ found.weights).max())
        if worst <= limit * (1.0 + SECOND_STAGE_ROOM) and wrong <= target * error:
            return Solution(found.corners, found.weights, best.lower_bound)
    return best


def _first_only(n_columns: int) -> NDArray[np.float64]:
    """Return the mixture that always draws the first rule, which never disagrees."""
    weights = np.zeros(n_columns)
    weights[0] = 1.0
    return weights
