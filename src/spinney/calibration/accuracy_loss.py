"""Bounds on the accuracy that early exit loses, from rows whose labels are known.

Of rows that early exit predicts otherwise than the full ensemble, some become wrong
and others right. What counts is the difference of the two: a mean of numbers -1, 0 and
1, one for each row, which may rise and fall along a ladder of rules.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.intp]

# Stakes are fixed for rows that change of which this share becomes wrong.
SHARE_HARMED = 0.53
# Levels below zero by no more than this are zero.
ROUNDING = 1e-12


def changes_of_accuracy(full: Codes, true: Codes, answers: Codes) -> tuple[int, int]:
    """Return how many rows become wrong, and how many become right.

    Parameters
    ----------
    full, true, answers : ndarray of shape (n_rows,)
        Class indices: by the full ensemble, the true ones, and with early exit.
    """
    right, early = full == true, answers == true
    return int(np.count_nonzero(right & ~early)), int(np.count_nonzero(early & ~right))


def accuracy_test(
    full: Codes, true: Codes, bound: float, confidence: float | None
) -> ExpectedLoss | ProvenLoss:
    """Return the test of a bound on the loss of accuracy.

    Parameters
    ----------
    full, true : ndarray of shape (n_rows,)
        Class indices of rows that nothing was fitted to: by the full ensemble, and the
        true ones.
    bound : float
        The bound, above 0.
    confidence : float or None
        The probability with which it is to hold; None for on average.
    """
    if confidence is not None:
        return ProvenLoss(full, true, bound, confidence)
    return ExpectedLoss(full, true, bound)


class ExpectedLoss:
    """The expected loss of the rule taken keeps a bound.

    Parameters
    ----------
    full, true, bound
        As in `accuracy_test`.

    Notes
    -----
    Losses can rise and fall along the ladder, so risk control for losses that only
    rise does not apply. Let :math:`R_j` be the true loss of rule j, and J the rule
    taken, the last before the first that fails. For any r, J can have a loss above r
    only if the *first* rule of the ladder with a loss above r has passed its test. So

    .. math:: E[R_J] \\le \\int_0^1 P(R_J > r) dr \\le \\int_0^1 \\pi(r) dr,

    where :math:`\\pi(r)` bounds the chance of a rule with a loss above r to pass.

    The test is a bet as in `ProvenLoss`, against a loss above a level a little below
    the bound, and passed by a capital of at least 1. With a stake s on each of n rows,
    the capital of a rule with loss r above the level has a mean of
    ``(1 + s (level - r)) ** n``, at most ``exp(-n s (r - level))``, and comes to 1 with
    no larger probability. The integral is then at most ``level + 1 / (n s)``, which is
    the bound if the level is the bound less ``1 / (n s)``.

    Rows must be drawn independently. As many as for risk control are enough.
    """

    def __init__(self, full: Codes, true: Codes, bound: float) -> None:
        self._full, self._true = full, true
        # With a level below the bound by 1 / (n s), a capital of 1 is worth what a
        # capital of e would be at the bound, up to second order.
        self._stake = best_stake(len(full), bound, 1.0)
        spread = len(full) * self._stake
        self._level = bound - 1.0 / spread if spread else -1.0

    def passes(self, answers: Codes) -> bool:
        """Return whether the capital is at least what it was."""
        if self._level < -ROUNDING:
            return False  # too few rows
        counts = changes_of_accuracy(self._full, self._true, answers)
        level = max(self._level, 0.0)
        return log_capital(*counts, len(self._full), level, self._stake) >= 0.0


class ProvenLoss:
    """The loss of the rule taken keeps a bound, with a confidence: a betting bound.

    Parameters
    ----------
    full, true, bound, confidence
        As in `accuracy_test`.

    Notes
    -----
    A bet with a part of a capital of 1 on every row, against a loss above the bound,
    multiplies it by ``1 + stake (bound - difference)``, where the difference is 1 for a
    row that becomes wrong and -1 for one that becomes right. If the loss is above the
    bound, the capital has a mean of at most 1, and reaches ``1 / (1 - confidence)``
    with a probability of at most ``1 - confidence`` [1]_. So a rule with such a capital
    passes. The stake is fixed before the rows are used.

    References
    ----------
    .. [1] I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables
       by betting", Journal of the Royal Statistical Society B 86(1), 2024.
    """

    def __init__(
        self, full: Codes, true: Codes, bound: float, confidence: float
    ) -> None:
        self._full, self._true, self._bound = full, true, bound
        self._goal = -float(np.log1p(-confidence))
        self._stake = best_stake(len(full), bound, self._goal)

    def passes(self, answers: Codes) -> bool:
        """Return whether the capital is large enough."""
        counts = changes_of_accuracy(self._full, self._true, answers)
        capital = log_capital(*counts, len(self._full), self._bound, self._stake)
        return capital >= self._goal


def log_capital(
    n_harmed: int, n_helped: int, n_rows: int, bound: float, stake: float
) -> float:
    """Return the logarithm of what a capital of 1 has become.

    Parameters
    ----------
    n_harmed, n_helped, n_rows : int
        Rows that become wrong; rows that become right; all rows.
    bound : float
        The loss that is bet against.
    stake : float
        What is bet, from 0 to ``1 / (1 - bound)``.
    """
    n_same = n_rows - n_harmed - n_helped
    harmed = max(1.0 + stake * (bound - 1.0), 0.0)
    lost = 0.0
    if n_harmed:
        lost = n_harmed * float(np.log(harmed)) if harmed > 0.0 else -np.inf
    won = n_helped * np.log1p(stake * (bound + 1.0)) + n_same * np.log1p(stake * bound)
    return float(lost + won)


@cache
def best_stake(n_rows: int, bound: float, goal: float) -> float:
    """Return the stake with which the most rows may change.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    bound : float
        The loss that is bet against.
    goal : float
        What the logarithm of the capital has to reach.
    """
    most = 1.0 / (1.0 - bound)
    stakes = most * np.append(np.geomspace(1e-4, 0.999, 400), 1.0)
    room = n_rows * np.log1p(stakes * bound) - goal
    with np.errstate(divide="ignore"):
        harmed = np.log(np.maximum(1.0 + stakes * (bound - 1.0), 0.0))
    helped = np.log1p(stakes * (bound + 1.0))
    each = np.log1p(stakes * bound) - (
        SHARE_HARMED * harmed + (1.0 - SHARE_HARMED) * helped
    )
    allowed = np.where(room >= 0.0, room / np.maximum(each, 1e-300), -1.0)
    # The last one bets everything, and is for the fewest rows that can do.
    return float(stakes[-1 if allowed.max() <= 0.0 else int(np.argmax(allowed))])
