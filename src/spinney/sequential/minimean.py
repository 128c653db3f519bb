"""Least mean votes under one bound on the mean disagreement.

For a price of disagreement, one backward recursion finds the rule with the least sum of
votes and priced disagreement. In the plane of (disagreement, votes) such rules are the
corners of a convex curve, and the optimum for a bound lies on the edge that crosses the
bound. Its two ends are found by intersecting: take the line through a corner on either
side, find the best rule at the price that is the slope of the line, and replace one
corner by it, until nothing lies below the line. A mixture of the two ends then meets
the bound exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.sequential.evaluation import Evaluated, cheapest_rule, evaluate
from spinney.sequential.proof import rounding_error

# Far more than are needed: 11 at 101 voters, 20 at 10,001.
MAX_ROUNDS = 500

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Solution:
    """A random choice among deterministic rules, and what is proven about the best one.

    Parameters
    ----------
    corners : list of Evaluated
        The rules.
    weights : ndarray of shape (n_corners,)
        Their probabilities.
    lower_bound : float
        No rule that keeps the bound has a smaller objective.
    """

    corners: list[Evaluated]
    weights: NDArray[np.float64]
    lower_bound: float


def solve_minimean(
    time_weights: NDArray[np.float64],
    wrong_weights: NDArray[np.float64],
    bound: float,
    target: float,
    may_stop: NDArray[np.bool_],
    safe: Evaluated,
    on_round: Progress | None = None,
    found: list[Evaluated] | None = None,
) -> Solution:
    """Minimise the mean of votes under a bound on the mean disagreement.

    Parameters
    ----------
    time_weights, wrong_weights : ndarray of shape (n_voters + 1,)
        Distributions of the number of positive voters, over which votes and
        disagreement are averaged.
    bound : float
        Bound on the disagreement, for which the lower bound is proven.
    target : float
        Disagreement to aim at, a little below `bound` and above 0.
    may_stop : ndarray of shape (n_voters + 1,), dtype=bool
        After which numbers of votes a stop is allowed.
    safe : Evaluated
        A rule that never disagrees.
    on_round : callable, optional
        Called after each round with the relative gap that is left.
    found : list of Evaluated, optional
        Takes all rules that the search has met.
    """

    def place(corner: Evaluated) -> tuple[float, float]:
        if found is not None:
            found.append(corner)
        return float(time_weights @ corner.votes), float(wrong_weights @ corner.wrong)

    error = rounding_error(len(time_weights) - 1)
    _, rule = cheapest_rule(time_weights, np.zeros_like(wrong_weights), may_stop)
    left, right = safe, evaluate(rule)
    (left_votes, left_wrong), (right_votes, right_wrong) = place(left), place(right)
    if right_wrong <= target:
        return Solution([right], np.ones(1), right_votes * (1.0 - error))
    best_bound = 0.0
    for _ in range(MAX_ROUNDS):
        price = (left_votes - right_votes) / (right_wrong - left_wrong)
        least, rule = cheapest_rule(time_weights, price * wrong_weights, may_stop)
        best_bound = max(best_bound, least * (1.0 - error) - price * bound)
        line = left_votes + price * left_wrong
        if on_round is not None:
            on_round((line - price * target) / max(best_bound, 1e-300) - 1.0)
        if least >= line * (1.0 - 2.0 * error):
            break
        corner = evaluate(rule)
        votes, wrong = place(corner)
        if wrong <= target:
            if wrong <= left_wrong:
                break
            left, left_votes, left_wrong = corner, votes, wrong
        else:
            if wrong >= right_wrong:
                break
            right, right_votes, right_wrong = corner, votes, wrong
    share = (target - left_wrong) / (right_wrong - left_wrong)
    return Solution([left, right], np.array([1.0 - share, share]), best_bound)
